package picture

import (
	"image/color"
	"math"
	"sync"

	"codeberg.org/go-fonts/liberation/liberationsansregular"
	"golang.org/x/image/font/opentype"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The package plot itself is not used, only the drawing below it: plot brings twelve fonts and writers of PDF, EPS
// and TeX, 5 MB that no chart here needs.

// tick is a place on an axis; without a label it is a minor one.
type tick struct {
	value float64
	label string
}

// axis is a range of values and how they are laid out.
type axis struct {
	label    string
	min, max float64
	log      bool
	ticks    func(low, high float64) []tick
}

// fit makes the range wide enough for a value.
func (a *axis) fit(v float64) { a.min, a.max = min(a.min, v), max(a.max, v) }

// at is where a value lies, from 0 to 1.
func (a *axis) at(v float64) float64 {
	if a.log {
		return math.Log(v/a.min) / math.Log(a.max/a.min)
	}
	return (v - a.min) / (a.max - a.min)
}

type point struct{ x, y float64 }

// series is one line of a plot: a path, marks, or both.
type series struct {
	name  string // in the legend; none when empty
	path  []point
	marks []point
	line  draw.LineStyle
	fill  color.Color // below the path; nil: none
	glyph draw.GlyphStyle
}

// plot is one chart with two axes.
type plot struct {
	title      string
	x, y       axis
	series     []series
	legendLeft bool
}

// Sizes in points.
const (
	titleGap   = 6
	tickLong   = 8
	radius     = 3 // of a mark
	legendIcon = 20
)

var (
	axisLine = draw.LineStyle{Color: color.Black, Width: vg.Points(0.5)}
	gridLine = draw.LineStyle{Color: color.Gray{0xe4}, Width: vg.Points(0.25)}
)

// fonts holds the one font of all pictures.
var fonts = sync.OnceValue(func() *font.Cache {
	face, err := opentype.Parse(liberationsansregular.TTF)
	if err != nil {
		panic(err) // it is part of the program
	}
	return font.NewCache(font.Collection{{Font: font.Font{Typeface: "Liberation", Variant: "Sans"}, Face: face}})
})

// letters is a style of text of a size in points.
func letters(points float64, x text.XAlignment, y text.YAlignment) text.Style {
	return text.Style{
		Color: color.Black, Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(points)},
		XAlign: x, YAlign: y, Handler: text.Plain{Fonts: fonts()},
	}
}

// lift is how far text has to go up to stand in the middle of its line: the library centres it with the space below.
func lift(style text.Style) vg.Length { return style.FontExtents().Descent }

// add puts a series in, and makes the axes wide enough for it.
func (p *plot) add(s series) {
	for _, all := range [][]point{s.path, s.marks} {
		for _, v := range all {
			p.x.fit(v.x)
			p.y.fit(v.y)
		}
	}
	p.series = append(p.series, s)
}

// draw fills a canvas: title above, axes left and below, grid, lines and legend in between.
func (p *plot) draw(c draw.Canvas) {
	c.SetColor(color.White)
	c.Fill(c.Path())
	title := letters(12, text.XCenter, text.YTop)
	c.FillText(title, vg.Point{X: c.Center().X, Y: c.Max.Y + lift(title)}, p.title)
	c.Max.Y -= title.Height(p.title) + vg.Points(titleGap)

	names, numbers := letters(9, text.XCenter, text.YBottom), letters(8, text.XRight, text.YCenter)
	xs, ys := p.x.ticks(p.x.min, p.x.max), p.y.ticks(p.y.min, p.y.max)
	left := names.Height(p.y.label) + widest(numbers, ys) + numbers.Width("  ") + vg.Points(tickLong)
	below := names.Height(p.x.label) + numbers.Height("0") + vg.Points(tickLong)
	box := draw.Crop(c, left, -widest(numbers, xs)/2, below, -vg.Points(radius))
	// The data keeps off the axes, so that no mark lies on them.
	data := draw.Crop(box, vg.Points(radius), -vg.Points(radius), vg.Points(radius), 0)

	c.FillText(names, vg.Point{X: data.Center().X, Y: c.Min.Y}, p.x.label)
	names.Rotation, names.YAlign = math.Pi/2, text.YTop
	c.FillText(names, vg.Point{X: c.Min.X - lift(names), Y: data.Center().Y}, p.y.label)
	p.drawX(box, data, xs)
	p.drawY(box, data, ys)
	for i := range p.series {
		p.drawSeries(data, &p.series[i])
	}
	p.drawLegend(box)
}

