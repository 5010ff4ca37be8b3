package page

import (
	"math"
	"strconv"

	"spate/internal/view/table"
)

// pivotView is what differs on purpose: a table for each figure, of which one is shown at a time.
type pivotView struct {
	Factor, Note string
	Tables       []*grid
}

func newPivot(p *table.Pivot) *pivotView {
	if p == nil || len(p.Measures) == 0 {
		return nil
	}
	v := &pivotView{Factor: p.Factor.Title}
	if p.Note != "" {
		v.Note = "Made " + p.Note + "."
	}
	for i := range p.Measures {
		m := &p.Measures[i]
		g := &grid{Label: p.Title(m), Class: "wide sort pivot"}
		for k, text := range p.Head() {
			h := head{Text: text}
			if k > 0 {
				h.Class = "n"
			}
			g.Head = append(g.Head, h)
		}
		for r, row := range m.Cells {
			cells := []cell{{Text: p.Conditions[r]}}
			for l := range row {
				cells = append(cells, pivotCell(p, l, &row[l]))
			}
			g.Rows = append(g.Rows, cells)
		}
		v.Tables = append(v.Tables, g)
	}
	return v
}

func pivotCell(p *table.Pivot, level int, s *table.Spot) cell {
	c := cell{Text: s.Text, Class: "n", Note: p.Relation(level, s)}
	if !math.IsNaN(s.Value) {
		c.Sort = strconv.FormatFloat(s.Value, 'g', -1, 64)
	}
	if s.Best {
		c.Class = "n best"
	}
	if s.Runs > 1 {
		c.Title = "median of " + strconv.Itoa(s.Runs) + " runs"
	}
	return c
}
