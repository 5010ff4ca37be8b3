package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"spate/internal/console"
	"spate/internal/figure"
	"spate/internal/result"
	"spate/internal/result/harvest"
	"spate/internal/result/store"
	"spate/internal/settings/config"
)

// exporters are the forms of exports, by the ending of the file.
var exporters = map[string]func(w io.Writer, entries []result.Entry) error{
	"json": harvest.WriteJSON, "jsonl": harvest.WriteJSONL, "csv": harvest.WriteCSV,
}

var exportFormats = []string{"json", "jsonl", "csv"}

// newExport is `spate export [ID...] -o FILE`.
func newExport(p Process) *cobra.Command {
	var filter filterFlags
	var place, output, format string
	cmd := &cobra.Command{
		Use:   "export [flags] [ID|CONDITION...]",
		Short: "Write results of the store to a file that import reads",
		Long: `Write results to a file: those named by id, those that meet the flags and conditions, or all.

JSON and JSON lines hold everything the store has; spate import reads them into another store, labels, settings
and verdicts included. CSV is a table for spreadsheets: a column for each label, setting and figure, as printed.
spate import reads it too, with the same figures.`,
		Example: `  spate export -o all.jsonl
  spate export --model qwen --since 30d -o qwen.csv
  spate export last -o run.json && spate import --store postgres://db/spate run.json`,
		RunE: func(cmd *cobra.Command, refs []string) error {
			f, err := filter.build(time.Now(), nil)
			if err != nil {
				return console.Usage("spate export", err)
			}
			write, err := exporter(output, format)
			if err != nil {
				return console.Usage("spate export", err)
			}
			return withStore(cmd.Context(), p, place, func(s *store.Store) error {
				items, err := chosen(cmd.Context(), s, f, refs)
				if err != nil {
					return err
				}
				entries, err := s.Entries(cmd.Context(), items)
				if err != nil {
					return err
				}
				return exportTo(p, output, entries, write)
			})
		},
	}
	filter.register(cmd.Flags())
	cmd.Flags().StringVar(&place, "store", "", storeHelp)
	cmd.Flags().StringVarP(&output, "output", "o", "", "file to write, ending in .json, .jsonl or .csv (default standard output, as JSON lines)")
	cmd.Flags().StringVar(&format, "format", "", "json, jsonl or csv, whatever the file is called")
	return cmd
}

// exporter is the writer for a file's ending, or for a format that was named.
func exporter(output, format string) (func(io.Writer, []result.Entry) error, error) {
	if format == "" {
		format = strings.TrimPrefix(filepath.Ext(output), ".")
		if output == "" || output == "-" {
			format = "jsonl"
		}
	}
	write, ok := exporters[strings.ToLower(format)]
	if !ok {
		return nil, fmt.Errorf("cannot write %q%s: name a file ending in .json, .jsonl or .csv, or a --format", format, config.DidYouMean(format, exportFormats))
	}
	return write, nil
}

// chosen are the results a filter and references mean together.
func chosen(ctx context.Context, s *store.Store, f store.Filter, refs []string) ([]store.Item, error) {
	for _, ref := range refs {
		if store.IsQuery(ref) {
			if err := f.Narrow(ref); err != nil {
				return nil, console.Usage("spate export", err)
			}
			continue
		}
		id, err := s.ID(ctx, ref)
		if err != nil {
			return nil, err
		}
		f.IDs = append(f.IDs, id)
	}
	if err := checkFigures(ctx, s, f); err != nil {
		return nil, console.Usage("spate export", err)
	}
	items, err := s.List(ctx, f)
	if err == nil && len(items) == 0 {
		err = fmt.Errorf("no result in store %s matches", s.Place())
	}
	return items, err
}

func exportTo(p Process, output string, entries []result.Entry, write func(io.Writer, []result.Entry) error) error {
	if output == "" || output == "-" {
		if err := write(p.Stdout, entries); err != nil {
			return fmt.Errorf("write to standard output: %w", err)
		}
		return nil
	}
	var buf bytes.Buffer
	if err := write(&buf, entries); err != nil {
		return err
	}
	if err := result.Save(output, buf.Bytes(), false); err != nil {
		return err
	}
	p.Say("wrote %s to %s\n", figure.Counted(len(entries), "result"), output)
	return nil
}
