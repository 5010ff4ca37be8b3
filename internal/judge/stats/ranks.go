package stats

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// RankTest is what ranks alone say about two samples, whatever their distributions.
type RankTest struct {
	Superior float64 `json:"p_b_above_a"` // chance that a value of b is above one of a, ties counted half
	P        float64 `json:"p_value"`     // two-sided, of no difference
}

// MannWhitney compares two samples by ranks. sizeA and sizeB are their effective sizes: values that
// depend on each other say less than their number, and the variance is widened by as much.
func MannWhitney(a, b []float64, sizeA, sizeB float64) RankTest {
	n, m := float64(len(a)), float64(len(b))
	if n == 0 || m == 0 {
		return RankTest{Superior: 0.5, P: 1}
	}
	rankSum, ties := rankSumOf(a, b)
	u := rankSum - m*(m+1)/2
	out := RankTest{Superior: u / (n * m), P: 1}
	all := n + m
	// The variance of U without dependence, ties taken off; then as if there were only as many values.
	variance := n * m / 12 * (all + 1 - ties/(all*(all-1)))
	grow := max(1, n/max(1, sizeA), m/max(1, sizeB))
	if !(variance > 0) {
		return out
	}
	out.P = math.Erfc(math.Abs(u-n*m/2) / math.Sqrt(2*variance*grow))
	return out
}

// rankSumOf is the sum of the ranks of b among both, and the sum of t³-t over groups of ties.
func rankSumOf(a, b []float64) (sum, ties float64) {
	type tagged struct {
		x   float64
		isB bool
	}
	all := make([]tagged, 0, len(a)+len(b))
	for _, x := range a {
		all = append(all, tagged{x, false})
	}
	for _, x := range b {
		all = append(all, tagged{x, true})
	}
	slices.SortFunc(all, func(x, y tagged) int { return cmp.Compare(x.x, y.x) })
	for i := 0; i < len(all); {
		j, inB := i, 0
		for ; j < len(all) && all[j].x == all[i].x; j++ {
			if all[j].isB {
				inB++
			}
		}
		t := float64(j - i)
		sum += float64(inB) * (float64(i+j+1) / 2) // ranks i+1..j share their mean
		ties += t*t*t - t
		i = j
	}
	return sum, ties
}

// permuteMost is how many relabelings are tried: all where there are no more, else as many at random.
const permuteMost = 20_000

// Permute is the two-sided p value of a difference of means, from relabelings of which values belong
// to a and which to b. r draws some of them where there are too many to try all.
func Permute(a, b []float64, r *rand.Rand) float64 {
	all := slices.Concat(a, b)
	n, k := len(all), len(a)
	if k == 0 || n == k {
		return 1
	}
	total := Sum(all)
	away := func(sumA float64) float64 { return math.Abs(sumA/float64(k) - (total-sumA)/float64(n-k)) }
	seen := away(Sum(a)) * (1 - 1e-12) // the same labels, summed in another order, are no less
	if ways := binomial(n, k); ways <= permuteMost {
		far := 0
		eachSubset(all, k, 0, 0, func(sum float64) {
			if away(sum) >= seen {
				far++
			}
		})
		return float64(far) / ways
	}
	far := 1 // what was seen is one of the relabelings
	for range permuteMost {
		r.Shuffle(n, func(i, j int) { all[i], all[j] = all[j], all[i] })
		if away(Sum(all[:k])) >= seen {
			far++
		}
	}
	return float64(far) / (permuteMost + 1)
}

// eachSubset calls f with the sum of every way to take k of xs.
func eachSubset(xs []float64, k, from int, sum float64, f func(sum float64)) {
	if k == 0 {
		f(sum)
		return
	}
	for i := from; i <= len(xs)-k; i++ {
		eachSubset(xs, k-1, i+1, sum+xs[i], f)
	}
}

func binomial(n, k int) float64 {
	v := 1.0
	for i := range min(k, n-k) {
		v = v * float64(n-i) / float64(i+1)
	}
	return math.Round(v)
}

// SignFlip is the two-sided p value of paired differences, from changing the sign of each in turn.
func SignFlip(diffs []float64, r *rand.Rand) float64 {
	n := len(diffs)
	if n == 0 {
		return 1
	}
	seen := math.Abs(Sum(diffs)) * (1 - 1e-12)
	flip := func(signs uint64) float64 {
		s := 0.0
		for i, d := range diffs {
			if signs>>(i%64)&1 == 1 {
				d = -d
			}
			s += d
		}
		return math.Abs(s)
	}
	if n <= 14 {
		far := 0
		for signs := range uint64(1) << n {
			if flip(signs) >= seen {
				far++
			}
		}
		return float64(far) / float64(uint64(1)<<n)
	}
	far := 1
	for range permuteMost {
		if flip(r.Uint64()) >= seen {
			far++
		}
	}
	return float64(far) / (permuteMost + 1)
}
