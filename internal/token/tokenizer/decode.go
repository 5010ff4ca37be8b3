package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// decoder turns ids, all of them known, back into text.
type decoder interface {
	appendText(dst []byte, ids []int32) []byte
}

// Decode is the text of ids. Ids that do not exist are left out, and with
// skipSpecial so are special tokens.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) string {
	return string(t.AppendDecode(nil, ids, skipSpecial))
}

// AppendDecode appends the text of ids to dst.
func (t *Tokenizer) AppendDecode(dst []byte, ids []int32, skipSpecial bool) (text []byte) {
	text = dst
	if t.trouble.first.Load() != nil {
		return text
	}
	defer t.trouble.rescue()
	for i, id := range ids {
		if !t.decodes(id, skipSpecial) {
			kept := append(make([]int32, 0, len(ids)), ids[:i]...)
			for _, id := range ids[i+1:] {
				if t.decodes(id, skipSpecial) {
					kept = append(kept, id)
				}
			}
			ids = kept
			break
		}
	}
	return t.decode.appendText(dst, ids)
}

func (t *Tokenizer) decodes(id int32, skipSpecial bool) bool {
	return id >= 0 && int(id) < len(t.vocab.text) && (!skipSpecial || !t.special[id])
}

// newDecoder reads a decoder node and gives every added token its text, which
// is what it was looked for as. The two common decoders work on text prepared
// here; any other one on names.
func newDecoder(n *node, v *vocabulary, entries []entry, added []addedToken) (decoder, error) {
	nodes := n.flatten(func(n *node) []node { return n.Decoders })
	if v.byteLevel && len(nodes) == 1 && nodes[0].Type == "ByteLevel" {
		for _, tok := range added {
			v.set(tok.id, byteText(tok.match))
		}
		return byteDecoder{v}, nil
	}
	names := make([]string, len(v.text))
	for _, e := range entries {
		names[e.id] = e.token
	}
	for _, tok := range added {
		v.set(tok.id, tok.match)
		for len(names) < len(v.text) {
			names = append(names, "")
		}
		names[tok.id] = tok.match
	}
	if strip, ok := pieceStrip(nodes); ok {
		return newPieceDecoder(names, strip), nil
	}
	chain := chainDecoder{names: names}
	if len(nodes) == 0 {
		chain.glue = " "
	}
	for _, n := range nodes {
		stage, err := newDecodeStage(n)
		if err != nil {
			return nil, err
		}
		chain.stages = append(chain.stages, stage)
	}
	return chain, nil
}

// byteText is what a name spells in GPT-2's alphabet, or the name itself.
func byteText(name string) string {
	if b, ok := appendBytes(nil, name); ok {
		return string(b)
	}
	return name
}

// byteDecoder joins the bytes of byte-level tokens.
type byteDecoder struct{ v *vocabulary }

func (d byteDecoder) appendText(dst []byte, ids []int32) []byte {
	n := len(dst)
	for _, id := range ids {
		dst = append(dst, d.v.text[id]...)
	}
	return validUTF8(dst, n)
}

// validUTF8 puts U+FFFD for every part of b[from:] that is no UTF-8: one for
// each maximal part of a character, as Rust and the web do, not one per byte.
func validUTF8(b []byte, from int) []byte {
	if utf8.Valid(b[from:]) {
		return b
	}
	bad := string(b[from:])
	b = b[:from]
	for len(bad) > 0 {
		r, n := utf8.DecodeRuneInString(bad)
		if r == utf8.RuneError && n == 1 {
			n = badPrefix(bad)
			b = append(b, "\uFFFD"...)
		} else {
			b = append(b, bad[:n]...)
		}
		bad = bad[n:]
	}
	return b
}

// badPrefix is how much of an invalid sequence begins a valid character, at
// least one byte.
func badPrefix(s string) int {
	want, low, high := 0, byte(0x80), byte(0xBF)
	switch c := s[0]; {
	case 0xC2 <= c && c <= 0xDF:
		want = 1
	case 0xE0 <= c && c <= 0xEF:
		want = 2
	case 0xF0 <= c && c <= 0xF4:
		want = 3
	}
	switch s[0] { // overlong forms, surrogates and what is above U+10FFFF
	case 0xE0:
		low = 0xA0
	case 0xED:
		high = 0x9F
	case 0xF0:
		low = 0x90
	case 0xF4:
		high = 0x8F
	}
	n := 1
	for n <= want && n < len(s) && low <= s[n] && s[n] <= high {
		n++
		low, high = 0x80, 0xBF
	}
	return n
}

// pieceStrip recognises the decoder of SentencePiece-style models: marks become
// spaces, byte tokens bytes, and strip spaces go from the front.
func pieceStrip(nodes []*node) (strip int, ok bool) {
	if len(nodes) < 3 || len(nodes) > 4 {
		return 0, false
	}
	r := nodes[0]
	if r.Type != "Replace" || r.Pattern.String == nil || *r.Pattern.String != metaspace || r.Content != " " ||
		nodes[1].Type != "ByteFallback" || nodes[2].Type != "Fuse" {
		return 0, false
	}
	if len(nodes) == 3 {
		return 0, true
	}
	s := nodes[3]
	return s.Start, s.Type == "Strip" && s.Content == " " && s.Stop == 0 && s.Start >= 0
}

// pieceDecoder decodes SentencePiece-style tokens.
type pieceDecoder struct {
	text  []string
	bytes []int16 // id -> the byte it stands for, or -1
	strip int
}

