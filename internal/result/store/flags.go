package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"spate/internal/nearest"
)

// FilterFlags say which results are meant.
type FilterFlags struct {
	filter       Filter
	labels       []string
	where        []string
	since, until string
	sort         string
}

// Bind adds the flags to a set.
func (f *FilterFlags) Bind(fs *pflag.FlagSet) {
	fs.StringVar(&f.filter.Model, "model", "", "only results with this text in the model's name; with * or ? it is a pattern for the whole name")
	fs.StringVar(&f.filter.Engine, "engine", "", "only results of this server software, such as vllm or sglang")
	fs.StringVar(&f.filter.Backend, "backend", "", "only results with this protocol, such as openai-chat")
	fs.StringVar(&f.filter.GPU, "gpu", "", "only results with this text in the GPU's name")
	fs.StringVar(&f.filter.Verdict, "verdict", "", "only results with this verdict: valid, suspect, invalid")
	fs.StringArrayVar(&f.labels, "label", nil, "only results with this label, as name=value or name; repeat for several")
	fs.StringVar(&f.since, "since", "", "only results measured at or after this: a date, or how long ago (7d, 36h)")
	fs.StringVar(&f.until, "until", "", "only results measured before this: how long ago, or a date, whose whole day is included")
	fs.StringArrayVar(&f.where, "where", nil, "only results that meet this condition, such as 'mean_ttft_ms<200'; repeat for several")
	fs.StringVar(&f.sort, "sort", "", "sort by started, added, id, name, model, engine, gpu, verdict or a figure; with - in front, the largest first")
	fs.IntVar(&f.filter.Limit, "limit", 0, "most results to take")
}

// Build is the filter meant by the flags and by queries such as model:Qwen*.
func (f *FilterFlags) Build(now time.Time, queries []string) (Filter, error) {
	out := f.filter
	for _, text := range f.labels {
		l, err := ParseLabel(text)
		if err != nil {
			return out, fmt.Errorf("--label: %w", err)
		}
		out.Labels = append(out.Labels, l)
	}
	for _, text := range f.where {
		b, err := ParseBound(text)
		if err != nil {
			return out, fmt.Errorf("--where: %w", err)
		}
		out.Where = append(out.Where, b)
	}
	var err error
	if f.since != "" {
		if out.Since, err = ParseWhen(f.since, now); err != nil {
			return out, fmt.Errorf("--since: %w", err)
		}
	}
	if f.until != "" {
		if out.Until, err = ParseUntil(f.until, now); err != nil {
			return out, fmt.Errorf("--until: %w", err)
		}
	}
	if out.Limit < 0 {
		return out, fmt.Errorf("--limit is %d: name how many results to show", out.Limit)
	}
	out.Sort, out.Desc = strings.CutPrefix(f.sort, "-")
	return out, narrow(&out, queries)
}

// narrow adds the conditions of queries to a filter.
func narrow(f *Filter, queries []string) error {
	for _, text := range queries {
		if !IsQuery(text) {
			return fmt.Errorf("%q is not a condition such as model:Qwen* or label:engine=x (spate show %s shows one result)", text, text)
		}
		if err := f.Narrow(text); err != nil {
			return err
		}
	}
	return nil
}

// CheckFigures names the nearest figure when a bound or the sorting asks for one that no result has.
func (s *Store) CheckFigures(ctx context.Context, f Filter) error {
	var asked []string
	for _, b := range f.Where {
		asked = append(asked, b.Figure)
	}
	if f.Sort != "" && !IsSort(f.Sort) {
		asked = append(asked, f.Sort)
	}
	if len(asked) == 0 {
		return nil
	}
	names, err := s.FigureNames(ctx)
	if err != nil || len(names) == 0 {
		return err
	}
	for _, name := range asked {
		if !slices.Contains(names, name) {
			return fmt.Errorf("no result in the store has the figure %q%s", name, nearest.Hint(name, names))
		}
	}
	return nil
}
