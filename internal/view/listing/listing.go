// Package listing prints what the store has: a list as a table, JSON or CSV, and one result with all that is known of it.
// Read Write, then show.go.
package listing

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"spate/internal/result"
	"spate/internal/result/store"
	"spate/internal/safe/escape"
)

// Write prints the results of the store that a filter lets through.
func Write(ctx context.Context, w io.Writer, s *store.Store, f store.Filter, format string, opt Options) error {
	items, err := s.List(ctx, f)
	if err != nil {
		return err
	}
	switch format {
	case "json":
		err = listJSON(w, s, items)
	case "csv":
		var entries []result.Entry
		if entries, err = s.Entries(ctx, items); err == nil {
			err = result.WriteCSV(w, entries)
		}
	default:
		opt.Probes = opt.Probes || slices.ContainsFunc(f.Labels, func(l store.Label) bool { return l.Name == capacityLabel })
		err = listTable(ctx, w, s, items, opt)
	}
	if err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	return nil
}

// listJSON prints an array, one result per line, figures as they were printed.
func listJSON(w io.Writer, s *store.Store, items []store.Item) error {
	lines := make([]json.RawMessage, len(items))
	for i := range items {
		it := &items[i]
		line, err := json.Marshal(struct {
			ID      string            `json:"id"`
			Name    string            `json:"name"`
			Format  string            `json:"format"`
			Started *time.Time        `json:"started"`
			Added   time.Time         `json:"added"`
			Model   string            `json:"model,omitempty"`
			Engine  string            `json:"engine,omitempty"`
			Backend string            `json:"backend,omitempty"`
			GPU     string            `json:"gpu,omitempty"`
			State   string            `json:"state,omitempty"`
			Verdict string            `json:"verdict,omitempty"`
			Error   string            `json:"error,omitempty"`
			Labels  map[string]string `json:"labels"`
			Command string            `json:"command,omitempty"`
			Source  string            `json:"source,omitempty"`
			Folder  string            `json:"folder,omitempty"`
			Host    string            `json:"host,omitempty"`
			Records string            `json:"records"`
			Metrics result.Figures    `json:"metrics"`
		}{
			it.ID, it.Name, it.Format, moment(it.Started), it.Added, it.Model, it.Engine, it.Backend, it.GPU, it.State, it.Verdict,
			it.Error, it.Labels, it.Command, it.Source, it.Folder, it.Host, s.Records(it), it.Figures,
		})
		if err != nil {
			return err
		}
		lines[i] = line
	}
	return jsonLines(w, lines)
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func jsonLines(w io.Writer, lines []json.RawMessage) error {
	texts := make([]string, len(lines))
	for i, l := range lines {
		texts[i] = string(l)
	}
	_, err := io.WriteString(w, "[\n"+strings.Join(texts, ",\n")+"\n]\n")
	return err
}

// itemVerdict is how a result of the store may be used.
func itemVerdict(it *store.Item) string { return it.Judged().Verdict() }

// column is a figure or, where there is none of that name, a label or setting.
func column(e *result.Entry, name string) string {
	if _, ok := e.Metrics.Get(name); ok {
		return e.Metrics.Cell(name)
	}
	if _, ok := e.Extra.Get(name); ok {
		return e.Extra.Cell(name)
	}
	return dash(oneLine(e.Setting(name)))
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// What is a few words that tell a result from others.
func What(it *store.Item) string {
	switch {
	case it.Error != "":
		return oneLine(it.Error)
	case it.Run:
		return dash(oneLine(it.Model))
	case it.Name != "":
		return oneLine(it.Name)
	}
	return filepath.Base(it.Source)
}

// oneLine is a text that fits into a table.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > 60 {
		return string(r[:59]) + "…"
	}
	return text
}

func shortTime(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04")
}

// Labels is labels as the tag command takes them.
func Labels(labels map[string]string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if v := labels[name]; v != "" {
			name += "=" + v
		}
		out = append(out, oneLine(name))
	}
	return dash(strings.Join(out, " "))
}

// Formats are the forms of a list.
var Formats = []string{"table", "json", "csv"}

// Options are what a list shows.
type Options struct {
	Columns []string // figures, labels or settings instead of the usual ones
	Probes  bool     // every probe of a capacity search, not the search alone
	Most    int      // rows of the table; 0: all
}

// Rows is how many rows a table has unless the user says how many.
const Rows = 20

// capacityLabel is the label of all probes of one capacity search.
const capacityLabel = "capacity"

// usualColumns are the figures a list shows.
var usualColumns = []string{"completed", "failed", "request_throughput", "output_throughput", "mean_ttft_ms", "mean_tpot_ms"}

// listed is a row: a result, or the probes of one search.
type listed struct {
	at   int // of the first of its items
	more []int
}

// fold puts the probes of one capacity search behind its latest.
func fold(items []store.Item, probes bool) []listed {
	var out []listed
	search := map[string]int{}
	for i := range items {
		id := items[i].Labels[capacityLabel]
		k, ok := search[id]
		if probes || id == "" || !ok {
			search[id] = len(out)
			out = append(out, listed{at: i})
			continue
		}
		out[k].more = append(out[k].more, i)
	}
	return out
}

// listTable prints one row per result or capacity search.
func listTable(ctx context.Context, w io.Writer, s *store.Store, items []store.Item, opt Options) error {
	if len(items) == 0 {
		_, err := fmt.Fprintf(w, "no result in store %s matches\n", s.Place())
		return err
	}
	heads := []string{"ID", "STARTED", "WHAT", "VERDICT", "COMPLETED", "FAILED", "REQ/S", "OUTPUT TOK/S", "MEAN TTFT ms", "MEAN TPOT ms", "LABELS"}
	var entries []result.Entry
	if len(opt.Columns) > 0 {
		heads = append([]string{"ID", "STARTED", "WHAT", "VERDICT"}, opt.Columns...)
		var err error
		if entries, err = s.Entries(ctx, items); err != nil {
			return err
		}
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	escape.Print(t, "%s\n", strings.Join(heads, "\t"))
	rows := fold(items, opt.Probes)
	more := 0
	if opt.Most > 0 && len(rows) > opt.Most {
		more, rows = len(rows)-opt.Most, rows[:opt.Most]
	}
	for _, l := range rows {
		it := &items[l.at]
		row := []string{it.ID, shortTime(it.Started), What(it), dash(itemVerdict(it))}
		switch {
		case len(l.more) > 0:
			row = searchRow(items, l, len(heads))
		case len(opt.Columns) > 0 && l.at < len(entries):
			for _, c := range opt.Columns {
				row = append(row, column(&entries[l.at], c))
			}
		default:
			for _, name := range usualColumns {
				row = append(row, it.Figures.Cell(name))
			}
			row = append(row, Labels(it.Labels))
		}
		escape.Print(t, "%s\n", strings.Join(row, "\t"))
	}
	if more > 0 {
		escape.Print(t, "and %d more: --all shows everything, --limit N shows N\n", more)
	}
	return t.Flush()
}

// searchRow is one capacity search: how many probes, their verdicts, and how to see them.
func searchRow(items []store.Item, l listed, columns int) []string {
	it := &items[l.at]
	var all []*result.Entry
	for _, i := range append([]int{l.at}, l.more...) {
		all = append(all, items[i].Judged())
	}
	row := []string{it.ID, shortTime(it.Started), fmt.Sprintf("%s, capacity search of %d probes", What(it), len(all)), dash(result.Count(all))}
	for len(row) < columns-1 {
		row = append(row, "-")
	}
	return append(row, capacityLabel+"="+oneLine(it.Labels[capacityLabel]))
}
