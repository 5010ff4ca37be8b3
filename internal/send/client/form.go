package client

import (
	"bytes"
	"unicode/utf8"

	"github.com/valyala/fastjson"

	"spate/internal/call"
	"spate/internal/send/protocol"
)

// form recognises the next event of a stream without parsing it. The token events of one answer are
// the same bytes but for the text of the token: once one has been parsed, an event with the same
// bytes before and after that text says the same, with another text. Anything else, be it an
// escaped character or the last event's finish reason, is parsed as usual.
//
// On a stream that arrives faster than it is read, parsing was most of the client's work: about 60 ns
// an event now, about a microsecond before.
type form struct {
	wire []byte // the event it was learnt from, from "data: " to the blank line
	text int    // where the text begins in it
	tail int    // where it ends; 0 when nothing was learnt yet
	kind call.Kind
	vain int // forms learnt since one was last of use
}

const (
	eventStart = "data: "
	eventStop  = "\n\n"
)

// maxVain is after how many useless forms a stream is taken for one whose events all differ.
const maxVain = 3

// between finds the text between head and rest at the start of b: the place after rest, and the text.
// It returns 0 when b is not of that form, or not plainly.
func between(b, head, rest []byte) (end int, text []byte) {
	if len(b) < len(head)+len(rest) || !bytes.Equal(b[:len(head)], head) {
		return 0, nil
	}
	plain := true
	at := len(head)
	for ; at < len(b) && b[at] != '"'; at++ {
		switch c := b[at]; {
		case c < ' ' || c == '\\':
			return 0, nil
		case c >= utf8.RuneSelf:
			plain = false
		}
	}
	text, end = b[len(head):at], at+len(rest)
	if len(text) == 0 || end > len(b) || !bytes.Equal(b[at:end], rest) || !plain && !utf8.Valid(text) {
		return 0, nil
	}
	return end, text
}

// learn takes the form of an event that was just parsed, if it is one whose text can be told apart.
// probe decodes a message like the one that was parsed.
func (f *form) learn(data []byte, e *protocol.Event, probe func([]byte, *protocol.Event) bool) {
	text := e.Text
	if e.Kind == call.Reasoning {
		text = e.Thought
	}
	if !plain(e) || len(text) == 0 || f.vain >= maxVain || bytes.IndexByte(data, '\n') >= 0 {
		return // the last: an event of several data lines, which the wire never shows as one
	}
	f.vain++
	quoted := make([]byte, 0, len(text)+2)
	quoted = append(append(append(quoted, '"'), text...), '"')
	for at := 0; ; at++ {
		i := bytes.Index(data[at:], quoted)
		if i < 0 {
			return
		}
		at += i
		if f.proven(data, at+1, len(text), e, probe) {
			f.take(data, at+1, len(text), e.Kind)
			return
		}
	}
}

// plain reports whether an event says nothing but one text.
func plain(e *protocol.Event) bool {
	return e.Choices && (e.Kind == call.Visible || e.Kind == call.Reasoning) &&
		e.Finish == "" && e.Tokens == 0 && e.Usage == nil && e.Server == nil && !e.Failed && !e.Whole && !e.Ended && len(e.Tool) == 0
}

// proven finds out whether n bytes at a place are the text of the event, by putting another in.
func (f *form) proven(data []byte, at, n int, e *protocol.Event, probe func([]byte, *protocol.Event) bool) bool {
	other := []byte("other words than before")
	msg := make([]byte, 0, len(data)+len(other))
	msg = append(append(append(msg, data[:at]...), other...), data[at+n:]...)
	var got protocol.Event
	if !probe(msg, &got) || !plain(&got) || got.Kind != e.Kind {
		return false
	}
	if e.Kind == call.Reasoning {
		return bytes.Equal(got.Thought, other) && bytes.Equal(got.Text, e.Text)
	}
	return bytes.Equal(got.Text, other) && bytes.Equal(got.Thought, e.Thought)
}

func (f *form) take(data []byte, at, n int, kind call.Kind) {
	f.wire = append(append(append(f.wire[:0], eventStart...), data...), eventStop...)
	f.text, f.tail, f.kind = len(eventStart)+at, len(eventStart)+at+n, kind
}

// shortcut takes the events b begins with as long as they have the known form, and reports how many
// bytes they are.
func (x *exchange) shortcut(b []byte) (taken int) {
	f := &x.form
	if f.tail == 0 || x.fault != call.NoFault {
		return 0
	}
	head, rest := f.wire[:f.text], f.wire[f.tail:]
	for {
		n, text := between(b[taken:], head, rest)
		if n == 0 {
			break
		}
		x.token(text)
		taken += n
	}
	if taken > 0 {
		f.vain = 0
		x.rec.LastEvent = x.at
	}
	return taken
}

// known takes a message of the known form: an event that came in pieces.
func (x *exchange) known(data []byte) bool {
	f := &x.form
	if f.tail == 0 {
		return false
	}
	n, text := between(data, f.wire[len(eventStart):f.text], f.wire[f.tail:len(f.wire)-len(eventStop)])
	if n == 0 || n != len(data) {
		return false
	}
	f.vain = 0
	x.token(text)
	return true
}

// token is apply for an event of the known form.
func (x *exchange) token(text []byte) {
	x.chunks = append(x.chunks, call.Chunk{At: x.at, Kind: x.form.kind})
	x.tell(0)
	if x.rec.FirstToken == call.Unset {
		x.rec.FirstToken = x.at
	}
	x.rec.LastToken = x.at
	if x.form.kind == call.Reasoning {
		x.thought = append(x.thought, text...)
		return
	}
	if x.rec.FirstText == call.Unset {
		x.rec.FirstText = x.at
	}
	x.text = append(x.text, text...)
}

// probe decodes a message on the side.
func (x *exchange) probe(data []byte, e *protocol.Event) bool {
	p := x.parsers.Get()
	defer x.parsers.Put(p)
	v, err := p.ParseBytes(data)
	if err != nil || v.Type() != fastjson.TypeObject {
		return false
	}
	x.backend.Decode(v, e)
	e.Text, e.Thought = bytes.Clone(e.Text), bytes.Clone(e.Thought) // they lie in the parser's buffer
	return true
}
