package stats

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"pgregory.net/rapid"
)

func near(t *testing.T, name string, got, want, tol float64) {
	t.Helper()
	if math.Abs(got-want) > tol {
		t.Errorf("%s = %v, want %v (within %g)", name, got, want, tol)
	}
}

// floats draws samples like latencies: finite, of mixed size, with repeats.
func floats(low int) *rapid.Generator[[]float64] {
	return rapid.SliceOfN(rapid.OneOf(
		rapid.Float64Range(0, 1e3), rapid.Float64Range(-1e-3, 1e-3),
		rapid.SampledFrom([]float64{0, 1, 0.5, 1e9})), low, 400)
}

func TestPercentileKnownValues(t *testing.T) {
	for _, tt := range []struct {
		name string
		xs   []float64
		p    float64
		want float64
	}{
		{"empty", nil, 99, 0},
		{"one", []float64{7}, 99, 7},
		{"median of four", []float64{4, 1, 3, 2}, 50, 2.5},
		{"rank 0.25*3 = 0.75", []float64{1, 2, 3, 4}, 25, 1.75},
		{"rank 0.9*4 = 3.6", []float64{10, 20, 30, 40, 50}, 90, 46},
		{"rank 0.99*9 = 8.91", []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 99, 9.91},
		{"minimum", []float64{3, 1, 2}, 0, 1},
		{"maximum", []float64{3, 1, 2}, 100, 3},
		{"infinite neighbour", []float64{1, 2, math.Inf(1)}, 75, math.Inf(1)},
		{"rank exactly before the infinite one", []float64{1, 2, math.Inf(1)}, 50, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Percentile(tt.xs, tt.p); got != tt.want && math.Abs(got-tt.want) > 1e-12 {
				t.Errorf("Percentile(%v, %v) = %v, want %v", tt.xs, tt.p, got, tt.want)
			}
		})
	}
}

func TestPercentileName(t *testing.T) {
	for p, want := range map[float64]string{99: "p99", 99.9: "p99.9", 50: "p50", 99.99: "p99.99", 5: "p5", 0: "p0"} {
		if got := PercentileName(p); got != want {
			t.Errorf("PercentileName(%v) = %q, want %q", p, got, want)
		}
	}
}

// The naive percentile: sort, take the two neighbours of the rank, mix.
func TestPercentileAgainstNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		xs := floats(1).Draw(t, "xs")
		p := rapid.Float64Range(0, 100).Draw(t, "p")
		before := slices.Clone(xs)
		got := Percentile(xs, p)
		if !slices.Equal(before, xs) {
			t.Fatal("input changed")
		}
		s := slices.Clone(xs)
		sort.Float64s(s)
		rank := p / 100 * float64(len(s)-1)
		lo := int(math.Floor(rank))
		hi := min(lo+1, len(s)-1)
		want := s[lo]*(1-(rank-float64(lo))) + s[hi]*(rank-float64(lo))
		if math.Abs(got-want) > 1e-9*math.Max(1, math.Abs(want)) {
			t.Fatalf("Percentile(%v) = %v, want %v", p, got, want)
		}
		if got < s[0] || got > s[len(s)-1] {
			t.Fatalf("%v outside of the sample", got)
		}
		if m := Median(xs); math.Abs(m-Percentile(xs, 50)) > 1e-9*math.Max(1, math.Abs(m)) {
			t.Fatalf("median %v differs from p50", m)
		}
	})
}

// NumPy adds eight lanes and then the lanes pairwise: here 1e16 swallows both ones, while adding
// from the left would keep the last.
func TestSumOrder(t *testing.T) {
	xs := []float64{1e16, 1, -1e16, 1, 0, 0, 0, 0}
	if got := Sum(xs); got != 0 {
		t.Errorf("Sum of eight = %v, want 0: lanes (1e16+1)+(-1e16+1)", got)
	}
	if got := Sum(xs[:4]); got != 1 {
		t.Errorf("Sum of four = %v, want 1: from the left", got)
	}
	// 129 values split at 64: the halves are summed apart.
	long := make([]float64, 129)
	long[0], long[1], long[64], long[65] = 1e16, 1, -1e16, 1
	if got := Sum(long); got != 0 {
		t.Errorf("Sum of 129 = %v, want 0", got)
	}
}

func TestMomentsAgainstExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		xs := floats(0).Draw(t, "xs")
		exact := new(big.Float).SetPrec(300)
		for _, x := range xs {
			exact.Add(exact, big.NewFloat(x))
		}
		want, _ := exact.Float64()
		scale := 1.0
		for _, x := range xs {
			scale += math.Abs(x)
		}
		if got := Sum(xs); math.Abs(got-want) > 1e-14*scale {
			t.Fatalf("Sum = %v, want %v", got, want)
		}
		if len(xs) == 0 {
			if Mean(xs) != 0 || Std(xs) != 0 || Median(xs) != 0 {
				t.Fatal("an empty sample must be all zeros")
			}
			return
		}
		mean := want / float64(len(xs))
		ss := 0.0
		for _, x := range xs {
			ss += (x - mean) * (x - mean)
		}
		if got, want := Std(xs), math.Sqrt(ss/float64(len(xs))); math.Abs(got-want) > 1e-9*scale {
			t.Fatalf("Std = %v, want %v", got, want)
		}
	})
}

func TestStdIsPopulation(t *testing.T) {
	// deviations -3 -1 -1 -1 0 0 2 4, squares sum to 32, 32/8 = 4
	near(t, "Std", Std([]float64{2, 4, 4, 4, 5, 5, 7, 9}), 2, 0)
}

func TestArrangeAgainstSorting(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	ps := []float64{99, 50, 99.9, 0, 100, 37.5}
	for _, n := range []int{0, 1, 2, arrangeFrom - 1, arrangeFrom, 3*arrangeFrom + 7} {
		for name, gen := range map[string]func(int) float64{
			"normal":   func(int) float64 { return r.NormFloat64() },
			"equal":    func(int) float64 { return 3 },
			"few":      func(int) float64 { return float64(r.IntN(4)) - 1 },
			"rising":   func(i int) float64 { return float64(i) },
			"falling":  func(i int) float64 { return -float64(i) },
			"organ":    func(i int) float64 { return float64(min(i, n-i)) },
			"infinite": func(i int) float64 { return []float64{math.Inf(1), -1, 0, math.Inf(-1)}[i%4] },
		} {
			xs := make([]float64, n)
			for i := range xs {
				xs[i] = gen(i)
			}
			want := slices.Clone(xs)
			slices.Sort(want)
			ranks := Ranks(n, ps, 0.95)
			Arrange(xs, ranks)
			for _, k := range ranks {
				if xs[k] != want[k] {
					t.Errorf("%s %d: rank %d = %v, want %v", name, n, k, xs[k], want[k])
				}
			}
			for _, p := range ps {
				if a, b := SortedPercentile(xs, p), SortedPercentile(want, p); a != b && !math.IsNaN(b) {
					t.Errorf("%s %d: p%v = %v, want %v", name, n, p, a, b)
				}
				if a, b := QuantileInterval(Sorted(xs), p, 0.95), QuantileInterval(Sorted(want), p, 0.95); a != b {
					t.Errorf("%s %d: interval of p%v = %v, want %v", name, n, p, a, b)
				}
			}
			if a, b := SortedMedian(xs), SortedMedian(want); a != b && !math.IsNaN(b) {
				t.Errorf("%s %d: median = %v, want %v", name, n, a, b)
			}
			slices.Sort(xs)
			if !slices.Equal(xs, want) {
				t.Errorf("%s %d: values were lost", name, n)
			}
		}
	}
}

func TestSortUintsKeepsPayloadWithItsKey(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{0, 5, 2 * radixFrom} {
		keys := make([]uint64, n)
		for i := range keys {
			keys[i] = r.Uint64N(1<<30)<<16 | uint64(i&0xffff)
		}
		want := slices.Clone(keys)
		slices.SortStableFunc(want, func(a, b uint64) int { return int(int64(a>>16) - int64(b>>16)) })
		SortUints(keys, nil, 16)
		for i := range keys {
			if keys[i]>>16 != want[i]>>16 {
				t.Fatalf("n=%d: key %d out of order", n, i)
			}
		}
		slices.Sort(keys)
		slices.Sort(want)
		if !slices.Equal(keys, want) {
			t.Fatalf("n=%d: payloads were lost", n)
		}
	}
}

func TestFloor(t *testing.T) {
	for _, tt := range []struct {
		p    float64
		want int
	}{
		// 1 - p^n - (1-p)^n >= 0.95; for p99 that is 0.99^n <= 0.05, n >= 298.07
		{99, 299},
		{1, 299},
		{99.9, 2995},
		{95, 59}, // 0.95^59 = 0.0485
		{90, 29}, // 0.9^29 = 0.0471
		{50, 6},  // 2*0.5^6 = 0.03125
		{0, 1},
		{100, 1},
	} {
		if got := Floor(tt.p, 0.95); got != tt.want {
			t.Errorf("Floor(%v) = %d, want %d", tt.p, got, tt.want)
		}
	}
}

