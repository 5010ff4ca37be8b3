package stats

import (
	"math/bits"
	"slices"
)

// arrangeFrom is the length from which arranging beats sorting.
const arrangeFrom = 4096

// Arrange reorders xs so that reading it at the given ascending ranks gives what sorted data would.
// Percentiles look at a few dozen ranks, and putting only those in place is several times faster
// than sorting tens of millions of gaps, and needs no second buffer.
func Arrange(xs []float64, ranks []int) {
	if len(xs) < arrangeFrom {
		slices.Sort(xs)
		return
	}
	arrange(xs, ranks, 0)
}

// arrange works on a stretch that begins at rank base; all ranks fall within it.
func arrange(xs []float64, ranks []int, base int) {
	if len(ranks) == 0 || len(xs) < 2 {
		return
	}
	mid := len(ranks) / 2
	k := ranks[mid] - base
	selectRank(xs, k)
	arrange(xs[:k], ranks[:mid], base)
	rest := mid + 1
	for rest < len(ranks) && ranks[rest] == ranks[mid] {
		rest++
	}
	arrange(xs[k+1:], ranks[rest:], base+k+1)
}

// Ranks lists, ascending, the ranks of n samples that SortedMedian, the extremes, SortedPercentile
// and QuantileInterval look at.
func Ranks(n int, percentiles []float64, confidence float64) []int {
	if n == 0 {
		return nil
	}
	ranks := []int{0, n - 1, n / 2, (n - 1) / 2}
	for _, p := range percentiles {
		lo, _ := rankOf(n, p)
		b := QuantileBounds(n, p, confidence)
		ranks = append(ranks, lo, lo+1, b.Low-1, b.High-1)
	}
	ranks = slices.DeleteFunc(ranks, func(k int) bool { return k < 0 || k >= n })
	slices.Sort(ranks)
	return slices.Compact(ranks)
}

// selectRank puts the value of rank k into its place, nothing larger left and nothing smaller right
// of it.
func selectRank(xs []float64, k int) {
	lo, hi := 0, len(xs)-1
	for tries := 4 * bits.Len(uint(len(xs))); lo < hi; tries-- {
		if tries == 0 { // an unlucky order; sorting bounds the time
			slices.Sort(xs[lo : hi+1])
			return
		}
		pivot := middle(xs[lo], xs[(lo+hi)/2], xs[hi])
		i, j := lo, hi
		for i <= j {
			for xs[i] < pivot {
				i++
			}
			for xs[j] > pivot {
				j--
			}
			if i <= j {
				xs[i], xs[j] = xs[j], xs[i]
				i++
				j--
			}
		}
		switch {
		case k <= j:
			hi = j
		case k >= i:
			lo = i
		default:
			return
		}
	}
}

// middle is the median of three.
func middle(a, b, c float64) float64 { return max(min(a, b), min(max(a, b), c)) }
