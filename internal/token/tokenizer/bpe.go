package tokenizer

import (
	"sync/atomic"
	"unicode/utf8"
)

const (
	// wordCacheBytes is the longest word worth remembering.
	wordCacheBytes = 64
	// wordCacheSize is how many words an encoder remembers before it starts over.
	wordCacheSize = 1 << 16
	// scanLimit is the longest word merged by scanning for the best pair;
	// longer ones use a heap.
	scanLimit = 160

	noToken = int32(-1)
)

// bpe merges symbols, bytes or characters, pair by pair, lowest rank first.
type bpe struct {
	words map[string]int32 // the vocabulary, as text
	pairs *pairTable       // two ids -> rank<<32 | id of both together
	whole wholeWords

	byteLevel    bool
	ignoreMerges bool       // a word in the vocabulary is a token whatever the merges say
	cut          *cutter    // nil: pieces are encoded whole
	bytes        [256]int32 // byte-level: the id of every byte; else of <0xNN>
	fallback     bool       // unknown characters are spelled in bytes
	unk          int32
	fuseUnk      bool
}

// wholeWords remembers which vocabulary entries the merges really lead to: 0
// not yet known, 1 yes, 2 no. Encoders share it; each state is set once.
type wholeWords []atomic.Uint32

// appendPiece encodes one piece of text.
func (m *bpe) appendPiece(e *Encoder, dst []int32, s string) []int32 {
	if m.cut == nil {
		return m.appendWord(e, dst, s)
	}
	for i := 0; i < len(s); {
		end := m.cut.next(s, i)
		dst = m.appendWord(e, dst, s[i:end])
		i = end
	}
	return dst
}

func (m *bpe) appendWord(e *Encoder, dst []int32, w string) []int32 {
	if w == "" {
		return dst
	}
	if id, ok := m.words[w]; ok && (m.ignoreMerges || m.isWhole(e, id, w)) {
		return append(dst, id)
	}
	if len(w) > wordCacheBytes {
		return m.merge(e, dst, w)
	}
	if ids, ok := e.cache[w]; ok {
		return append(dst, ids...)
	}
	n := len(dst)
	dst = m.merge(e, dst, w)
	e.remember(w, dst[n:])
	return dst
}

// isWhole tells whether the merges turn w into the one token id.
func (m *bpe) isWhole(e *Encoder, id int32, w string) bool {
	state := &m.whole[id]
	switch state.Load() {
	case 1:
		return true
	case 2:
		return false
	}
	ids := m.merge(e, e.scratch[:0], w)
	yes := len(ids) == 1 && ids[0] == id
	e.scratch = ids
	if yes {
		state.Store(1)
	} else {
		state.Store(2)
	}
	return yes
}

// merge encodes w from its symbols up.
func (m *bpe) merge(e *Encoder, dst []int32, w string) []int32 {
	if m.byteLevel {
		e.symbols = m.byteSymbols(e.symbols[:0], w)
	} else {
		e.symbols = m.runeSymbols(e.symbols[:0], w)
	}
	switch n := len(e.symbols); {
	case n < 2:
		return append(dst, e.symbols...)
	case n > scanLimit:
		return e.mergeHeap(dst, m.pairs)
	}
	return e.mergeScan(dst, m.pairs)
}

func (m *bpe) byteSymbols(dst []int32, w string) []int32 {
	unk := false // the last symbol is the unknown token
	for i := range len(w) {
		id := m.bytes[w[i]]
		if id >= 0 {
			dst, unk = append(dst, id), false
		} else if m.unk >= 0 && (!unk || !m.fuseUnk) {
			dst, unk = append(dst, m.unk), true
		}
	}
	return dst
}

