// Package curve is the data of every chart spate draws, as numbers on named axes: runs gives it entries and
// their records, page draws it in a browser and picture without one, so that both show the same curves. It is
// pure: the same records give the same points.
//
// Read this file first, then spread.go (distributions), across.go (curves over several runs), time.go (one run
// on its time axis) and waterfall.go (one bar for each request).
package curve

// Scale says how an axis spaces its values.
type Scale string

// Scales.
const (
	Linear Scale = "linear"
	Log    Scale = "log"
	Nines  Scale = "nines" // percentiles by -log10(1-p/100): 90, 99 and 99.9 are equally far apart
)

// Axis is what one direction of a chart means.
type Axis struct {
	Name  string `json:"name"`
	Unit  string `json:"unit,omitempty"` // ms, requests/s, tokens/s, %, s ...
	Scale Scale  `json:"scale"`          // the one that fits the data; readers may choose another
	Zero  bool   `json:"zero,omitempty"` // a linear axis starts at 0
}

// Kind says how a line is drawn.
type Kind string

// Kinds of lines.
const (
	Path  Kind = "path"  // straight from point to point
	Marks Kind = "marks" // a path with a mark on each point: a point is a run
	Dots  Kind = "dots"  // marks alone
	Steps Kind = "steps" // Y[i] holds from X[i] to X[i+1]; the last point only ends the line
	Bars  Kind = "bars"  // Y[i] is the height between X[i] and X[i+1]: one Y less than X
)

// Line is one series of a chart.
type Line struct {
	Name   string    `json:"name"`
	Kind   Kind      `json:"kind"`
	X      []float64 `json:"x"`
	Y      []float64 `json:"y"`
	Labels []string  `json:"labels,omitempty"` // of the points, where each has a name
	Faint  bool      `json:"faint,omitempty"`  // accompanies the line before it, in its colour

	// What Marks are joined by where that is not the marks themselves: medians of repeats.
	JoinX []float64 `json:"join_x,omitempty"`
	JoinY []float64 `json:"join_y,omitempty"`
}

// put adds a point with its name.
func (l *Line) put(x, y float64, label string) {
	l.X, l.Y, l.Labels = append(l.X, x), append(l.Y, y), append(l.Labels, label)
}

// Chart is a picture in numbers.
type Chart struct {
	ID    string `json:"id"` // unique on a page, stable over versions
	Title string `json:"title"`
	Note  string `json:"note,omitempty"` // what a reader must know to read it rightly
	X     Axis   `json:"x"`
	Y     Axis   `json:"y"`
	Lines []Line `json:"lines"`
}

// add puts a line into the chart, if it has points.
func (c *Chart) add(l Line) {
	if len(l.X) > 0 {
		c.Lines = append(c.Lines, l)
	}
}

// Empty reports whether there is nothing to draw.
func (c *Chart) Empty() bool {
	for _, l := range c.Lines {
		if len(l.Y) > 0 {
			return false
		}
	}
	return true
}
