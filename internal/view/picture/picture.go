// Package picture draws the charts of curve without a browser, as PNG or SVG, for READMEs and papers. It
// comes after curve, whose numbers it takes as they are, and before the report command. choose.go picks
// the charts a set of results deserves, plot.go draws one, scale.go holds the axes. Read this file first.
package picture

import (
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"strings"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"spate/internal/safe/escape"
	"spate/internal/view/curve"
)

// The size of one chart, and how many stand side by side.
const (
	width   = 6 * vg.Inch
	height  = 4 * vg.Inch
	perLine = 2
	dpi     = 120
)

// palette tells eight lines apart for every kind of colour vision (Okabe and Ito); dashes and marks tell
// them apart in print.
var palette = []color.RGBA{
	{0x00, 0x72, 0xb2, 0xff},
	{0xd5, 0x5e, 0x00, 0xff},
	{0x00, 0x9e, 0x73, 0xff},
	{0xcc, 0x79, 0xa7, 0xff},
	{0xe6, 0x9f, 0x00, 0xff},
	{0x56, 0xb4, 0xe9, 0xff},
	{0x00, 0x00, 0x00, 0xff},
	{0x99, 0x99, 0x33, 0xff},
}

var dashes = [][]vg.Length{nil, {vg.Points(6), vg.Points(3)}, {vg.Points(2), vg.Points(2)}, {vg.Points(8), vg.Points(3), vg.Points(2), vg.Points(3)}}

var marks = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{}, draw.PlusGlyph{}, draw.PyramidGlyph{}}

var errNothing = errors.New("there is nothing to draw: the results have neither records nor figures at several loads")

// PNG draws the charts side by side, below a heading.
func PNG(w io.Writer, heading []string, charts []curve.Chart) error {
	if len(charts) == 0 {
		return errNothing
	}
	heading = wrap(heading, len(charts))
	wide, high := size(len(charts), len(heading))
	canvas := vgimg.NewWith(vgimg.UseWH(wide, high), vgimg.UseDPI(dpi), vgimg.UseBackgroundColor(color.White))
	tile(draw.New(canvas), heading, charts)
	if _, err := (vgimg.PngCanvas{Canvas: canvas}).WriteTo(w); err != nil {
		return fmt.Errorf("write picture: %w", err)
	}
	return nil
}

// SVG draws the charts side by side, below a heading.
func SVG(w io.Writer, heading []string, charts []curve.Chart) error {
	if len(charts) == 0 {
		return errNothing
	}
	heading = wrap(heading, len(charts))
	wide, high := size(len(charts), len(heading))
	canvas := vgsvg.New(wide, high)
	tile(draw.New(canvas), heading, charts)
	if _, err := canvas.WriteTo(w); err != nil {
		return fmt.Errorf("write picture: %w", err)
	}
	return nil
}

func size(n, lines int) (wide, high vg.Length) {
	return width * vg.Length(min(n, perLine)), height*vg.Length((n+perLine-1)/perLine) + headHeight(lines)
}

// headLine is how high a line of the heading is, in points.
const headLine = 15

func headHeight(lines int) vg.Length {
	if lines == 0 {
		return 0
	}
	return vg.Points(headLine*float64(lines) + 8)
}

// wrap breaks the lines of a heading so that they fit over the charts.
func wrap(lines []string, charts int) []string {
	room := 80 * min(charts, perLine) // letters, at the size of the heading
	var out []string
	for _, line := range lines {
		now := ""
		for _, word := range strings.Fields(line) {
			if now != "" && len([]rune(now))+1+len([]rune(word)) > room {
				out, now = append(out, now), ""
			}
			now = strings.TrimSpace(now + " " + word)
		}
		out = append(out, now)
	}
	return out
}

// head writes the heading and gives what is left below it.
func head(c draw.Canvas, lines []string) draw.Canvas {
	if len(lines) == 0 {
		return c
	}
	style := letters(10, text.XLeft, text.YTop)
	at := vg.Point{X: c.Min.X + vg.Points(10), Y: c.Max.Y - vg.Points(6)}
	for _, line := range lines {
		c.FillText(style, at, escape.XML(line))
		at.Y -= vg.Points(headLine)
	}
	return draw.Crop(c, 0, 0, 0, -headHeight(len(lines)))
}

