package stats

import (
	"math"
	"slices"
	"testing"

	"spate/internal/rng"
)

// The values are those of printed tables of Student's distribution.
func TestCriticalT(t *testing.T) {
	for name, c := range map[string]struct{ df, confidence, want float64 }{
		"one degree":       {1, 0.95, 12.706},
		"two degrees":      {2, 0.95, 4.303},
		"four at 99":       {4, 0.99, 4.604},
		"ten":              {10, 0.95, 2.228},
		"thirty":           {30, 0.95, 2.042},
		"normal":           {math.Inf(1), 0.95, 1.95996},
		"one-sided 80 %":   {math.Inf(1), 0.60, 0.84162},
		"far tail":         {4, 1 - 0.05/15, 6.2541},
		"almost as normal": {9e4, 0.95, 1.95999},
	} {
		near(t, name, CriticalT(c.df, c.confidence), c.want, 2e-3)
	}
}

func TestTailTIsTheInverseOfCriticalT(t *testing.T) {
	for _, df := range []float64{1, 2, 3.7, 12, 400, 99_000, math.Inf(1)} {
		for _, conf := range []float64{0.5, 0.9, 0.95, 0.999, 1 - 1e-7} {
			near(t, "tail at the critical value", TailT(CriticalT(df, conf), df), 1-conf, 1e-9)
		}
		near(t, "tail at 0", TailT(0, df), 1, 1e-12)
	}
	for _, df := range []float64{1.3, 2.5, 7.9, 40.2} {
		near(t, "tail against the integral of the density", TailT(1.7, df), 1-studentInside(1.7, df), 1e-8)
	}
	for k := 1; k <= 30; k++ {
		near(t, "density inside the critical values", studentInside(CriticalT(float64(k), 0.95), float64(k)), 0.95, 1e-6)
	}
	if TailT(math.Inf(1), 3) != 0 || TailT(math.NaN(), 3) != 1 {
		t.Error("infinite and undefined t")
	}
}

// With a = 1..4 and b = 3..6, b is above a in 12 of 16 pairs and equal in 2.
func TestMannWhitney(t *testing.T) {
	got := MannWhitney([]float64{1, 2, 3, 4}, []float64{3, 4, 5, 6}, 4, 4)
	near(t, "superiority", got.Superior, 14.0/16, 1e-12)
	// U = 14, mean 8, variance 4*4/12*(9 - 12/56) = 11.714; z = 6/3.4226 = 1.7530.
	near(t, "p", got.P, 0.07960, 2e-4)
	back := MannWhitney([]float64{3, 4, 5, 6}, []float64{1, 2, 3, 4}, 4, 4)
	near(t, "swapped superiority", back.Superior, 2.0/16, 1e-12)
	near(t, "swapped p", back.P, got.P, 1e-12)
	// Half the effective size doubles the variance: z = 1.7530/sqrt(2) = 1.2396.
	near(t, "p of dependent values", MannWhitney([]float64{1, 2, 3, 4}, []float64{3, 4, 5, 6}, 2, 2).P, 0.2151, 3e-4)
	if same := MannWhitney([]float64{7, 7, 7}, []float64{7, 7}, 3, 2); same.P != 1 || same.Superior != 0.5 {
		t.Errorf("equal values: %+v", same)
	}
	if none := MannWhitney(nil, []float64{1}, 0, 1); none.P != 1 {
		t.Errorf("an empty sample: %+v", none)
	}
}

// Three against three values fully apart: 2 of 20 relabelings are as far.
func TestPermute(t *testing.T) {
	r := rng.New(1, "permute")
	near(t, "apart", Permute([]float64{1, 2, 3}, []float64{7, 8, 9}, r), 0.1, 1e-12)
	near(t, "equal", Permute([]float64{5, 5}, []float64{5, 5}, r), 1, 1e-12)
	a, b := make([]float64, 20), make([]float64, 20)
	for i := range a {
		a[i], b[i] = float64(i), float64(i)+100
	}
	if p := Permute(a, b, r); p > 0.001 {
		t.Errorf("forty values apart: p = %v", p)
	}
	if p := Permute(a, a, r); p < 0.9 {
		t.Errorf("forty equal values: p = %v", p)
	}
}

