// Package table sets results side by side: one row per result, the settings that tell them apart first,
// then the figures as they were printed. Grid decides rows and columns (factor.go finds the settings);
// markdown.go and data.go write it; says.go puts what the figures say into sentences. It comes after
// runs; the report command and sweeps print what it gives. Read this file first.
package table

import (
	"fmt"
	"slices"
	"strings"

	"spate/internal/figure"
	"spate/internal/nearest"
	"spate/internal/result"
)

// Options choose rows and columns.
type Options struct {
	Columns []string // figures by their vLLM names; none: the usual ones the results have
	GroupBy string   // the setting rows are ordered by; empty: the load, if it varies
	Split   bool     // a table per value of that setting

	By       string // the setting compared; empty: found by what repeats
	Baseline string // its value that the others are set in relation to
}

// Column is one figure of every row.
type Column struct {
	Key   string // vLLM's name
	Title string
}

// wide are the columns of the comparisons engineers publish.
var wide = Columns(figure.Ref.Long, "completed", "failed", "duration", "total_input_tokens", "total_output_tokens", "request_throughput",
	"request_goodput", "output_throughput", "total_token_throughput", "mean_ttft_ms", "median_ttft_ms", "p99_ttft_ms", "mean_tpot_ms",
	"median_tpot_ms", "p99_tpot_ms", "mean_itl_ms", "median_itl_ms", "p99_itl_ms")

// Columns are figures of the catalogue under the titles that name gives them.
func Columns(name func(figure.Ref) string, keys ...string) []Column {
	out := make([]Column, len(keys))
	for i, r := range figure.List(keys...) {
		out[i] = Column{r.Key(), name(r)}
	}
	return out
}

// Row is one result.
type Row struct {
	Entry    *result.Entry
	Settings []string // in the order of the grid's factors
}

// Grid is a set of results as rows and columns.
type Grid struct {
	Common  []Setting // what all results share
	Factors []Factor  // what tells them apart
	Group   int       // the factor rows are ordered by; -1: none, they stand as given
	Judged  bool      // some results have a verdict: a column of its own, before the figures
	Columns []Column
	Rows    []Row
}

// measured are the results that have figures.
func measured(set []result.Entry) (entries []*result.Entry) {
	for i := range set {
		if set[i].Measured() {
			entries = append(entries, &set[i])
		}
	}
	return entries
}

// New lays results out. Results without figures, such as failed starts, are left out.
func New(set []result.Entry, opt Options) (*Grid, error) {
	entries := measured(set)
	if len(entries) == 0 {
		return nil, fmt.Errorf("none of the %d results has figures", len(set))
	}
	g := &Grid{Group: -1, Judged: slices.ContainsFunc(entries, func(e *result.Entry) bool { return e.Verdict() != "" })}
	g.lay(entries)
	var err error
	if g.Columns, err = columns(entries, opt.Columns); err != nil {
		return nil, err
	}
	if err := g.group(opt.GroupBy); err != nil {
		return nil, err
	}
	return g, nil
}

// columns are those asked for, or the usual ones at least one result has a figure for.
func columns(entries []*result.Entry, asked []string) ([]Column, error) {
	has := map[string]bool{}
	var names []string
	for _, e := range entries {
		for _, f := range e.Metrics {
			if !has[f.Name] {
				has[f.Name] = true
				names = append(names, f.Name)
			}
		}
	}
	var out []Column
	for _, key := range asked {
		if !has[key] {
			return nil, fmt.Errorf("--columns %s: no result has such a figure%s", key, hint(key, names))
		}
		out = append(out, Column{key, title(key)})
	}
	if len(asked) > 0 {
		return out, nil
	}
	for _, c := range wide {
		if has[c.Key] {
			out = append(out, c)
		}
	}
	return out, nil
}

// title is a column's heading: the catalogue's, or made from the figure's name.
func title(key string) string {
	if r, err := figure.Find(key); err == nil && r.Key() == key {
		return r.Long()
	}
	words := strings.Split(key, "_")
	unit := ""
	if last := words[len(words)-1]; (last == "ms" || last == "s") && len(words) > 1 {
		unit, words = " ("+last+")", words[:len(words)-1]
	}
	for i, w := range words {
		if f := figure.Get(w); f != nil && f.HasStats() {
			words[i] = f.Label
		} else {
			words[i] = figure.Capital(w)
		}
	}
	return strings.Join(words, " ") + unit
}

func hint(name string, names []string) string {
	if best := nearest.Word(name, names); best != "" {
		return fmt.Sprintf(": did you mean %q?", best)
	}
	return "; there are " + strings.Join(names, ", ")
}

// Cell is a figure for people: as printed, or with two decimals where a file keeps every digit.
func Cell(e *result.Entry, key string) string {
	f, ok := e.Metrics.Get(key)
	if !ok {
		return "-"
	}
	return short(f)
}

func short(f result.Figure) string {
	v, number := f.Float()
	if !number {
		return f.Text
	}
	text := f.String()
	_, decimals, dotted := strings.Cut(text, ".")
	if dotted && (len(decimals) > 3 || strings.ContainsAny(decimals, "eE")) {
		return fmt.Sprintf("%.2f", v)
	}
	return text
}

// Heading is what stands above pictures of a set: what all results share, and in a second line their verdicts
// and how many requests failed. Lines without anything to say are left out.
func Heading(set []result.Entry) []string {
	g, err := New(set, Options{})
	if err != nil {
		return nil
	}
	var out, parts []string
	for _, s := range g.Common {
		parts = append(parts, s.Title+" "+s.Value)
	}
	if len(parts) > 0 {
		out = append(out, strings.Join(parts, " · "))
	}
	var all []*result.Entry
	failed, known := 0.0, false
	for _, r := range g.Rows {
		all = append(all, r.Entry)
		if v, ok := r.Entry.Float("failed"); ok {
			failed, known = failed+v, true
		}
	}
	if text := result.Count(all); text != "" {
		if known {
			text += " · failed requests: " + trim(failed)
		}
		out = append(out, text)
	}
	return out
}
