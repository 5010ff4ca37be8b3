package client

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/valyala/fastjson"

	"spate/internal/call"
	"spate/internal/send/protocol"
)

// maxErrBody bounds what is kept of an error response.
const maxErrBody = 2 << 10

// maxJSONBody bounds a response that was not streamed.
const maxJSONBody = 64 << 20

// DefaultMaxBytes bounds a whole response, headers and framing included. An answer of 131,072 tokens comes in
// events of about 250 bytes, 400 with usage on each and 900 with a few log probabilities: 32, 50 and 112 MiB.
const DefaultMaxBytes = 128 << 20

// maxRefusal bounds the body of a response that is a failure by its status: no more of it is read.
const maxRefusal = 1 << 20

// exchange is one request on its way: it turns the bytes of the response, stamped as they were read,
// into a record. It is fed by one goroutine at a time.
type exchange struct {
	backend *protocol.Protocol
	parsers *fastjson.ParserPool
	rec     call.Record
	h1      h1
	sse     sse
	lines   lines
	at      time.Duration  // stamp of the read being parsed
	event   protocol.Event // reused, so that a chunk costs no allocation
	form    form

	status   int
	stream   bool // the body is an event stream
	binary   bool // the body is bytes of no known form, and metadata tells of them
	metadata string
	body     []byte // of an error or of an answer that was not streamed
	done     bool   // the end marker was seen
	fault    call.Fault
	err      string
	broken   bool // the fault is that the connection ended, which may be our own doing
	most     int64
	usage    *protocol.Usage
	counted  int  // completion tokens of continuous usage so far
	named    int  // tokens the messages named one by one
	parted   bool // messages that were to repeat the answer bring only what is new
	text     []byte
	thought  []byte
	tool     []byte
	chunks   []call.Chunk
	pulse    *Pulse // nil where nobody looks
	told     int64  // tokens

	heard atomic.Int64 // stamp of the last read since the first token, 0 before it: for who watches the stream
}

func newExchange(b *protocol.Protocol, parsers *fastjson.ParserPool, r *call.Request) *exchange {
	x := &exchange{backend: b, parsers: parsers, most: DefaultMaxBytes}
	x.rec = call.NewRecord(r)
	if x.backend.Whole {
		x.rec.Inputs = r.Prompt.Inputs(x.backend.Ranks)
	}
	// Room for the whole answer spares growing in the middle of a stream; very long ones do grow, so
	// that ten thousand streams fit in memory.
	if n := min(r.MaxOut, 2048); n > 0 {
		x.chunks = make([]call.Chunk, 0, n+2)
		x.text = make([]byte, 0, 4*n)
	}
	x.h1.onHead = x.onHead
	x.h1.onBody = x.onBody
	x.sse.emit = x.onEvent
	x.sse.shortcut = x.shortcut
	x.lines.emit = x.onEvent
	return x
}

// feed takes the bytes of one read and its stamp; it reports whether the response is complete, or no more of
// it is wanted.
func (x *exchange) feed(b []byte, at time.Duration) (complete bool) {
	x.at = at
	x.rec.BytesIn += int64(len(b))
	if x.rec.FirstByte == call.Unset {
		x.rec.FirstByte = at
	}
	used, err := x.h1.feed(b)
	switch {
	case err != nil:
		x.fail(call.FaultHTTP, err.Error())
		x.h1.head.keep = false
		return true
	case x.h1.done():
		x.h1.head.keep = x.h1.head.keep && used == len(b)
		return true
	case x.listen():
		x.h1.head.keep = false
		return true
	}
	return false
}

// listen notes that the stream goes on, and reports whether reading on is of no use.
func (x *exchange) listen() bool {
	if x.rec.FirstToken != call.Unset {
		x.heard.Store(int64(x.at))
	}
	return x.over()
}

// over reports whether reading on is of no use: the answer has failed already, whatever follows, or has more
// bytes than an answer may have. The first cause stays the cause.
func (x *exchange) over() bool {
	if x.status != 0 && x.status != http.StatusOK && x.rec.BytesIn > maxRefusal {
		return true // judge says what it is
	}
	if x.rec.BytesIn > x.most {
		x.fail(call.FaultLarge, fmt.Sprintf("the answer has more than %d bytes; --max-response-bytes sets the bound", x.most))
	}
	return x.fault != call.NoFault
}

func (x *exchange) onHead(h head) {
	x.rec.Headers = x.at
	x.begin(h)
}

// begin is the start of the response's body, from either HTTP client.
func (x *exchange) begin(h head) {
	x.status, x.rec.Status, x.rec.RetryWait = h.status, h.status, h.retryAfter
	x.stream = (h.sse || x.backend.Lines) && h.status == http.StatusOK
	x.binary, x.metadata = h.binary, h.metadata
}