func newPieceDecoder(names []string, strip int) *pieceDecoder {
	d := &pieceDecoder{text: make([]string, len(names)), bytes: make([]int16, len(names)), strip: strip}
	for id, name := range names {
		d.text[id], d.bytes[id] = strings.ReplaceAll(name, metaspace, " "), -1
		if b, ok := byteOf(d.text[id]); ok {
			d.bytes[id] = int16(b)
		}
	}
	return d
}

func (d *pieceDecoder) appendText(dst []byte, ids []int32) []byte {
	n := len(dst)
	start := -1 // of the bytes not yet known to be a character
	for _, id := range ids {
		if b := d.bytes[id]; b >= 0 {
			if start < 0 {
				start = len(dst)
			}
			dst = append(dst, byte(b))
			continue
		}
		dst = endBytes(dst, start)
		start = -1
		dst = append(dst, d.text[id]...)
	}
	dst = endBytes(dst, start)
	front := n
	for front < len(dst) && front-n < d.strip && dst[front] == ' ' {
		front++
	}
	return append(dst[:n], dst[front:]...)
}

// endBytes ends a run of byte tokens that begins at start: if they are not all
// UTF-8, each becomes U+FFFD.
func endBytes(dst []byte, start int) []byte {
	if start < 0 || utf8.Valid(dst[start:]) {
		return dst
	}
	count := len(dst) - start
	dst = dst[:start]
	for range count {
		dst = append(dst, "\uFFFD"...)
	}
	return dst
}

// chainDecoder runs decoders over token names the way the reference does.
type chainDecoder struct {
	names  []string
	stages []decodeStage
	glue   string
}

// decodeStage rewrites the list of tokens.
type decodeStage func(tokens []string) []string

func (d chainDecoder) appendText(dst []byte, ids []int32) []byte {
	tokens := make([]string, len(ids))
	for i, id := range ids {
		tokens[i] = d.names[id]
	}
	for _, stage := range d.stages {
		tokens = stage(tokens)
	}
	for i, s := range tokens {
		if i > 0 {
			dst = append(dst, d.glue...)
		}
		dst = append(dst, s...)
	}
	return dst
}

// each makes a stage of a function of one token.
func each(f func(i int, token string) string) decodeStage {
	return func(tokens []string) []string {
		for i, s := range tokens {
			tokens[i] = f(i, s)
		}
		return tokens
	}
}

func newDecodeStage(n *node) (decodeStage, error) {
	switch n.Type {
	case "ByteLevel":
		return func(tokens []string) []string {
			var b []byte
			for _, s := range tokens {
				b = append(b, byteText(s)...)
			}
			return []string{string(validUTF8(b, 0))}
		}, nil
	case "ByteFallback":
		return joinBytes, nil
	case "Fuse":
		return func(tokens []string) []string { return []string{strings.Join(tokens, "")} }, nil
	case "Replace":
		f, err := newReplace(n)
		return each(func(_ int, s string) string { return f(s) }), err
	case "Strip":
		return each(func(_ int, s string) string { return stripRunes(s, n.Content, n.Start, n.Stop) }), nil
	case "Metaspace":
		return metaspaceStage(n), nil
	case "WordPiece":
		return wordPieceStage(n), nil
	case "BPEDecoder":
		return func(tokens []string) []string {
			for i, s := range tokens {
				with := " "
				if i == len(tokens)-1 {
					with = ""
				}
				tokens[i] = strings.ReplaceAll(s, n.Suffix, with)
			}
			return tokens
		}, nil
	}
	return nil, fmt.Errorf("decoder %q is not supported", n.Type)
}

// joinBytes turns runs of byte tokens into text.
func joinBytes(tokens []string) []string {
	var out []string
	var run []byte
	end := func() {
		if len(run) > 0 {
			out = append(out, string(endBytes(run, 0)))
			run = run[:0]
		}
	}
	for _, s := range tokens {
		if b, ok := byteOf(s); ok {
			run = append(run, b)
			continue
		}
		end()
		out = append(out, s)
	}
	end()
	return out
}

// stripRunes takes at most start copies of c from the front of s and stop from
// its end.
func stripRunes(s, c string, start, stop int) string {
	if c == "" {
		return s
	}
	for ; start > 0 && strings.HasPrefix(s, c); start-- {
		s = s[len(c):]
	}
	for ; stop > 0 && strings.HasSuffix(s, c); stop-- {
		s = s[:len(s)-len(c)]
	}
	return s
}

func metaspaceStage(n *node) decodeStage {
	keepFirst := n.PrependScheme == "never" || n.PrependScheme == "" && !orTrue(n.AddPrefixSpace)
	return each(func(i int, s string) string {
		if i == 0 && !keepFirst {
			return strings.ReplaceAll(s, n.Replacement, "")
		}
		return strings.ReplaceAll(s, n.Replacement, " ")
	})
}

// wordPieceClean undoes the spaces that splitting off punctuation made.
var wordPieceClean = []string{
	" .", ".", " ?", "?", " !", "!", " ,", ",", " ' ", "'", " n't", "n't", " 'm", "'m",
	" do not", " don't", " 's", "'s", " 've", "'ve", " 're", "'re",
}

func wordPieceStage(n *node) decodeStage {
	return each(func(i int, s string) string {
		if i > 0 {
			if rest, ok := strings.CutPrefix(s, n.Prefix); ok {
				s = rest
			} else {
				s = " " + s
			}
		}
		if orTrue(n.Cleanup) {
			for k := 0; k < len(wordPieceClean); k += 2 {
				s = strings.ReplaceAll(s, wordPieceClean[k], wordPieceClean[k+1])
			}
		}
		return s
	})
}
