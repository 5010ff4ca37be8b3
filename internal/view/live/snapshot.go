package live

import (
	"fmt"
	"strings"
	"time"

	"spate/internal/call"
	"spate/internal/figure"
	"spate/internal/safe/escape"
)

// Snapshot is the state of a run at one moment.
type Snapshot struct {
	Phase    string // warm-up, measuring, draining ...
	Done     int    // requests that ended, whatever their fate
	Total    int    // 0 when bounded by time only
	Elapsed  time.Duration
	Left     time.Duration // call.Unset when unknown
	InFlight int
	Waiting  int     // due, but without a slot
	SentRate float64 // requests/s over the last seconds
	DoneRate float64
	OutRate  float64 // output tokens/s over the last seconds, of answers still coming too
	TTFT     Quantiles
	ITL      Quantiles
	Failed   int
	Errors   []ErrorCount // most frequent first
	Verdict  string       // VALID, SUSPECT, INVALID; empty when not judged yet
	Note     string       // why, when not valid
	Workers  []Worker     // where several processes send the load
}

// Quantiles are live figures of one latency, good to three digits.
type Quantiles struct {
	N              int64
	Mean, P50, P99 time.Duration
}

// ErrorCount is how often one kind of failure happened.
type ErrorCount struct {
	Kind string
	N    int
}

// Colours of the live view, as SGR parameters.
const (
	plain  = ""
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
)

// cell is a piece of a line that is shown whole or not at all.
type cell struct {
	text  string
	color string
}

// Render draws the snapshot as lines of at most width columns, without line ends. It depends on
// nothing but its arguments.
func Render(s Snapshot, width int, color bool) []string {
	width = max(width, 1)
	lines := []string{
		join(width, color, progressCells(s, width)),
		join(width, color, loadCells(s)),
		join(width, color, latencyCells(s)),
	}
	for _, c := range workerCells(s) {
		lines = append(lines, join(width, color, []cell{c}))
	}
	if s.Failed > 0 || len(s.Errors) > 0 {
		lines = append(lines, wrap(width, color, cell{errorText(s), red})...)
	}
	if s.Verdict != "" {
		lines = append(lines, wrap(width, color, cell{verdictText(s), verdictColor(s.Verdict)})...)
	}
	return lines
}

// Line is the snapshot in one line, for output that is not a terminal.
func Line(s Snapshot) string {
	parts := []string{fmt.Sprintf("[%s] %s %s", clock(s.Elapsed), s.Phase, doneText(s))}
	if s.Left >= 0 {
		parts[0] += ", " + clock(s.Left) + " left"
	}
	for _, c := range append(loadCells(s), latencyCells(s)...) {
		parts = append(parts, c.text)
	}
	if len(s.Workers) > 0 {
		parts = append(parts, workersText(s.Workers))
	}
	if s.Failed > 0 || len(s.Errors) > 0 {
		parts = append(parts, errorText(s))
	}
	if s.Verdict != "" {
		parts = append(parts, verdictText(s))
	}
	return escape.ASCII(strings.Join(parts, "; "))
}

// progressCells are the phase, a bar as wide as the line leaves room for, and the time.
func progressCells(s Snapshot, width int) []cell {
	phase := cell{s.Phase, bold}
	times := clock(s.Elapsed) + " elapsed"
	if s.Left >= 0 {
		times += ", " + clock(s.Left) + " left"
	}
	rest := []cell{{doneText(s), plain}, {times, plain}}
	if s.Total == 0 && s.Left < 0 {
		return append([]cell{phase}, rest...)
	}
	room := width - len(s.Phase) - len(rest[0].text) - len(times) - 3*len(gap) - len("[]")
	if room < 10 {
		return append([]cell{phase}, rest...)
	}
	return append([]cell{phase, {bar(share(s), min(room, 40)), plain}}, rest...)
}