// Of the 8 ways to sign three differences of one sign, two are as far.
func TestSignFlip(t *testing.T) {
	r := rng.New(1, "flip")
	near(t, "three of one sign", SignFlip([]float64{1, 2, 3}, r), 0.25, 1e-12)
	near(t, "five of one sign", SignFlip([]float64{1, 2, 3, 1, 1}, r), 2.0/32, 1e-12)
	near(t, "none", SignFlip(nil, r), 1, 0)
	many := make([]float64, 30)
	for i := range many {
		many[i] = 1 + float64(i)/100
	}
	if p := SignFlip(many, r); p > 0.001 {
		t.Errorf("thirty of one sign: p = %v", p)
	}
}

// Newcombe (1998) gives this interval for 56/70 against 48/80, method 10.
func TestShareDifference(t *testing.T) {
	in := ShareDifference(48, 80, 56, 70, 0.95)
	near(t, "low", in.Low, 0.0524, 1e-4)
	near(t, "high", in.High, 0.3339, 1e-4)
	back := ShareDifference(56, 70, 48, 80, 0.95)
	near(t, "swapped low", back.Low, -in.High, 1e-12)
	near(t, "swapped high", back.High, -in.Low, 1e-12)
	none := ShareDifference(0, 100, 0, 100, 0.95)
	near(t, "no failures", none.High, 0.0370, 1e-4)
}

// The tea-tasting table: 3 of 4 against 1 of 4 has p = 34/70.
func TestFisherExact(t *testing.T) {
	near(t, "3 of 4 against 1 of 4", FisherExact(3, 4, 1, 4), 34.0/70, 1e-9)
	near(t, "0 of 100 against 10 of 100", FisherExact(0, 100, 10, 100), 0.00154, 2e-5)
	near(t, "none at all", FisherExact(0, 50, 0, 50), 1, 1e-9)
}

// The spread of replicates of the mean is the standard error; of smaller replicates, scaled.
func TestRedrawSpread(t *testing.T) {
	for name, n := range map[string]int{"whole": 900, "in part": 40_000} {
		r := rng.New(7, "redraw/"+name)
		xs := make([]float64, n)
		for i := range xs {
			xs[i] = 10 + r.Float64()
		}
		d := Redraw(Groups{Values: xs}, []float64{50}, 1, r)
		want := math.Sqrt(1.0/12) / math.Sqrt(float64(n))
		near(t, name+": spread of the mean", Std(d.Draws[0])/want, 1, 0.15)
		near(t, name+": centre", Mean(d.Draws[0]), Mean(xs), want/2)
		// A median's standard error is 1/(2 f sqrt n), with a density of 1.
		near(t, name+": spread of the median", Std(d.Draws[1])*2*math.Sqrt(float64(n)), 1, 0.25)
	}
}

// Equal streams draw equal positions: what is a constant factor apart stays so in every replicate.
func TestRedrawKeepsPairs(t *testing.T) {
	r := rng.New(3, "values")
	a := Groups{}
	b := Groups{}
	for i := range 200 {
		for range i % 3 { // some groups are empty
			x := 1 + r.Float64()
			a.Values, b.Values = append(a.Values, x), append(b.Values, 2*x)
		}
		a.Ends, b.Ends = append(a.Ends, len(a.Values)), append(b.Ends, len(b.Values))
	}
	da := Redraw(a, []float64{50, 99}, 7, rng.New(3, "pairs"))
	db := Redraw(b, []float64{50, 99}, 7, rng.New(3, "pairs"))
	for s := range da.Draws {
		for i := range da.Draws[s] {
			near(t, "ratio of paired replicates", db.Draws[s][i]/da.Draws[s][i], 2, 1e-9)
		}
	}
	if slices.Max(da.Draws[0]) == slices.Min(da.Draws[0]) {
		t.Error("replicates do not differ")
	}
	if d := Redraw(Groups{}, nil, 1, r); len(d.Draws) != 1 || d.Estimates[0] != 0 {
		t.Errorf("no sample: %+v", d)
	}
}

// studentInside is P(|T| <= t), by Simpson's rule on the density after t = sqrt(df)*tan(a), which
// turns it into a power of the cosine on a finite range.
func studentInside(t, df float64) float64 {
	top := math.Atan(t / math.Sqrt(df))
	const steps = 400
	h := top / steps
	f := func(a float64) float64 { return math.Pow(math.Cos(a), df-1) }
	s := f(0) + f(top)
	for i := 1; i < steps; i++ {
		w := 2.0
		if i%2 == 1 {
			w = 4
		}
		s += w * f(float64(i)*h)
	}
	a, _ := math.Lgamma((df + 1) / 2)
	b, _ := math.Lgamma(df / 2)
	norm := 2 * math.Exp(a-b) / math.Sqrt(math.Pi)
	return norm * s * h / 3
}
