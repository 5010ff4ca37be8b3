package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"spate/internal/result/runs"
	"spate/internal/result/store"
)

// listOptions are what a list shows.
type listOptions struct {
	columns []string // figures, labels or settings instead of the usual ones
	probes  bool     // every probe of a capacity search, not the search alone
	most    int      // rows of the table; 0: all
}

// listRows is how many rows a table has unless the user says how many.
const listRows = 20

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
func listTable(ctx context.Context, w io.Writer, s *store.Store, items []store.Item, opt listOptions) error {
	if len(items) == 0 {
		_, err := fmt.Fprintf(w, "no result in store %s matches\n", s.Place())
		return err
	}
	heads := []string{"ID", "STARTED", "WHAT", "VERDICT", "COMPLETED", "FAILED", "REQ/S", "OUTPUT TOK/S", "MEAN TTFT ms", "MEAN TPOT ms", "LABELS"}
	var entries []runs.Entry
	if len(opt.columns) > 0 {
		heads = append([]string{"ID", "STARTED", "WHAT", "VERDICT"}, opt.columns...)
		var err error
		if entries, err = s.Entries(ctx, items); err != nil {
			return err
		}
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	say(t, "%s\n", strings.Join(heads, "\t"))
	rows := fold(items, opt.probes)
	more := 0
	if opt.most > 0 && len(rows) > opt.most {
		more, rows = len(rows)-opt.most, rows[:opt.most]
	}
	for _, l := range rows {
		it := &items[l.at]
		row := []string{it.ID, shortTime(it.Started), what(it), dash(itemVerdict(it))}
		switch {
		case len(l.more) > 0:
			row = searchRow(items, l, len(heads))
		case len(opt.columns) > 0 && l.at < len(entries):
			for _, c := range opt.columns {
				row = append(row, column(&entries[l.at], c))
			}
		default:
			for _, name := range usualColumns {
				row = append(row, it.Figures.Cell(name))
			}
			row = append(row, labelText(it.Labels))
		}
		say(t, "%s\n", strings.Join(row, "\t"))
	}
	if more > 0 {
		say(t, "and %d more: --all shows everything, --limit so many\n", more)
	}
	return t.Flush()
}

// searchRow is one capacity search: how many probes, their verdicts, and how to see them.
func searchRow(items []store.Item, l listed, columns int) []string {
	it := &items[l.at]
	var all []*runs.Entry
	for _, i := range append([]int{l.at}, l.more...) {
		all = append(all, items[i].Judged())
	}
	row := []string{it.ID, shortTime(it.Started), fmt.Sprintf("%s, capacity search of %d probes", what(it), len(all)), dash(runs.Count(all))}
	for len(row) < columns-1 {
		row = append(row, "-")
	}
	return append(row, capacityLabel+"="+oneLine(it.Labels[capacityLabel]))
}
