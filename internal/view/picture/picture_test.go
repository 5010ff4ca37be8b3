package picture

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"

	"spate/internal/result"
	"spate/internal/view/curve"
)

func chart(kind curve.Kind, x, y curve.Scale) curve.Chart {
	return curve.Chart{
		ID: "c", Title: "A title", X: curve.Axis{Name: "rate", Unit: "requests/s", Scale: x}, Y: curve.Axis{Name: "TTFT", Unit: "ms", Scale: y, Zero: true},
		Lines: []curve.Line{
			{Name: "first", Kind: kind, X: []float64{1, 2, 4, 99.9}, Y: []float64{10, 20, 80}},
			{Name: "second", Kind: kind, X: []float64{1, 2, 4, 99.9}, Y: []float64{12, math.NaN(), 0}},
		},
	}
}

func TestEveryKindOnEveryScaleDraws(t *testing.T) {
	for _, kind := range []curve.Kind{curve.Path, curve.Marks, curve.Dots, curve.Steps, curve.Bars} {
		for _, x := range []curve.Scale{curve.Linear, curve.Log, curve.Nines} {
			for _, y := range []curve.Scale{curve.Linear, curve.Log} {
				t.Run(string(kind)+" "+string(x)+" "+string(y), func(t *testing.T) {
					charts := []curve.Chart{chart(kind, x, y), chart(kind, x, y), chart(kind, x, y)}
					var b bytes.Buffer
					if err := SVG(&b, nil, charts); err != nil {
						t.Fatal(err)
					}
					text := words(t, &b)
					for _, want := range []string{"A title", "rate (requests/s)", "TTFT (ms)", "first", "second"} {
						if n := strings.Count(text, want); n != 3 {
							t.Errorf("%q is written %d times, want once a chart", want, n)
						}
					}
				})
			}
		}
	}
}

// words is the text of an SVG; reading it also checks that it is well formed.
func words(t *testing.T, r io.Reader) string {
	t.Helper()
	var out strings.Builder
	d := xml.NewDecoder(r)
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return out.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := tok.(xml.CharData); ok {
			out.Write(text)
			out.WriteByte('\n')
		}
	}
}

func TestPNGHasInkInTheColoursOfItsLines(t *testing.T) {
	var b bytes.Buffer
	if err := PNG(&b, nil, []curve.Chart{chart(curve.Marks, curve.Linear, curve.Log)}); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	if size := img.Bounds().Size(); size.X != 6*dpi || size.Y != 4*dpi {
		t.Errorf("size %v, want %d x %d", size, 6*dpi, 4*dpi)
	}
	seen := map[int]int{}
	for y := range img.Bounds().Max.Y {
		for x := range img.Bounds().Max.X {
			r, g, bl, _ := img.At(x, y).RGBA()
			for i, c := range palette[:3] {
				if uint8(r>>8) == c.R && uint8(g>>8) == c.G && uint8(bl>>8) == c.B {
					seen[i]++
				}
			}
		}
	}
	if seen[0] < 20 || seen[1] < 20 || seen[2] > 0 {
		t.Errorf("pixels in the first three colours: %v; want the first two used", seen)
	}
}

func TestNothingToDraw(t *testing.T) {
	if err := PNG(io.Discard, nil, nil); err == nil || !strings.Contains(err.Error(), "nothing to draw") {
		t.Errorf("got %v", err)
	}
	empty := chart(curve.Path, curve.Log, curve.Log)
	empty.Lines = nil
	if err := SVG(io.Discard, nil, []curve.Chart{empty}); err != nil {
		t.Errorf("a chart without lines: %v", err)
	}
}

func TestAxesPlaceValues(t *testing.T) {
	for _, c := range []struct {
		axis axis
		v    float64
		want float64
	}{
		{axis{min: 10, max: 30}, 15, 0.25},
		{axis{min: 10, max: 30}, 30, 1},
		{axis{min: 1, max: 10000, log: true}, 10, 0.25},
		{axis{min: 2, max: 8, log: true}, 4, 0.5},
	} {
		if got := c.axis.at(c.v); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v lies at %v of %v to %v, want %v", c.v, got, c.axis.min, c.axis.max, c.want)
		}
	}
}

