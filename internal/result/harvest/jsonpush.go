package harvest

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// node is a JSON value. Long arrays keep their first elements and their length.
type node struct {
	kind  byte   // '{', '[', 's' string, 'n' number, 'w' word: true, false, null, NaN, Infinity
	text  string // of scalars
	keys  []string
	kids  []*node
	count int // of elements, also those not kept
	line  int // where it begins
}

// get walks down objects by key; nil when something is missing on the way.
func (n *node) get(path ...string) *node {
	for _, key := range path {
		if n == nil || n.kind != '{' {
			return nil
		}
		i := slices.Index(n.keys, key)
		if i < 0 {
			return nil
		}
		n = n.kids[i]
	}
	return n
}

// has reports whether an object has all the keys.
func (n *node) has(keys ...string) bool {
	for _, k := range keys {
		if n.get(k) == nil {
			return false
		}
	}
	return true
}

// str is the text of a string, empty for anything else.
func (n *node) str() string {
	if n == nil || n.kind != 's' {
		return ""
	}
	return n.text
}

// isNull reports whether there is nothing there.
func (n *node) isNull() bool { return n == nil || n.kind == 'w' && n.text == "null" }

// value is the node as a plain Go value, for a Fact.
func (n *node) value() any {
	switch n.kind {
	case 's':
		return n.text
	case 'n':
		return json.Number(n.text)
	case 'w':
		switch n.text {
		case "true", "false":
			return n.text == "true"
		case "null":
			return nil
		}
		return n.text
	case '[':
		out := make([]any, 0, len(n.kids))
		for _, k := range n.kids {
			out = append(out, k.value())
		}
		return out
	}
	out := map[string]any{}
	for i, k := range n.keys {
		out[k] = n.kids[i].value()
	}
	return out
}

// What a result needs of a file is small; the rest is read past.
const (
	maxDepth    = 64
	maxNodes    = 200_000
	maxElements = 256
	maxString   = 16 << 10
)

// perRequest are keys under which files keep one entry for each request. They are counted, not kept.
var perRequest = []string{
	"input_lens", "output_lens", "ttfts", "itls", "e2els", "start_times", "generated_texts", "errors", "latencies",
	"queue_times", "requests", "sessions", "cached_tokens", "cached_tokens_details", "text", "texts", "experiments",
}

var errSyntax = errors.New("not JSON")

// jsonPush reads one JSON object that arrives in pieces, as Python writes it: NaN and Infinity are values.
type jsonPush struct {
	root  *node
	stack []frame
	state jsonState
	buf   []byte // of the scalar being read
	key   string
	esc   int  // in a string: 0 outside an escape, 1 after the backslash, 2..5 reading four hex digits
	hex   rune // of the escape
	high  rune // first half of a surrogate pair
	nodes int
	line  int
	begun bool
	lastK bool // the string being read is a key
}

type frame struct {
	node *node
	skip bool // count the elements only
}

type jsonState byte

const (
	wantValue jsonState = iota
	wantFirstKey
	wantKey
	wantColon
	wantComma
	wantFirstValue
	inString
	inWord
	jsonDone
)

// feed reads on. It returns how much of s it used and whether the object is complete.
func (p *jsonPush) feed(s string, line int) (used int, done bool, err error) {
	p.line = line
	for i := 0; i < len(s); {
		if p.state == inString && p.esc == 0 {
			if n := plainLen(s[i:]); n > 0 {
				p.putAll(s[i : i+n])
				i += n
				continue
			}
		}
		again, err := p.step(s[i])
		if err != nil {
			return i, false, err
		}
		if !again {
			i++
		}
		if p.state == jsonDone {
			return i, true, nil
		}
	}
	return len(s), false, nil
}

// plainLen is how much of s stands for itself inside a string.
func plainLen(s string) int {
	for i := range len(s) {
		if c := s[i]; c == '"' || c == '\\' || c < ' ' {
			return i
		}
	}
	return len(s)
}

// step takes one byte; again means it belongs to what comes next.
func (p *jsonPush) step(c byte) (again bool, err error) {
	switch p.state {
	case inString:
		return false, p.stringByte(c)
	case inWord:
		if isWordByte(c) {
			if len(p.buf) > 400 {
				return false, errSyntax
			}
			p.buf = append(p.buf, c)
			return false, nil
		}
		return true, p.endWord()
	}
	if c == ' ' || c == '\t' || c == '\n' || c == '\r' {
		return false, nil
	}
	return false, p.structure(c)
}

func isWordByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '+' || c == '-' || c == '.'
}

// structure takes a byte outside strings and words.
func (p *jsonPush) structure(c byte) error {
	switch p.state {
	case wantFirstKey, wantKey:
		if c == '}' && p.state == wantFirstKey {
			return p.close()
		}
		if c != '"' {
			return errSyntax
		}
		p.state, p.lastK, p.buf = inString, true, p.buf[:0]
		return nil
	case wantColon:
		if c != ':' {
			return errSyntax
		}
		p.state = wantValue
		return nil
	case wantComma:
		return p.afterValue(c)
	case wantFirstValue:
		if c == ']' {
			return p.close()
		}
	}
	return p.beginValue(c)
}

func (p *jsonPush) afterValue(c byte) error {
	top := p.stack[len(p.stack)-1].node
	switch {
	case c == ',' && top.kind == '{':
		p.state = wantKey
	case c == ',':
		p.state = wantValue
	case c == '}' && top.kind == '{', c == ']' && top.kind == '[':
		return p.close()
	default:
		return errSyntax
	}
	return nil
}

