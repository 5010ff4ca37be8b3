package tokenizer

// The pre-tokenizer patterns of the large model families, written by hand: the
// general regexp engine is ten times slower. Each scanner says where the word
// that begins at s[i] ends; scan_test.go holds them against the patterns.

// family names a pattern, or a sequence of patterns, that has a scanner.
type family int

const (
	familyNone     family = iota
	familyGPT2            // GPT-2 and its many heirs
	familyQwen            // cl100k with every digit alone
	familyCL100k          // Llama 3, GPT-4: up to three digits together
	familyCL100kV2        // today's tiktoken: white space at the end of the text stays whole
	familyO200k           // GPT-4o, gpt-oss
	familyTekken          // Mistral Nemo: o200k without contractions, every digit alone
	familyDeepSeek        // DeepSeek V3: three patterns one after the other
)

const (
	patContraction = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
	patPrefix      = `[^\r\n\p{L}\p{N}]?`
	patUpper       = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
	patLower       = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
	patSpaces      = `|\s*[\r\n]+|\s+(?!\S)|\s+`

	patternGPT2   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	patternQwen   = patContraction + `|` + patPrefix + `\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*` + patSpaces
	patternCL100k = patContraction + `|` + patPrefix + `\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*` + patSpaces
	patternO200k  = patPrefix + patUpper + `*` + patLower + `+` + patContraction + `?|` +
		patPrefix + patUpper + `+` + patLower + `*` + patContraction + `?|` +
		`\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*` + patSpaces
	patternTekken = patPrefix + patUpper + `*` + patLower + `+|` + patPrefix + patUpper + `+` + patLower + `*|` +
		`\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*` + patSpaces
	patternCL100kV2 = `'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|` +
		`\s++$|\s*[\r\n]|\s+(?!\S)|\s`

	patternDeepSeek1 = `\p{N}{1,3}`
	patternDeepSeek2 = "[一-龥\u3040-ゟ゠-ヿ]+"
	patternDeepSeek3 = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|" +
		" ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
)

// familyOf finds the scanner for a sequence of patterns whose matches are
// isolated one after the other.
func familyOf(patterns []string) family {
	switch len(patterns) {
	case 1:
		switch patterns[0] {
		case patternGPT2:
			return familyGPT2
		case patternQwen:
			return familyQwen
		case patternCL100k:
			return familyCL100k
		case patternCL100kV2:
			return familyCL100kV2
		case patternO200k:
			return familyO200k
		case patternTekken:
			return familyTekken
		}
	case 3:
		if patterns[0] == patternDeepSeek1 && patterns[1] == patternDeepSeek2 && patterns[2] == patternDeepSeek3 {
			return familyDeepSeek
		}
	}
	return familyNone
}

// next is the end of the word that begins at i; i must be inside s. DeepSeek
// has its own loop, deepSeekSpan around nextDeepSeek.
func (f family) next(s string, i int) int {
	switch f {
	case familyQwen, familyCL100k, familyCL100kV2:
		return f.nextCL100k(s, i)
	case familyO200k, familyTekken:
		return f.nextO200k(s, i)
	case familyGPT2:
		return nextGPT2(s, i)
	}
	return len(s)
}

func nextGPT2(s string, i int) int {
	if m := contraction(s, i, false); m > 0 {
		return i + m
	}
	class, size := classAt(s, i)
	j := i
	if s[i] == ' ' {
		if c, n := classAt(s, i+1); n > 0 && c&isSpace == 0 {
			j, class, size = i+1, c, n
		}
	}
	switch {
	case class&isLetter != 0:
		return run(s, j+size, isLetter)
	case class&isNumber != 0:
		return run(s, j+size, isNumber)
	case class&isSpace == 0:
		return runNot(s, j+size, isSpace|isLetter|isNumber)
	}
	return spaces(s, i, false)
}

