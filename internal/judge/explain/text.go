package explain

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// maxColumns is the width texts keep to.
const maxColumns = 100

// Write prints an explanation for people.
func Write(w io.Writer, causes []Cause) error {
	var b strings.Builder
	for i, c := range causes {
		if i > 0 {
			b.WriteByte('\n')
		}
		lead := c.Name
		if c.Confidence != "" {
			lead += " (" + string(c.Confidence) + " confidence" + c.explains() + ")"
		}
		hang(&b, lead+": ", "  ", c.Sentence)
		for _, e := range c.Evidence {
			hang(&b, "  - ", "    ", e.String())
		}
		for _, t := range c.Try {
			hang(&b, "  try: ", "       ", t)
		}
		for _, n := range c.Needs {
			hang(&b, "  needed to be sure: ", "       ", n)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// explains says how much of the latency a cause explains, where it does.
func (c *Cause) explains() string {
	switch {
	case c.Share <= 0:
		return ""
	case c.Share < 0.01:
		return ", below 1 % of latency"
	}
	return fmt.Sprintf(", %.0f %% of latency", 100*c.Share)
}

// String is a figure with its unit and who says so.
func (e Evidence) String() string {
	text := Number(e.Value)
	switch e.Unit {
	case "share":
		text = strconv.FormatFloat(100*e.Value, 'f', 1, 64) + " %"
	case "":
	default:
		text += " " + e.Unit
	}
	return fmt.Sprintf("%s: %s, by %s", e.What, text, e.From)
}

// Number prints a figure with three digits that count.
func Number(v float64) string {
	if a := math.Abs(v); a >= 100 || a == math.Trunc(a) {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// hang writes words behind a lead, broken at the margin.
func hang(b *strings.Builder, lead, indent, words string) {
	line, fresh := lead, true
	for _, word := range strings.Fields(words) {
		if !fresh && len(line)+1+len(word) > maxColumns {
			b.WriteString(line + "\n")
			line, fresh = indent, true
		}
		if !fresh {
			line += " "
		}
		line, fresh = line+word, false
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
}
