package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"spate/internal/config"
	"spate/internal/picture"
	"spate/internal/report"
	"spate/internal/runs"
	"spate/internal/table"
)

// reportFlags are the choices of `spate report`.
type reportFlags struct {
	outputs []string
	format  string
	charts  []string
	table   table.Options
}

// reportFormats are the views by name, which is also their file's extension.
var reportFormats = []string{"text", "md", "csv", "json", "png", "svg"}

// newReport is `spate report RUN...`.
func newReport(p Process) *cobra.Command {
	var f reportFlags
	cmd := &cobra.Command{
		Use:   "report [flags] RUN...",
		Short: "Print or publish runs: text, tables, pages, pictures",
		Long: `Show results again: spate's run folders, folders of them, and files of any kind 'spate import' reads.

Without -o a run folder prints its result block and spate's findings, and other results print as a Markdown
table. With -o the file's ending says what is written:

  .md    the wide comparison table and, below it, what it says in sentences
  .csv   the same table with every digit
  .json  the same as objects
  .png   curves over load, or distributions of one run's latencies, as a picture; .svg likewise

A run that was killed left no result.json. Its report is computed from the records of the requests that had
finished, and says so.`,
		Example: `  spate report spate-runs/20261115-120000-model-1a2b     one run, as text
  spate report results.md                                a wide table of the blocks in a page
  spate report spate-runs -o table.md -o table.csv       all runs side by side
  spate report spate-runs -o curves.svg                  throughput against latency, as a picture
  spate report logs/ --group-by request_rate --split     a table per request rate`,
		Args: atLeastOne("run folder or file"),
		RunE: func(_ *cobra.Command, refs []string) error {
			return runReport(p, refs, f)
		},
	}
	cmd.Flags().StringArrayVarP(&f.outputs, "output", "o", nil, "write to this `file`; its ending says in which form (repeatable)")
	cmd.Flags().StringVar(&f.format, "format", "", "form of what is printed: "+strings.Join(reportFormats, ", "))
	cmd.Flags().StringSliceVar(&f.table.Columns, "columns", nil, "figures of the table, by vLLM's `names` (mean_ttft_ms,p99_itl_ms)")
	cmd.Flags().StringSliceVar(&f.charts, "charts", nil, "charts of a picture, by `name`; a wrong name lists them")
	cmd.Flags().StringVar(&f.table.GroupBy, "group-by", "", "`setting` the rows are ordered by; none keeps their order")
	cmd.Flags().BoolVar(&f.table.Split, "split", false, "a table per value of that setting")
	return cmd
}

func runReport(p Process, refs []string, f reportFlags) error {
	if err := checkReport(f); err != nil {
		return err
	}
	set, err := runs.Read(refs, p.Stdin)
	if err != nil {
		return err
	}
	if len(set.Entries) == 0 {
		return fmt.Errorf("no result found in %s", strings.Join(refs, ", "))
	}
	for _, path := range f.outputs {
		if err := writeReport(path, set.Entries, f); err != nil {
			return err
		}
		say(p.Stderr, "wrote %s\n", path)
	}
	if len(f.outputs) > 0 && f.format == "" {
		return nil
	}
	var out bytes.Buffer
	if err := view(&out, printedFormat(f.format, set.Entries), set.Entries, f); err != nil {
		return err
	}
	if _, err := p.Stdout.Write(out.Bytes()); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	return nil
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
	case "csv":
		return table.CSV(w, set, f.table)
	case "json":
		return table.JSON(w, set, f.table)
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
		return picture.SVG(w, charts)
	}
	return picture.PNG(w, charts)
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

// markdown is the table and what it says.
func markdown(w io.Writer, set []runs.Entry, f reportFlags) error {
	if err := table.Markdown(w, set, f.table); err != nil {
		return err
	}
	claims := table.Says(set)
	if len(claims) == 0 {
		return nil
	}
	if _, err := io.WriteString(w, "\n## What it says\n\n"); err != nil {
		return err
	}
	for _, c := range claims {
		if _, err := fmt.Fprintf(w, "- %s\n", c); err != nil {
			return err
		}
	}
	return nil
}
