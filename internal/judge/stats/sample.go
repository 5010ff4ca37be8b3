package stats

import (
	"iter"
	"math"
	"slices"
)

// Sample is a sample that need not fit in memory: it is gone through several times, always in the same order. Its
// figures are those of the same values in memory, to the last digit: sums are taken in the order of Sum, and order
// statistics are exact by nature, found by counting the values that share their leading bits, more bits each time.
type Sample struct {
	// Values gives the values out, piece by piece; weights, where there are any, say how often each counts. A piece is
	// valid until the next one.
	Values iter.Seq2[[]float64, []int]
	N      int // values given out
	Count  int // values with their weights
}

// Of is a sample of values in memory.
func Of(xs []float64) Sample {
	return Sample{Values: func(yield func([]float64, []int) bool) { yield(xs, nil) }, N: len(xs), Count: len(xs)}
}

// Moments are the mean and the population standard deviation, as Mean and Std give them.
func (s Sample) Moments() (mean, std float64) {
	if s.Count == 0 {
		return 0, 0
	}
	mean = s.sum(func(x, w float64) float64 { return x * w }) / float64(s.Count)
	std = math.Sqrt(s.sum(func(x, w float64) float64 {
		d := x - mean
		return float64(d*d) * w
	}) / float64(s.Count))
	return mean, std
}

// sum adds f of every value in the order of Sum.
func (s Sample) sum(f func(x, w float64) float64) float64 {
	next, stop := iter.Pull2(s.Values)
	defer stop()
	a := adder{next: next, f: f}
	return a.sum(s.N)
}

// adder takes values from a sample as the recursion of Sum comes to them.
type adder struct {
	next    func() ([]float64, []int, bool)
	f       func(x, w float64) float64
	xs      []float64
	weights []int
	block   [sumBlock]float64
}

func (a *adder) sum(n int) float64 {
	if n > sumBlock {
		half := n / 2
		half -= half % 8
		return a.sum(half) + a.sum(n-half)
	}
	for i := 0; i < n; {
		if len(a.xs) == 0 {
			var ok bool
			if a.xs, a.weights, ok = a.next(); !ok {
				break // fewer values than were promised
			}
			continue
		}
		k := min(n-i, len(a.xs))
		a.fill(a.block[i:i+k], k)
		i += k
	}
	return Sum(a.block[:n])
}

// fill puts f of the next k values into dst.
func (a *adder) fill(dst []float64, k int) {
	for i, x := range a.xs[:k] {
		w := 1.0
		if a.weights != nil {
			w = float64(a.weights[i])
		}
		dst[i] = a.f(x, w)
	}
	a.xs = a.xs[k:]
	if a.weights != nil {
		a.weights = a.weights[k:]
	}
}

// collectMost is how many values are collected and sorted rather than counted once more.
const collectMost = 1 << 16

// Arranged makes the sample readable at the given ascending ranks.
func (s Sample) Arranged(ranks []int) Ordered { return s.arranged(ranks, collectMost) }

func (s Sample) arranged(ranks []int, room int) Ordered {
	p := picked{count: s.Count, ranks: ranks, values: make([]float64, len(ranks))}
	if len(ranks) > 0 {
		s.pick(&p, room)
	}
	return p
}

// picked is an Ordered that knows the values of some ranks only.
type picked struct {
	count  int
	ranks  []int
	values []float64
}

// Len implements Ordered.
func (p picked) Len() int { return p.count }

// At implements Ordered.
func (p picked) At(rank int) float64 {
	i, _ := slices.BinarySearch(p.ranks, rank)
	return p.values[i]
}

// digit is how many bits a pass tells apart.
const digit = 16

// bucket is the values that begin with the same bits, among which some ranks lie.
type bucket struct {
	prefix uint64 // the leading bits, in place
	before int    // values below all of them
	first  int    // the ranks within: ranks[first:last]
	last   int
	counts []int // by the next digit
}

