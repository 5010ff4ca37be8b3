package compare

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
)

// ChangeText is the change for people: +10.1 %, or points for shares.
func (m *Metric) ChangeText() string {
	if m.Change == nil {
		return "-"
	}
	return signed(*m.Change) + m.changeUnit()
}

func (m *Metric) changeUnit() string {
	if m.Points() {
		return " points"
	}
	return " %"
}

// IntervalText is the interval of the change.
func (m *Metric) IntervalText() string {
	if m.Low == nil || m.High == nil {
		return "-"
	}
	return signed(*m.Low) + " to " + signed(*m.High) + m.changeUnit()
}

// DetectableText is the smallest difference that could have been shown.
func (m *Metric) DetectableText() string {
	if m.Detectable == nil {
		return "-"
	}
	if *m.Detectable > 999 {
		return "> 999" + m.changeUnit()
	}
	return strconv.FormatFloat(*m.Detectable, 'f', 1, 64) + m.changeUnit()
}

// signed prints one decimal, two for small changes, and never a minus before zero.
func signed(v float64) string {
	digits := 1
	if math.Abs(v) < 1 {
		digits = 2
	}
	text := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.Trim(text, "-0.") == "" {
		return "0.0"
	}
	if v > 0 {
		return "+" + text
	}
	return text
}

// digits prints a value with as many digits as matter.
func digits(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 1 || a == 0:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// label is the metric with its unit, where its name does not end in it.
func (m *Metric) label() string {
	if strings.HasSuffix(m.Name, "_ms") {
		return m.Name
	}
	return m.Name + " (" + m.Unit + ")"
}

// WriteText prints the report for a terminal.
func (r *Report) WriteText(w io.Writer) error {
	for i := range r.Comparisons {
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		if err := r.Comparisons[i].writeText(w); err != nil {
			return err
		}
	}
	var b strings.Builder
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	if g := r.Gate; g != nil {
		fmt.Fprintf(&b, "gate: %s: %s\n", gateWord(g), g.Why)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func gateWord(g *Gate) string {
	if g.Passed {
		return "passed"
	}
	return "failed"
}

func (c *Comparison) writeText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s against %s", c.B.Name, c.A.Name)
	if c.Setting != "" {
		fmt.Fprintf(&b, " at %s", c.Setting)
	}
	fmt.Fprintf(&b, "\n%s\n", c.Method)
	if g := c.grades(); g != "" {
		fmt.Fprintf(&b, "%s\n", g)
	}
	b.WriteByte('\n')
	t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	put := func(format string, args ...any) { _, _ = fmt.Fprintf(t, format, args...) } // into memory
	put("METRIC\t%s\t%s\tCHANGE\t95 %% INTERVAL\tCOULD SHOW\tVERDICT\tWHY\n", clip(c.A.Name), clip(c.B.Name))
	for i := range c.Metrics {
		m := &c.Metrics[i]
		put("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			m.label(), digits(m.A), digits(m.B), m.ChangeText(), m.IntervalText(), m.DetectableText(), m.Verdict, m.why())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(&b, "\n%s: %s\n", strings.ToUpper(string(c.Verdict)), c.Sentence)
	for _, n := range c.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// why is the reason of the verdict, with the second opinion where it differs.
func (m *Metric) why() string {
	if r := m.Ranks; r != nil && (m.Verdict == Better || m.Verdict == Worse) && r.P > 1-Confidence {
		return fmt.Sprintf("%s; %s alone would not say so (p = %.2g)", m.Why, r.Test, r.P)
	}
	return m.Why
}

// clip keeps a column's heading short.
func clip(name string) string {
	const most = 24
	if r := []rune(name); len(r) > most {
		return "…" + string(r[len(r)-most+1:])
	}
	return name
}
