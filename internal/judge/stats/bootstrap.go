package stats

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// Interval is a range that holds the true value with the confidence asked for.
type Interval struct{ Low, High float64 }

// Groups are samples in time order, several per unit of resampling: all gaps of one request belong
// together. Ends[i] is the index in Values just behind group i. A nil Ends means one value each.
type Groups struct {
	Values []float64
	Ends   []int
}

// Len is the number of groups.
func (g Groups) Len() int {
	if g.Ends == nil {
		return len(g.Values)
	}
	return len(g.Ends)
}

// At is the i-th group.
func (g Groups) At(i int) []float64 {
	if g.Ends == nil {
		return g.Values[i : i+1]
	}
	from := 0
	if i > 0 {
		from = g.Ends[i-1]
	}
	return g.Values[from:g.Ends[i]]
}

// filled leaves out the empty groups, which say nothing.
func (g Groups) filled() Groups {
	if g.Ends == nil {
		return g
	}
	ends := slices.Compact(slices.Clone(g.Ends))
	if len(ends) > 0 && ends[0] == 0 {
		ends = ends[1:]
	}
	return Groups{Values: g.Values, Ends: ends}
}

// Bootstrap settings that fix the time it takes whatever the sample: a replicate draws at most
// bootDraw values, and there are bootRounds of them.
const (
	bootRounds = 400
	bootDraw   = 4096
	bootGroups = 8 // fewer groups than this say nothing about their own spread
)

// Bootstrapped holds what a moving-block bootstrap found.
type Bootstrapped struct {
	OK        bool // false when there were too few groups
	Mean      Interval
	Quantiles []Interval // as the percentiles asked for
	Groups    int
	Dependence
}

// Bootstrap gives intervals for the mean and the given percentiles (0..100) of the pooled values,
// by resampling blocks of consecutive groups so that dependence between neighbours stays in. Block
// length comes from the autocorrelation of the group means.
//
// Samples too large to redraw whole are redrawn in part (m out of n): the replicate's deviation
// from the estimate is then scaled by sqrt(m/n), as the spread of a mean or quantile falls with the
// root of the sample. 100,000 samples take well under a second.
func Bootstrap(g Groups, percentiles []float64, confidence float64, r *rand.Rand) Bootstrapped {
	g = g.filled()
	n := g.Len()
	if n < bootGroups {
		return Bootstrapped{Groups: n, Dependence: Dependence{1, float64(n)}}
	}
	b := booter{g: g, r: r, percentiles: percentiles, falling: make([]int, len(percentiles))}
	for i := range b.falling {
		b.falling[i] = i
	}
	slices.SortFunc(b.falling, func(i, j int) int { return cmp.Compare(percentiles[j], percentiles[i]) })
	out := Bootstrapped{OK: true, Groups: n, Dependence: Depend(b.groupMeans())}
	draws := b.replicates(out.Block)
	est := b.estimates()
	scale := math.Sqrt(float64(b.groups) / float64(n))
	if b.groups >= n {
		scale = 1
	}
	intervals := make([]Interval, len(est))
	for i := range est {
		col := draws[i]
		slices.Sort(col)
		tail := 100 * (1 - confidence) / 2
		intervals[i] = Interval{
			Low:  est[i] + scale*(SortedPercentile(col, tail)-est[i]),
			High: est[i] + scale*(SortedPercentile(col, 100-tail)-est[i]),
		}
	}
	out.Mean, out.Quantiles = intervals[0], intervals[1:]
	return out
}

type booter struct {
	g           Groups
	r           *rand.Rand
	percentiles []float64
	falling     []int // indices of percentiles, highest first
	groups      int   // groups per replicate
}

func (b *booter) groupMeans() []float64 {
	if b.g.Ends == nil {
		return b.g.Values
	}
	means := make([]float64, 0, b.g.Len())
	for i := range b.g.Len() {
		means = append(means, Mean(b.g.At(i)))
	}
	return means
}

// estimates are the mean and the percentiles of the whole sample.
func (b *booter) estimates() []float64 {
	est := make([]float64, 1+len(b.percentiles))
	est[0] = Mean(b.g.Values)
	s := slices.Clone(b.g.Values)
	slices.Sort(s)
	for i, p := range b.percentiles {
		est[1+i] = SortedPercentile(s, p)
	}
	return est
}

// replicates draws samples and returns one column of results per statistic.
func (b *booter) replicates(block int) [][]float64 {
	n := b.g.Len()
	per := max(1, len(b.g.Values)/n)
	b.groups = min(n, max(bootGroups, bootDraw/per))
	block = min(block, b.groups)
	draws := make([][]float64, 1+len(b.percentiles))
	for i := range draws {
		draws[i] = make([]float64, bootRounds)
	}
	buf := make([]float64, 0, 2*bootDraw)
	for round := range bootRounds {
		buf = buf[:0]
		for left := b.groups; left > 0; {
			from := b.r.IntN(n - block + 1)
			take := min(block, left)
			for i := from; i < from+take; i++ {
				buf = append(buf, b.g.At(i)...)
			}
			left -= take
		}
		draws[0][round] = Mean(buf)
		b.pick(buf, draws, round)
	}
	return draws
}

// pick reads the percentiles of one replicate off buf, which it reorders. From the highest rank
// down, each selection only looks left of the one before.
func (b *booter) pick(buf []float64, draws [][]float64, round int) {
	end := len(buf)
	for _, i := range b.falling {
		lo, t := rankOf(len(buf), b.percentiles[i])
		if lo < end-1 || end == len(buf) {
			selectRank(buf[:end], lo)
			if lo+1 < end {
				bringLeast(buf[lo+1 : end])
			}
		}
		v := buf[lo]
		if t > 0 {
			v = lerp(v, buf[lo+1], t)
		}
		draws[1+i][round] = v
		end = lo + 1
	}
}

// bringLeast moves the smallest value to the front.
func bringLeast(xs []float64) {
	for i, x := range xs {
		if x < xs[0] {
			xs[0], xs[i] = x, xs[0]
		}
	}
}

// BatchMeans gives the interval of a rate from counts in equal consecutive stretches of time, by
// Student's t on the batches; false with fewer than two.
func BatchMeans(batches []float64, confidence float64) (Interval, bool) {
	k := len(batches)
	if k < 2 {
		return Interval{}, false
	}
	mean := Mean(batches)
	ss := 0.0
	for _, x := range batches {
		ss += (x - mean) * (x - mean)
	}
	half := CriticalT(float64(k-1), confidence) * math.Sqrt(ss/float64(k-1)/float64(k))
	return Interval{mean - half, mean + half}, true
}