// runeSymbols spells w in characters of the vocabulary. Unknown ones become
// bytes, or the unknown token, which is held back until the next known
// character: the reference does so, and thereby puts bytes before it.
func (m *bpe) runeSymbols(dst []int32, w string) []int32 {
	held := 0
	flush := func() {
		if m.fuseUnk {
			held = min(held, 1)
		}
		for ; held > 0; held-- {
			dst = append(dst, m.unk)
		}
	}
	for i := 0; i < len(w); {
		n := 1
		if w[i] >= utf8.RuneSelf {
			_, n = utf8.DecodeRuneInString(w[i:])
		}
		c := w[i : i+n]
		i += n
		if id, ok := m.words[c]; ok {
			flush()
			dst = append(dst, id)
			continue
		}
		if m.fallback && m.canSpell(c) {
			for j := range len(c) {
				dst = append(dst, m.bytes[c[j]])
			}
			continue
		}
		if m.unk >= 0 {
			if held > 0 && !m.fuseUnk {
				flush()
			}
			held++
		}
	}
	flush()
	return dst
}

func (m *bpe) canSpell(c string) bool {
	for j := range len(c) {
		if m.bytes[c[j]] < 0 {
			return false
		}
	}
	return true
}

// mergeScan merges e.symbols by looking through all pairs for the best: for
// short words that beats any cleverer structure.
func (e *Encoder) mergeScan(dst []int32, pairs *pairTable) []int32 {
	ids := e.symbols
	ranks := e.ranks[:0]
	for i := range len(ids) - 1 {
		ranks = append(ranks, pairs.get(uint32(ids[i]), uint32(ids[i+1])))
	}
	e.ranks = ranks
	for {
		best, at := noPair, -1
		for i, v := range ranks {
			if v < best {
				best, at = v, i
			}
		}
		if at < 0 {
			return append(dst, ids...)
		}
		ids[at] = int32(uint32(best))
		copy(ids[at+1:], ids[at+2:])
		ids = ids[:len(ids)-1]
		copy(ranks[at:], ranks[at+1:])
		ranks = ranks[:len(ranks)-1]
		if at > 0 {
			ranks[at-1] = pairs.get(uint32(ids[at-1]), uint32(ids[at]))
		}
		if at < len(ranks) {
			ranks[at] = pairs.get(uint32(ids[at]), uint32(ids[at+1]))
		}
	}
}

// candidate is a pair that may be merged, unless one side has changed since.
type candidate struct {
	pair        uint64 // rank<<32 | id
	at          int32
	left, right int32
}

func (c candidate) before(d candidate) bool {
	if a, b := c.pair>>32, d.pair>>32; a != b {
		return a < b
	}
	return c.at < d.at
}

// mergeHeap merges e.symbols in n log n.
func (e *Encoder) mergeHeap(dst []int32, pairs *pairTable) []int32 {
	ids := e.symbols
	n := len(ids)
	prev, next := e.prev[:0], e.next[:0]
	for i := range n {
		prev, next = append(prev, int32(i-1)), append(next, int32(i+1))
	}
	e.prev, e.next, e.heap = prev, next, e.heap[:0]
	offer := func(l, r int32) {
		if v := pairs.get(uint32(ids[l]), uint32(ids[r])); v != noPair {
			e.push(candidate{v, l, ids[l], ids[r]})
		}
	}
	for i := range n - 1 {
		offer(int32(i), int32(i+1))
	}
	for len(e.heap) > 0 {
		c := e.pop()
		r := next[c.at]
		if ids[c.at] != c.left || int(r) >= n || ids[r] != c.right {
			continue
		}
		ids[c.at], ids[r] = int32(uint32(c.pair)), noToken
		after := next[r]
		next[c.at] = after
		if int(after) < n {
			prev[after] = c.at
			offer(c.at, after)
		}
		if before := prev[c.at]; before >= 0 {
			offer(before, c.at)
		}
	}
	for i := int32(0); int(i) < n; i = next[i] {
		dst = append(dst, ids[i])
	}
	return dst
}

func (e *Encoder) push(c candidate) {
	e.heap = append(e.heap, c)
	h := e.heap
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !c.before(h[up]) {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = c
}

func (e *Encoder) pop() candidate {
	h := e.heap
	top, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	e.heap = h
	i := 0
	for {
		down := 2*i + 1
		if down >= len(h) {
			break
		}
		if down+1 < len(h) && h[down+1].before(h[down]) {
			down++
		}
		if !h[down].before(last) {
			break
		}
		h[i] = h[down]
		i = down
	}
	if len(h) > 0 {
		h[i] = last
	}
	return top
}