// widest is the width of the longest label.
func widest(style text.Style, ticks []tick) (w vg.Length) {
	for _, t := range ticks {
		w = max(w, style.Width(t.label))
	}
	return w
}

// length is how long the mark of a tick is, and whether it is a major one.
func (t tick) length() (long vg.Length, major bool) {
	if t.label == "" {
		return vg.Points(tickLong) / 2, false
	}
	return vg.Points(tickLong), true
}

func (p *plot) drawX(box, data draw.Canvas, ticks []tick) {
	style := letters(8, text.XCenter, text.YTop)
	for _, t := range ticks {
		x := data.X(p.x.at(t.value))
		if !data.ContainsX(x) {
			continue
		}
		long, major := t.length()
		box.StrokeLine2(axisLine, x, box.Min.Y-long, x, box.Min.Y)
		if major {
			box.StrokeLine2(gridLine, x, data.Min.Y, x, data.Max.Y)
			box.FillText(style, vg.Point{X: x, Y: box.Min.Y - long}, t.label)
		}
	}
	box.StrokeLine2(axisLine, data.Min.X, box.Min.Y, data.Max.X, box.Min.Y)
}

func (p *plot) drawY(box, data draw.Canvas, ticks []tick) {
	style := letters(8, text.XRight, text.YCenter)
	for _, t := range ticks {
		y := data.Y(p.y.at(t.value))
		if !data.ContainsY(y) {
			continue
		}
		long, major := t.length()
		box.StrokeLine2(axisLine, box.Min.X-long, y, box.Min.X, y)
		if major {
			box.StrokeLine2(gridLine, data.Min.X, y, data.Max.X, y)
			box.FillText(style, vg.Point{X: box.Min.X - long - style.Width(" "), Y: y + lift(style)}, t.label)
		}
	}
	box.StrokeLine2(axisLine, box.Min.X, data.Min.Y, box.Min.X, data.Max.Y)
}

func (p *plot) drawSeries(c draw.Canvas, s *series) {
	place := func(all []point) []vg.Point {
		out := make([]vg.Point, len(all))
		for i, v := range all {
			out[i] = vg.Point{X: c.X(p.x.at(v.x)), Y: c.Y(p.y.at(v.y))}
		}
		return out
	}
	path := place(s.path)
	if n := len(path); s.fill != nil && n > 0 {
		area := append([]vg.Point{{X: path[0].X, Y: c.Min.Y}}, path...)
		c.FillPolygon(s.fill, c.ClipPolygonXY(append(area, vg.Point{X: path[n-1].X, Y: c.Min.Y})))
	}
	if len(path) > 0 {
		c.StrokeLines(s.line, c.ClipLinesXY(path)...)
	}
	for _, at := range place(s.marks) {
		c.DrawGlyph(s.glyph, at)
	}
}

// drawLegend names the series from the top down, each behind a piece of its line.
func (p *plot) drawLegend(c draw.Canvas) {
	align, icon, words := text.XLeft, c.Min.X, vg.Points(legendIcon+radius)
	if !p.legendLeft {
		align, icon, words = text.XRight, c.Max.X-vg.Points(legendIcon), -vg.Points(radius)
	}
	style := letters(8, align, text.YCenter)
	high := style.Height("0") // room leaves space for this
	y := c.Max.Y - high/2
	for i := range p.series {
		s := &p.series[i]
		if s.name == "" {
			continue
		}
		if s.fill != nil {
			c.FillPolygon(s.fill, []vg.Point{{X: icon, Y: y - high/2}, {X: icon, Y: y}, {X: icon + vg.Points(legendIcon), Y: y}, {X: icon + vg.Points(legendIcon), Y: y - high/2}})
		}
		if s.line.Width > 0 {
			c.StrokeLine2(s.line, icon, y, icon+vg.Points(legendIcon), y)
		}
		if s.glyph.Shape != nil {
			c.DrawGlyph(s.glyph, vg.Point{X: icon + vg.Points(legendIcon)/2, Y: y})
		}
		c.FillText(style, vg.Point{X: icon + words, Y: y + lift(style)}, s.name)
		y -= high
	}
}
