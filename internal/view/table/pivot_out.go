package table

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"spate/internal/figure"
	"spate/internal/judge/stats"
	"spate/internal/safe/escape"
)

// shared are the conditions under which more than one level has a figure.
func (m *Measured) shared() (rows []int) {
	for i, row := range m.Cells {
		n := 0
		for l := range row {
			if row[l].Runs > 0 {
				n++
			}
		}
		if n > 1 {
			rows = append(rows, i)
		}
	}
	return rows
}

// Title is the heading of one figure's table.
func (p *Pivot) Title(m *Measured) string {
	better := "lower is better"
	if m.High {
		better = "higher is better"
	}
	return m.Title + " by " + p.Factor.Title + " (" + better + ")"
}

// Head is what stands above the columns.
func (p *Pivot) Head() []string {
	out := []string{"Condition"}
	for l, name := range p.Levels {
		if l == p.Baseline {
			name += " (baseline)"
		}
		out = append(out, name)
	}
	return out
}

// Relation is a cell's ratio to the baseline, empty in the baseline's own column and where there is none.
func (p *Pivot) Relation(level int, s *Spot) string {
	if level == p.Baseline || math.IsNaN(s.Ratio) {
		return ""
	}
	return fmt.Sprintf("%.2fx", s.Ratio)
}

// WriteMarkdown writes a table for each figure, the best of each row in bold.
func (p *Pivot) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	for i := range p.Measures {
		m := &p.Measures[i]
		fmt.Fprintf(&b, "### %s\n\n", escape.Markdown(p.Title(m)))
		cells := p.Head()
		for k := range cells {
			cells[k] = mdCell(cells[k])
		}
		fmt.Fprintf(&b, "| %s |\n| --- |%s\n", strings.Join(cells, " | "), strings.Repeat(" ---: |", len(p.Levels)))
		for r, row := range m.Cells {
			cells = []string{mdCell(p.Conditions[r])}
			for l := range row {
				text := mdCell(row[l].Text)
				if row[l].Best {
					text = "**" + text + "**"
				}
				if rel := p.Relation(l, &row[l]); rel != "" {
					text += " (" + rel + ")"
				}
				cells = append(cells, text)
			}
			fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteText writes the tables for a terminal, a star behind the best of each row.
func (p *Pivot) WriteText(w io.Writer) error {
	var b strings.Builder
	for i := range p.Measures {
		m := &p.Measures[i]
		fmt.Fprintf(&b, "%s\n", escape.Line(p.Title(m)))
		t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
		put := func(cells []string) { _, _ = fmt.Fprintln(t, strings.Join(cells, "\t")) } // into memory
		cells := p.Head()
		for k := range cells {
			cells[k] = escape.Line(cells[k])
		}
		put(cells)
		for r, row := range m.Cells {
			cells = []string{escape.Line(p.Conditions[r])}
			for l := range row {
				text := escape.Line(row[l].Text)
				if row[l].Best {
					text += " *"
				}
				if rel := p.Relation(l, &row[l]); rel != "" {
					text += " " + rel
				}
				cells = append(cells, text)
			}
			put(cells)
		}
		if err := t.Flush(); err != nil {
			return err
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Says is what the tables say: who is best how often, and how far the others are from the baseline.
func (p *Pivot) Says() []string {
	var out []string
	for i := range p.Measures {
		if text := p.says(&p.Measures[i]); text != "" {
			out = append(out, text)
		}
	}
	if p.Note != "" {
		out = append(out, "The comparison by "+p.Factor.Title+" is made "+p.Note+".")
	}
	return out
}

func (p *Pivot) says(m *Measured) string {
	rows := m.shared()
	if len(rows) == 0 {
		return ""
	}
	wins := make([]int, len(p.Levels))
	for _, r := range rows {
		for l := range m.Cells[r] {
			if m.Cells[r][l].Best {
				wins[l]++
			}
		}
	}
	order := make([]int, len(wins))
	for l := range order {
		order[l] = l
	}
	slices.SortStableFunc(order, func(a, b int) int { return wins[b] - wins[a] })
	if wins[order[0]] == 0 {
		return fmt.Sprintf("%s: the same in %s.", m.Title, figure.Counted(len(rows), "condition"))
	}
	var parts []string
	for k, l := range order {
		switch {
		case k == 0:
			parts = append(parts, fmt.Sprintf("%s is best in %d of %s", p.Levels[l], wins[l], figure.Counted(len(rows), "condition")))
		case wins[l] > 0:
			parts = append(parts, fmt.Sprintf("%s in %d", p.Levels[l], wins[l]))
		}
	}
	text := m.Title + ": " + strings.Join(parts, ", ") + "."
	for l := range p.Levels {
		text += p.beside(m, rows, l)
	}
	return text
}

// beside is how a level stands beside the baseline.
func (p *Pivot) beside(m *Measured, rows []int, level int) string {
	var ratios []float64
	ahead, near := 0, 0
	for _, r := range rows {
		if v := m.Cells[r][level].Ratio; level != p.Baseline && !math.IsNaN(v) {
			ratios = append(ratios, v)
			switch {
			case ratio(v, 1) < 1.02:
				near++
			case (v > 1) == m.High:
				ahead++
			}
		}
	}
	if len(ratios) == 0 {
		return ""
	}
	text := fmt.Sprintf(" %s is better than %s in %d of %d", p.Levels[level], p.Levels[p.Baseline], ahead, len(ratios))
	if near > 0 {
		text += fmt.Sprintf(", within 2 %% in %d", near)
	}
	text += fmt.Sprintf(": %.2f times its figure", stats.Median(ratios))
	if len(ratios) > 1 {
		text += fmt.Sprintf(" in the median, %.2f to %.2f", slices.Min(ratios), slices.Max(ratios))
	}
	return text + "."
}
