package tokenizer

// trie maps byte strings to non-negative numbers. Edges live in one hash table,
// so that a vocabulary of a quarter million strings costs three allocations.
type trie struct {
	edges *pairTable
	value []int32 // per node; -1 where no string ends
	first [256]bool
}

func newTrie(bytes int) *trie {
	return &trie{edges: newPairTable(bytes), value: []int32{-1}}
}

// put adds s; of equal strings the first stays.
func (t *trie) put(s string, v int32) {
	if s == "" {
		return
	}
	t.first[s[0]] = true
	node := uint32(0)
	for i := range len(s) {
		next := t.edges.get(node, uint32(s[i]))
		if next == noPair {
			next = uint64(len(t.value))
			t.edges.put(node, uint32(s[i]), next)
			t.value = append(t.value, -1)
		}
		node = uint32(next)
	}
	if t.value[node] < 0 {
		t.value[node] = v
	}
}

// step follows one byte from a node; ok is false where no string goes on.
func (t *trie) step(node uint32, b byte) (next uint32, ok bool) {
	v := t.edges.get(node, uint32(b))
	return uint32(v), v != noPair
}

// longest finds the leftmost, and there the longest, string of the trie in
// s[from:]; v is -1 where there is none.
func (t *trie) longest(s string, from int) (start, end int, v int32) {
	for i := from; i < len(s); i++ {
		if !t.first[s[i]] {
			continue
		}
		node, end, best := uint32(0), i, int32(-1)
		for j := i; j < len(s); j++ {
			next, ok := t.step(node, s[j])
			if !ok {
				break
			}
			node = next
			if t.value[node] >= 0 {
				best, end = t.value[node], j+1
			}
		}
		if best >= 0 {
			return i, end, best
		}
	}
	return len(s), len(s), -1
}

// pairTable is an open-addressing hash table from two numbers to one, the
// inner loop of BPE: no interfaces, no allocation, one probe in most cases.
type pairTable struct {
	keys []uint64 // key+1, so that zero means free
	vals []uint64
	used int
}

const noPair = ^uint64(0)

func newPairTable(n int) *pairTable {
	size := 16
	for size < n*2 {
		size <<= 1
	}
	return &pairTable{keys: make([]uint64, size), vals: make([]uint64, size)}
}

func pairSlot(key uint64) uint64 {
	key *= 0x9E3779B97F4A7C15
	return key ^ key>>29
}

// put sets the value of (a, b); a later value replaces an earlier one.
func (p *pairTable) put(a, b uint32, v uint64) {
	if p.used*2 >= len(p.keys) {
		p.grow()
	}
	p.set((uint64(a)<<32|uint64(b))+1, v)
}

func (p *pairTable) set(key, v uint64) {
	mask := uint64(len(p.keys) - 1)
	i := pairSlot(key) & mask
	for p.keys[i] != 0 && p.keys[i] != key {
		i = (i + 1) & mask
	}
	if p.keys[i] == 0 {
		p.used++
	}
	p.keys[i], p.vals[i] = key, v
}

func (p *pairTable) grow() {
	old := *p
	*p = pairTable{keys: make([]uint64, 2*len(old.keys)), vals: make([]uint64, 2*len(old.vals))}
	for i, k := range old.keys {
		if k != 0 {
			p.set(k, old.vals[i])
		}
	}
}

// get is the value of (a, b), or noPair.
func (p *pairTable) get(a, b uint32) uint64 {
	key := (uint64(a)<<32 | uint64(b)) + 1
	keys := p.keys
	mask := uint64(len(keys) - 1)
	for i := pairSlot(key) & mask; ; i = (i + 1) & mask {
		switch keys[i&mask] {
		case key:
			return p.vals[i]
		case 0:
			return noPair
		}
	}
}
