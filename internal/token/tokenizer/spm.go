package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// metaspace is the mark SentencePiece puts where a space was.
const metaspace = "\u2581"

// cutter cuts text before the marks that follow something else, wherever no
// merge reaches over such a place. Then a text falls into short words that
// repeat, which is what makes SentencePiece models fast here.
type cutter struct {
	// joins has the characters that some merge puts before a mark. Gemma 3 has
	// one such merge in half a million.
	joins map[rune]bool
}

// newCutter looks for merges over marks. It is nil where text cannot be cut at
// all: the mark must be a token by itself, or unknown characters could join
// over it, and words must not be looked up whole.
func newCutter(merges []mergePair, words map[string]int32, ignoreMerges bool) *cutter {
	if _, ok := words[metaspace]; !ok || ignoreMerges {
		return nil
	}
	c := &cutter{joins: make(map[rune]bool)}
	for _, m := range merges {
		if strings.HasPrefix(m.right, metaspace) && !strings.HasSuffix(m.left, metaspace) {
			last, _ := utf8.DecodeLastRuneInString(m.left)
			c.joins[last] = true
		}
	}
	return c
}

// next is the end of the word that begins at i.
func (c *cutter) next(s string, i int) int {
	for {
		for strings.HasPrefix(s[i:], metaspace) {
			i += len(metaspace)
		}
		n := strings.Index(s[i:], metaspace)
		if n < 0 {
			return len(s)
		}
		i += n
		if len(c.joins) == 0 {
			return i
		}
		if last, _ := utf8.DecodeLastRuneInString(s[:i]); !c.joins[last] {
			return i
		}
	}
}

// byteName is how SentencePiece vocabularies call a byte.
func byteName(b byte) string {
	const hex = "0123456789ABCDEF"
	return string([]byte{'<', '0', 'x', hex[b>>4], hex[b&15], '>'})
}

// byteOf is the byte a token names, if it names one.
func byteOf(token string) (byte, bool) {
	if len(token) != 6 || !strings.HasPrefix(token, "<0x") || token[5] != '>' {
		return 0, false
	}
	hi, ok1 := hexDigit(token[3])
	lo, ok2 := hexDigit(token[4])
	return hi<<4 | lo, ok1 && ok2
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	}
	return 0, false
}
