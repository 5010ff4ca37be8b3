package harvest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"spate/internal/figure"
	"spate/internal/safe/escape"
)

// WriteJSON prints an array, one result per line.
func (h *Harvest) WriteJSON(w io.Writer) error {
	if _, err := io.WriteString(w, "["); err != nil {
		return err
	}
	for i := range h.Results {
		var line bytes.Buffer
		if i > 0 {
			line.WriteByte(',')
		}
		line.WriteByte('\n')
		enc := json.NewEncoder(&line)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(&h.Results[i]); err != nil {
			return err
		}
		if _, err := w.Write(bytes.TrimSuffix(line.Bytes(), []byte("\n"))); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, "\n]\n")
	return err
}

// WriteTable prints one row per result and the problems below.
func (h *Harvest) WriteTable(w io.Writer) error {
	if len(h.Results) > 0 {
		t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
		escape.Print(t, "SOURCE\tFORMAT\tCOMPLETED\tREQ/S\tOUTPUT TOK/S\tMEAN TTFT ms\tMEAN TPOT ms\tCONTEXT\n")
		for i := range h.Results {
			r := &h.Results[i]
			row := []string{fmt.Sprintf("%s:%d", r.Source.File, r.Source.Line), r.Format}
			for _, name := range []string{"completed", "request_throughput", "output_throughput", "mean_ttft_ms", "mean_tpot_ms"} {
				row = append(row, r.Metrics.Cell(name))
			}
			escape.Print(t, "%s\t%s\n", strings.Join(row, "\t"), Label(r))
		}
		if err := t.Flush(); err != nil {
			return err
		}
		escape.Print(w, "\n%s\n", h.counts())
	}
	h.WriteProblems(w)
	return nil
}

// Cell is a figure for a table; long ones, from files with every digit, get two decimals: figures of one column have one
// form, whoever printed them.
func (fs Figures) Cell(name string) string {
	f, ok := fs.Get(name)
	if !ok {
		return "-"
	}
	v, isNumber := f.Float()
	if !isNumber || slices.Contains(wholeFigures, name) {
		return f.Text
	}
	return fmt.Sprintf("%.2f", v)
}

// wholeFigures are counts, which have no decimals.
var wholeFigures = []string{"completed", "failed", "total_input_tokens", "total_output_tokens", "max_concurrent_requests", "num_prompts"}

// counts says how many results, failed starts and problems there are.
func (h *Harvest) counts() string {
	failed := 0
	for i := range h.Results {
		if h.Results[i].Format == FormatFailedLaunch {
			failed++
		}
	}
	text := figure.Counted(len(h.Results)-failed, "result")
	if failed > 0 {
		text += ", " + figure.Counted(failed, "failed start")
	}
	if bad := h.Bad(); bad > 0 {
		text += ", " + figure.Counted(bad, "problem")
	}
	return text
}

// WriteProblems lists what is wrong first and what is only worth knowing after it. What is said of many
// results of a file is said once.
func (h *Harvest) WriteProblems(w io.Writer) {
	type text struct {
		file, text string
		kind       Kind
	}
	var list []Problem
	lines := map[text][]string{}
	for p := range h.All() {
		key := text{p.File, p.Text, p.Kind}
		if lines[key] == nil {
			list = append(list, p)
		}
		lines[key] = append(lines[key], strconv.Itoa(p.Line))
	}
	slices.SortStableFunc(list, func(a, b Problem) int {
		switch {
		case a.Bad() && !b.Bad():
			return -1
		case b.Bad() && !a.Bad():
			return 1
		case a.File != b.File:
			return strings.Compare(a.File, b.File)
		}
		return a.Line - b.Line
	})
	for _, p := range list {
		also := lines[text{p.File, p.Text, p.Kind}][1:]
		if len(also) == 0 {
			escape.Print(w, "%s\n", p)
			continue
		}
		escape.Print(w, "%s (also on line %s)\n", p, strings.Join(also, ", "))
	}
}
