package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"spate/internal/console"
	"spate/internal/result"
	"spate/internal/result/store"
	"spate/internal/safe/infile"
	"spate/internal/safe/secret"
	"spate/internal/settings/config"
	"spate/internal/view/listing"
)

const storeHelp = "the store: a folder, a file or a postgres:// URL (default SPATE_STORE, else ~/.local/share/spate)"

// keepTime is how long a finished run may take to get into the store.
const keepTime = time.Minute

// keep puts results into the store at the place the user said, or the usual one. A store that cannot take
// them is told of and is no failure: what was measured is in its folder.
func keep(ctx context.Context, p Process, said string, entries []result.Entry) []store.Kept {
	where, err := store.Locate(said, p.Getenv)
	if where == store.None || len(entries) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTime)
	defer cancel()
	var kept []store.Kept
	if err == nil {
		kept, err = putAll(ctx, where, entries)
	}
	if err == nil {
		return kept
	}
	console.Complain(p.Stderr, "warning", fmt.Errorf("not in the store: %w", err))
	for i := range entries {
		if run := entries[i].Run; run != nil && run.Dir != "" {
			p.Say("warning: nothing is lost: spate import %s puts it there later; --no-store does without\n", run.Dir)
			break
		}
	}
	return nil
}

func putAll(ctx context.Context, where string, entries []result.Entry) (kept []store.Kept, err error) {
	s, err := store.Open(ctx, where)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.PutAll(ctx, entries)
}

// keepRun puts a run that was just measured into the store, as its folder has it: without secrets.
func keepRun(ctx context.Context, p sitting, cfg *config.Bench, made *result.Run) {
	if cfg.Output.NoStore {
		return
	}
	run, err := finished(cfg, made)
	if err != nil {
		console.Complain(p.Stderr, "warning", fmt.Errorf("not in the store: %w", err))
		return
	}
	for _, k := range keep(ctx, p.Process, cfg.Output.Store, []result.Entry{result.FromRun(run)}) {
		console.Say(p.chat, "in the store as %s\n", k.ID)
	}
}

// finished is a run as its folder has it or, without one, with the secrets of its settings taken out.
func finished(cfg *config.Bench, run *result.Run) (*result.Run, error) {
	if run.Dir != "" {
		if kept, err := result.Open(run.Dir); err == nil {
			return kept, nil
		}
	}
	bare := *run
	bare.Schema = result.Schema // which only a folder gives it
	data, err := json.Marshal(&bare)
	if err != nil {
		return nil, fmt.Errorf("encode the run: %w", err)
	}
	return result.Decode(secret.Document(data, cfg.Scrub))
}

// openStore opens the store for a command that looks into it. It does not make one.
func openStore(ctx context.Context, p Process, said string) (*store.Store, error) {
	where, err := store.Locate(said, p.Getenv)
	if err != nil {
		return nil, err
	}
	if where == store.None {
		return nil, errors.New("SPATE_STORE=none: there is no store; name one with --store")
	}
	if !store.Exists(where) {
		return nil, noStore(said, where)
	}
	return store.Open(ctx, where)
}

// noStore says that the store is not there: a mistake where the command line named it.
func noStore(said, where string) error {
	const text = "there is no store at %s yet: spate bench and spate import make it"
	if said != "" {
		return infile.Missing(text, where)
	}
	return fmt.Errorf(text, where)
}

// withStore runs a command's work on the open store.
func withStore(ctx context.Context, p Process, said string, do func(s *store.Store) error) (err error) {
	s, err := openStore(ctx, p, said)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return do(s)
}

// filterFlags say which results are meant.
type filterFlags struct {
	filter       store.Filter
	labels       []string
	where        []string
	since, until string
	sort         string
}

func (f *filterFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.filter.Model, "model", "", "with this in the model's name; with * or ? a pattern for all of it")
	fs.StringVar(&f.filter.Engine, "engine", "", "the server's software, such as vllm or sglang")
	fs.StringVar(&f.filter.Backend, "backend", "", "the protocol that was spoken, such as openai-chat")
	fs.StringVar(&f.filter.GPU, "gpu", "", "with this in the GPU's name")
	fs.StringVar(&f.filter.Verdict, "verdict", "", "of this grade: valid, suspect, invalid")
	fs.StringArrayVar(&f.labels, "label", nil, "with the label name=value, or of that name; repeat for several")
	fs.StringVar(&f.since, "since", "", "measured at or after: a date, or how long ago (7d, 36h)")
	fs.StringVar(&f.until, "until", "", "measured before: how long ago, or a date with its whole day")
	fs.StringArrayVar(&f.where, "where", nil, "whose figure keeps a bound, such as 'mean_ttft_ms<200'; repeat for several")
	fs.StringVar(&f.sort, "sort", "", "by started, added, id, name, model, engine, gpu, verdict or a figure; -name for the largest first")
	fs.IntVar(&f.filter.Limit, "limit", 0, "at most so many")
}

