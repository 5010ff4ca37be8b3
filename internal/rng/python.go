package rng

import (
	"math"
	"math/bits"
)

// Python is CPython's random.Random seeded with a non-negative int. Where the original takes a sequence, these
// methods take its length and return indices.
type Python struct{ mt twister }

// NewPython is random.Random(seed).
func NewPython(seed uint64) *Python {
	key := []uint32{uint32(seed), uint32(seed >> 32)}
	if key[1] == 0 {
		key = key[:1]
	}
	p := new(Python)
	p.mt.seedWords(key)
	return p
}

// Random returns the next float in [0, 1).
func (p *Python) Random() float64 { return p.mt.float64() }

// GetRandBits returns k random bits, 0 <= k <= 64.
func (p *Python) GetRandBits(k int) uint64 {
	switch {
	case k < 0 || k > 64:
		panic("rng: GetRandBits wants 0 to 64 bits")
	case k == 0:
		return 0
	case k <= 32:
		return uint64(p.mt.uint32() >> (32 - k))
	}
	low := uint64(p.mt.uint32())
	return low | uint64(p.mt.uint32()>>(64-k))<<32
}

// RandBelow returns an integer in [0, n), by drawing as many bits as n has until they are below n.
func (p *Python) RandBelow(n uint64) uint64 {
	if n == 0 {
		panic("rng: RandBelow wants n above 0")
	}
	k := bits.Len64(n)
	r := p.GetRandBits(k)
	for r >= n {
		r = p.GetRandBits(k)
	}
	return r
}

// Choice returns the index random.choice picks of a sequence of n.
func (p *Python) Choice(n int) int { return int(p.RandBelow(uint64(n))) }

// Shuffle reorders a sequence of n as random.shuffle does.
func (p *Python) Shuffle(n int, swap func(i, j int)) {
	for i := n - 1; i > 0; i-- {
		swap(i, p.Choice(i+1))
	}
}

// Choices returns the k indices random.choices picks of a sequence of n, without weights.
func (p *Python) Choices(n, k int) []int {
	out := make([]int, k)
	for i := range out {
		out[i] = int(math.Floor(p.Random() * float64(n)))
	}
	return out
}

// samplePoolLimit is the population size up to which CPython copies the population rather than remembering
// what it picked: 21, plus, for k above 5, the smallest power of 4 not below 3k.
func samplePoolLimit(k int) int {
	limit := 21
	if k > 5 {
		power := 1
		for power < 3*k {
			power *= 4
		}
		limit += power
	}
	return limit
}