func (x *exchange) onBody(b []byte) {
	if x.stream {
		x.onStream(b)
		return
	}
	limit := maxErrBody
	if x.status == http.StatusOK {
		limit = maxJSONBody
	}
	if room := limit - len(x.body); room > 0 {
		x.body = append(x.body, b[:min(room, len(b))]...)
	}
}

// onStream hands the bytes to the parser of the stream's form.
func (x *exchange) onStream(b []byte) {
	var full bool
	if x.backend.Lines {
		x.lines.feed(b)
		full = x.lines.full
	} else {
		x.sse.feed(b)
		full = x.sse.full
	}
	if full {
		x.fail(call.FaultHTTP, fmt.Sprintf("an event of over %d bytes", maxEvent))
	}
}

// onEvent reads one event of the stream.
func (x *exchange) onEvent(data []byte) {
	if string(data) == "[DONE]" {
		x.done = true
		return
	}
	if x.fault != call.NoFault {
		return
	}
	x.rec.LastEvent = x.at
	if !x.known(data) {
		x.message(data)
	}
}

func (x *exchange) message(data []byte) {
	if !utf8.Valid(data) {
		x.fail(call.FaultUTF8, fmt.Sprintf("event is not UTF-8: %.80q", data))
		return
	}
	p := x.parsers.Get()
	defer x.parsers.Put(p)
	v, err := p.ParseBytes(data)
	if err != nil || v.Type() != fastjson.TypeObject {
		x.fail(call.FaultJSON, fmt.Sprintf("event is not a JSON object: %.80q", data))
		return
	}
	x.event = protocol.Event{}
	x.backend.Decode(v, &x.event)
	if x.event.Failed {
		x.fail(call.FaultEvent, "error in stream: "+x.event.Failure)
		return
	}
	x.apply(&x.event)
	if x.stream && !x.backend.Lines {
		x.form.learn(data, &x.event, x.probe)
	}
}

// apply puts what an event says into the record.
func (x *exchange) apply(e *protocol.Event) {
	tokens := e.Tokens
	x.named += tokens
	if e.Usage != nil {
		// A sum that stands on a message for the first time after others that brought text is that of the whole
		// answer, as llama.cpp tells it: it says nothing of this message.
		continuous := x.usage != nil || x.rec.FirstToken == call.Unset
		x.usage = e.Usage.After(x.usage)
		if e.Choices && tokens == 0 && continuous {
			tokens = max(0, x.usage.Completion-x.counted)
		}
		x.counted = x.usage.Completion
	}
	if e.Server != nil {
		x.rec.Server = e.Server
	}
	if e.Finish != "" {
		x.rec.Finish = e.Finish
	}
	x.done = x.done || e.Ended
	if e.Whole {
		x.sinceLast(e)
		e.Choices = e.Kind != 0 || tokens > 0 // repeating what is known is no news
	}
	if !e.Choices {
		return
	}
	x.chunks = append(x.chunks, call.Chunk{At: x.at, Tokens: int32(min(tokens, math.MaxInt32)), Kind: e.Kind})
	x.tell(tokens)
	if e.Kind != 0 || tokens > 0 {
		if x.rec.FirstToken == call.Unset {
			x.rec.FirstToken = x.at
		}
		x.rec.LastToken = x.at
	}
	if e.Kind&call.Visible != 0 && x.rec.FirstText == call.Unset {
		x.rec.FirstText = x.at
	}
	x.text = append(x.text, e.Text...)
	x.thought = append(x.thought, e.Thought...)
	x.tool = append(x.tool, e.Tool...)
}

// sinceLast turns a message that repeats the whole answer into one that says what is new. An answer that
// was changed in what had come before counts as new from there; one that has next to nothing of it comes
// from a server that was told to send only what is new.
func (x *exchange) sinceLast(e *protocol.Event) {
	same := 0
	for same < len(e.Text) && same < len(x.text) && e.Text[same] == x.text[same] {
		same++
	}
	if x.parted = x.parted || 2*same < len(bytes.TrimSuffix(x.text, []byte("\ufffd"))); x.parted {
		return
	}
	x.text = x.text[:same]
	e.Text = e.Text[same:]
	if len(e.Text) == 0 {
		e.Kind &^= call.Visible
	}
}

func (x *exchange) fail(f call.Fault, text string) {
	if x.fault == call.NoFault {
		x.fault, x.err = f, text
	}
}

// lost is the end of the connection before the response was complete; err is nil for a plain close.
func (x *exchange) lost(err error) {
	if err == nil && x.h1.eof() {
		return
	}
	x.broken = x.fault == call.NoFault
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		if x.rec.FirstByte == call.Unset {
			x.fail(call.FaultReset, "connection closed without an answer")
			return
		}
		x.fail(call.FaultCut, "connection closed in the middle of the answer")
		return
	}
	x.fail(faultOf(err, x.rec.FirstByte != call.Unset), err.Error())
}

