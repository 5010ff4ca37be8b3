package rng

import (
	"encoding/json"
	"hash/fnv"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// golden is testdata/golden.json, drawn by testdata/golden.py from CPython and NumPy themselves. Integers that
// may not fit a JSON number are strings.
type golden struct {
	Python []struct {
		Seed      string
		Random    []float64
		Bits      [][2]any
		Below     [][2]string
		RandRange [][3]int64
		Shuffle   []int
		Choice    []int
		Choices   []int
		Weighted  []int
		Sample    [][3]any
		After     float64
	}
	Numpy []struct {
		Seed          string
		Random        []float64
		Integers      [][3]any
		Scalar        []int64
		Inclusive     [][3]any
		AfterIntegers float64 `json:"after_integers"`
		Shuffle       []int
		Permutation   []int
		Choice        []int
		Distinct      [][3]any
		DistinctTail  []int `json:"distinct_tail"`
		After         float64
	}
	Legacy []struct {
		Seed        uint32
		Gamma       [][3]any
		Random      []float64
		Exponential []float64
		Normal      []float64
		Integers    [][3]any
		Shuffle     []int
		After       float64
	}
	Float struct {
		Log [][2]float64
		Exp [][2]float64
		Pow [][3]float64
	}
	Long struct {
		Integers       string
		Integers64     string
		RandomSample   string `json:"random_sample"`
		Python         string
		ExponentialSum float64      `json:"exponential_sum"`
		GammaSums      [][2]float64 `json:"gamma_sums"`
	}
}

func loadGolden(t testing.TB) golden {
	t.Helper()
	raw, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(raw, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Python) == 0 || len(g.Numpy) == 0 || len(g.Legacy) == 0 || len(g.Float.Log) == 0 {
		t.Fatal("golden.json lacks a section")
	}
	return g
}

func parse(t testing.TB, s any) int64 {
	t.Helper()
	v, err := strconv.ParseInt(s.(string), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func parseAll(t testing.TB, xs any) []int64 {
	t.Helper()
	var out []int64
	for _, x := range xs.([]any) {
		out = append(out, parse(t, x))
	}
	return out
}

func floats(xs any) []float64 {
	var out []float64
	for _, x := range xs.([]any) {
		out = append(out, x.(float64))
	}
	return out
}

func ints(xs any) []int {
	var out []int
	for _, x := range xs.([]any) {
		out = append(out, int(x.(float64)))
	}
	return out
}

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-reference +ours):\n%s", what, d)
	}
}

// draw calls f n times.
func draw[T any](n int, f func() T) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = f()
	}
	return out
}

func shuffled(n int, shuffle func(int, func(i, j int))) []int {
	xs := ascending(n)
	shuffle(n, func(i, j int) { xs[i], xs[j] = xs[j], xs[i] })
	return xs
}