func (f family) nextCL100k(s string, i int) int {
	if s[i] == '\'' {
		if m := contraction(s, i, true); m > 0 {
			return i + m
		}
	}
	class, size := classAt(s, i)
	if class&isLetter != 0 {
		return run(s, i+size, isLetter)
	}
	if class&(isNumber|isNewline) == 0 {
		if c, n := classAt(s, i+size); c&isLetter != 0 {
			return run(s, i+size+n, isLetter)
		}
	}
	if class&isNumber != 0 {
		if f == familyQwen {
			return i + size
		}
		return runUpTo(s, i+size, isNumber, 2)
	}
	if e := symbols(s, i, class, size, false); e > 0 {
		return e
	}
	if f == familyCL100kV2 {
		if e := run(s, i+size, isSpace); e == len(s) {
			return e
		}
	}
	return spaces(s, i, true)
}

func (f family) nextO200k(s string, i int) int {
	class, size := classAt(s, i)
	prefix := class&(isLetter|isNumber|isNewline) == 0
	if prefix {
		if e := mixedWord(s, i+size); e > 0 {
			return f.suffix(s, e)
		}
	}
	if class&(isUpper|isLower) != 0 {
		if e := mixedWord(s, i); e > 0 {
			return f.suffix(s, e)
		}
	}
	if prefix {
		if c, n := classAt(s, i+size); c&isUpper != 0 {
			return f.suffix(s, run(s, i+size+n, isUpper))
		}
	}
	if class&isUpper != 0 {
		return f.suffix(s, run(s, i+size, isUpper))
	}
	if class&isNumber != 0 {
		if f == familyTekken {
			return i + size
		}
		return runUpTo(s, i+size, isNumber, 2)
	}
	if e := symbols(s, i, class, size, true); e > 0 {
		return e
	}
	return spaces(s, i, true)
}

// suffix takes in the contraction an o200k word may end with.
func (f family) suffix(s string, end int) int {
	if f == familyO200k && end < len(s) && s[end] == '\'' {
		return end + contraction(s, end, true)
	}
	return end
}

// mixedWord matches U*L+ at j as a backtracking engine does: U greedy, given
// back down to the last rune that is in both classes. 0 where nothing matches.
func mixedWord(s string, j int) int {
	both := 0
	k := j
	for k < len(s) {
		c, n := classAt(s, k)
		if c&isUpper == 0 {
			break
		}
		k += n
		if c&isLower != 0 {
			both = k
		}
	}
	if c, n := classAt(s, k); c&isLower != 0 {
		return run(s, k+n, isLower)
	}
	return both
}

// deepSeekSpan is the end of the span at i that the first two patterns of
// DeepSeek V3 leave: up to three digits, kana and common han, or all else. The
// third pattern cuts each span as if the text ended with it.
func deepSeekSpan(s string, i int) int {
	if c, n := classAt(s, i); c&isNumber != 0 {
		return runUpTo(s, i+n, isNumber, 2)
	}
	want := false
	for j := i; j < len(s); {
		c, n := classAt(s, j)
		if c&isNumber != 0 {
			return j
		}
		han := n == 3 && kanaOrHan(s[j], s[j+1], s[j+2])
		if j == i {
			want = han
		}
		if han != want {
			return j
		}
		j += n
	}
	return len(s)
}

// kanaOrHan tells whether three bytes of UTF-8 are U+3040-U+30FF or U+4E00-U+9FA5.
func kanaOrHan(a, b, c byte) bool {
	r := rune(a&0x0F)<<12 | rune(b&0x3F)<<6 | rune(c&0x3F)
	return 0x3040 <= r && r <= 0x30FF || 0x4E00 <= r && r <= 0x9FA5
}

// nextDeepSeek is the third pattern. What it does not match at all becomes one
// word up to the next match.
func nextDeepSeek(s string, i int) int {
	for j := i; j < len(s); {
		if e := matchDeepSeek(s, j); e > 0 {
			if j > i {
				return j
			}
			return e
		}
		_, n := classAt(s, j)
		j += n
	}
	return len(s)
}

