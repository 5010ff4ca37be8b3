package listing

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"spate/internal/console"
	"spate/internal/figure"
	"spate/internal/nearest"
	"spate/internal/result"
	"spate/internal/result/store"
)

// exporters are the forms of exports, by the ending of the file.
var exporters = map[string]func(w io.Writer, entries []result.Entry) error{
	"json": result.WriteJSON, "jsonl": result.WriteJSONL, "csv": result.WriteCSV,
}

var exportFormats = []string{"json", "jsonl", "csv"}

// Export is `spate export [ID...] -o FILE`.
type Export struct {
	filter                store.FilterFlags
	place, output, format string
}

// Bind adds the flags to a set.
func (o *Export) Bind(f *pflag.FlagSet) {
	o.filter.Bind(f)
	f.StringVar(&o.place, "store", "", store.Help)
	f.StringVarP(&o.output, "output", "o", "", "file to write, ending in .json, .jsonl or .csv (default standard output, as JSON lines)")
	f.StringVar(&o.format, "format", "", "json, jsonl or csv, whatever the file's name")
}

// Run writes the file.
func (o *Export) Run(ctx context.Context, p console.Process, refs []string) error {
	f, err := o.filter.Build(time.Now(), nil)
	if err != nil {
		return console.Usage("spate export", err)
	}
	write, err := exporter(o.output, o.format)
	if err != nil {
		return console.Usage("spate export", err)
	}
	return store.Use(ctx, p, o.place, func(s *store.Store) error {
		items, err := chosen(ctx, s, f, refs)
		if err != nil {
			return err
		}
		entries, err := s.Entries(ctx, items)
		if err != nil {
			return err
		}
		return exportTo(p, o.output, entries, write)
	})
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
		return nil, fmt.Errorf("cannot write %q%s: name a file ending in .json, .jsonl or .csv, or a --format", format, nearest.Hint(format, exportFormats))
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
	if err := s.CheckFigures(ctx, f); err != nil {
		return nil, console.Usage("spate export", err)
	}
	items, err := s.List(ctx, f)
	if err == nil && len(items) == 0 {
		err = fmt.Errorf("no result in store %s matches", s.Place())
	}
	return items, err
}

func exportTo(p console.Process, output string, entries []result.Entry, write func(io.Writer, []result.Entry) error) error {
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
