package chat

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type kind uint8

const (
	tokEOF kind = iota
	tokData
	tokVarBegin
	tokVarEnd
	tokBlockBegin
	tokBlockEnd
	tokName
	tokString
	tokInt
	tokFloat
	tokOp
)

// token is one lexical element. text is the decoded string for tokString, the
// literal without underscores for numbers, and the text itself otherwise.
type token struct {
	kind kind
	text string
	line int
}

// describe names a token in a syntax error.
func (t token) describe() string {
	switch t.kind {
	case tokEOF:
		return "end of template"
	case tokVarEnd:
		return `"}}"`
	case tokBlockEnd:
		return `"%}"`
	case tokVarBegin:
		return `"{{"`
	case tokBlockBegin:
		return `"{%"`
	default:
		return strconv.Quote(t.text)
	}
}

// lexer splits a template into tokens. Whitespace control happens here, where
// the raw text is still at hand: the parser sees only what is to be printed.
type lexer struct {
	src   string
	pos   int
	line  int
	toks  []token
	stack []byte // open brackets inside a tag, as the closers they expect
}

func lex(src string) ([]token, error) {
	src = strings.ReplaceAll(src, "\r\n", "\n")
	src = strings.ReplaceAll(src, "\r", "\n")
	src = strings.TrimSuffix(src, "\n")
	l := &lexer{src: src, line: 1}
	for l.pos < len(l.src) {
		if err := l.root(); err != nil {
			return nil, err
		}
	}
	l.add(tokEOF, "")
	return l.toks, nil
}

func (l *lexer) add(k kind, text string) {
	l.toks = append(l.toks, token{k, text, l.line})
}

func (l *lexer) errorf(format string, a ...any) error {
	return &Error{Line: l.line, Msg: fmt.Sprintf(format, a...)}
}

// advance moves n bytes on, counting lines.
func (l *lexer) advance(n int) {
	l.line += strings.Count(l.src[l.pos:l.pos+n], "\n")
	l.pos += n
}

// root lexes text up to the next tag, and then that tag.
func (l *lexer) root() error {
	tag := nextTag(l.src, l.pos)
	if tag < 0 {
		l.add(tokData, l.src[l.pos:])
		l.advance(len(l.src) - l.pos)
		return nil
	}
	open := l.src[tag+1]
	l.text(tag, open != '{')
	if open == '%' {
		if n := rawTag(l.src[tag:], "raw", false); n > 0 {
			l.advance(n)
			return l.raw()
		}
	}
	l.advance(2)
	if sign := l.peek(0); sign == '-' || sign == '+' {
		l.advance(1)
	}
	switch open {
	case '#':
		return l.comment()
	case '%':
		l.add(tokBlockBegin, "{%")
		return l.tag(tokBlockEnd)
	default:
		l.add(tokVarBegin, "{{")
		return l.tag(tokVarEnd)
	}
}

// nextTag finds the next "{{", "{%" or "{#" at or after pos.
func nextTag(src string, pos int) int {
	for {
		i := strings.IndexByte(src[pos:], '{')
		if i < 0 || pos+i+1 >= len(src) {
			return -1
		}
		if c := src[pos+i+1]; c == '{' || c == '%' || c == '#' {
			return pos + i
		}
		pos += i + 1
	}
}

// text emits the text before the tag at end, with the whitespace that tag
// takes away: all of it for a "-" sign, the indentation of a line that holds
// nothing before the tag for blocks and comments.
func (l *lexer) text(end int, indentGoes bool) {
	text := l.src[l.pos:end]
	sign := byte(0)
	if end+2 < len(l.src) {
		sign = l.src[end+2]
	}
	switch {
	case sign == '-':
		text = strings.TrimRightFunc(text, isSpace)
	case sign != '+' && indentGoes:
		start := strings.LastIndexByte(text, '\n') + 1
		lineStart := start > 0 || l.pos == 0 || l.src[l.pos-1] == '\n'
		if lineStart && strings.TrimLeftFunc(text[start:], isSpace) == "" {
			text = text[:start]
		}
	}
	if text != "" {
		l.add(tokData, text)
	}
	l.advance(end - l.pos)
}