func matchDeepSeek(s string, i int) int {
	class, size := classAt(s, i)
	if size == 1 && class&isPunct != 0 && i+1 < len(s) && asciiLetter(s[i+1]) {
		j := i + 2
		for j < len(s) && asciiLetter(s[j]) {
			j++
		}
		return j
	}
	if class&(isLetter|isMark) != 0 {
		return run(s, i+size, isLetter|isMark)
	}
	if class&(isNewline|isPunct) == 0 {
		if c, n := classAt(s, i+size); c&(isLetter|isMark) != 0 {
			return run(s, i+size+n, isLetter|isMark)
		}
	}
	j := i
	if s[i] == ' ' {
		if c, n := classAt(s, i+1); n > 0 {
			j, class, size = i+1, c, n
		}
	}
	if class&isPunct != 0 {
		j = run(s, j+size, isPunct)
		for j < len(s) && (s[j] == '\r' || s[j] == '\n') {
			j++
		}
		return j
	}
	if c, _ := classAt(s, i); c&isSpace != 0 {
		return spaces(s, i, true)
	}
	return 0
}

func asciiLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// contraction is the length of 's 't 're 've 'm 'll 'd at i, or 0. With fold
// the case is ignored, and U+017F, which folds to s, counts as one.
func contraction(s string, i int, fold bool) int {
	if i+1 >= len(s) || s[i] != '\'' {
		return 0
	}
	c := s[i+1]
	if fold {
		if c == 0xC5 && i+2 < len(s) && s[i+2] == 0xBF {
			return 3
		}
		c = lowerASCII(c)
	}
	switch c {
	case 's', 't', 'm', 'd':
		return 2
	}
	if i+2 >= len(s) {
		return 0
	}
	d := s[i+2]
	if fold {
		d = lowerASCII(d)
	}
	if c == 'r' && d == 'e' || c == 'v' && d == 'e' || c == 'l' && d == 'l' {
		return 3
	}
	return 0
}

func lowerASCII(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// run is the end of the runes at i that have one of the flags.
func run(s string, i int, flags uint8) int {
	for i < len(s) {
		c, n := classAt(s, i)
		if c&flags == 0 {
			return i
		}
		i += n
	}
	return i
}

// runNot is the end of the runes at i that have none of the flags.
func runNot(s string, i int, flags uint8) int {
	for i < len(s) {
		c, n := classAt(s, i)
		if c&flags != 0 {
			return i
		}
		i += n
	}
	return i
}

// runUpTo is run for at most count runes.
func runUpTo(s string, i int, flags uint8, count int) int {
	for ; count > 0; count-- {
		c, n := classAt(s, i)
		if c&flags == 0 {
			return i
		}
		i += n
	}
	return i
}

// symbols matches ` ?[^\s\p{L}\p{N}]+[\r\n]*`, with a slash among the newlines
// where the family has it, or gives 0. class and size are of the rune at i.
func symbols(s string, i int, class uint8, size int, slash bool) int {
	j := i
	if s[i] == ' ' {
		if c, n := classAt(s, i+1); n > 0 {
			j, class, size = i+1, c, n
		}
	}
	if class&(isSpace|isLetter|isNumber) != 0 {
		return 0
	}
	j = runNot(s, j+size, isSpace|isLetter|isNumber)
	for j < len(s) && (s[j] == '\r' || s[j] == '\n' || slash && s[j] == '/') {
		j++
	}
	return j
}

// spaces matches `\s*[\r\n]+|\s+(?!\S)|\s+`, or only the last two: white space
// up to its last newline, else all of it at the end of the text, else all but
// the rune that belongs to the next word.
func spaces(s string, i int, newlines bool) int {
	newline, end, last := 0, i, i
	for end < len(s) {
		c, n := classAt(s, end)
		if c&isSpace == 0 {
			break
		}
		last = end
		end += n
		if c&isNewline != 0 {
			newline = end
		}
	}
	if newlines && newline > 0 {
		return newline
	}
	if end == len(s) || last == i {
		return end
	}
	return last
}
