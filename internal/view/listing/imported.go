package listing

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
	"spate/internal/result"
	"spate/internal/safe/escape"
)

// FoundJSON prints what import found as an array, one result per line.
func FoundJSON(w io.Writer, h *result.Set) error {
	if _, err := io.WriteString(w, "["); err != nil {
		return err
	}
	for i := range h.Entries {
		var line bytes.Buffer
		if i > 0 {
			line.WriteByte(',')
		}
		line.WriteByte('\n')
		enc := json.NewEncoder(&line)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(&h.Entries[i]); err != nil {
			return err
		}
		if _, err := w.Write(bytes.TrimSuffix(line.Bytes(), []byte("\n"))); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, "\n]\n")
	return err
}

// Found prints what import found: one row per result and the problems below.
func Found(w io.Writer, h *result.Set) error {
	if len(h.Entries) > 0 {
		t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
		escape.Print(t, "SOURCE\tFORMAT\tCOMPLETED\tREQ/S\tOUTPUT TOK/S\tMEAN TTFT ms\tMEAN TPOT ms\tCONTEXT\n")
		for i := range h.Entries {
			r := &h.Entries[i]
			row := []string{fmt.Sprintf("%s:%d", r.Source.File, r.Source.Line), r.Format}
			for _, name := range []string{"completed", "request_throughput", "output_throughput", "mean_ttft_ms", "mean_tpot_ms"} {
				row = append(row, r.Metrics.Cell(name))
			}
			escape.Print(t, "%s\t%s\n", strings.Join(row, "\t"), r.Label())
		}
		if err := t.Flush(); err != nil {
			return err
		}
		escape.Print(w, "\n%s\n", counts(h))
	}
	Problems(w, h)
	return nil
}

// counts says how many results, failed starts and problems there are.
func counts(h *result.Set) string {
	failed := 0
	for i := range h.Entries {
		if h.Entries[i].Format == result.FormatFailedLaunch {
			failed++
		}
	}
	text := figure.Counted(len(h.Entries)-failed, "result")
	if failed > 0 {
		text += ", " + figure.Counted(failed, "failed start")
	}
	if bad := h.Bad(); bad > 0 {
		text += ", " + figure.Counted(bad, "problem")
	}
	return text
}

// Problems lists what is wrong first and what is only worth knowing after it. What is said of many
// results of a file is said once.
func Problems(w io.Writer, h *result.Set) {
	type text struct {
		file, text string
		kind       result.Kind
	}
	var list []result.Problem
	lines := map[text][]string{}
	for p := range h.All() {
		key := text{p.File, p.Text, p.Kind}
		if lines[key] == nil {
			list = append(list, p)
		}
		lines[key] = append(lines[key], strconv.Itoa(p.Line))
	}
	slices.SortStableFunc(list, func(a, b result.Problem) int {
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
