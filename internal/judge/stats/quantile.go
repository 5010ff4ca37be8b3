package stats

import (
	"math"
	"slices"
)

// Percentile is NumPy's default percentile (linear interpolation at rank p/100*(n-1)) of unsorted
// data; 0 of an empty slice. It does not change xs.
func Percentile(xs []float64, p float64) float64 {
	s := slices.Clone(xs)
	slices.Sort(s)
	return SortedPercentile(s, p)
}

// Median is NumPy's median; 0 of an empty slice. It does not change xs.
func Median(xs []float64) float64 {
	s := slices.Clone(xs)
	slices.Sort(s)
	return SortedMedian(s)
}

// Ordered is a sample that can be read at its ranks, from 0, as if it were sorted.
type Ordered interface {
	Len() int
	At(rank int) float64
}

// Sorted is an Ordered that lies in memory, sorted or arranged.
type Sorted []float64

// Len implements Ordered.
func (s Sorted) Len() int { return len(s) }

// At implements Ordered.
func (s Sorted) At(rank int) float64 { return s[rank] }

// SortedMedian is Median of sorted data.
func SortedMedian(sorted []float64) float64 { return MedianOf(Sorted(sorted)) }

// MedianOf is NumPy's median; 0 of an empty sample.
func MedianOf(o Ordered) float64 {
	n := o.Len()
	switch {
	case n == 0:
		return 0
	case n%2 == 1:
		return o.At(n / 2)
	default:
		return (o.At(n/2-1) + o.At(n/2)) / 2
	}
}

// SortedPercentile is Percentile of sorted data. Infinite values at the end stand for requests that
// never finished: a percentile that would interpolate towards one is itself infinite.
func SortedPercentile(sorted []float64, p float64) float64 { return PercentileOf(Sorted(sorted), p) }

// PercentileOf is SortedPercentile of any ordered sample.
func PercentileOf(o Ordered, p float64) float64 {
	if o.Len() == 0 {
		return 0
	}
	lo, t := rankOf(o.Len(), p)
	a := o.At(lo)
	if t == 0 {
		return a
	}
	return lerp(a, o.At(lo+1), t)
}

// rankOf splits the virtual rank p/100*(n-1) into an index and the fraction to the next one.
func rankOf(n int, p float64) (lo int, t float64) {
	v := float64(n-1) * (p / 100)
	switch {
	case !(v > 0):
		return 0, 0
	case v >= float64(n-1):
		return n - 1, 0
	}
	f := math.Floor(v)
	return int(f), v - f
}

// lerp goes from a to b by t, from the nearer end, as NumPy does. The conversions keep the compiler
// from fusing a multiplication with an addition on machines that can, which would change the last
// digit.
func lerp(a, b, t float64) float64 {
	if math.IsInf(b, 1) {
		return b
	}
	d := b - a
	if t >= 0.5 {
		return b - float64(d*(1-t))
	}
	return a + float64(d*t)
}

// PercentileName is the key vLLM gives a percentile: p99, p99.9; a whole number has no decimals.
func PercentileName(p float64) string { return "p" + formatShort(p) }