// faultOf names the fault behind a network error.
func faultOf(err error, answering bool) call.Fault {
	var netErr net.Error
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		return call.FaultTimeout
	case answering:
		return call.FaultCut
	}
	return call.FaultReset
}

// finish closes the record at time end.
func (x *exchange) finish(end time.Duration) call.Record {
	r := &x.rec
	x.at = end
	if x.stream {
		x.sse.end()
		x.lines.end()
	}
	r.End = end
	x.judge()
	r.Chunks = x.chunks
	r.Text, r.Thoughts, r.ToolText = string(x.text), string(x.thought), string(x.tool)
	x.count()
	r.Doubt()
	r.Fault, r.Err = x.fault, bounded(x.err)
	r.Outcome = call.OK
	if x.fault != call.NoFault {
		r.Outcome = call.Failed
	}
	return *r
}

// judge decides whether the response is a success. A stream is one only when it ended as the
// protocol promises; everything else is a failure with its reason. An end mark without a finish reason
// is an end: several servers never name one, and the verdict tells of answers that may be incomplete.
func (x *exchange) judge() {
	if x.fault != call.NoFault {
		return
	}
	if x.status != http.StatusOK {
		fault := call.FaultStatus
		if x.shed() {
			fault = call.FaultShed
		}
		words := strings.TrimSpace(fmt.Sprintf("%d %s", x.status, http.StatusText(x.status)))
		x.fail(fault, fmt.Sprintf("HTTP %s: %s", words, oneLine(x.body)))
		return
	}
	if !x.stream {
		x.whole()
		return
	}
	if x.backend.Endless {
		if x.rec.Finish = "end"; x.rec.FirstToken == call.Unset {
			x.fail(call.FaultEmpty, "the stream carried no text")
		}
		return
	}
	switch finish := x.rec.Finish; {
	case len(x.chunks) == 0 && x.done:
		x.fail(call.FaultEmpty, "the stream carried no choices")
	case finish == "" && !x.done:
		x.fail(call.FaultCut, "the stream ended without a finish reason and without [DONE]")
	case !x.done && x.backend.EndMark != "":
		x.fail(call.FaultCut, "the stream ended without "+x.backend.EndMark)
	case finish == "error" || finish == "abort":
		x.fail(call.FaultEvent, "the server ended the request with finish_reason "+finish)
	case x.rec.FirstToken == call.Unset && (x.usage == nil || x.usage.Completion == 0):
		x.fail(call.FaultEmpty, "the stream carried no token")
	}
}

// overloaded is the status hosted APIs have for a server with too much to do.
const overloaded = 529

// shed reports whether the server refused the request because of load.
func (x *exchange) shed() bool {
	return x.status == http.StatusTooManyRequests || x.status == overloaded || x.status == http.StatusServiceUnavailable && x.rec.RetryWait > 0
}

// whole reads an answer that came as one JSON object although a stream was asked for.
func (x *exchange) whole() {
	x.rec.LastEvent = x.at
	if x.backend.Whole && x.binary {
		if x.metadata != "" {
			x.message([]byte(x.metadata))
		}
		return
	}
	if bytes.HasPrefix(bytes.TrimSpace(x.body), []byte("<")) {
		x.fail(call.FaultJSON, fmt.Sprintf("the answer is a page, not the JSON of an API (see --base-url and --endpoint): %.80q", x.body))
		return
	}
	x.message(x.body)
	if x.backend.Whole {
		return
	}
	if x.fault == call.NoFault && x.rec.FirstToken == call.Unset {
		x.fail(call.FaultEmpty, "the answer carried no token")
	}
}

// count fills the token counts the server gave.
func (x *exchange) count() {
	r := &x.rec
	r.In = r.Asked
	if x.named > 0 {
		r.Out = call.Count{N: x.named, From: call.FromServer}
	}
	if x.usage == nil {
		return
	}
	if x.usage.Completion > 0 {
		r.Out = call.Count{N: x.usage.Completion, From: call.FromServer}
	}
	if x.usage.Prompt > 0 {
		r.In = call.Count{N: x.usage.Prompt, From: call.FromServer}
	}
	if x.usage.HasCached {
		r.Cached = call.Count{N: x.usage.Cached, From: call.FromServer}
	}
	if x.usage.Reasoning > 0 {
		r.Reason = call.Count{N: x.usage.Reasoning, From: call.FromServer}
	}
}

func oneLine(b []byte) string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(string(b), "\ufffd")), " ")
}

func bounded(s string) string {
	if len(s) > maxErrBody+200 {
		s = strings.ToValidUTF8(s[:maxErrBody+200], "") + " ..."
	}
	return s
}