// TestFloorEnds asks for percentiles so close to the ends that rounding decides: there is an answer at once.
func TestFloorEnds(t *testing.T) {
	for _, p := range []float64{99.99999999999999, 1e-14, 1e-300, math.Nextafter(100, 0)} {
		if got := Floor(p, 0.95); got < 1e12 {
			t.Errorf("Floor(%v) = %d", p, got)
		}
	}
}

// The floor is where bounds on both sides first exist, give or take that they split the error
// evenly, which the floor need not.
func TestBoundsExistAboveFloor(t *testing.T) {
	for _, p := range []float64{5, 10, 50, 75, 90, 95, 99} {
		n := Floor(p, 0.95)
		if b := QuantileBounds(n-1, p, 0.95); b.Low >= 1 && b.High <= n-1 {
			t.Errorf("p%v: bounded on both sides with %d samples, below the floor", p, n-1)
		}
		if b := QuantileBounds(2*n, p, 0.95); b.Low < 1 || b.High > 2*n {
			t.Errorf("p%v: still unbounded with %d samples: %v", p, 2*n, b)
		}
	}
}

func TestQuantileBoundsKnown(t *testing.T) {
	// The sign-test interval of the median of 10 samples at 95 %: 2nd to 9th (coverage 97.9 %).
	if got, want := QuantileBounds(10, 50, 0.95), (Bounds{2, 9}); got != want {
		t.Errorf("median of 10: %v, want %v", got, want)
	}
	if got, want := QuantileBounds(5, 50, 0.95), (Bounds{0, 6}); got != want {
		t.Errorf("median of 5: %v, want unbounded %v", got, want)
	}
}

// Bounds against the naive sum of binomial probabilities.
func TestQuantileBoundsAgainstNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "n")
		p := rapid.Float64Range(0.5, 99.5).Draw(t, "p")
		q := p / 100
		want := Bounds{0, n + 1}
		cdf := 0.0
		for k := range n {
			cdf += math.Exp(logBinomial(n, k, q))
			if math.Abs(cdf-0.025) < 1e-9 || math.Abs(cdf-0.975) < 1e-9 {
				t.Skip("on the edge: rounding decides")
			}
			if cdf <= 0.025 {
				want.Low = k + 1
			}
			if cdf >= 0.975 && want.High == n+1 {
				want.High = k + 1
			}
		}
		if got := QuantileBounds(n, p, 0.95); got != want {
			t.Fatalf("n=%d p=%v: %v, want %v", n, p, got, want)
		}
	})
}

func TestQuantileIntervalCovers(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const rounds = 600
	for _, p := range []float64{50, 90, 99} {
		covered := 0
		truth := -math.Log(1 - p/100) // quantile of the exponential
		xs := make([]float64, 400)
		for range rounds {
			for i := range xs {
				xs[i] = r.ExpFloat64()
			}
			slices.Sort(xs)
			if in := QuantileInterval(Sorted(xs), p, 0.95); in.Low <= truth && truth <= in.High {
				covered++
			}
		}
		if got := float64(covered) / rounds; got < 0.92 {
			t.Errorf("p%v: covered %v of the time, want at least 0.95", p, got)
		}
	}
}

func TestStudentT(t *testing.T) {
	for df, want := range map[int]float64{1: 12.7062, 5: 2.5706, 19: 2.0930, 100: 1.9840} {
		near(t, fmt.Sprintf("t(%d)", df), CriticalT(float64(df), 0.95), want, 5e-5*want)
	}
}

func TestBatchMeans(t *testing.T) {
	// mean 10, sample variance (4+0+4)/2 = 4, half width t(2)=4.3027 * sqrt(4/3) = 4.9683
	in, ok := BatchMeans([]float64{8, 10, 12}, 0.95)
	if !ok {
		t.Fatal("no interval from three batches")
	}
	near(t, "low", in.Low, 10-4.9683, 1e-3)
	near(t, "high", in.High, 10+4.9683, 1e-3)
	if _, ok := BatchMeans([]float64{8}, 0.95); ok {
		t.Error("one batch gave an interval")
	}
}