// share is how much of the run is over, by count or by time, whichever is further.
func share(s Snapshot) float64 {
	var f float64
	if s.Total > 0 {
		f = float64(s.Done) / float64(s.Total)
	}
	if s.Left >= 0 && s.Elapsed+s.Left > 0 {
		f = max(f, float64(s.Elapsed)/float64(s.Elapsed+s.Left))
	}
	return min(max(f, 0), 1)
}

func bar(f float64, n int) string {
	full := int(f * float64(n))
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", n-full) + "]"
}

func doneText(s Snapshot) string {
	if s.Total == 0 {
		return fmt.Sprintf("%d done", s.Done)
	}
	return fmt.Sprintf("%d/%d %d%%", s.Done, s.Total, min(100, s.Done*100/s.Total))
}

func loadCells(s Snapshot) []cell {
	cells := []cell{{fmt.Sprintf("in flight %d", s.InFlight), plain}}
	if s.Waiting > 0 {
		cells = append(cells, cell{fmt.Sprintf("waiting %d", s.Waiting), yellow})
	}
	return append(cells,
		cell{fmt.Sprintf("sent %s req/s", figure.Rounded(s.SentRate)), plain},
		cell{fmt.Sprintf("done %s req/s", figure.Rounded(s.DoneRate)), plain},
		cell{fmt.Sprintf("output %s tok/s", figure.Rounded(s.OutRate)), plain})
}

func latencyCells(s Snapshot) []cell {
	return []cell{{"TTFT " + s.TTFT.text(), plain}, {"ITL " + s.ITL.text(), plain}}
}

func (q Quantiles) text() string {
	if q.N == 0 {
		return "-"
	}
	return fmt.Sprintf("p50 %s p99 %s ms", figure.Rounded(call.Millis(q.P50)), figure.Rounded(call.Millis(q.P99)))
}

func errorText(s Snapshot) string {
	text := fmt.Sprintf("%d failed", s.Failed)
	if len(s.Errors) == 1 {
		return text + ": " + s.Errors[0].Kind
	}
	for i, e := range s.Errors {
		text += []string{": ", ", "}[min(i, 1)] + fmt.Sprintf("%d %s", e.N, e.Kind)
	}
	return text
}

func verdictText(s Snapshot) string {
	text := "verdict so far " + s.Verdict
	if s.Note != "" {
		text += ": " + s.Note
	}
	return text
}

func verdictColor(v string) string {
	switch v {
	case "VALID":
		return green
	case "SUSPECT":
		return yellow
	}
	return red
}

const gap = "  "

// join puts cells side by side while they fit. Cells that do not fit are left out; if that is even
// the first, it is cut.
func join(width int, color bool, cells []cell) string {
	var b strings.Builder
	used := 0
	for i, c := range cells {
		text := c.text
		if i == 0 {
			text = escape.Clip(text, width)
		} else if used+len(gap)+len(text) > width {
			continue
		}
		if i > 0 {
			b.WriteString(gap)
			used += len(gap)
		}
		b.WriteString(paint(text, c.color, color))
		used += len(escape.Clip(c.text, width))
	}
	return b.String()
}

func paint(text, with string, color bool) string {
	if !color || with == plain {
		return text
	}
	return "\x1b[" + with + "m" + text + "\x1b[0m"
}

// wrap breaks a message at the margin, so that its end can be read too; words longer than a line are cut.
func wrap(width int, color bool, c cell) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(escape.ASCII(c.text)) {
		word = escape.Clip(word, width)
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) <= width:
			line += " " + word
		default:
			lines, line = append(lines, paint(line, c.color, color)), word
		}
	}
	return append(lines, paint(line, c.color, color))
}

// clock is a duration as 1:05 or 2:03:04.
func clock(d time.Duration) string {
	secs := int(max(d, 0) / time.Second)
	if h := secs / 3600; h > 0 {
		return fmt.Sprintf("%d:%02d:%02d", h, secs/60%60, secs%60)
	}
	return fmt.Sprintf("%d:%02d", secs/60, secs%60)
}