func (p *jsonPush) beginValue(c byte) error {
	if !p.begun && c != '{' {
		return errSyntax
	}
	switch {
	case c == '{' || c == '[':
		return p.open(c)
	case c == '"':
		p.state, p.lastK, p.buf = inString, false, p.buf[:0]
	case isWordByte(c):
		p.state, p.buf = inWord, append(p.buf[:0], c)
	default:
		return errSyntax
	}
	return nil
}

func (p *jsonPush) open(c byte) error {
	if len(p.stack) >= maxDepth {
		return errSyntax
	}
	n := &node{kind: c, line: p.line}
	skip := p.skipping() || p.inObject() && p.isPerRequest(c)
	if p.begun {
		p.add(n)
	} else {
		p.root, p.begun = n, true
	}
	p.stack = append(p.stack, frame{n, skip})
	p.state = wantFirstKey
	if c == '[' {
		p.state = wantFirstValue
	}
	return nil
}

// isPerRequest reports whether the container that opens holds one entry per request. GuideLLM's is an
// object of such lists.
func (p *jsonPush) isPerRequest(c byte) bool {
	return slices.Contains(perRequest, p.key) && (c == '[' || p.key == "requests")
}

func (p *jsonPush) inObject() bool {
	return len(p.stack) > 0 && p.stack[len(p.stack)-1].node.kind == '{'
}

func (p *jsonPush) skipping() bool { return len(p.stack) > 0 && p.stack[len(p.stack)-1].skip }

// add puts a value into the innermost container.
func (p *jsonPush) add(n *node) {
	top := &p.stack[len(p.stack)-1]
	into := top.node
	into.count++
	if top.skip || p.nodes >= maxNodes || into.kind == '[' && len(into.kids) >= maxElements {
		return
	}
	p.nodes++
	if into.kind == '{' {
		if i := slices.Index(into.keys, p.key); i >= 0 {
			into.kids[i] = n
			return
		}
		if len(into.keys) >= 4*maxElements {
			return
		}
		into.keys = append(into.keys, p.key)
	}
	into.kids = append(into.kids, n)
}

func (p *jsonPush) close() error {
	p.stack = p.stack[:len(p.stack)-1]
	p.state = wantComma
	if len(p.stack) == 0 {
		p.state = jsonDone
	}
	return nil
}

func (p *jsonPush) endWord() error {
	kind := byte('n')
	switch string(p.buf) {
	case "true", "false", "null", "NaN", "Infinity", "-Infinity":
		kind = 'w'
	default:
		if !json.Valid(p.buf) {
			return errSyntax
		}
	}
	p.scalar(kind)
	return nil
}

// scalar adds the value in the buffer.
func (p *jsonPush) scalar(kind byte) {
	p.state = wantComma
	if p.skipping() {
		p.stack[len(p.stack)-1].node.count++
		return
	}
	p.add(&node{kind: kind, text: string(p.buf), line: p.line})
}

// stringByte takes a byte inside a string.
func (p *jsonPush) stringByte(c byte) error {
	switch {
	case p.esc == 1:
		return p.escape(c)
	case p.esc >= 2:
		d, err := strconv.ParseUint(string(c), 16, 8)
		if err != nil {
			return errSyntax
		}
		p.hex = p.hex<<4 | rune(d)
		if p.esc++; p.esc == 6 {
			p.esc = 0
			p.unit(p.hex)
		}
	case c == '\\':
		p.esc = 1
	case c == '"':
		p.endString()
	case c < ' ':
		return errSyntax
	default:
		p.put(c)
	}
	return nil
}

func (p *jsonPush) escape(c byte) error {
	p.esc = 0
	switch c {
	case 'u':
		p.esc, p.hex = 2, 0
	case 'n':
		p.put('\n')
	case 't':
		p.put('\t')
	case 'r':
		p.put('\r')
	case 'b':
		p.put('\b')
	case 'f':
		p.put('\f')
	case '"', '\\', '/':
		p.put(c)
	default:
		return errSyntax
	}
	return nil
}

// unit takes a UTF-16 code unit; two may make one character.
func (p *jsonPush) unit(r rune) {
	if p.high != 0 {
		pair := utf16.DecodeRune(p.high, r)
		p.high = 0
		if pair != utf8.RuneError {
			p.buf = utf8.AppendRune(p.buf, pair)
			return
		}
		p.buf = utf8.AppendRune(p.buf, utf8.RuneError)
	}
	if utf16.IsSurrogate(r) && r < 0xdc00 {
		p.high = r
		return
	}
	p.buf = utf8.AppendRune(p.buf, r)
}

func (p *jsonPush) put(c byte) {
	p.flushHigh()
	if len(p.buf) < maxString {
		p.buf = append(p.buf, c)
	}
}

// putAll adds a stretch of a string, as far as strings are kept.
func (p *jsonPush) putAll(s string) {
	p.flushHigh()
	if room := maxString - len(p.buf); len(s) > room {
		s = s[:max(room, 0)]
	}
	p.buf = append(p.buf, s...)
}

// flushHigh gives up on the second half of a pair.
func (p *jsonPush) flushHigh() {
	if p.high != 0 {
		p.high = 0
		p.buf = utf8.AppendRune(p.buf, utf8.RuneError)
	}
}

func (p *jsonPush) endString() {
	p.flushHigh()
	if p.lastK {
		p.key, p.state = string(p.buf), wantColon
		return
	}
	p.scalar('s')
}
