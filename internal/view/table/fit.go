package table

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"spate/internal/figure"
	"spate/internal/result"
	"spate/internal/safe/escape"
)

// narrow are the figures of a table on a terminal, the most telling first; its last ones are left out where
// the terminal ends.
var narrow = Columns(figure.Ref.Short, "completed", "failed", "request_throughput", "output_throughput", "mean_ttft_ms", "p99_ttft_ms",
	"mean_tpot_ms", "p99_tpot_ms", "mean_itl_ms", "p99_itl_ms", "duration")

// Text writes the results as a table that fits into a terminal of this width, and how many figures are not in it.
func Text(w io.Writer, set []result.Entry, width int) error {
	g, err := New(set, Options{})
	if err != nil {
		return err
	}
	var head []string
	for _, f := range g.Factors {
		head = append(head, f.Title)
	}
	if len(head) == 0 {
		head = []string{"Result"}
	}
	names := len(head)
	head = append(head, "verdict")
	for _, c := range narrow {
		head = append(head, c.Title)
	}
	var rows [][]string
	for _, r := range g.Rows {
		row := append([]string{}, r.Settings...)
		if len(row) < names {
			row = append(row, r.Entry.Name)
		}
		row = append(row, r.Entry.Verdict())
		for _, c := range narrow {
			row = append(row, Cell(r.Entry, c.Key))
		}
		rows = append(rows, row)
	}
	return Fit(w, head, rows, names+1, width)
}

// Fit writes rows below their heads so that no line is longer than width: the last columns are left out, and
// the first keep, which tell rows apart, are cut where even they are too long.
func Fit(w io.Writer, head []string, rows [][]string, keep, width int) error {
	all := append([][]string{head}, rows...)
	wide := make([]int, len(head))
	for r, row := range all {
		for i := range row {
			all[r][i] = escape.Line(row[i])
			if all[r][i] == "" {
				all[r][i] = "-"
			}
			wide[i] = max(wide[i], utf8.RuneCountInString(all[r][i]))
		}
	}
	const gap, least = 2, 6
	total := func(n int) int {
		sum := -gap
		for _, x := range wide[:n] {
			sum += x + gap
		}
		return sum
	}
	for longest(wide[:keep]) > least && total(keep) > width {
		for i := range wide[:keep] {
			if wide[i] == longest(wide[:keep]) {
				wide[i]--
				break
			}
		}
	}
	n := keep
	for n < len(head) && total(n+1) <= width {
		n++
	}
	var b strings.Builder
	for _, row := range all {
		var line strings.Builder
		for i, text := range row[:n] {
			if i > 0 {
				line.WriteString("  ")
			}
			text = cut(text, wide[i])
			pad := strings.Repeat(" ", wide[i]-utf8.RuneCountInString(text))
			if i < keep {
				line.WriteString(text + pad)
			} else {
				line.WriteString(pad + text)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	if left := len(head) - n; left > 0 {
		fmt.Fprintf(&b, "%s did not fit: %s\n", figure.Counted(left, "column"), strings.Join(head[n:], ", "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func longest(wide []int) int {
	most := 0
	for _, x := range wide {
		most = max(most, x)
	}
	return most
}

func cut(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}
