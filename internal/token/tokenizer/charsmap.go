package tokenizer

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// charsMap is SentencePiece's compiled normalization table: a double-array trie
// (darts-clone) whose values are offsets of NUL-ended replacements.
type charsMap struct {
	units    []uint32
	replaced string
	plain    [utf8.RuneSelf]bool // ASCII that the table leaves alone
}

func newCharsMap(encoded string) (normalizer, error) {
	if encoded == "" {
		return func(s string) string { return s }, nil
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("precompiled_charsmap: %w", err)
	}
	if len(raw) < 4 {
		return nil, errors.New("precompiled_charsmap is shorter than its header")
	}
	size := int64(binary.LittleEndian.Uint32(raw))
	raw = raw[4:]
	if size%4 != 0 || size == 0 || size > int64(len(raw)) {
		return nil, fmt.Errorf("precompiled_charsmap: a trie of %d bytes in %d", size, len(raw))
	}
	m := &charsMap{replaced: string(raw[size:])}
	for i := int64(0); i < size; i += 4 {
		m.units = append(m.units, binary.LittleEndian.Uint32(raw[i:]))
	}
	for c := range m.plain {
		_, hit := m.lookup(string(rune(c)))
		m.plain[c] = !hit
	}
	return m.normalize, nil
}

func unitOffset(u uint32) uint32 { return (u >> 10) << ((u & (1 << 9)) >> 6) }

// lookup is the replacement of the shortest prefix of s in the table. Shortest
// is what the reference takes, though the whole of s gets replaced.
func (m *charsMap) lookup(s string) (string, bool) {
	pos := unitOffset(m.units[0])
	for i := range len(s) {
		c := uint32(s[i])
		pos ^= c
		if c == 0 || int64(pos) >= int64(len(m.units)) {
			return "", false
		}
		u := m.units[pos]
		if u&(1<<31|0xFF) != c {
			return "", false
		}
		pos ^= unitOffset(u)
		if u>>8&1 == 1 {
			if int64(pos) >= int64(len(m.units)) {
				return "", false
			}
			return m.replacement(m.units[pos] & (1<<31 - 1))
		}
	}
	return "", false
}

func (m *charsMap) replacement(at uint32) (string, bool) {
	if int64(at) > int64(len(m.replaced)) {
		return "", false
	}
	s, _, _ := strings.Cut(m.replaced[at:], "\x00")
	return s, true
}

// normalize replaces whole grapheme clusters where they are short, else runes.
func (m *charsMap) normalize(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for state := -1; s != ""; {
		if n := m.plainPrefix(s); n > 0 {
			b.WriteString(s[:n])
			s, state = s[n:], -1
			continue
		}
		var cluster string
		cluster, s, _, state = uniseg.FirstGraphemeClusterInString(s, state)
		if len(cluster) < 6 {
			if r, ok := m.lookup(cluster); ok {
				b.WriteString(r)
				continue
			}
		}
		for _, r := range cluster {
			c := string(r)
			if to, ok := m.lookup(c); ok {
				c = to
			}
			b.WriteString(c)
		}
	}
	return b.String()
}

// plainPrefix is the length of the printable ASCII at the front of s that the
// table keeps, less the last rune, which may begin a cluster.
func (m *charsMap) plainPrefix(s string) int {
	i := 0
	for i < len(s) && ' ' <= s[i] && s[i] < 0x7F && m.plain[s[i]] {
		i++
	}
	if i < len(s) {
		i--
	}
	return max(i, 0)
}