// TestLegendHidesNoLine: as much room is made above the lines as the names take.
func TestLegendHidesNoLine(t *testing.T) {
	for _, scale := range []curve.Scale{curve.Linear, curve.Log} {
		c := chart(curve.Path, curve.Linear, scale)
		for range 6 {
			c.Lines = append(c.Lines, c.Lines[0])
		}
		p := newPlot(&c)
		names := letters(8, text.XLeft, text.YCenter).Height("0") * vg.Length(len(c.Lines))
		free := vg.Length(1-p.y.at(80)) * (height - vg.Points(60)) // title and horizontal axis take the rest
		if names > free {
			t.Errorf("%s: %d names are %.0f points high, and %.0f are free above the highest value", scale, len(c.Lines), names.Points(), free.Points())
		}
	}
}

func TestTicksLieInRangeAndRise(t *testing.T) {
	for name, f := range map[string]func(float64, float64) []tick{"plain": plainTicks, "log": logTicks, "nines": nineTicks} {
		for _, r := range [][2]float64{{1, 10}, {0.001, 3}, {7, 7.5}, {3, 80000}, {0.5, 3}} {
			last := math.Inf(-1)
			ticks := f(r[0], r[1])
			for _, k := range ticks {
				if k.value < r[0]*(1-1e-6)-1e-9 || k.value > r[1]*(1+1e-6) || k.value <= last {
					t.Errorf("%s ticks of %v: %v after %v", name, r, k.value, last)
				}
				last = k.value
			}
			if name == "plain" && (len(ticks) < 3 || len(ticks) > 12) {
				t.Errorf("%d ticks over %v", len(ticks), r)
			}
		}
	}
	for v, want := range map[float64]string{math.Copysign(0, -1): "0", 0.1 + 0.2: "0.3", 9999: "9999", 20000: "20k", 3.5e6: "3.5M"} {
		if got := number(v); got != want {
			t.Errorf("%v is written %s, want %s", v, got, want)
		}
	}
}

func TestChartsOfASet(t *testing.T) {
	entry := func(rate, ttft string) result.Entry {
		return result.Entry{ID: rate, Name: rate, Labels: map[string]string{"request_rate": rate}, Metrics: result.Figures{
			result.NewPrinted("request_throughput", rate, ""), result.NewPrinted("p99_ttft_ms", ttft, ""), result.NewPrinted("mean_ttft_ms", ttft, ""),
		}}
	}
	set := []result.Entry{entry("4", "90"), entry("2", "50")}
	charts, err := Charts(set, nil)
	if err != nil || len(charts) == 0 || len(charts) > most {
		t.Fatalf("%d charts, %v", len(charts), err)
	}
	line := charts[0].Lines[0]
	if len(line.X) != 2 || line.X[0] != 2 || line.Y[0] != 50 || line.Y[1] != 90 {
		t.Errorf("the curve over load is %+v", line)
	}
	if _, err := Charts(set, []string{"none"}); err == nil || !strings.Contains(err.Error(), charts[0].ID) {
		t.Errorf("a wrong name lists the right ones: %v", err)
	}
}

// TestPicturesHaveAHeading: a picture that is passed on says what was measured and how far it can be trusted.
func TestPicturesHaveAHeading(t *testing.T) {
	charts := []curve.Chart{chart(curve.Marks, curve.Linear, curve.Linear)}
	long := strings.Repeat("word ", 40)
	var with, without bytes.Buffer
	for _, err := range []error{SVG(&with, []string{"Model m/Q · QPS 2", "3 VALID, 1 INVALID", long}, charts), SVG(&without, nil, charts)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"Model m/Q · QPS 2", "3 VALID, 1 INVALID"} {
		if !strings.Contains(with.String(), want) {
			t.Errorf("no %q in the picture", want)
		}
	}
	if n := strings.Count(with.String(), "word word"); n < 3 {
		t.Errorf("a long heading stands on %d lines", n)
	}
	if strings.Contains(without.String(), "VALID") || with.Len() <= without.Len() {
		t.Error("the heading makes no difference")
	}
}
