// Package pytext writes values as Python does: repr for lines that people know from vLLM and for chat templates,
// json.dumps for result files. Other tools' users compare such text byte by byte.
package pytext

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bool is a truth value's repr.
func Bool(b bool) string {
	if b {
		return "True"
	}
	return "False"
}

// Float is a float's repr, which is its str too: inf, 10.0, 1e-05.
func Float(f float64) string { return string(AppendFloat(nil, f)) }

// AppendFloat appends the shortest digits that read back as f: plain between 1e-4 and 1e16, with an exponent of two
// digits or more outside.
func AppendFloat(dst []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, "nan"...)
	case math.IsInf(f, 1):
		return append(dst, "inf"...)
	case math.IsInf(f, -1):
		return append(dst, "-inf"...)
	}
	if abs := math.Abs(f); abs != 0 && (abs < 1e-4 || abs >= 1e16) {
		return strconv.AppendFloat(dst, f, 'e', -1, 64)
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
	if !slices.Contains(dst[start:], '.') {
		dst = append(dst, ".0"...)
	}
	return dst
}

// AppendJSONFloat appends a float as json.dumps does, which spells the special values like JavaScript.
func AppendJSONFloat(dst []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, "NaN"...)
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	}
	return AppendFloat(dst, f)
}

// Quote is a text's repr: single quotes unless only double ones save an escape, and unprintable characters escaped.
// Bytes that are not UTF-8 become what Python makes of such arguments and file names.
func Quote(s string) string {
	q := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		q = '"'
	}
	var b strings.Builder
	b.WriteByte(q)
	for i, c := range s {
		switch {
		case c == rune(q) || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\udc%02x`, s[i])
		case unicode.IsPrint(c):
			b.WriteRune(c)
		case c < 0x100:
			fmt.Fprintf(&b, `\x%02x`, c)
		case c < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			fmt.Fprintf(&b, `\U%08x`, c)
		}
	}
	b.WriteByte(q)
	return b.String()
}

// AppendJSONString appends a text as json.dumps does, with everything outside ASCII escaped where ascii is set.
func AppendJSONString(dst []byte, s string, ascii bool) []byte {
	dst = append(dst, '"')
	for _, c := range s { // bytes that are not UTF-8 come as U+FFFD
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', byte(c))
		case c >= ' ' && c <= '~':
			dst = append(dst, byte(c))
		case c < ' ':
			if i := strings.IndexRune("\n\r\t\b\f", c); i >= 0 {
				dst = append(dst, '\\', "nrtbf"[i])
			} else {
				dst = appendUnit(dst, c)
			}
		case !ascii:
			dst = utf8.AppendRune(dst, c)
		case c >= 0x10000: // a surrogate pair
			c -= 0x10000
			dst = appendUnit(appendUnit(dst, 0xd800+c>>10), 0xdc00+c&0x3ff)
		default:
			dst = appendUnit(dst, c)
		}
	}
	return append(dst, '"')
}

// appendUnit writes one unit of UTF-16.
func appendUnit(dst []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	return append(dst, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}
