package tokenizer

import (
	"slices"
	"unicode/utf8"
)

// unkPenalty is how much worse than the worst entry an unknown character is.
const unkPenalty = 10

// unigram takes the most likely way to write a piece in vocabulary entries.
type unigram struct {
	words    map[string]int32
	trie     *trie // entry -> id
	scores   []float64
	unkScore float64
	unk      int32
	bytes    [256]int32
	fallback bool
}

// step is the best way found so far to reach an offset.
type step struct {
	score float64
	from  int32 // -1: not reached yet
	id    int32
}

func (m *unigram) appendPiece(e *Encoder, dst []int32, s string) []int32 {
	if len(s) > wordCacheBytes {
		return m.appendBest(e, dst, s)
	}
	if ids, ok := e.cache[s]; ok {
		return append(dst, ids...)
	}
	n := len(dst)
	dst = m.appendBest(e, dst, s)
	e.remember(s, dst[n:])
	return dst
}

func (m *unigram) appendBest(e *Encoder, dst []int32, s string) []int32 {
	path := m.path(e, s)
	first := len(dst)
	unkEnd := -1 // end of the unknown characters collected, going backwards
	flush := func(start int) {
		if unkEnd >= 0 {
			dst = m.appendUnknown(dst, s[start:unkEnd])
			unkEnd = -1
		}
	}
	for end := len(s); end > 0; end = int(path[end].from) {
		if p := path[end]; p.id == m.unk {
			if unkEnd < 0 {
				unkEnd = end
			}
		} else {
			flush(end)
			dst = append(dst, p.id)
		}
	}
	flush(0)
	slices.Reverse(dst[first:])
	return dst
}

// path fills in the best step to every character boundary of s.
func (m *unigram) path(e *Encoder, s string) []step {
	path := append(e.steps[:0], step{})
	for range len(s) {
		path = append(path, step{from: -1})
	}
	e.steps = path
	reach := func(end int, next step) {
		if path[end].from < 0 || next.score > path[end].score {
			path[end] = next
		}
	}
	for i := 0; i < len(s); {
		_, size := utf8.DecodeRuneInString(s[i:])
		base, single := path[i].score, false
		for node, j := uint32(0), i; j < len(s); {
			next, ok := m.trie.step(node, s[j])
			if !ok {
				break
			}
			node = next
			j++
			if id := m.trie.value[node]; id >= 0 {
				reach(j, step{base + m.scores[id], int32(i), id})
				single = single || j == i+size
			}
		}
		if !single {
			reach(i+size, step{base + m.unkScore, int32(i), m.unk})
		}
		i += size
	}
	return path
}

// appendUnknown spells characters the path has no entry for, last id first.
func (m *unigram) appendUnknown(dst []int32, s string) []int32 {
	if id, ok := m.words[s]; ok {
		return append(dst, id)
	}
	if m.fallback {
		n := len(dst)
		for i := len(s) - 1; i >= 0; i-- {
			id := m.bytes[s[i]]
			if id < 0 {
				dst = dst[:n]
				break
			}
			dst = append(dst, id)
		}
		if len(dst) > n {
			return dst
		}
	}
	if m.unk < 0 {
		return dst
	}
	return append(dst, m.unk)
}
