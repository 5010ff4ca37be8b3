package tokenizer

import (
	_ "embed"
	"unicode/utf8"
)

// Flags of a code point for splitting, Unicode 16.0. The generator in gen sets
// them in this order.
const (
	isLetter  = 1 << iota // \p{L}
	isNumber              // \p{N}
	isSpace               // \s, White_Space
	isUpper               // Lu Lt Lm Lo M: what may begin a word of the o200k family
	isLower               // Ll Lm Lo M: what may end one
	isNewline             // \r \n
	isPunct               // \p{P} \p{S}
	isMark                // \p{M}
)

// Flags of a code point for cleaning. The reference implementation still uses
// Unicode 8.0 for BERT's rules and 9.0 for normalization forms; with newer
// tables some ids would differ.
const (
	isWord     = 1 << iota // \w of Rust's regex, Unicode 16.0
	isOldPunct             // P
	isOldMn                // Mn
	isOldOther             // Cc Cf Co
	isYoung                // not yet in Unicode 9.0
)

//go:embed classes.bin
var classData string

// classTable is a two-stage table: a block for every 256 code points.
type classTable struct {
	ascii  [utf8.RuneSelf]uint8
	index  [0x1100]uint8
	blocks [][256]uint8
}

var splitClasses, cleanClasses = readClasses(classData)

func readClasses(data string) (split, clean *classTable) {
	split, rest := readTable(data)
	clean, _ = readTable(rest)
	return split, clean
}

func readTable(data string) (*classTable, string) {
	t := new(classTable)
	n := copy(t.index[:], data)
	t.blocks = make([][256]uint8, int(data[n])+1)
	data = data[n+1:]
	for i := range t.blocks {
		data = data[copy(t.blocks[i][:], data):]
	}
	copy(t.ascii[:], t.blocks[0][:])
	return t, data
}

func (t *classTable) of(r rune) uint8 {
	return t.blocks[t.index[r>>8]][r&255]
}

// classAt is the class and the width of the rune at s[i:]; the width is 0 at
// the end of s. A byte that is no UTF-8 counts as U+FFFD, one byte wide.
func classAt(s string, i int) (class uint8, size int) {
	if i >= len(s) {
		return 0, 0
	}
	if c := s[i]; c < utf8.RuneSelf {
		return splitClasses.ascii[c], 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	return splitClasses.of(r), n
}

// spaceRune tells whether r is White_Space.
func spaceRune(r rune) bool { return splitClasses.of(r)&isSpace != 0 }

// wordRune tells whether r is \w in Rust's regex syntax.
func wordRune(r rune) bool { return cleanClasses.of(r)&isWord != 0 }

// punctRune tells whether BERT's rules call r punctuation.
func punctRune(r rune) bool {
	if r < utf8.RuneSelf {
		return '!' <= r && r <= '/' || ':' <= r && r <= '@' || '[' <= r && r <= '`' || '{' <= r && r <= '~'
	}
	return cleanClasses.of(r)&isOldPunct != 0
}
