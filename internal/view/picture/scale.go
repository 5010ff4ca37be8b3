package picture

import (
	"math"
	"strconv"

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

// place is where a value lies on its axis. Nines are laid out here; axis does the rest.
func place(a curve.Axis, v float64) float64 {
	if a.Scale == curve.Nines {
		return -math.Log10(1 - v/100)
	}
	return v
}

// setScale gives an axis its scale and ticks.
func setScale(s *axis, a curve.Axis) {
	if s.min > s.max { // no point
		s.min, s.max = 0, 1
	}
	switch a.Scale {
	case curve.Log:
		if s.min <= 0 { // no point: the empty range
			s.min, s.max = 1, 10
		}
		if s.min == s.max {
			s.min, s.max = s.min/2, s.max*2
		}
		s.log, s.ticks = true, logTicks
	case curve.Nines:
		s.ticks = nineTicks
	default:
		if a.Zero && s.min > 0 {
			s.min = 0
		}
		if s.min == s.max {
			s.max = s.min + 1
		}
		s.ticks = plainTicks
	}
}

// logTicks label 1, 2 and 5 of each decade, only the decades where there are many.
func logTicks(low, high float64) []tick {
	var out []tick
	decades := math.Log10(high / low)
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		for m := 1.0; m < 10; m++ {
			v := m * math.Pow(10, e)
			if v < low*(1-1e-9) || v > high*(1+1e-9) {
				continue
			}
			t := tick{value: v}
			if m == 1 || decades < 3 && (m == 2 || m == 5) {
				t.label = number(v)
			}
			out = append(out, t)
		}
	}
	return out
}

// nineTicks label the percentiles people name.
func nineTicks(low, high float64) []tick {
	var out []tick
	for _, p := range []float64{0, 50, 75, 90, 95, 99, 99.9, 99.99, 99.999} {
		if v := -math.Log10(1 - p/100); v >= low-1e-9 && v <= high+1e-9 {
			out = append(out, tick{value: v, label: number(p)})
		}
	}
	return out
}

// plainTicks are at 1, 2 or 5 times a power of ten, four to nine of them.
func plainTicks(low, high float64) []tick {
	raw := (high - low) / 5
	unit := math.Pow(10, math.Floor(math.Log10(raw)))
	step := 10 * unit
	for _, m := range []float64{1, 2, 5} {
		if m*unit >= raw*0.75 {
			step = m * unit
			break
		}
	}
	var out []tick
	for k := math.Ceil(low/step - 1e-9); k*step <= high*(1+1e-9); k++ {
		out = append(out, tick{value: k * step, label: number(k * step)})
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
