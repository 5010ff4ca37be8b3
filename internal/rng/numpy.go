package rng

import "math/bits"

// Numpy is NumPy's default_rng: PCG64 seeded through SeedSequence. Where the original takes an array, these
// methods take its length and return indices.
type Numpy struct {
	stateHi, stateLo uint64
	incHi, incLo     uint64

	// NumPy hands out 64-bit words in halves where 32 bits are enough, and keeps the unused half across calls
	// of every method that draws 32 bits.
	half    uint32
	hasHalf bool
}

// NewNumpy is numpy.random.default_rng(seed).
func NewNumpy(seed uint64) *Numpy {
	w := seedSequence(seed)
	n := &Numpy{
		incHi: w[2]<<1 | w[3]>>63,
		incLo: w[3]<<1 | 1,
	}
	n.step()
	var carry uint64
	n.stateLo, carry = bits.Add64(n.stateLo, w[1], 0)
	n.stateHi, _ = bits.Add64(n.stateHi, w[0], carry)
	n.step()
	return n
}

// step advances the 128-bit congruential generator.
func (n *Numpy) step() {
	const mulHi, mulLo = 0x2360ed051fc65da4, 0x4385df649fccf645
	hi, lo := bits.Mul64(n.stateLo, mulLo)
	hi += n.stateHi*mulLo + n.stateLo*mulHi
	var carry uint64
	n.stateLo, carry = bits.Add64(lo, n.incLo, 0)
	n.stateHi, _ = bits.Add64(hi, n.incHi, carry)
}

// Uint64 returns the next 64 bits.
func (n *Numpy) Uint64() uint64 {
	n.step()
	return bits.RotateLeft64(n.stateHi^n.stateLo, -int(n.stateHi>>58))
}

// Uint32 returns half of a 64-bit word, the low half first.
func (n *Numpy) Uint32() uint32 {
	if n.hasHalf {
		n.hasHalf = false
		return n.half
	}
	v := n.Uint64()
	n.half, n.hasHalf = uint32(v>>32), true
	return uint32(v)
}

// Float64 is random(): a multiple of 2^-53 in [0, 1).
func (n *Numpy) Float64() float64 {
	return float64(n.Uint64()>>11) * (1.0 / (1 << 53))
}

// Integers is integers(low, high): an int64 in [low, high).
func (n *Numpy) Integers(low, high int64) int64 {
	if high <= low {
		panic("rng: Integers wants high above low")
	}
	return int64(uint64(low) + n.below(uint64(high)-uint64(low)-1))
}

// IntegersInclusive is integers(low, high, endpoint=True): an int64 in [low, high].
func (n *Numpy) IntegersInclusive(low, high int64) int64 {
	if high < low {
		panic("rng: IntegersInclusive wants high not below low")
	}
	return int64(uint64(low) + n.below(uint64(high)-uint64(low)))
}

// FillIntegers is integers(low, high, size=len(dst)).
func (n *Numpy) FillIntegers(dst []int64, low, high int64) {
	for i := range dst {
		dst[i] = n.Integers(low, high)
	}
}

// below returns an integer in [0, most]. Ranges of up to 32 bits cost half a word each and draw nothing when
// there is only one value.
func (n *Numpy) below(most uint64) uint64 {
	switch {
	case most == 0:
		return 0
	case most < 1<<32-1:
		return uint64(n.below32(uint32(most) + 1))
	case most == 1<<32-1:
		return uint64(n.Uint32())
	case most == 1<<64-1:
		return n.Uint64()
	}
	span := most + 1
	hi, lo := bits.Mul64(n.Uint64(), span)
	if lo < span {
		for limit := -span % span; lo < limit; {
			hi, lo = bits.Mul64(n.Uint64(), span)
		}
	}
	return hi
}

// below32 is Lemire's multiply-and-reject on 32 bits.
func (n *Numpy) below32(span uint32) uint32 {
	m := uint64(n.Uint32()) * uint64(span)
	if uint32(m) < span {
		for limit := -span % span; uint32(m) < limit; {
			m = uint64(n.Uint32()) * uint64(span)
		}
	}
	return uint32(m >> 32)
}

// interval returns an integer in [0, most] by masking and rejecting: the older way, kept by NumPy for shuffles.
func (n *Numpy) interval(most uint64) uint64 {
	mask := uint64(1)<<bits.Len64(most) - 1
	for {
		var v uint64
		if most < 1<<32 {
			v = uint64(n.Uint32()) & mask
		} else {
			v = n.Uint64() & mask
		}
		if v <= most {
			return v
		}
	}
}

// Shuffle reorders a sequence of length as Generator.shuffle does.
func (n *Numpy) Shuffle(length int, swap func(i, j int)) {
	for i := length - 1; i > 0; i-- {
		swap(i, int(n.interval(uint64(i))))
	}
}

// shuffleTail puts a random pick of the whole into each place from the last down to first.
func (n *Numpy) shuffleTail(xs []int, first int) {
	for i := len(xs) - 1; i >= first; i-- {
		j := int(n.below(uint64(i)))
		xs[i], xs[j] = xs[j], xs[i]
	}
}

// Permutation is permutation(length).
func (n *Numpy) Permutation(length int) []int {
	p := ascending(length)
	n.Shuffle(length, func(i, j int) { p[i], p[j] = p[j], p[i] })
	return p
}

// Choice returns the k indices choice picks of a sequence of length, with replacement.
func (n *Numpy) Choice(length, k int) []int {
	out := make([]int, k)
	for i := range out {
		out[i] = int(n.Integers(0, int64(length)))
	}
	return out
}

func ascending(length int) []int {
	p := make([]int, length)
	for i := range p {
		p[i] = i
	}
	return p
}

// seedSequence spreads a seed over four words as NumPy's SeedSequence does for PCG64. Its multipliers are part
// of the format: they decide the numbers.
func seedSequence(seed uint64) [4]uint64 {
	key := [4]uint32{uint32(seed), uint32(seed >> 32)}
	var pool [4]uint32
	hash := uint32(0x43b0d7e5)
	hashmix := func(v uint32) uint32 {
		v ^= hash
		hash *= 0x931e8875
		v *= hash
		return v ^ v>>16
	}
	for i := range pool {
		pool[i] = hashmix(key[i])
	}
	for src := range pool {
		for dst := range pool {
			if src != dst {
				v := 0xca01f9dd*pool[dst] - 0x4973f715*hashmix(pool[src])
				pool[dst] = v ^ v>>16
			}
		}
	}
	var out [4]uint64
	hash = 0x8b51f9dd
	for i := range 8 {
		v := pool[i%4] ^ hash
		hash *= 0x58f38ded
		v *= hash
		v ^= v >> 16
		out[i/2] |= uint64(v) << (32 * (i % 2))
	}
	return out
}
