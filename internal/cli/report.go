package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"spate/internal/judge/explain"
	"spate/internal/result/runs"
	"spate/internal/result/store"
	"spate/internal/safe/escape"
	"spate/internal/settings/config"
	"spate/internal/view/curve"
	"spate/internal/view/page"
	"spate/internal/view/picture"
	"spate/internal/view/report"
	"spate/internal/view/table"
)

// reportFlags are the choices of `spate report`.
type reportFlags struct {
	outputs []string
	format  string
	store   string
	title   string
	charts  []string
	table   table.Options
}

// reportFormats are the views by name, which is also their file's extension.
var reportFormats = []string{"text", "md", "html", "csv", "json", "png", "svg"}

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
	cmd.Flags().StringVar(&f.format, "format", "", "form of what is printed: "+strings.Join(reportFormats, ", "))
	cmd.Flags().StringSliceVar(&f.table.Columns, "columns", nil, "figures of the table, by vLLM's `names` (mean_ttft_ms,p99_itl_ms)")
	cmd.Flags().StringVar(&f.store, "store", "", "`where` ids and queries are looked up: a file or a postgres:// URL")
	cmd.Flags().StringVar(&f.title, "title", "", "title of a page")
	cmd.Flags().StringSliceVar(&f.charts, "charts", nil, "charts of a picture, by `name`; a wrong name lists them")
	cmd.Flags().StringVar(&f.table.GroupBy, "group-by", "", "`setting` the rows are ordered by; none keeps their order")
	cmd.Flags().StringVar(&f.table.By, "by", "", "`setting` that is compared under equal conditions: backend, gpu, version, a label or a server flag; found by itself where one repeats")
	cmd.Flags().StringVar(&f.table.Baseline, "baseline", "", "`value` of that setting the others are set in relation to")
	cmd.Flags().BoolVar(&f.table.Split, "split", false, "a table per value of that setting")
	return cmd
}

func runReport(ctx context.Context, p Process, refs []string, f reportFlags) error {
	if err := checkReport(f); err != nil {
		return err
	}
	set, err := f.find(ctx, p, refs)
	if err != nil {
		return err
	}
	for _, path := range f.outputs {
		telling := p.wait("writing %s of %s", path, count(len(set), "result"))
		err := writeReport(path, set, f)
		telling.end()
		if err != nil {
			return err
		}
		say(p.Stderr, "wrote %s\n", path)
	}
	if len(f.outputs) > 0 && f.format == "" {
		return nil
	}
	var out bytes.Buffer
	if err := view(&out, printedFormat(f.format, set), set, f); err != nil {
		return err
	}
	to := p.Stdout
	if f.format == "png" {
		to = p.raw()
	}
	if _, err := to.Write(out.Bytes()); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	return nil
}

// find is what the references mean. Files that are damaged are told, and what could be read is shown.
func (f *reportFlags) find(ctx context.Context, p Process, refs []string) ([]runs.Entry, error) {
	where, err := store.Locate(f.store, p.getenv)
	if err != nil {
		return nil, err
	}
	finder := store.Finder{Where: where, Stdin: p.Stdin}
	telling := p.wait("reading %s", sources(refs))
	set, err := finder.Resolve(ctx, refs)
	telling.end()
	for _, problem := range finder.Problems {
		if problem.Bad() {
			say(p.Stderr, "%s\n", problem)
		}
	}
	return set, errors.Join(err, finder.Close())
}

