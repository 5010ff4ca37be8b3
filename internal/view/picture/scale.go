package picture

import (
	"math"
	"strconv"

	"gonum.org/v1/plot"

	"spate/internal/view/curve"
)

// shows reports whether an axis has a place for a value.
func shows(a curve.Axis, v float64) bool {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return false
	case a.Scale == curve.Log:
		return v > 0
	case a.Scale == curve.Nines:
		return v < 100
	}
	return true
}

// place is where a value lies on its axis. Nines are laid out here; the plot's own scales do the rest.
func place(a curve.Axis, v float64) float64 {
	if a.Scale == curve.Nines {
		return -math.Log10(1 - v/100)
	}
	return v
}

// setScales gives the axes their scale and ticks.
func setScales(p *plot.Plot, c *curve.Chart) {
	setScale(&p.X, c.X)
	setScale(&p.Y, c.Y)
}

func setScale(axis *plot.Axis, a curve.Axis) {
	if axis.Min > axis.Max { // no point
		axis.Min, axis.Max = 0, 1
	}
	switch a.Scale {
	case curve.Log:
		if axis.Min <= 0 { // no point: the empty range
			axis.Min, axis.Max = 1, 10
		}
		if axis.Min == axis.Max {
			axis.Min, axis.Max = axis.Min/2, axis.Max*2
		}
		axis.Scale, axis.Tick.Marker = plot.LogScale{}, plot.TickerFunc(logTicks)
	case curve.Nines:
		axis.Tick.Marker = plot.TickerFunc(nineTicks)
	default:
		if a.Zero && axis.Min > 0 {
			axis.Min = 0
		}
		if axis.Min == axis.Max {
			axis.Max = axis.Min + 1
		}
		axis.Tick.Marker = plot.TickerFunc(plainTicks)
	}
}

// logTicks label 1, 2 and 5 of each decade, only the decades where there are many.
func logTicks(low, high float64) []plot.Tick {
	var out []plot.Tick
	decades := math.Log10(high / low)
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		for m := 1.0; m < 10; m++ {
			v := m * math.Pow(10, e)
			if v < low*(1-1e-9) || v > high*(1+1e-9) {
				continue
			}
			t := plot.Tick{Value: v}
			if m == 1 || decades < 3 && (m == 2 || m == 5) {
				t.Label = number(v)
			}
			out = append(out, t)
		}
	}
	return out
}

// nineTicks label the percentiles people name.
func nineTicks(low, high float64) []plot.Tick {
	var out []plot.Tick
	for _, p := range []float64{0, 50, 75, 90, 95, 99, 99.9, 99.99, 99.999} {
		if v := -math.Log10(1 - p/100); v >= low-1e-9 && v <= high+1e-9 {
			out = append(out, plot.Tick{Value: v, Label: number(p)})
		}
	}
	return out
}

// plainTicks are at 1, 2 or 5 times a power of ten, four to nine of them.
func plainTicks(low, high float64) []plot.Tick {
	raw := (high - low) / 5
	unit := math.Pow(10, math.Floor(math.Log10(raw)))
	step := 10 * unit
	for _, m := range []float64{1, 2, 5} {
		if m*unit >= raw*0.75 {
			step = m * unit
			break
		}
	}
	var out []plot.Tick
	for k := math.Ceil(low/step - 1e-9); k*step <= high*(1+1e-9); k++ {
		out = append(out, plot.Tick{Value: k * step, Label: number(k * step)})
	}
	return out
}

// number writes a value shortly: 12, 0.5, 20k.
func number(v float64) string {
	v = math.Round(v*1e9)/1e9 + 0 // no -0
	switch {
	case math.Abs(v) >= 1e6:
		return strconv.FormatFloat(v/1e6, 'g', 4, 64) + "M"
	case math.Abs(v) >= 1e4:
		return strconv.FormatFloat(v/1e3, 'g', 4, 64) + "k"
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}
