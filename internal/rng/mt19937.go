package rng

// twister is the Mersenne Twister MT19937, which both CPython's random and NumPy's legacy generator stand on.
// They differ in how they seed it and in what they make of its words.
type twister struct {
	state [624]uint32
	next  int // first word of state not handed out yet
}

const (
	twisterN = 624
	twisterM = 397
)

// seedWord fills the state from one word.
func (t *twister) seedWord(seed uint32) {
	t.state[0] = seed
	for i := 1; i < twisterN; i++ {
		prev := t.state[i-1]
		t.state[i] = 1812433253*(prev^prev>>30) + uint32(i)
	}
	t.next = twisterN
}

// seedWords fills the state from a key of any length above zero.
func (t *twister) seedWords(key []uint32) {
	t.seedWord(19650218)
	i, j := 1, 0
	advance := func() {
		if i++; i >= twisterN {
			t.state[0] = t.state[twisterN-1]
			i = 1
		}
	}
	for range max(twisterN, len(key)) {
		prev := t.state[i-1]
		t.state[i] = (t.state[i] ^ (prev^prev>>30)*1664525) + key[j] + uint32(j)
		advance()
		if j++; j >= len(key) {
			j = 0
		}
	}
	for range twisterN - 1 {
		prev := t.state[i-1]
		t.state[i] = (t.state[i] ^ (prev^prev>>30)*1566083941) - uint32(i)
		advance()
	}
	t.state[0] = 1 << 31
}

// refill turns the state over, 624 words at a time.
func (t *twister) refill() {
	s := &t.state
	for i := range twisterN - twisterM {
		s[i] = s[i+twisterM] ^ twist(s[i], s[i+1])
	}
	for i := twisterN - twisterM; i < twisterN-1; i++ {
		s[i] = s[i+twisterM-twisterN] ^ twist(s[i], s[i+1])
	}
	s[twisterN-1] = s[twisterM-1] ^ twist(s[twisterN-1], s[0])
	t.next = 0
}

func twist(a, b uint32) uint32 {
	y := a&0x80000000 | b&0x7fffffff
	return y>>1 ^ (-(b & 1) & 0x9908b0df)
}

// uint32 returns the next word.
func (t *twister) uint32() uint32 {
	if t.next >= twisterN {
		t.refill()
	}
	y := t.state[t.next]
	t.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// uint64 returns two words, the first as the high half.
func (t *twister) uint64() uint64 {
	hi := uint64(t.uint32())
	return hi<<32 | uint64(t.uint32())
}

// float64 returns a multiple of 2^-53 in [0, 1), made of 27 and 26 bits of two words.
func (t *twister) float64() float64 {
	a, b := t.uint32()>>5, t.uint32()>>6
	return float64(uint64(a)<<26|uint64(b)) * (1.0 / (1 << 53))
}