// rawTag returns the length of a {% word %} tag at the start of s, or 0.
// trim takes a newline after it, as a closing tag does and {% raw %} does not.
func rawTag(s, word string, trim bool) int {
	i := 2
	if i < len(s) && (s[i] == '-' || s[i] == '+') {
		i++
	}
	i += spaces(s[i:])
	if !strings.HasPrefix(s[i:], word) {
		return 0
	}
	i += len(word)
	i += spaces(s[i:])
	n := tagEnd(s[i:], "%}", trim)
	if n == 0 || (!trim && s[i] == '+') {
		return 0
	}
	return i + n
}

// tagEnd returns the length of a closing marker at the start of s together
// with the whitespace it takes away, or 0 when there is none.
func tagEnd(s, marker string, trim bool) int {
	switch {
	case strings.HasPrefix(s, "-"+marker):
		n := 1 + len(marker)
		return n + spaces(s[n:])
	case marker != "}}" && strings.HasPrefix(s, "+"+marker):
		return 1 + len(marker)
	case strings.HasPrefix(s, marker):
		if n := len(marker); trim && strings.HasPrefix(s[n:], "\n") {
			return n + 1
		}
		return len(marker)
	}
	return 0
}

// spaces counts the bytes of leading whitespace.
func spaces(s string) int {
	return len(s) - len(strings.TrimLeftFunc(s, isSpace))
}

func (l *lexer) raw() error {
	for i := l.pos; ; i += 2 {
		n := strings.Index(l.src[i:], "{%")
		if n < 0 {
			return l.errorf("{%% raw %%} is never closed by {%% endraw %%}")
		}
		i += n
		if size := rawTag(l.src[i:], "endraw", true); size > 0 {
			l.text(i, true)
			l.advance(size)
			return nil
		}
	}
}

func (l *lexer) comment() error {
	n := strings.Index(l.src[l.pos:], "#}")
	if n < 0 {
		return l.errorf("comment is never closed by #}")
	}
	end := l.pos + n
	if n > 0 && (l.src[end-1] == '-' || l.src[end-1] == '+') {
		end--
	}
	l.advance(end - l.pos)
	l.advance(tagEnd(l.src[l.pos:], "#}", true))
	return nil
}

func (l *lexer) peek(n int) byte {
	if l.pos+n < len(l.src) {
		return l.src[l.pos+n]
	}
	return 0
}

// tag lexes the inside of {{ }} or {% %} up to its end. An end marker within
// open brackets is not one, so that dict literals may end in "}}".
func (l *lexer) tag(end kind) error {
	l.stack = l.stack[:0]
	marker := "%}"
	if end == tokVarEnd {
		marker = "}}"
	}
	for {
		l.advance(spaces(l.src[l.pos:]))
		if l.pos >= len(l.src) {
			return l.errorf("tag is never closed by %s", marker)
		}
		if len(l.stack) == 0 {
			if n := tagEnd(l.src[l.pos:], marker, end == tokBlockEnd); n > 0 {
				l.add(end, marker)
				l.advance(n)
				return nil
			}
		}
		if err := l.element(); err != nil {
			return err
		}
	}
}

func (l *lexer) element() error {
	c := l.src[l.pos]
	switch {
	case c == '"' || c == '\'':
		return l.str(c)
	case c >= '0' && c <= '9':
		return l.number()
	}
	if n := nameLen(l.src[l.pos:]); n > 0 {
		l.add(tokName, l.src[l.pos:l.pos+n])
		l.advance(n)
		return nil
	}
	return l.operator()
}

func nameLen(s string) int {
	for i, c := range s {
		letter := c == '_' || unicode.IsLetter(c)
		inside := i > 0 && (unicode.IsDigit(c) || unicode.IsMark(c))
		if !letter && !inside {
			return i
		}
	}
	return len(s)
}

func (l *lexer) operator() error {
	op := l.src[l.pos : l.pos+1]
	if l.pos+2 <= len(l.src) {
		switch two := l.src[l.pos : l.pos+2]; two {
		case "//", "**", "==", "!=", ">=", "<=":
			op = two
		}
	}
	if len(op) == 1 && !strings.Contains("+-*/%~[]().:,|{}=<>;", op) {
		c, _ := utf8.DecodeRuneInString(l.src[l.pos:])
		return l.errorf("unexpected character %q", c)
	}
	if err := l.balance(op[0]); err != nil {
		return err
	}
	l.add(tokOp, op)
	l.advance(len(op))
	return nil
}