// tile draws each chart in its place, below the heading.
func tile(c draw.Canvas, heading []string, charts []curve.Chart) {
	c = head(c, heading)
	tiles := draw.Tiles{Rows: (len(charts) + perLine - 1) / perLine, Cols: min(len(charts), perLine), PadX: vg.Points(12), PadY: vg.Points(12), PadTop: vg.Points(6), PadBottom: vg.Points(6), PadLeft: vg.Points(6), PadRight: vg.Points(12)}
	for i := range charts {
		newPlot(&charts[i]).draw(tiles.At(c, i%perLine, i/perLine))
	}
}

// newPlot is one chart.
func newPlot(c *curve.Chart) *plot {
	empty := func(a curve.Axis) axis { return axis{label: escape.XML(label(a)), min: math.Inf(1), max: math.Inf(-1)} }
	p := &plot{title: escape.XML(c.Title), x: empty(c.X), y: empty(c.Y), legendLeft: legendLeft(c)}
	colour := -1
	for i := range c.Lines {
		l := usable(c, &c.Lines[i])
		if !c.Lines[i].Faint || colour < 0 {
			colour++
		}
		if len(l) == 0 {
			continue
		}
		joined := l
		if join := c.Lines[i].JoinX; join != nil {
			joined = usable(c, &curve.Line{X: join, Y: c.Lines[i].JoinY})
		}
		p.add(newSeries(&c.Lines[i], l, joined, colour))
	}
	setScale(&p.x, c.X)
	setScale(&p.y, c.Y)
	room(p, c)
	return p
}

// legendLeft puts the legend where the lines are not: curves of load and shares rise to the right.
func legendLeft(c *curve.Chart) bool { return c.Y.Scale != curve.Linear || c.X.Scale == curve.Linear }

// room makes the vertical axis taller by what the legend takes, so that it hides no line.
func room(p *plot, c *curve.Chart) {
	names := 0
	for i := range c.Lines {
		if c.Lines[i].Name != "" && !c.Lines[i].Faint {
			names++
		}
	}
	share := min(0.5, 0.045*float64(names)+0.02)
	if c.Y.Scale == curve.Log {
		p.y.max *= math.Pow(p.y.max/p.y.min, share/(1-share))
		return
	}
	p.y.max += (p.y.max - p.y.min) * share / (1 - share)
}

func label(a curve.Axis) string {
	if a.Unit == "" || a.Unit == a.Name {
		return a.Name
	}
	return a.Name + " (" + a.Unit + ")"
}

// usable are the points of a line that its axes can show; bars and steps become their outline.
func usable(c *curve.Chart, l *curve.Line) []point {
	var out []point
	put := func(x, y float64) {
		if shows(c.X, x) && shows(c.Y, y) {
			out = append(out, point{place(c.X, x), place(c.Y, y)})
		}
	}
	switch l.Kind {
	case curve.Bars, curve.Steps:
		floor := 0.0
		if c.Y.Scale == curve.Log {
			floor = math.NaN()
		}
		if l.Kind == curve.Bars && len(l.X) > 0 {
			put(l.X[0], floor)
		}
		for i := 0; i+1 < len(l.X) && i < len(l.Y); i++ {
			put(l.X[i], l.Y[i])
			put(l.X[i+1], l.Y[i])
		}
		if l.Kind == curve.Bars && len(l.X) > 0 {
			put(l.X[len(l.X)-1], floor)
		}
	default:
		for i := range min(len(l.X), len(l.Y)) {
			put(l.X[i], l.Y[i])
		}
	}
	return out
}

// newSeries is one line in its colour: marks on its points, a path through those that are joined.
func newSeries(l *curve.Line, points, joined []point, colour int) series {
	c := palette[colour%len(palette)]
	if l.Faint {
		c = faint(c)
	}
	var s series
	if l.Kind != curve.Dots {
		s.path, s.line = joined, draw.LineStyle{Color: c, Width: vg.Points(1.4), Dashes: dashes[colour/2%len(dashes)]}
		if l.Kind == curve.Bars {
			s.fill = faint(c)
		}
	}
	if l.Kind == curve.Dots || l.Kind == curve.Marks {
		s.marks, s.glyph = points, draw.GlyphStyle{Color: c, Radius: vg.Points(radius), Shape: marks[colour%len(marks)]}
	}
	if !l.Faint {
		s.name = escape.XML(l.Name)
	}
	return s
}

// faint is a colour nearer to white.
func faint(c color.RGBA) color.RGBA {
	mix := func(v uint8) uint8 { return uint8((int(v) + 2*0xff) / 3) }
	return color.RGBA{mix(c.R), mix(c.G), mix(c.B), 0xff}
}
