package table

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"spate/internal/result"
	"spate/internal/safe/escape"
)

// Markdown writes the results as a table with what all of them share above it.
func Markdown(w io.Writer, set []result.Entry, opt Options) error {
	g, err := New(set, opt)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if len(g.Common) > 0 {
		parts := make([]string, len(g.Common))
		for i, s := range g.Common {
			parts[i] = mdCell(s.Title) + ": " + mdCell(s.Value)
		}
		fmt.Fprintf(&b, "%s\n\n", strings.Join(parts, " · "))
	}
	for _, part := range g.parts(opt.Split) {
		if part.title != "" {
			fmt.Fprintf(&b, "### %s\n\n", part.title)
		}
		g.markdown(&b, part.rows, part.title != "")
		b.WriteByte('\n')
	}
	_, err = w.Write(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	return err
}

// part is the rows of one table.
type part struct {
	title string
	rows  []Row
}

// parts are one table, or one per value of the grouping factor.
func (g *Grid) parts(split bool) []part {
	if !split || g.Group < 0 {
		return []part{{rows: g.Rows}}
	}
	var out []part
	for _, r := range g.Rows {
		title := mdCell(g.Factors[g.Group].Title) + " = " + mdCell(r.Settings[g.Group])
		if len(out) == 0 || out[len(out)-1].title != title {
			out = append(out, part{title: title})
		}
		last := &out[len(out)-1]
		last.rows = append(last.rows, r)
	}
	return out
}

// markdown writes one table; without the grouping factor where its heading says it.
func (g *Grid) markdown(b *bytes.Buffer, rows []Row, grouped bool) {
	var head, rule []string
	for i, f := range g.Factors {
		if grouped && i == g.Group {
			continue
		}
		head, rule = append(head, mdCell(f.Title)), append(rule, align(rows, i))
	}
	if len(head) == 0 {
		head, rule = []string{"Result"}, []string{"---"}
	}
	names := len(head)
	if g.Judged {
		head, rule = append(head, "Verdict"), append(rule, "---")
	}
	for _, c := range g.Columns {
		head, rule = append(head, mdCell(c.Title)), append(rule, "---:")
	}
	line(b, head)
	line(b, rule)
	for _, r := range rows {
		cells := make([]string, 0, len(head))
		for i, v := range r.Settings {
			if !grouped || i != g.Group {
				cells = append(cells, mdCell(v))
			}
		}
		if len(cells) < names {
			cells = append(cells, mdCell(r.Entry.Name))
		}
		if g.Judged {
			cells = append(cells, mdCell(r.Entry.Verdict()))
		}
		for _, c := range g.Columns {
			cells = append(cells, mdCell(Cell(r.Entry, c.Key)))
		}
		line(b, cells)
	}
}

// align sets numbers to the right.
func align(rows []Row, factor int) string {
	for _, r := range rows {
		if v := r.Settings[factor]; compareValues(v, "") >= 0 && v != "inf" { // a word
			return "---"
		}
	}
	return "---:"
}

func line(b *bytes.Buffer, cells []string) {
	b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

// mdCell keeps text from ending a cell or starting markup.
func mdCell(s string) string {
	if s = escape.Markdown(s); s == "" {
		return "-"
	}
	return s
}