// pick finds the values of p.ranks. Each pass over the sample counts, within the buckets that hold a rank, how many
// values have which next digit; that tells the next, narrower buckets. It ends when all bits are known, or when the
// values of the buckets fit in room and can be sorted.
func (s Sample) pick(p *picked, room int) {
	open := []bucket{{last: len(p.ranks)}}
	inside := s.N
	for shift := 64 - digit; shift >= 0; shift -= digit {
		if inside <= room {
			s.collect(p, open, shift+digit)
			return
		}
		s.count(open, shift)
		open, inside = narrow(p, open, shift)
	}
	for _, b := range open {
		for i := b.first; i < b.last; i++ {
			p.values[i] = fromKey(b.prefix)
		}
	}
}

// count fills in the counts of the buckets by the digit at shift.
func (s Sample) count(open []bucket, shift int) {
	for i := range open {
		open[i].counts = make([]int, 1<<digit)
	}
	s.visit(open, shift+digit, func(b *bucket, key uint64, w int) { b.counts[key>>shift&(1<<digit-1)] += w })
}

// visit calls f with the values that lie in a bucket. The buckets are in order and their prefixes end at bit end.
func (s Sample) visit(open []bucket, end int, f func(b *bucket, key uint64, w int)) {
	mask := ^uint64(0)
	if end < 64 {
		mask <<= end
	} else {
		mask = 0
	}
	at := 0 // values come in bunches: the last bucket is looked at first
	for xs, weights := range s.Values {
		for i, x := range xs {
			key := toKey(x)
			if open[at].prefix != key&mask {
				j, found := slices.BinarySearchFunc(open, key&mask, func(b bucket, k uint64) int {
					switch {
					case b.prefix < k:
						return -1
					case b.prefix > k:
						return 1
					}
					return 0
				})
				if !found {
					continue
				}
				at = j
			}
			w := 1
			if weights != nil {
				w = weights[i]
			}
			f(&open[at], key, w)
		}
	}
}

// narrow splits the buckets by the digit that was counted and keeps those with a rank in them.
func narrow(p *picked, open []bucket, shift int) (next []bucket, inside int) {
	for _, b := range open {
		before, i := b.before, b.first
		for d, n := range b.counts {
			from := i
			for i < b.last && p.ranks[i] < before+n {
				i++
			}
			if i > from {
				next = append(next, bucket{prefix: b.prefix | uint64(d)<<shift, before: before, first: from, last: i})
				inside += n
			}
			before += n
		}
	}
	return next, inside
}

// collect holds the values of the buckets and reads the ranks off them, sorted.
func (s Sample) collect(p *picked, open []bucket, end int) {
	type weighted struct {
		key uint64
		w   int
	}
	held := make([]weighted, 0, 1024)
	s.visit(open, end, func(_ *bucket, key uint64, w int) { held = append(held, weighted{key, w}) })
	slices.SortFunc(held, func(a, b weighted) int {
		switch {
		case a.key < b.key:
			return -1
		case a.key > b.key:
			return 1
		}
		return 0
	})
	i := 0
	for _, b := range open { // the buckets are in order, and so are the held values
		before := b.before
		for k := b.first; k < b.last; k++ {
			for before+held[i].w <= p.ranks[k] {
				before += held[i].w
				i++
			}
			p.values[k] = fromKey(held[i].key)
		}
		for i < len(held) && inBucket(held[i].key, b.prefix, end) {
			i++
		}
	}
}

func inBucket(key, prefix uint64, end int) bool { return end >= 64 || key>>end == prefix>>end }

// toKey is the bits of x such that keys are in the order of the numbers.
func toKey(x float64) uint64 {
	if x == 0 {
		x = 0 // there is one zero, and it has no sign
	}
	b := math.Float64bits(x)
	if b>>63 != 0 {
		return ^b
	}
	return b | 1<<63
}

func fromKey(k uint64) float64 {
	if k>>63 != 0 {
		return math.Float64frombits(k &^ (1 << 63))
	}
	return math.Float64frombits(^k)
}
