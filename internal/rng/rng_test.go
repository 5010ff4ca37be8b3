package rng

import (
	"math"
	"slices"
	"testing"
)

func TestNewIsReproducible(t *testing.T) {
	// Pinned: a seed must mean the same run in every later version.
	r := New(42, "lengths", 7)
	got := []uint64{r.Uint64(), r.Uint64(), r.Uint64()}
	want := []uint64{0x6b0a5ad56c5cf01, 0xce0e8484360714ed, 0x77a26a98b1b6284c}
	if !slices.Equal(got, want) {
		t.Errorf("New(42, lengths, 7) draws %#x, want %#x", got, want)
	}
}

func TestNewStreamsDiffer(t *testing.T) {
	first := map[uint64]string{}
	add := func(label string, seed uint64, name string, index ...uint64) {
		v := New(seed, name, index...).Uint64()
		if other, taken := first[v]; taken {
			t.Errorf("%s and %s start with the same draw", label, other)
		}
		first[v] = label
	}
	add("plain", 0, "a")
	add("other seed", 1, "a")
	add("other name", 0, "b")
	add("empty name", 0, "")
	add("longer name", 0, "a\x00")
	add("nine bytes", 0, "aaaaaaaaa")
	add("ten bytes", 0, "aaaaaaaaaa")
	add("index 0", 0, "a", 0)
	add("index 0 0", 0, "a", 0, 0)
	add("index 0 1", 0, "a", 0, 1)
	add("index 1 0", 0, "a", 1, 0)
}

// Neighbouring streams must look independent: the first draws of 4,096 indexed streams are uniform and
// uncorrelated from one index to the next.
func TestNewNeighboursAreIndependent(t *testing.T) {
	const n = 4096
	xs := make([]float64, n)
	var mean float64
	for i := range xs {
		xs[i] = New(0, "request", uint64(i)).Float64()
		mean += xs[i] / n
	}
	if d := math.Abs(mean - 0.5); d > 4/math.Sqrt(12*n) {
		t.Errorf("mean of first draws %v", mean)
	}
	var cov float64
	for i := 1; i < n; i++ {
		cov += (xs[i] - 0.5) * (xs[i-1] - 0.5) * 12 / n
	}
	if math.Abs(cov) > 4/math.Sqrt(n) {
		t.Errorf("correlation of neighbours %v", cov)
	}
}

func TestPythonSeedZero(t *testing.T) {
	p := NewPython(0)
	if got := []float64{p.Random(), p.Random(), p.Random()}; !slices.Equal(got, []float64{0.8444218515250481, 0.7579544029403025, 0.420571580830845}) {
		t.Errorf("random() draws %v", got)
	}
	if got := shuffled(10, NewPython(0).Shuffle); !slices.Equal(got, []int{7, 8, 1, 5, 3, 4, 2, 0, 9, 6}) {
		t.Errorf("shuffle gives %v", got)
	}
	if got := NewPython(0).Choices(100, 8); !slices.Equal(got, []int{84, 75, 42, 25, 51, 40, 78, 30}) {
		t.Errorf("choices gives %v", got)
	}
}

func TestFloatSpecialValues(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	cases := []struct {
		name      string
		got, want float64
	}{
		{"log of zero", Log(0), -inf},
		{"log of one", Log(1), 0},
		{"log of infinity", Log(inf), inf},
		{"log of a negative", Log(-1), nan},
		{"log of NaN", Log(nan), nan},
		{"exp of NaN", Exp(nan), nan},
		{"exp of infinity", Exp(inf), inf},
		{"exp of minus infinity", Exp(-inf), 0},
		{"exp overflows", Exp(709.79), inf},
		{"exp underflows", Exp(-745.2), 0},
		{"pow of zero", Pow(0, 2), 0},
		{"pow to zero", Pow(7, 0), 1},
		{"pow to one", Pow(0.3, 1), 0.3},
		{"pow of one", Pow(1, 1e300), 1},
		{"pow overflows", Pow(10, 400), inf},
		{"pow underflows", Pow(10, -400), 0},
		{"pow to infinity", Pow(0.5, inf), 0},
	}
	for _, c := range cases {
		if c.got != c.want && !(math.IsNaN(c.got) && math.IsNaN(c.want)) {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
}

// Moments of the distributions, so that a mistake shared with the goldens would still show.
func TestLegacyMoments(t *testing.T) {
	const n = 200_000
	moments := func(f func() float64) (mean, variance float64) {
		var s, q float64
		for range n {
			x := f()
			s += x
			q += x * x
		}
		mean = s / n
		return mean, q/n - mean*mean
	}
	for _, shape := range []float64{0.3, 1, 4} {
		l := NewLegacy(9)
		mean, variance := moments(func() float64 { return l.Gamma(shape, 2) })
		if math.Abs(mean/(2*shape)-1) > 0.02 || math.Abs(variance/(4*shape)-1) > 0.05 {
			t.Errorf("gamma shape %v: mean %v, variance %v", shape, mean, variance)
		}
	}
	l := NewLegacy(9)
	if mean, variance := moments(l.StandardNormal); math.Abs(mean) > 0.01 || math.Abs(variance-1) > 0.02 {
		t.Errorf("normal: mean %v, variance %v", mean, variance)
	}
}

func TestMisusePanics(t *testing.T) {
	cases := map[string]func(){
		"numpy empty range":     func() { NewNumpy(0).Integers(3, 3) },
		"numpy inverted range":  func() { NewNumpy(0).IntegersInclusive(3, 2) },
		"numpy too many":        func() { NewNumpy(0).ChoiceDistinct(3, 4) },
		"legacy empty range":    func() { NewLegacy(0).Integers(3, 3) },
		"python nothing below":  func() { NewPython(0).RandBelow(0) },
		"python empty range":    func() { NewPython(0).RandRange(3, 3) },
		"python sample too big": func() { NewPython(0).Sample(3, 4) },
		"python bits":           func() { NewPython(0).GetRandBits(65) },
	}
	for name, f := range cases {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

func BenchmarkNumpyIntegers100k(b *testing.B) {
	dst := make([]int64, 100_000)
	for b.Loop() {
		NewNumpy(0).FillIntegers(dst, 0, 50257)
	}
}

func BenchmarkLegacyGamma100k(b *testing.B) {
	for _, c := range []struct {
		name  string
		shape float64
	}{{"shape=0.5", 0.5}, {"shape=1", 1}, {"shape=5", 5}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				l := NewLegacy(0)
				for range 100_000 {
					l.Gamma(c.shape, 1)
				}
			}
		})
	}
}

func BenchmarkPythonShuffle100k(b *testing.B) {
	xs := make([]int, 100_000)
	for b.Loop() {
		NewPython(0).Shuffle(len(xs), func(i, j int) { xs[i], xs[j] = xs[j], xs[i] })
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		New(1, "request", 5)
	}
}

// TestSplitMix has the first numbers that SplitMix64 draws from seed 0, as its authors print them.
func TestSplitMix(t *testing.T) {
	state := uint64(0)
	for i, want := range []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f} {
		if got := SplitMix(state); got != want {
			t.Errorf("number %d is %#x, want %#x", i, got, want)
		}
		state += step
	}
}
