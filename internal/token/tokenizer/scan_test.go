package tokenizer

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// scanned cuts s with the scanner of a family.
func scanned(f family, s string) []string {
	var words []string
	for i := 0; i < len(s); {
		span := s
		if f == familyDeepSeek {
			span = s[:deepSeekSpan(s, i)]
		}
		for i < len(span) {
			var end int
			if f == familyDeepSeek {
				end = nextDeepSeek(span, i)
			} else {
				end = f.next(s, i)
			}
			words = append(words, s[i:end])
			i = end
		}
	}
	return words
}

// patternWords cuts s with the patterns themselves, one after the other.
func patternWords(patterns []regex, s string) []string {
	words := []string{s}
	for _, re := range patterns {
		var next []string
		for _, w := range words {
			for _, m := range re.spans(nil, w) {
				next = append(next, w[m.start:m.end])
			}
		}
		words = next
	}
	return words
}

// The engine has no possessive quantifiers; this says the same without.
const patternCL100kV2Plain = `'(?i:[sdmt]|ll|ve|re)|(?>[^\r\n\p{L}\p{N}]?)\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|` +
	`\s+\z|\s*[\r\n]|\s+(?!\S)|\s`

func familyPatterns(t testing.TB) map[family][]regex {
	t.Helper()
	all := make(map[family][]regex)
	for f, exprs := range map[family][]string{
		familyGPT2: {patternGPT2}, familyQwen: {patternQwen}, familyCL100k: {patternCL100k}, familyO200k: {patternO200k},
		familyTekken: {patternTekken}, familyCL100kV2: {patternCL100kV2Plain},
		familyDeepSeek: {patternDeepSeek1, patternDeepSeek2, patternDeepSeek3},
	} {
		for _, e := range exprs {
			re, err := compile(e)
			if err != nil {
				t.Fatal(err)
			}
			all[f] = append(all[f], re)
		}
	}
	return all
}

// sameTables tells whether the engine and the scanners can agree on s: it has
// older Unicode tables than they have, and no notion of invalid UTF-8.
func sameTables(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		known := unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z, unicode.Cc, unicode.Cf, unicode.Co)
		if !known && splitClasses.of(r) != 0 {
			return false
		}
	}
	return true
}

func checkScan(t *testing.T, patterns map[family][]regex, s string) {
	t.Helper()
	for f, res := range patterns {
		got := scanned(f, s)
		if strings.Join(got, "") != s {
			t.Fatalf("family %d loses text of %q: %q", f, s, got)
		}
		if want := patternWords(res, s); sameTables(s) && s != "" && !slices.Equal(got, want) {
			t.Fatalf("family %d, %q:\n got %q\nwant %q", f, s, got, want)
		}
	}
}

func TestScannersOnCorpus(t *testing.T) {
	var corpus []string
	unzipJSON(t, "corpus.json", &corpus)
	patterns := familyPatterns(t)
	for _, s := range corpus {
		if len(s) <= 512 {
			checkScan(t, patterns, s)
		}
	}
}

func TestScanEdges(t *testing.T) {
	tests := []struct {
		name string
		f    family
		in   string
		want []string
	}{
		{"trailing space belongs to no word", familyGPT2, "a  b ", []string{"a", " ", " b", " "}},
		{"newlines up to the last", familyCL100k, "a \n \n  b", []string{"a", " \n \n", " ", " b"}},
		{"white space at the end, old", familyCL100k, "a\n  ", []string{"a", "\n", "  "}},
		{"white space at the end, today", familyCL100kV2, "a\n  ", []string{"a", "\n  "}},
		{"three digits", familyCL100k, "12345", []string{"123", "45"}},
		{"every digit", familyQwen, "123", []string{"1", "2", "3"}},
		{"contraction with long s", familyCL100k, "it'\u017f", []string{"it", "'\u017f"}},
		{"contraction is not folded", familyGPT2, "IT'S", []string{"IT", "'", "S"}},
		{"case ends a word", familyO200k, "camelCaseHTTPServer", []string{"camel", "Case", "HTTPServer"}},
		{"contraction stays", familyO200k, "we'll go", []string{"we'll", " go"}},
		{"slash after symbols", familyO200k, "//\n/a", []string{"//\n/", "a"}},
		{"no contractions", familyTekken, "we'll", []string{"we", "'ll"}},
		{"kana apart", familyDeepSeek, "abカナ12", []string{"ab", "カナ", "12"}},
		{"unmatched runs stay whole", familyDeepSeek, "\u200b\u200b.", []string{"\u200b\u200b", "."}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := scanned(test.f, test.in); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestClasses holds the generated tables against Go's own, which are older: a
// code point Go knows must have the same classes.
func TestClasses(t *testing.T) {
	flags := []struct {
		flag   uint8
		tables []*unicode.RangeTable
	}{
		{isLetter, []*unicode.RangeTable{unicode.L}},
		{isNumber, []*unicode.RangeTable{unicode.N}},
		{isSpace, []*unicode.RangeTable{unicode.White_Space}},
		{isUpper, []*unicode.RangeTable{unicode.Lu, unicode.Lt, unicode.Lm, unicode.Lo, unicode.M}},
		{isLower, []*unicode.RangeTable{unicode.Ll, unicode.Lm, unicode.Lo, unicode.M}},
		{isPunct, []*unicode.RangeTable{unicode.P, unicode.S}},
		{isMark, []*unicode.RangeTable{unicode.M}},
	}
	for r := rune(0); r <= 0x3FFFF; r++ {
		if !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z, unicode.Cc, unicode.Cf) {
			continue
		}
		want := uint8(0)
		if r == '\r' || r == '\n' {
			want = isNewline
		}
		for _, f := range flags {
			if unicode.In(r, f.tables...) {
				want |= f.flag
			}
		}
		if got := splitClasses.of(r); got != want {
			t.Errorf("%U has classes %08b, want %08b", r, got, want)
		}
	}
	if splitClasses.of(0x1C8A)&isLower == 0 { // a small letter of Unicode 16
		t.Error("the tables are older than Unicode 16")
	}
}

func FuzzScan(f *testing.F) {
	for _, s := range []string{
		"", "Hello, world's 12345 \n\n  x ", "日本語カタカナ・test", "\u0301A\u0301bC'RE", "'ſ'LL", "\u2003\u0085\r\n\t", "a//\n/b",
		"ǅʰªº中Aあ", "\u200b\u200bx", "\x80\xffab", "１２３½²Ⅷ", "👨‍👩‍👧‍👦 ok",
	} {
		f.Add(s)
	}
	patterns := familyPatterns(f)
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 300 {
			return
		}
		checkScan(t, patterns, s)
	})
}
