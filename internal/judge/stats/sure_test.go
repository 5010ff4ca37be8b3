package stats

import (
	"math"
	"testing"
)

// TestSureRank: the largest of two samples is above the p99 with a chance of 1 - 0.99^2 = 2 %, the smaller one with
// 0.01 %; of fifteen, two or more are with 0.96 %, and of sixteen with 1.1 %.
func TestSureRank(t *testing.T) {
	for n, want := range map[int]int{0: 1, 1: 1, 2: 1, 15: 14, 16: 14, 1000: 982} {
		if got := SureRank(n, 99); got != want {
			t.Errorf("of %d samples the %d. is below the p99, want the %d.", n, got, want)
		}
	}
}

// TestWilson has values from the score interval's formula by hand: 9 of 10 at 95 %.
func TestWilson(t *testing.T) {
	in := Wilson(9, 10, 0.95)
	if math.Abs(in.Low-0.5958) > 1e-3 || math.Abs(in.High-0.9821) > 1e-3 {
		t.Errorf("9 of 10: %+v", in)
	}
	if in := Wilson(0, 0, 0.95); in != (Interval{0, 1}) {
		t.Errorf("none of none: %+v", in)
	}
	if in := Wilson(200, 200, 0.95); in.High != 1 || in.Low < 0.98 {
		t.Errorf("200 of 200: %+v", in)
	}
}