func (l *lexer) balance(c byte) error {
	switch c {
	case '(':
		l.stack = append(l.stack, ')')
	case '[':
		l.stack = append(l.stack, ']')
	case '{':
		l.stack = append(l.stack, '}')
	case ')', ']', '}':
		if len(l.stack) == 0 {
			return l.errorf("unexpected %q", c)
		}
		want := l.stack[len(l.stack)-1]
		if want != c {
			return l.errorf("unexpected %q, expected %q", c, want)
		}
		l.stack = l.stack[:len(l.stack)-1]
	}
	return nil
}

// number lexes integers (decimal, hexadecimal, octal, binary, with
// underscores) and floats.
func (l *lexer) number() error {
	s := l.src[l.pos:]
	if len(s) > 2 && s[0] == '0' && strings.ContainsRune("xXoObB", rune(s[1])) {
		n := 2 + run1(s[2:], isHexOrUnderscore)
		l.add(tokInt, strings.ReplaceAll(s[:n], "_", ""))
		l.advance(n)
		return nil
	}
	k := tokInt
	n := run1(s, isDigitOrUnderscore)
	if n+1 < len(s) && s[n] == '.' && isDigit(s[n+1]) {
		k = tokFloat
		n++
		n += run1(s[n:], isDigitOrUnderscore)
	}
	if m := exponent(s[n:]); m > 0 {
		k = tokFloat
		n += m
	}
	l.add(k, strings.ReplaceAll(s[:n], "_", ""))
	l.advance(n)
	return nil
}

func exponent(s string) int {
	if s == "" || (s[0] != 'e' && s[0] != 'E') {
		return 0
	}
	n := 1
	if n < len(s) && (s[n] == '+' || s[n] == '-') {
		n++
	}
	if n >= len(s) || !isDigit(s[n]) {
		return 0
	}
	return n + run1(s[n:], isDigitOrUnderscore)
}

func run1(s string, in func(byte) bool) int {
	n := 0
	for n < len(s) && in(s[n]) {
		n++
	}
	return n
}

func isDigit(c byte) bool             { return c >= '0' && c <= '9' }
func isDigitOrUnderscore(c byte) bool { return isDigit(c) || c == '_' }

func isHexOrUnderscore(c byte) bool {
	return isDigitOrUnderscore(c) || (c|0x20 >= 'a' && c|0x20 <= 'f')
}

func (l *lexer) str(quote byte) error {
	i := l.pos + 1
	for i < len(l.src) && l.src[i] != quote {
		if l.src[i] == '\\' {
			i++
		}
		i++
	}
	if i >= len(l.src) {
		return l.errorf("string is never closed by %c", quote)
	}
	text, err := unescape(l.src[l.pos+1 : i])
	if err != nil {
		return l.errorf("%v", err)
	}
	l.add(tokString, text)
	l.advance(i + 1 - l.pos)
	return nil
}

// unescape decodes backslash escapes as Python does: an unknown one stands
// for itself, backslash included.
func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 >= len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		n, err := escape(&b, s[i:])
		if err != nil {
			return "", err
		}
		i += n - 1
	}
	return b.String(), nil
}

// escape writes what the escape s (after its backslash) stands for and
// returns how many bytes of s it took.
func escape(b *strings.Builder, s string) (int, error) {
	const plain = "ntrabfv\\'\"0"
	switch c := s[0]; c {
	case '\n':
		return 1, nil
	case 'x', 'u', 'U':
		n := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
		if len(s) < 1+n {
			return 0, fmt.Errorf("truncated \\%c escape", c)
		}
		v, err := strconv.ParseUint(s[1:1+n], 16, 32)
		if err != nil || v > unicode.MaxRune {
			return 0, fmt.Errorf("bad \\%c escape %q", c, s[1:1+n])
		}
		b.WriteRune(rune(v))
		return 1 + n, nil
	case 'N':
		return 0, fmt.Errorf("named character escapes are not supported")
	default:
		if c >= '0' && c <= '7' {
			n := run1(s[:min(3, len(s))], func(c byte) bool { return c >= '0' && c <= '7' })
			v, _ := strconv.ParseUint(s[:n], 8, 32)
			b.WriteRune(rune(v))
			return n, nil
		}
		if i := strings.IndexByte(plain, c); i >= 0 {
			b.WriteByte("\n\t\r\a\b\f\v\\'\"\x00"[i])
			return 1, nil
		}
		b.WriteByte('\\')
		b.WriteByte(c)
		return 1, nil
	}
}

// isSpace is Python's str.isspace: Unicode white space plus the four
// information separators.
func isSpace(c rune) bool {
	return unicode.IsSpace(c) || (c >= 0x1c && c <= 0x1f)
}
