package tokenizer

import "strings"

// metaspace is the mark SentencePiece puts where a space was.
const metaspace = "\u2581"

// canCut tells whether a text may be cut before every mark that follows
// something else: no merge reaches over such a place, and the mark is a token
// so that nothing else does. Then a text falls into short words that repeat,
// which is what makes SentencePiece models fast here.
func canCut(merges []mergePair, words map[string]int32, ignoreMerges bool) bool {
	if _, ok := words[metaspace]; !ok || ignoreMerges {
		return false
	}
	for _, m := range merges {
		if strings.HasPrefix(m.right, metaspace) && !strings.HasSuffix(m.left, metaspace) {
			return false
		}
	}
	return true
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
