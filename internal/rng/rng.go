// Package rng is every random number spate draws: one seed, many named independent streams (New), and
// exact re-implementations of the three generators other benchmark clients draw from, so that a seeded run of
// theirs can be repeated here to the bit: NumPy's default_rng (Numpy), NumPy's legacy RandomState (Legacy) and
// CPython's random module (Python).
//
// It is the lowest level: schedule draws arrival gaps from it, workload draws lengths, prompts and orders.
// All streams give the same numbers on every CPU; see float.go for what that takes. Read this file first.
//
// None of the generators is safe for concurrent use; give each goroutine its own stream.
package rng

import "math/rand/v2"

// New returns the stream called name, of the run seeded with seed. Streams that differ in seed, name or any
// index are independent: drawing more from one never shifts another. The indices are for streams per item,
// such as one per request, which lets items be made in any order on any number of cores.
//
// Of the methods of rand.Rand, NormFloat64 and ExpFloat64 use the platform's logarithm in their tails; where
// results must be the same on every CPU, transform Float64 with Log, Exp and Pow of this package.
func New(seed uint64, name string, index ...uint64) *rand.Rand {
	a := newMixer(seed, 0x6a09e667f3bcc908)
	b := newMixer(seed, 0xbb67ae8584caa73b)
	a.text(name)
	b.text(name)
	for _, v := range index {
		a.word(v)
		b.word(v)
	}
	return rand.New(rand.NewPCG(a.sum(), b.sum()))
}

// mixer folds words into 64 bits, order and count included. It is a hash against accidents, not against people.
type mixer struct{ state, words uint64 }

func newMixer(seed, lane uint64) mixer {
	m := mixer{state: lane}
	m.word(seed)
	return m
}

func (m *mixer) word(v uint64) {
	m.words++
	m.state = Mix(m.state^v) + step
}

// text folds eight bytes at a time; the length goes first so that no name is a prefix of another.
func (m *mixer) text(s string) {
	m.word(uint64(len(s)))
	for len(s) > 0 {
		var v uint64
		n := min(8, len(s))
		for i := range n {
			v |= uint64(s[i]) << (8 * i)
		}
		m.word(v)
		s = s[n:]
	}
}

func (m *mixer) sum() uint64 { return Mix(m.state ^ m.words) }

// Mix is the finaliser of SplitMix64, a bijection: each input bit flips each output bit with probability near 1/2.
func Mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// SplitMix is what SplitMix64 draws in state x; unlike Mix it does not keep 0.
func SplitMix(x uint64) uint64 { return Mix(x + step) }

// step is how far SplitMix64 moves its state: 2^64 over the golden ratio, odd.
const step = 0x9e3779b97f4a7c15
