package stats

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// series makes an AR(1) process around 10: rho 0 is independent.
func series(r *rand.Rand, n int, rho float64) []float64 {
	xs := make([]float64, n)
	x := r.NormFloat64() / math.Sqrt(1-rho*rho)
	for i := range xs {
		xs[i] = 10 + x
		x = rho*x + r.NormFloat64()
	}
	return xs
}

func TestDependOnKnownProcesses(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, tt := range []struct {
		name     string
		rho      float64
		low, top float64 // effective share of n: (1-rho)/(1+rho)
	}{
		{"independent", 0, 0.7, 1},
		{"mild", 0.5, 0.22, 0.5},  // 1/3
		{"strong", 0.9, 0.03, .1}, // 1/19
	} {
		t.Run(tt.name, func(t *testing.T) {
			const n = 20000
			d := Depend(series(r, n, tt.rho))
			if s := d.Size / n; s < tt.low || s > tt.top {
				t.Errorf("effective share %v, want %v..%v", s, tt.low, tt.top)
			}
			// Optimal block for AR(1): (1.5 (2 rho/(1-rho^2))^2 n)^(1/3).
			g := 2 * tt.rho / (1 - tt.rho*tt.rho)
			want := math.Cbrt(1.5 * g * g * n)
			if f := float64(d.Block); f > 2*want+3 || f < want/2-1 {
				t.Errorf("block %d, want about %.0f", d.Block, want)
			}
		})
	}
}

func TestDependDegenerate(t *testing.T) {
	for name, xs := range map[string][]float64{
		"empty": nil, "one": {1}, "constant": slices.Repeat([]float64{3}, 50), "two": {1, 2},
	} {
		if d := Depend(xs); d.Block != 1 || d.Size != float64(len(xs)) {
			t.Errorf("%s: %+v, want block 1 and the full size", name, d)
		}
	}
}

// Intervals must hold the truth about as often as they claim, dependent samples included.
func TestBootstrapCoverage(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, tt := range []struct {
		name string
		rho  float64
	}{{"independent", 0}, {"dependent", 0.7}} {
		t.Run(tt.name, func(t *testing.T) {
			const rounds = 60
			mean, median := 0, 0
			for range rounds {
				xs := series(r, 300, tt.rho)
				b := Bootstrap(Groups{Values: xs}, []float64{50}, 0.95, r)
				if b.Mean.Low <= 10 && 10 <= b.Mean.High {
					mean++
				}
				if q := b.Quantiles[0]; q.Low <= 10 && 10 <= q.High {
					median++
				}
			}
			// 60 rounds at 95 %: fewer than 48 has a chance below 1 in 100,000; block methods
			// undercover a little.
			if mean < 48 || median < 48 {
				t.Errorf("covered mean %d, median %d of %d", mean, median, rounds)
			}
		})
	}
}

func TestBootstrapIsDeterministic(t *testing.T) {
	xs := series(rand.New(rand.NewPCG(1, 1)), 500, 0.3)
	run := func() Bootstrapped {
		return Bootstrap(Groups{Values: xs}, []float64{50, 99}, 0.95, rand.New(rand.NewPCG(2, 2)))
	}
	a, b := run(), run()
	if a.Mean != b.Mean || !slices.Equal(a.Quantiles, b.Quantiles) {
		t.Errorf("same seed, different intervals: %v %v", a, b)
	}
}

// Redrawing a part must give about the width of redrawing all: sigma/sqrt(n)*1.96 for the mean.
func TestBootstrapPartialDraw(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	const n = 50000
	b := Bootstrap(Groups{Values: series(r, n, 0)}, []float64{50}, 0.95, r)
	want := 2 * 1.96 / math.Sqrt(n)
	if w := b.Mean.High - b.Mean.Low; w < want*0.8 || w > want*1.25 {
		t.Errorf("width %v, want about %v", w, want)
	}
}

// Values that are equal within a group carry no more information than one of them.
func TestBootstrapRespectsGroups(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	base := series(r, 400, 0)
	var g Groups
	for _, x := range base {
		g.Values = append(g.Values, x, x, x, x)
		g.Ends = append(g.Ends, len(g.Values))
	}
	grouped := Bootstrap(g, []float64{50}, 0.95, r)
	single := Bootstrap(Groups{Values: base}, []float64{50}, 0.95, r)
	a, b := grouped.Mean.High-grouped.Mean.Low, single.Mean.High-single.Mean.Low
	if a < b*0.75 || a > b*1.35 {
		t.Errorf("grouped width %v, single %v: should be alike", a, b)
	}
}

// Percentiles of a replicate against sorting it, in any order of percentiles and with ties.
func TestPickAgainstSorting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		xs := floats(1).Draw(t, "xs")
		ps := rapid.SliceOfN(rapid.Float64Range(0, 100), 1, 5).Draw(t, "ps")
		b := booter{percentiles: ps}
		draws := make([][]float64, 1+len(ps))
		for i := range draws {
			draws[i] = make([]float64, 1)
		}
		for i := range ps {
			b.falling = append(b.falling, i)
		}
		slices.SortFunc(b.falling, func(i, j int) int { return cmp.Compare(ps[j], ps[i]) })
		b.pick(slices.Clone(xs), draws, 0)
		for i, p := range ps {
			if got, want := draws[1+i][0], Percentile(xs, p); got != want {
				t.Fatalf("p%v = %v, want %v", p, got, want)
			}
		}
	})
}

func TestBootstrapIgnoresEmptyGroups(t *testing.T) {
	full := Groups{Values: []float64{1, 2, 3, 4, 5, 6, 7, 8, 9}, Ends: []int{1, 2, 3, 4, 5, 6, 7, 8, 9}}
	gaps := Groups{Values: full.Values, Ends: []int{0, 0, 1, 2, 2, 2, 3, 4, 5, 6, 7, 8, 9, 9}}
	run := func(g Groups) Bootstrapped { return Bootstrap(g, []float64{50}, 0.95, rand.New(rand.NewPCG(1, 2))) }
	if a, b := run(full), run(gaps); a.Mean != b.Mean || a.Groups != b.Groups {
		t.Errorf("with empty groups %+v, without %+v", b, a)
	}
	if b := run(Groups{Ends: make([]int, 20)}); b.OK {
		t.Error("interval from empty groups only")
	}
}

func TestBootstrapNeedsGroups(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	if b := Bootstrap(Groups{Values: make([]float64, bootGroups-1)}, []float64{50}, 0.95, r); b.OK {
		t.Error("interval from too few samples")
	}
	b := Bootstrap(Groups{Values: slices.Repeat([]float64{4}, bootGroups)}, []float64{50}, 0.95, r)
	if want := (Interval{4, 4}); !b.OK || b.Mean != want || b.Quantiles[0] != want {
		t.Errorf("constant sample: %+v, want %v", b, want)
	}
}

func BenchmarkBootstrap100k(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	xs := series(r, 100_000, 0.6)
	for b.Loop() {
		Bootstrap(Groups{Values: xs}, []float64{50, 90, 99}, 0.95, r)
	}
}

func BenchmarkArrange1M(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	xs := make([]float64, 1_000_000)
	work := make([]float64, len(xs))
	for i := range xs {
		xs[i] = r.ExpFloat64() * 0.01
	}
	ranks := Ranks(len(xs), []float64{50, 90, 95, 99}, 0.95)
	for b.Loop() {
		copy(work, xs)
		Arrange(work, ranks)
	}
}