// build is the filter meant by the flags and by queries such as model:Qwen*.
func (f *filterFlags) build(now time.Time, queries []string) (store.Filter, error) {
	out := f.filter
	for _, text := range f.labels {
		l, err := store.ParseLabel(text)
		if err != nil {
			return out, fmt.Errorf("--label: %w", err)
		}
		out.Labels = append(out.Labels, l)
	}
	for _, text := range f.where {
		b, err := store.ParseBound(text)
		if err != nil {
			return out, fmt.Errorf("--where: %w", err)
		}
		out.Where = append(out.Where, b)
	}
	var err error
	if f.since != "" {
		if out.Since, err = store.ParseWhen(f.since, now); err != nil {
			return out, fmt.Errorf("--since: %w", err)
		}
	}
	if f.until != "" {
		if out.Until, err = store.ParseUntil(f.until, now); err != nil {
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
func narrow(f *store.Filter, queries []string) error {
	for _, text := range queries {
		if !store.IsQuery(text) {
			return fmt.Errorf("%q is no condition such as model:Qwen* or label:engine=x (spate show %s shows one result)", text, text)
		}
		if err := f.Narrow(text); err != nil {
			return err
		}
	}
	return nil
}

// checkFigures names the nearest figure when a bound or the sorting asks for one that no result has.
func checkFigures(ctx context.Context, s *store.Store, f store.Filter) error {
	var asked []string
	for _, b := range f.Where {
		asked = append(asked, b.Figure)
	}
	if f.Sort != "" && !store.IsSort(f.Sort) {
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
			return fmt.Errorf("no result in the store has the figure %q%s", name, config.DidYouMean(name, names))
		}
	}
	return nil
}

// newList is `spate list`.
func newList(p Process) *cobra.Command {
	var filter filterFlags
	var place, format string
	var columns []string
	var probes, all bool
	cmd := &cobra.Command{
		Use:   "list [flags] [CONDITION...]",
		Short: "List the results in the store",
		Long: `List the results that spate bench, sweep and import have put into the store, newest first: 20 rows,
or as many as --limit says. JSON and CSV have everything.

Flags narrow the list; all of them must hold. Conditions may also stand as words: model:Qwen*, label:engine=x,
where:mean_ttft_ms<200. The first column is the id that show, tag, rm, compare and report take; its beginning
is enough.`,
		Example: `  spate list --model qwen --since 7d
  spate list --label team=search --where 'p99_ttft_ms<500' --sort -output_throughput --limit 10
  spate list --columns max_concurrency,output_throughput,p99_itl_ms
  spate list --format csv > results.csv`,
		RunE: func(cmd *cobra.Command, queries []string) error {
			f, err := filter.build(time.Now(), queries)
			if err != nil {
				return console.Usage("spate list", err)
			}
			if !slices.Contains(listing.Formats, format) {
				return console.Usage("spate list", fmt.Errorf("--format is one of %s, not %q%s", strings.Join(listing.Formats, ", "), format, config.DidYouMean(format, listing.Formats)))
			}
			most := listing.Rows
			if all || f.Limit > 0 {
				most = 0
			}
			return withStore(cmd.Context(), p, place, func(s *store.Store) error {
				if err := checkFigures(cmd.Context(), s, f); err != nil {
					return console.Usage("spate list", err)
				}
				return listing.Write(cmd.Context(), p.Stdout, s, f, format, listing.Options{Columns: columns, Probes: probes, Most: most})
			})
		},
	}
	filter.register(cmd.Flags())
	cmd.Flags().StringVar(&place, "store", "", storeHelp)
	cmd.Flags().StringVar(&format, "format", "table", "table, json or csv")
	cmd.Flags().BoolVar(&all, "all", false, "all rows, not the first 20 alone")
	cmd.Flags().BoolVar(&probes, "probes", false, "a row for every probe of a capacity search, not one for the search")
	cmd.Flags().StringSliceVar(&columns, "columns", nil, "figures, labels or settings to show instead of the usual ones, with commas between them")
	return cmd
}
