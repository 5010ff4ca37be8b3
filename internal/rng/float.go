package rng

import "math"

// A seeded run must give the same schedule on every CPU, down to the last bit, because a difference of one bit
// can flip a rejection and shift every later draw. The standard library does not promise that: math.Log is
// assembly on amd64 and s390x, math.Exp also on arm64, and the compiler fuses x*y+z into one rounding where the
// CPU can. So the functions here are written for this package, in double-double arithmetic with every
// rounding spelt out: a float64() around a product forbids fusing (an assignment or a return does not), math.FMA
// asks for it and gives the same result everywhere. Carrying about 70 bits makes the result the correctly rounded one in all but some one in
// 100,000 cases, so that it also agrees best with whatever C library a reference implementation was run on.

// dd is the unevaluated sum of two floats, hi the nearest to the whole.
type dd struct{ hi, lo float64 }

// ln2 in two forms: cut to 42 bits, so that products with exponents are exact, and 1/128 of it in full.
const (
	ln2Cut    = 0x1.62e42fefa38p-1
	ln2CutLo  = 0x1.ef35793c7673p-45
	ln2By128  = 0x1.62e42fefa39efp-8
	ln2By128L = 0x1.abc9e3b39803fp-63
)

// logs[i] is log(1 + (2i+1)/256), the middle of the i-th of 128 parts of [1, 2); exps[i] is 2^(i/128).
var (
	logs = makeLogs()
	exps = makeExps()
)

// twoSum returns a+b and its rounding error.
func twoSum(a, b float64) (sum, err float64) {
	sum = a + b
	t := sum - a
	return sum, (a - (sum - t)) + (b - t)
}

// fastTwoSum is twoSum for |a| >= |b|.
func fastTwoSum(a, b float64) dd {
	sum := a + b
	return dd{sum, b - (sum - a)}
}

func (a dd) plus(b dd) dd {
	s, e := twoSum(a.hi, b.hi)
	return fastTwoSum(s, e+(a.lo+b.lo))
}

func (a dd) times(b dd) dd {
	p := float64(a.hi * b.hi)
	e := math.FMA(a.hi, b.hi, -p)
	e = math.FMA(a.hi, b.lo, e)
	return fastTwoSum(p, math.FMA(a.lo, b.hi, e))
}

// ratio returns a/(b+be).
func ratio(a, b, be float64) dd {
	q := a / b
	r := math.FMA(-q, b, a)
	return dd{q, (r - float64(q*be)) / b}
}

// makeLogs climbs from log(1) in steps small enough for a short series, 2 atanh((c-a)/(c+a)) = log(c) - log(a).
func makeLogs() (table [128]dd) {
	from, sum := 1.0, dd{}
	for i := range table {
		to := 1 + float64(2*i+1)/256
		s := ratio(to-from, to+from, 0)
		z := s.times(s)
		series := dd{1.0 / 13, 0}
		for k := 11.0; k >= 1; k -= 2 {
			series = ratio(1, k, 0).plus(series.times(z))
		}
		series = series.times(s)
		sum = sum.plus(dd{2 * series.hi, 2 * series.lo})
		table[i] = sum
		from = to
	}
	return table
}

func makeExps() (table [128]dd) {
	root := dd{0x1.0163da9fb3335p+0, 0x1.b61299ab8cdb7p-54} // 2^(1/128)
	table[0] = dd{1, 0}
	for i := 1; i < len(table); i++ {
		table[i] = table[i-1].times(root)
	}
	return table
}

// Log is the natural logarithm, the same on every platform.
func Log(x float64) float64 {
	switch {
	case x > 0 && x <= math.MaxFloat64:
		return logOf(x).hi
	case x == 0:
		return math.Inf(-1)
	case x > 0:
		return x
	}
	return math.NaN()
}

// logOf takes a positive finite x apart into 2^k * m, finds the table entry c nearest to m and adds
// log(m/c) = 2 atanh((m-c)/(m+c)).
func logOf(x float64) dd {
	k := 0
	if x < 0x1p-1022 {
		x *= 0x1p54
		k = -54
	}
	m, c, at := x, 1.0, dd{}
	// Next to 1 the parts would cancel; there c = 1 makes them vanish instead.
	if k != 0 || x <= 1-0x1p-8 || x >= 1+0x1p-8 {
		b := math.Float64bits(x)
		k += int(b>>52) - 1023
		m = math.Float64frombits(b&(1<<52-1) | 1023<<52)
		i := b >> 45 & 127
		c, at = 1+float64(2*i+1)/256, logs[i]
	}
	sum, sumErr := twoSum(m, c)
	s := ratio(m-c, sum, sumErr)
	z := float64(s.hi * s.hi)
	p := float64(z * (1.0/3 + float64(z*(1.0/5+float64(z*(1.0/7+float64(z*(1.0/9))))))))
	tail := s.lo + float64(s.hi*p)

	h, e1 := twoSum(float64(float64(k)*ln2Cut), at.hi)
	h, e2 := twoSum(h, 2*s.hi)
	low := float64(float64(k)*ln2CutLo) + at.lo
	return fastTwoSum(h, e1+e2+low+2*tail)
}

// Exp is e to the power x, the same on every platform.
func Exp(x float64) float64 {
	if x != x {
		return x
	}
	return expOf(dd{x, 0})
}

// expOf writes x as (128q + j)/128 * ln2 + r and multiplies 2^q, 2^(j/128) and the series of e^r.
func expOf(x dd) float64 {
	switch {
	case x.hi > 710:
		return math.Inf(1)
	case x.hi < -746:
		return 0
	}
	n := math.Floor(float64(x.hi*(1/ln2By128)) + 0.5)
	p := float64(n * ln2By128)
	pErr := math.FMA(n, ln2By128, -p)
	r, rErr := twoSum(x.hi, -p)
	low := rErr - pErr + x.lo - float64(n*ln2By128L)
	r, low = fastTwoSum(r, low).parts()

	// e^r - 1 - r
	rest := 1 + float64(float64(r/6)*(1+float64(r/7)))
	for _, d := range [...]float64{5, 4, 3} {
		rest = 1 + float64(float64(r/d)*rest)
	}
	rest = low + float64(float64(r*r)/2*rest)

	t := exps[int(n)&127]
	th := float64(t.hi * r)
	thErr := math.FMA(t.hi, r, -th)
	sum := fastTwoSum(t.hi, th)
	y := sum.hi + (sum.lo + (thErr + (t.lo + float64(t.hi*rest))))
	return math.Ldexp(y, int(n)>>7)
}

func (a dd) parts() (hi, lo float64) { return a.hi, a.lo }

// Pow is x to the power y for x not below 0, the same on every platform.
func Pow(x, y float64) float64 {
	special := x <= 0 || x == 1 || y == 0 || x-x != 0 || y-y != 0 // includes infinities and NaN
	if special {
		return math.Pow(x, y) // all of these are exact there
	}
	if y == 1 {
		return x
	}
	l := logOf(x)
	p := float64(l.hi * y)
	if p > 710 || p < -746 {
		return expOf(dd{p, 0})
	}
	return expOf(dd{p, math.FMA(l.hi, y, -p) + float64(l.lo*y)})
}
