package tokenizer

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// normalizer rewrites the text between added tokens.
type normalizer func(string) string

// newNormalizers builds the steps a normalizer node asks for, in order.
func newNormalizers(n *node) ([]normalizer, error) {
	if n == nil {
		return nil, nil
	}
	if n.Type == "Sequence" {
		var all []normalizer
		for i := range n.Normalizers {
			steps, err := newNormalizers(&n.Normalizers[i])
			if err != nil {
				return nil, err
			}
			all = append(all, steps...)
		}
		return all, nil
	}
	f, err := newNormalizer(n)
	if err != nil {
		return nil, err
	}
	return []normalizer{f}, nil
}

func newNormalizer(n *node) (normalizer, error) {
	switch n.Type {
	case "NFC":
		return form(norm.NFC), nil
	case "NFD":
		return form(norm.NFD), nil
	case "NFKC":
		return form(norm.NFKC), nil
	case "NFKD":
		return form(norm.NFKD), nil
	case "Lowercase":
		return lower, nil
	case "Strip":
		return strip(n.StripLeft, n.StripRight), nil
	case "StripAccents":
		return drop(func(r rune) bool {
			return splitClasses.of(r)&isMark != 0 && cleanClasses.of(r)&isYoung == 0
		}), nil
	case "Nmt":
		return nmt, nil
	case "Prepend":
		return prepend(n.Prepend), nil
	case "Replace":
		return newReplace(n)
	case "BertNormalizer":
		return newBertNormalizer(n), nil
	case "Precompiled":
		return newCharsMap(n.CharsMap)
	}
	return nil, fmt.Errorf("normalizer %q is not supported", n.Type)
}

// form is a normalization form as Unicode 9.0 has it: younger characters stay
// as they are, and nothing moves past them or combines with them.
func form(f norm.Form) normalizer {
	return func(s string) string {
		if f.IsNormalString(s) {
			return s
		}
		var b strings.Builder
		b.Grow(len(s))
		done := 0
		for i, r := range s {
			if r >= utf8.RuneSelf && cleanClasses.of(r)&isYoung != 0 {
				b.WriteString(f.String(s[done:i]))
				done = i + utf8.RuneLen(r)
				b.WriteString(s[i:done])
			}
		}
		b.WriteString(f.String(s[done:]))
		return b.String()
	}
}

// lower lower-cases every rune by itself. Go's mapping is one rune to one rune;
// U+0130 is the only one that becomes two.
func lower(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '\u0130' {
			return r
		}
		return unicode.ToLower(r)
	}, s)
	return strings.ReplaceAll(s, "\u0130", "i\u0307")
}

func strip(left, right bool) normalizer {
	return func(s string) string {
		if left {
			s = strings.TrimLeftFunc(s, spaceRune)
		}
		if right {
			s = strings.TrimRightFunc(s, spaceRune)
		}
		return s
	}
}

func drop(unwanted func(rune) bool) normalizer {
	return func(s string) string {
		return strings.Map(func(r rune) rune {
			if unwanted(r) {
				return -1
			}
			return r
		}, s)
	}
}

func prepend(p string) normalizer {
	return func(s string) string {
		if s == "" {
			return s
		}
		grown("Prepend", len(s), len(p)+len(s))
		return p + s
	}
}

// newReplace replaces every match of a string or of a pattern.
func newReplace(n *node) (normalizer, error) {
	if n.Pattern.String != nil {
		old, with := *n.Pattern.String, n.Content
		if old == "" {
			return func(s string) string { return s }, nil
		}
		return func(s string) string { return replaceAll(s, old, with) }, nil
	}
	if n.Pattern.Regex == nil {
		return nil, fmt.Errorf("normalizer Replace has no pattern")
	}
	re, err := compile(*n.Pattern.Regex)
	if err != nil {
		return nil, err
	}
	with := n.Content
	return func(s string) string {
		var b strings.Builder
		for _, m := range re.spans(nil, s) {
			if m.match {
				grown("Replace", len(s), b.Len()+len(with))
				b.WriteString(with)
			} else {
				b.WriteString(s[m.start:m.end])
			}
		}
		return b.String()
	}, nil
}

// nmt drops control characters and makes a space of everything space-like.
func nmt(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 1 <= r && r <= 8, r == 0x0B, 0x0E <= r && r <= 0x1F, r == 0x7F, r == 0x8F, r == 0x9F:
			return -1
		case r == '\t', r == '\n', r == 0x0C, r == '\r', r == 0x1680, 0x200B <= r && r <= 0x200F,
			r == 0x2028, r == 0x2029, r == 0x2581, r == 0xFEFF, r == 0xFFFD:
			return ' '
		}
		return r
	}, s)
}

// newBertNormalizer cleans, spaces out han characters, strips accents and
// lower-cases, each as the node says; accents go with the case unless it says
// otherwise.
func newBertNormalizer(n *node) normalizer {
	lowercase := orTrue(n.Lowercase)
	accents := lowercase
	if n.StripAccents != nil {
		accents = *n.StripAccents
	}
	clean, han := orTrue(n.CleanText), orTrue(n.HandleChineseChars)
	stripMarks := drop(func(r rune) bool { return cleanClasses.of(r)&isOldMn != 0 })
	decompose := form(norm.NFD)
	return func(s string) string {
		if clean || han {
			s = bertClean(s, clean, han)
		}
		if accents && !isASCII(s) {
			s = stripMarks(decompose(s))
		}
		if lowercase {
			s = lower(s)
		}
		return s
	}
}

func bertClean(s string, clean, han bool) string {
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range s {
		switch {
		case clean && (r == 0 || r == utf8.RuneError):
		case clean && (r == '\t' || r == '\n' || r == '\r'):
			b.WriteByte(' ')
		case clean && cleanClasses.of(r)&isOldOther != 0:
		case clean && spaceRune(r):
			b.WriteByte(' ')
		case han && bertHan(r):
			b.WriteByte(' ')
			b.WriteRune(r)
			b.WriteByte(' ')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func bertHan(r rune) bool {
	switch {
	case r < 0x3400:
		return false
	case r <= 0x4DBF, 0x4E00 <= r && r <= 0x9FFF, 0xF900 <= r && r <= 0xFAFF:
		return true
	case 0x20000 <= r && r <= 0x2A6DF, 0x2A700 <= r && r <= 0x2B81F, 0x2B920 <= r && r <= 0x2CEAF, 0x2F800 <= r && r <= 0x2FA1F:
		return true
	}
	return false
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func orTrue(b *bool) bool { return b == nil || *b }
