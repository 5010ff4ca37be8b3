package view

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"spate/internal/console"
	"spate/internal/figure"
	"spate/internal/nearest"
	"spate/internal/result"
	"spate/internal/result/store"
)

// Report is `spate report RUN...`.
type Report struct {
	Options
	outputs []string
	format  string
	store   string
}

// Bind adds the flags to a set.
func (f *Report) Bind(fs *pflag.FlagSet) {
	fs.StringArrayVarP(&f.outputs, "output", "o", nil, "write to this `file`; its ending says in which form (repeatable)")
	fs.StringVar(&f.format, "format", "", "form of what is printed: "+strings.Join(Formats, ", "))
	fs.StringSliceVar(&f.Table.Columns, "columns", nil, "figures of the table, by vLLM's `names` (mean_ttft_ms,p99_itl_ms)")
	fs.StringVar(&f.store, "store", "", "`store` in which ids and queries are looked up: a file or a postgres:// URL")
	fs.StringVar(&f.Title, "title", "", "title of a page")
	fs.StringSliceVar(&f.Charts, "charts", nil, "charts of a picture, by `name`; a wrong name lists them")
	fs.StringVar(&f.Table.GroupBy, "group-by", "", "`setting` that rows are ordered by; none keeps their order")
	fs.StringVar(&f.Table.By, "by", "", "`setting` that is compared under equal conditions: backend, gpu, version, a label or a server flag; chosen automatically where one repeats")
	fs.StringVar(&f.Table.Baseline, "baseline", "", "`value` of that setting that the others are compared with")
	fs.BoolVar(&f.Table.Split, "split", false, "print one table for each value of that setting")
}

// Run shows results, or writes them to files.
func (f *Report) Run(ctx context.Context, p console.Process, refs []string) error {
	if err := CheckOutputs(f.format, f.outputs); err != nil {
		return err
	}
	set, err := store.Find(ctx, p, f.store, refs)
	if err != nil {
		return err
	}
	for _, path := range f.outputs {
		telling := p.Wait("writing %s of %s", path, figure.Counted(len(set), "result"))
		err := Save(path, set, f.Options)
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
	if err := Write(&out, printedFormat(f.format, set), set, f.Options); err != nil {
		return err
	}
	to := p.Stdout
	if f.format == "png" {
		to = p.Raw()
	}
	_, err = to.Write(out.Bytes())
	return console.Wrote(err)
}

// CheckOutputs refuses forms that do not exist before anything is read.
func CheckOutputs(format string, outputs []string) error {
	var all []error
	if format != "" && !slices.Contains(Formats, format) {
		all = append(all, fmt.Errorf("--format %s: want %s%s", format, strings.Join(Formats, ", "), didYouMean(format, Formats)))
	}
	for _, path := range outputs {
		if ext := strings.TrimPrefix(filepath.Ext(path), "."); !slices.Contains(Formats, ext) {
			all = append(all, fmt.Errorf("-o %s: its ending must be one of .%s%s", path, strings.Join(Formats, ", ."), didYouMean(ext, Formats)))
		}
	}
	return errors.Join(all...)
}

func didYouMean(name string, names []string) string {
	if best := nearest.Word(name, names); best != "" {
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

// Save replaces a file once its whole content is known.
func Save(path string, set []result.Entry, opt Options) error {
	var out bytes.Buffer
	if err := Write(&out, strings.TrimPrefix(filepath.Ext(path), "."), set, opt); err != nil {
		return err
	}
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