// checkReport refuses forms that do not exist before anything is read.
func checkReport(f reportFlags) error {
	var all []error
	if f.format != "" && !slices.Contains(reportFormats, f.format) {
		all = append(all, fmt.Errorf("--format %s: want %s%s", f.format, strings.Join(reportFormats, ", "), didYouMean(f.format, reportFormats)))
	}
	for _, path := range f.outputs {
		if ext := strings.TrimPrefix(filepath.Ext(path), "."); !slices.Contains(reportFormats, ext) {
			all = append(all, fmt.Errorf("-o %s: its ending must be one of .%s%s", path, strings.Join(reportFormats, ", ."), didYouMean(ext, reportFormats)))
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
func printedFormat(asked string, set []runs.Entry) string {
	switch {
	case asked != "":
		return asked
	case slices.ContainsFunc(set, func(e runs.Entry) bool { return e.Run == nil }):
		return "md"
	}
	return "text"
}

// writeReport replaces a file once its whole content is known.
func writeReport(path string, set []runs.Entry, f reportFlags) error {
	var out bytes.Buffer
	if err := view(&out, strings.TrimPrefix(filepath.Ext(path), "."), set, f); err != nil {
		return err
	}
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// view writes a set in one form.
func view(w io.Writer, format string, set []runs.Entry, f reportFlags) error {
	switch format {
	case "md":
		return markdown(w, set, f)
	case "html":
		return html(w, set, f)
	case "csv":
		rows, opt := withTenants(set, f.table)
		return table.CSV(w, rows, opt)
	case "json":
		rows, opt := withTenants(set, f.table)
		return table.JSON(w, rows, opt)
	case "png", "svg":
		return drawn(w, format, set, f.charts)
	}
	return reportText(w, set)
}

// drawn is a picture of the charts that are named, or of the most telling ones.
func drawn(w io.Writer, format string, set []runs.Entry, ids []string) error {
	charts, err := picture.Charts(set, ids)
	if err != nil {
		return err
	}
	if format == "svg" {
		return picture.SVG(w, table.Heading(set), charts)
	}
	return picture.PNG(w, table.Heading(set), charts)
}

// reportText is each run's block and findings.
func reportText(w io.Writer, set []runs.Entry) error {
	for i := range set {
		e := &set[i]
		if e.Run == nil {
			return fmt.Errorf("%s is a result of another tool, without records: --format md shows it", e.ID)
		}
		if err := report.Text(w, e.Run); err != nil {
			return err
		}
	}
	return nil
}

// html is the page, with what the figures say and what limited each run.
func html(w io.Writer, set []runs.Entry, f reportFlags) error {
	pivot, err := table.NewPivot(set, f.table.By, f.table.Baseline, f.table.Columns)
	if err != nil {
		return err
	}
	opt := page.Options{Title: f.title, Says: saysOf(set, f.table), Explain: reasons(set), Pivot: pivot}
	return page.Write(w, set, opt)
}

// reasons are why the figures are what they are, a section for each result that something is known of.
func reasons(set []runs.Entry) []page.Section {
	var out []page.Section
	names := curve.Names(set)
	for i := range set {
		s := page.Section{Title: names[i], Run: set[i].ID}
		for _, c := range explain.Brief(&set[i].Result, set[i].Run) {
			if c.Name == explain.CannotTell {
				continue
			}
			text := c.Sentence
			if len(c.Try) > 0 {
				text += " What to try: " + c.Try[0] + "."
			}
			s.Sentences = append(s.Sentences, text)
		}
		if len(s.Sentences) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// markdown is the table, what it says and what limited each run.
func markdown(w io.Writer, set []runs.Entry, f reportFlags) error {
	rows, opt := withTenants(set, f.table)
	pivot, err := table.NewPivot(set, opt.By, opt.Baseline, opt.Columns)
	if err != nil {
		return err
	}
	if err := table.Markdown(w, rows, opt); err != nil {
		return err
	}
	if pivot != nil {
		if _, err := fmt.Fprintf(w, "\n## Compared by %s\n\n", escape.Markdown(pivot.Factor.Title)); err != nil {
			return err
		}
		if err := pivot.WriteMarkdown(w); err != nil {
			return err
		}
	}
	sections := append([]page.Section{{Title: "What it says", Sentences: saysOf(set, f.table)}}, limits(set)...)
	for _, s := range sections {
		if len(s.Sentences) == 0 {
			continue
		}
		if _, err := fmt.Fprintf(w, "\n## %s\n\n", escape.Markdown(s.Title)); err != nil {
			return err
		}
		for _, text := range s.Sentences {
			if _, err := fmt.Fprintf(w, "- %s\n", escape.Sentence(text)); err != nil {
				return err
			}
		}
	}
	return nil
}

// limits are the explanations in one section.
func limits(set []runs.Entry) []page.Section {
	out := page.Section{Title: "What limited it"}
	for _, s := range reasons(set) {
		out.Sentences = append(out.Sentences, s.Title+": "+strings.Join(s.Sentences, " "))
	}
	return []page.Section{out}
}
