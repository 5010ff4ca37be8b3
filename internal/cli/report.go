package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"spate/internal/figure"
	"spate/internal/result"
	"spate/internal/result/store"
	"spate/internal/settings/config"
	"spate/internal/view"
)

// reportFlags are the choices of `spate report`.
type reportFlags struct {
	outputs []string
	format  string
	store   string
	view    view.Options
}

// newReport is `spate report RUN...`.
func newReport(p Process) *cobra.Command {
	var f reportFlags
	cmd := &cobra.Command{
		Use:   "report [flags] RUN...",
		Short: "Print or publish runs: text, tables, pages, pictures",
		Long: `Show results again: spate's run folders, folders of them, files of any kind 'spate import' reads, and what
the store has, by id or query ('spate list').

Without -o a run folder prints its result block and spate's findings, and other results print as a Markdown
table. With -o the file's ending says what is written:

  .md    the wide comparison table, what it says in sentences, and what limited each run
  .html  one page that works without a network: curves, distributions, timelines, tables that sort
  .csv   the same table with every digit
  .json  the same as objects
  .png   curves over load, or distributions of one run's latencies, as a picture; .svg likewise

A run that was killed left no result.json. Its report is computed from the records of the requests that had
finished, and says so.`,
		Example: `  spate report spate-runs/20261115-120000-model-1a2b     one run, as text
  spate report results.md                                a wide table of the blocks in a page
  spate report spate-runs -o table.md -o table.csv       all runs side by side
  spate report spate-runs -o report.html                 everything on one page
  spate report spate-runs -o curves.svg                  throughput against latency, as a picture
  spate report vllm.md sglang.md --by backend            engines side by side, a row for each model and workload
  spate report logs/ --group-by request_rate --split     a table per request rate`,
		Args: atLeastOne("run folder or file"),
		RunE: func(cmd *cobra.Command, refs []string) error {
			return runReport(cmd.Context(), p, refs, f)
		},
	}
	cmd.Flags().StringArrayVarP(&f.outputs, "output", "o", nil, "write to this `file`; its ending says in which form (repeatable)")
	cmd.Flags().StringVar(&f.format, "format", "", "form of what is printed: "+strings.Join(view.Formats, ", "))
	cmd.Flags().StringSliceVar(&f.view.Table.Columns, "columns", nil, "figures of the table, by vLLM's `names` (mean_ttft_ms,p99_itl_ms)")
	cmd.Flags().StringVar(&f.store, "store", "", "`where` ids and queries are looked up: a file or a postgres:// URL")
	cmd.Flags().StringVar(&f.view.Title, "title", "", "title of a page")
	cmd.Flags().StringSliceVar(&f.view.Charts, "charts", nil, "charts of a picture, by `name`; a wrong name lists them")
	cmd.Flags().StringVar(&f.view.Table.GroupBy, "group-by", "", "`setting` the rows are ordered by; none keeps their order")
	cmd.Flags().StringVar(&f.view.Table.By, "by", "", "`setting` that is compared under equal conditions: backend, gpu, version, a label or a server flag; found by itself where one repeats")
	cmd.Flags().StringVar(&f.view.Table.Baseline, "baseline", "", "`value` of that setting the others are set in relation to")
	cmd.Flags().BoolVar(&f.view.Table.Split, "split", false, "a table per value of that setting")
	return cmd
}

func runReport(ctx context.Context, p Process, refs []string, f reportFlags) error {
	if err := checkReport(f); err != nil {
		return err
	}
	set, err := store.Find(ctx, p, f.store, refs)
	if err != nil {
		return err
	}
	for _, path := range f.outputs {
		telling := p.Wait("writing %s of %s", path, figure.Counted(len(set), "result"))
		err := writeReport(path, set, f.view)
		telling.End()
		if err != nil {
			return err
		}
		p.Say("wrote %s\n", path)
	}
	if len(f.outputs) > 0 && f.format == "" {
		return nil
	}
	var out bytes.Buffer
	if err := view.Write(&out, printedFormat(f.format, set), set, f.view); err != nil {
		return err
	}
	to := p.Stdout
	if f.format == "png" {
		to = p.Raw()
	}
	if _, err := to.Write(out.Bytes()); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	return nil
}

// checkReport refuses forms that do not exist before anything is read.
func checkReport(f reportFlags) error {
	var all []error
	if f.format != "" && !slices.Contains(view.Formats, f.format) {
		all = append(all, fmt.Errorf("--format %s: want %s%s", f.format, strings.Join(view.Formats, ", "), didYouMean(f.format, view.Formats)))
	}
	for _, path := range f.outputs {
		if ext := strings.TrimPrefix(filepath.Ext(path), "."); !slices.Contains(view.Formats, ext) {
			all = append(all, fmt.Errorf("-o %s: its ending must be one of .%s%s", path, strings.Join(view.Formats, ", ."), didYouMean(ext, view.Formats)))
		}
	}
	return errors.Join(all...)
}

func didYouMean(name string, names []string) string {
	if best := config.Nearest(name, names); best != "" {
		return fmt.Sprintf(": did you mean %q?", best)
	}
	return ""
}

// printedFormat is text for spate's own runs and a table for anything else.
func printedFormat(asked string, set []result.Entry) string {
	switch {
	case asked != "":
		return asked
	case slices.ContainsFunc(set, func(e result.Entry) bool { return e.Run == nil }):
		return "md"
	}
	return "text"
}

// writeReport replaces a file once its whole content is known.
func writeReport(path string, set []result.Entry, opt view.Options) error {
	var out bytes.Buffer
	if err := view.Write(&out, strings.TrimPrefix(filepath.Ext(path), "."), set, opt); err != nil {
		return err
	}
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
