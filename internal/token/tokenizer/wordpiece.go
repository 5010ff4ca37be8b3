package tokenizer

import "unicode/utf8"

// wordPiece takes the longest entry that fits, again and again; a word that
// cannot be written so is one unknown token.
type wordPiece struct {
	start    *trie // entries that begin a word
	rest     *trie // entries that go on, without their prefix
	unk      int32
	maxRunes int
}

func (m *wordPiece) appendPiece(_ *Encoder, dst []int32, s string) []int32 {
	if utf8.RuneCountInString(s) > m.maxRunes {
		return append(dst, m.unk)
	}
	n := len(dst)
	entries := m.start
	for i := 0; i < len(s); {
		id, end := noToken, i
		for node, j := uint32(0), i; j < len(s); {
			next, ok := entries.step(node, s[j])
			if !ok {
				break
			}
			node = next
			j++
			if v := entries.value[node]; v >= 0 {
				id, end = v, j
			}
		}
		if id < 0 {
			return append(dst[:n], m.unk)
		}
		dst = append(dst, id)
		i, entries = end, m.rest
	}
	return dst
}
