package report

import (
	"fmt"
	"strings"

	"spate/internal/figure"
	"spate/internal/judge/metrics"
	"spate/internal/result"
	"spate/internal/safe/escape"
)

// maxColumns is the width findings keep to.
const maxColumns = 100

// labelWidth is the width of a table's first column, figureWidth that of the others.
const (
	labelWidth  = 34
	figureWidth = 10
)

// sheet lays findings out: sections of aligned rows, and sentences broken at the margin.
type sheet struct {
	strings.Builder
	starred map[float64]int // percentiles shown on too few samples, and the number they need
	spread  bool            // a half-interval was shown
}

// section begins a table; heads name its columns.
func (s *sheet) section(title string, heads ...string) {
	s.WriteByte('\n')
	s.put(title, heads)
}

// row adds a line to the table.
func (s *sheet) row(label string, cells ...string) {
	s.put("  "+label, cells)
}

func (s *sheet) put(label string, cells []string) {
	line := fmt.Sprintf("%-*s", labelWidth, label)
	for _, c := range cells {
		line += fmt.Sprintf(" %*s", figureWidth, c)
	}
	s.WriteString(strings.TrimRight(escape.Clip(line, maxColumns), " ") + "\n")
}

// fact adds a line of a label and a few words.
func (s *sheet) fact(label, words string) {
	s.hang(fmt.Sprintf("  %-*s ", labelWidth-2, label), words)
}

// hang adds a sentence behind its lead; further lines are indented by as much. A word longer than a line, such as a
// path, stays whole: it is there to be copied.
func (s *sheet) hang(lead, words string) {
	indent := strings.Repeat(" ", min(len(lead), maxColumns/2))
	line := lead
	fresh := true
	for _, w := range strings.Fields(escape.ASCII(words)) {
		if !fresh && len(line)+1+len(w) > maxColumns {
			s.WriteString(strings.TrimRight(line, " ") + "\n")
			line, fresh = indent, true
		}
		if !fresh {
			line += " "
		}
		line, fresh = line+w, false
	}
	s.WriteString(strings.TrimRight(line, " ") + "\n")
}

// command adds a command as a shell reads it back; where it is too long for a line it goes on behind a backslash, so
// that it can be pasted.
func (s *sheet) command(lead string, words []string) {
	line := lead
	for i, w := range words {
		w = escape.Terminal(result.ShellWord(w))
		if i > 0 && len(line)+1+len(w)+len(` \`) > maxColumns {
			s.WriteString(line + " \\\n")
			line = strings.Repeat(" ", len(lead)) + w
			continue
		}
		if i > 0 {
			line += " "
		}
		line += w
	}
	s.WriteString(line + "\n")
}

// latencyHeads are the columns of a latency table.
var latencyHeads = []string{"mean", "+/-", "median", "p90", "p99", "max"}

// dist adds a row of latencies in milliseconds. A sample of nothing has no row.
func (s *sheet) dist(label string, d *metrics.Dist) {
	if d.N == 0 {
		return
	}
	spread := ""
	if d.CI95 != nil {
		s.spread = true
		spread = figure.Rounded((d.CI95.Mean[1] - d.CI95.Mean[0]) / 2)
	}
	s.row(label, figure.Rounded(d.Mean), spread, figure.Rounded(d.Median), s.percentile(d.At(90)), s.percentile(d.At(99)), figure.Rounded(d.Max))
}

// percentile is a value with a star when the sample is too small to bound it.
func (s *sheet) percentile(q metrics.Quantile, ok bool) string {
	switch {
	case !ok:
		return ""
	case q.Infinite:
		return "never"
	case q.Enough:
		return figure.Rounded(q.Value)
	}
	if s.starred == nil {
		s.starred = make(map[float64]int)
	}
	s.starred[q.P] = q.Floor
	return figure.Rounded(q.Value) + "*"
}

// footnote explains the signs used so far, a line each.
func (s *sheet) footnote() {
	for _, words := range s.signs() {
		s.hang("  ", words)
	}
}

// signs are the explanations of the signs used so far.
func (s *sheet) signs() []string {
	var all []string
	if s.spread {
		all = append(all, "+/-: half of the mean's 95 % interval")
	}
	var floors []string
	for _, p := range []float64{90, 99} {
		if floor, ok := s.starred[p]; ok {
			floors = append(floors, fmt.Sprintf("%d for a p%.0f", floor, p))
		}
	}
	if len(floors) > 0 {
		all = append(all, "*: needs more requests: "+strings.Join(floors, ", "))
	}
	return all
}

func percent(f float64) string {
	return fmt.Sprintf("%.1f %%", f*100)
}
