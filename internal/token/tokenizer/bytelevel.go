package tokenizer

import "unicode/utf8"

// GPT-2 spells bytes as printable characters in its vocabulary file: bytes that
// print stand for themselves, the others for U+0100 and up. Vocabularies are
// turned back into bytes once, when they are loaded, so that text never is.

// alphabet maps the characters below its length to bytes; -1 where they are none.
var alphabet = newAlphabet()

func newAlphabet() [324]int16 {
	var a [324]int16
	for i := range a {
		a[i] = -1
	}
	next := 256
	for b := range 256 {
		if '!' <= b && b <= '~' || 0xA1 <= b && b <= 0xAC || 0xAE <= b {
			a[b] = int16(b)
			continue
		}
		a[next] = int16(b)
		next++
	}
	return a
}

// appendBytes appends the bytes that s spells. ok is false, and dst as it was,
// where s has a character outside the alphabet: such an entry is no byte string
// and only stands for itself.
func appendBytes(dst []byte, s string) (out []byte, ok bool) {
	n := len(dst)
	for _, r := range s {
		if r == utf8.RuneError || int(r) >= len(alphabet) || alphabet[r] < 0 {
			return dst[:n], false
		}
		dst = append(dst, byte(alphabet[r]))
	}
	return dst, true
}
