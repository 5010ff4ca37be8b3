package rng

import (
	"slices"
	"sort"
)

// ChoiceDistinct returns the k indices choice(..., replace=False) picks of a sequence of length.
func (n *Numpy) ChoiceDistinct(length, k int) []int {
	if k < 0 || k > length {
		panic("rng: ChoiceDistinct wants 0 <= k <= length")
	}
	// For a large share of a large population NumPy shuffles the tail of it; otherwise it uses Floyd's method
	// and shuffles the outcome.
	if length > 10_000 && k > length/50 {
		pool := ascending(length)
		n.shuffleTail(pool, max(length-k, 1))
		return pool[length-k:]
	}
	out := make([]int, 0, k)
	seen := make(map[int]bool, k)
	for j := length - k; j < length; j++ {
		v := int(n.below(uint64(j)))
		if seen[v] {
			v = j
		}
		seen[v] = true
		out = append(out, v)
	}
	n.shuffleTail(out, 1)
	return out
}

// FillIntegersInclusive is integers(low, high, size=len(dst), endpoint=True).
func (n *Numpy) FillIntegersInclusive(dst []int64, low, high int64) {
	for i := range dst {
		dst[i] = n.IntegersInclusive(low, high)
	}
}

// RandRange is random.randrange(start, stop).
func (p *Python) RandRange(start, stop int64) int64 {
	if stop <= start {
		panic("rng: RandRange wants stop above start")
	}
	return start + int64(p.RandBelow(uint64(stop)-uint64(start)))
}

// ChoicesWeighted returns the k indices random.choices picks with the given weights.
func (p *Python) ChoicesWeighted(weights []float64, k int) []int {
	cumulative := slices.Clone(weights)
	for i := 1; i < len(cumulative); i++ {
		cumulative[i] += cumulative[i-1]
	}
	last := len(cumulative) - 1
	out := make([]int, k)
	for i := range out {
		x := p.Random() * cumulative[last]
		out[i] = sort.Search(last, func(j int) bool { return x < cumulative[j] })
	}
	return out
}

// Sample returns the k distinct indices random.sample picks of a sequence of n.
func (p *Python) Sample(n, k int) []int {
	if k < 0 || k > n {
		panic("rng: Sample wants 0 <= k <= n")
	}
	out := make([]int, k)
	if n <= samplePoolLimit(k) {
		pool := make([]int, n)
		for i := range pool {
			pool[i] = i
		}
		for i := range out {
			j := p.Choice(n - i)
			out[i], pool[j] = pool[j], pool[n-i-1]
		}
		return out
	}
	seen := make(map[int]bool, k)
	for i := range out {
		j := p.Choice(n)
		for seen[j] {
			j = p.Choice(n)
		}
		seen[j] = true
		out[i] = j
	}
	return out
}
