package stats

import (
	"math"
	"sort"
)

// Floor is the smallest sample for which order statistics bound the p-th percentile (0..100) on
// both sides with the given confidence (0..1): below it not even the extreme samples do, and a
// printed percentile says little more than "the maximum". The smallest and largest of n samples
// enclose the q-quantile with probability 1 - q^n - (1-q)^n.
func Floor(p, confidence float64) int {
	q := p / 100
	if q <= 0 || q >= 1 {
		return 1 // the extremes of the sample itself
	}
	enough := func(n int) bool {
		return 1-math.Pow(q, float64(n))-math.Pow(1-q, float64(n)) >= confidence
	}
	// The larger tail alone gives a lower bound that is off by a few at most, but by many where rounding
	// has the last word, close to 0 and 100: a search by halves ends either way.
	n := max(1, int(math.Log(1-confidence)/math.Log(math.Max(q, 1-q))))
	for !enough(n) && n < math.MaxInt/4 {
		n *= 2
	}
	return 1 + sort.Search(n-1, func(k int) bool { return enough(k + 1) })
}

// Bounds are the 1-based ranks of the order statistics that enclose a quantile. Low 0 means that no
// sample bounds it from below, High n+1 that none does from above.
type Bounds struct{ Low, High int }

// QuantileBounds gives the distribution-free interval of the p-th percentile (0..100) from n
// independent samples: the number of samples below the quantile is binomial, and each tail gets
// half of what the confidence leaves.
func QuantileBounds(n int, p, confidence float64) Bounds {
	q := p / 100
	if n <= 0 || q <= 0 || q >= 1 {
		return Bounds{0, n + 1}
	}
	tail := (1 - confidence) / 2
	// P(Bin <= k) is the chance that the k+1-th smallest sample is above the quantile.
	mean := float64(n) * q
	spread := 12*math.Sqrt(mean*(1-q)) + 20
	k := max(0, int(mean-spread))
	pmf := math.Exp(logBinomial(n, k, q))
	cdf := pmf
	b := Bounds{0, n + 1}
	for ; k < n; k++ {
		if cdf <= tail {
			b.Low = k + 1
		}
		if cdf >= 1-tail {
			b.High = k + 1
			break
		}
		pmf *= float64(n-k) / float64(k+1) * q / (1 - q)
		cdf += pmf
	}
	return b
}

// SureRank is the 1-based rank of the sample that the p-th percentile of what was sampled from is above, in 99 of 100
// cases. Few samples say little of a high percentile: their largest is above the p99 once in a while by chance alone.
func SureRank(n int, p float64) int { return max(1, QuantileBounds(n, p, 0.98).Low) }

// QuantileInterval reads the bounds off sorted data; an unbounded side is infinite.
func QuantileInterval(sorted Ordered, p, confidence float64) Interval {
	b := QuantileBounds(sorted.Len(), p, confidence)
	in := Interval{math.Inf(-1), math.Inf(1)}
	if b.Low >= 1 {
		in.Low = sorted.At(b.Low - 1)
	}
	if b.High <= sorted.Len() {
		in.High = sorted.At(b.High - 1)
	}
	return in
}

// logBinomial is the logarithm of the binomial probability of k in n.
func logBinomial(n, k int, q float64) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c + float64(k)*math.Log(q) + float64(n-k)*math.Log1p(-q)
}