func TestPythonGolden(t *testing.T) {
	for _, c := range loadGolden(t).Python {
		t.Run("seed "+c.Seed, func(t *testing.T) {
			seed, err := strconv.ParseUint(c.Seed, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			p := NewPython(seed)
			same(t, "random", c.Random, draw(len(c.Random), p.Random))
			for _, b := range c.Bits {
				same(t, "getrandbits", b[1], any(strconv.FormatUint(p.GetRandBits(int(b[0].(float64))), 10)))
			}
			for _, b := range c.Below {
				n, err := strconv.ParseUint(b[0], 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				same(t, "below "+b[0], b[1], strconv.FormatUint(p.RandBelow(n), 10))
			}
			for _, r := range c.RandRange {
				same(t, "randrange", r[2], p.RandRange(r[0], r[1]))
			}
			same(t, "shuffle", c.Shuffle, shuffled(10, p.Shuffle))
			same(t, "choice", c.Choice, draw(8, func() int { return p.Choice(1000) }))
			same(t, "choices", c.Choices, p.Choices(100, 8))
			same(t, "weighted", c.Weighted, p.ChoicesWeighted([]float64{0.5, 0.25, 3, 0.125}, 16))
			for _, s := range c.Sample {
				same(t, "sample", ints(s[2]), p.Sample(int(s[0].(float64)), int(s[1].(float64))))
			}
			same(t, "after all", c.After, p.Random())
		})
	}
}

func TestNumpyGolden(t *testing.T) {
	for _, c := range loadGolden(t).Numpy {
		t.Run("seed "+c.Seed, func(t *testing.T) {
			seed, err := strconv.ParseUint(c.Seed, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			n := NewNumpy(seed)
			same(t, "random", c.Random, draw(len(c.Random), n.Float64))
			for _, r := range c.Integers {
				got := make([]int64, 5)
				n.FillIntegers(got, parse(t, r[0]), parse(t, r[1]))
				same(t, "integers to "+r[1].(string), parseAll(t, r[2]), got)
			}
			same(t, "scalar", c.Scalar, draw(5, func() int64 { return n.Integers(0, 1000) }))
			for _, r := range c.Inclusive {
				got := make([]int64, 5)
				n.FillIntegersInclusive(got, parse(t, r[0]), parse(t, r[1]))
				same(t, "inclusive to "+r[1].(string), parseAll(t, r[2]), got)
			}
			same(t, "random after integers", c.AfterIntegers, n.Float64())
			same(t, "shuffle", c.Shuffle, shuffled(12, n.Shuffle))
			same(t, "permutation", c.Permutation, n.Permutation(9))
			same(t, "choice", c.Choice, n.Choice(50257, 8))
			for _, d := range c.Distinct {
				same(t, "distinct", ints(d[2]), n.ChoiceDistinct(int(d[0].(float64)), int(d[1].(float64))))
			}
			same(t, "distinct by tail shuffle", c.DistinctTail, n.ChoiceDistinct(10001, 201)[:8])
			same(t, "after all", c.After, n.Float64())
		})
	}
}

// lastBit reports whether two floats are equal or neighbours, which is as near as NumPy's C library comes to
// the correctly rounded value, give or take what a product with the scale adds.
func lastBit(a, b float64, steps int64) bool {
	d := int64(math.Float64bits(a)) - int64(math.Float64bits(b))
	return -steps <= d && d <= steps
}

// nearly demands equal values up to the last bits, and exactly equal ones in at least 8 of 10 places.
func nearly(t *testing.T, what string, want, got []float64, steps int64) {
	t.Helper()
	if len(want) != len(got) {
		t.Fatalf("%s: %d draws, want %d", what, len(got), len(want))
	}
	exact := 0
	for i := range want {
		if want[i] == got[i] {
			exact++
		}
		if !lastBit(want[i], got[i], steps) {
			t.Fatalf("%s: draw %d is %v, want %v", what, i, got[i], want[i])
		}
	}
	if 10*exact < 8*len(want) {
		t.Errorf("%s: only %d of %d draws exact", what, exact, len(want))
	}
}

func TestLegacyGolden(t *testing.T) {
	for _, c := range loadGolden(t).Legacy {
		t.Run("seed "+strconv.Itoa(int(c.Seed)), func(t *testing.T) {
			for _, g := range c.Gamma {
				shape := g[0].(float64)
				l := NewLegacy(c.Seed)
				got := draw(64, func() float64 { return l.Gamma(shape, 1/(3*shape)) })
				nearly(t, "gamma", floats(g[1]), got, 2)
				// The uniform after the gammas shows that exactly as many words were used.
				same(t, "random after gamma", g[2].(float64), l.Float64())
			}
			l := NewLegacy(c.Seed)
			same(t, "random", c.Random, draw(len(c.Random), l.Float64))
			nearly(t, "exponential", c.Exponential, draw(64, func() float64 { return l.Exponential(0.25) }), 1)
			nearly(t, "normal", c.Normal, draw(33, func() float64 { return l.Normal(10, 3) }), 2)
			for _, r := range c.Integers {
				got := draw(5, func() int64 { return l.Integers(parse(t, r[0]), parse(t, r[1])) })
				same(t, "integers to "+r[1].(string), parseAll(t, r[2]), got)
			}
			same(t, "shuffle", c.Shuffle, shuffled(12, l.Shuffle))
			same(t, "after all", c.After, l.Float64())
		})
	}
}

// The float functions must be correctly rounded, which is the only result that is the same everywhere by
// definition. The reference is 60-digit arithmetic.
func TestFloatGolden(t *testing.T) {
	g := loadGolden(t).Float
	for _, c := range g.Log {
		if got := Log(c[0]); got != c[1] {
			t.Errorf("Log(%v) = %v, want %v", c[0], got, c[1])
		}
	}
	for _, c := range g.Exp {
		if got := Exp(c[0]); got != c[1] {
			t.Errorf("Exp(%v) = %v, want %v", c[0], got, c[1])
		}
	}
	for _, c := range g.Pow {
		if got := Pow(c[0], c[1]); got != c[2] {
			t.Errorf("Pow(%v, %v) = %v, want %v", c[0], c[1], got, c[2])
		}
	}
}

func digest(xs []uint64) string {
	h := fnv.New64a()
	var b [8]byte
	for _, x := range xs {
		for i := range b {
			b[i] = byte(x >> (8 * i))
		}
		_, _ = h.Write(b[:])
	}
	return strconv.FormatUint(h.Sum64(), 10)
}

func TestLongRunsGolden(t *testing.T) {
	const draws = 100_000
	g := loadGolden(t).Long
	n32, n64, l, p := NewNumpy(0), NewNumpy(0), NewLegacy(0), NewPython(3)
	same(t, "integers", g.Integers, digest(draw(draws, func() uint64 { return uint64(n32.Integers(0, 50257)) })))
	same(t, "integers64", g.Integers64, digest(draw(draws, func() uint64 { return uint64(n64.Integers(0, 3<<61)) })))
	same(t, "random_sample", g.RandomSample, digest(draw(draws, func() uint64 { return math.Float64bits(l.Float64()) })))
	same(t, "python", g.Python, digest(draw(draws, func() uint64 { return math.Float64bits(p.Random()) })))

	// One draw more or less in 100,000 would move these sums by parts in 100,000.
	near := func(what string, want float64, f func() float64) {
		var sum float64
		for range draws {
			sum += f()
		}
		if math.Abs(sum-want) > 1e-10*want {
			t.Errorf("%s: sum %v, want %v", what, sum, want)
		}
	}
	e := NewLegacy(0)
	near("exponential", g.ExponentialSum, func() float64 { return e.Exponential(1) })
	for _, s := range g.GammaSums {
		l := NewLegacy(0)
		near("gamma", s[1], func() float64 { return l.Gamma(s[0], 1/s[0]) })
	}
}

// Our own bits, pinned: they must come out the same on every CPU and with every instruction set the compiler
// may pick (GOAMD64=v3 and arm64 fuse products into sums unless told not to).
func TestBitsArePinned(t *testing.T) {
	cases := []struct {
		shape float64
		want  string
	}{{0.4, "14038616217351792819"}, {1, "8658404419909810936"}, {3, "3162329815684335625"}}
	for _, c := range cases {
		l := NewLegacy(5)
		got := digest(draw(50_000, func() uint64 { return math.Float64bits(l.Gamma(c.shape, 0.3)) }))
		if got != c.want {
			t.Errorf("gamma shape %v: digest %s, want %s", c.shape, got, c.want)
		}
	}
}
