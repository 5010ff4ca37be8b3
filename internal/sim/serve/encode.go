package serve

import (
	"encoding/json"
	"strconv"
	"sync/atomic"

	"spate/internal/rng"
)

// encoder writes the events of one stream. What does not change from event to event is built once,
// so that an event costs a few copies and no allocation.
type encoder struct {
	call      *genCall
	req       *Request
	cached    *atomic.Int64
	head      []byte // from "data: " up to and including "choices":[
	reasoning string // name of the field reasoning text goes to
	details   bool   // prompt_tokens_details in usage
	stampKey  bool

	answerState               // of the answer being written
	answers     []answerState // of all, when there are several; that of the current one is out of date
	choice      int32         // which is current
}

// answerState is how far one answer has been written.
type answerState struct {
	begin        int // its first word
	word, stride int // the answer's words: outWords[word], then every stride-th
	tokens       int // written so far
	reasoned     int
	toolOpened   bool
	length       int    // bytes of text so far, for the offsets of logprobs
	text         []byte // all of the answer so far, for dialects that repeat it
}

// newAnswer is an answer not yet begun; h decides its words.
func newAnswer(h uint64) answerState {
	w := int(h % uint64(len(outWords)))
	return answerState{begin: w, word: w, stride: int(h>>32%uint64(len(outWords)/2))*2 + 1}
}

// speak turns to one of several answers.
func (e *encoder) speak(choice int32) {
	if choice == e.choice || int(choice) >= len(e.answers) {
		return
	}
	e.answers[e.choice] = e.answerState
	e.answerState, e.choice = e.answers[choice], choice
}

// silent reports whether an answer has not begun.
func (e *encoder) silent(choice int32) bool {
	switch {
	case choice == e.choice:
		return e.tokens == 0
	case int(choice) < len(e.answers):
		return e.answers[choice].tokens == 0
	}
	return false
}

// total is the number of tokens of all answers.
func (e *encoder) total() int {
	n := e.tokens
	for i := range e.answers {
		if int32(i) != e.choice {
			n += e.answers[i].tokens
		}
	}
	return n
}

func newEncoder(s *stream, cfg *Config, created int64) encoder {
	call, req := s.call, s.req
	h := rng.SplitMix(cfg.Timetable.Seed ^ uint64(req.Index))
	e := encoder{
		call: call, req: req, cached: &s.cached, reasoning: cfg.ReasoningField, details: cfg.PromptTokensDetails,
		stampKey: cfg.Stamp || call.stamp, answerState: newAnswer(h),
	}
	for i := range call.n {
		if call.n > 1 {
			e.answers = append(e.answers, newAnswer(rng.SplitMix(h^uint64(i)<<40)))
		}
	}
	if call.n > 1 {
		e.answerState = e.answers[0]
	}
	req.word, req.stride = e.word, e.stride
	if call.native {
		return e
	}
	object, prefix := "text_completion", "cmpl-"
	if call.chat {
		object, prefix = "chat.completion.chunk", "chatcmpl-"
	}
	b := append([]byte(`data: {"id":`), quote(prefix+req.ID)...)
	b = append(b, `,"object":"`...)
	b = append(b, object...)
	b = append(b, `","created":`...)
	b = strconv.AppendInt(b, created, 10)
	b = append(b, `,"model":`...)
	b = append(b, quote(call.model)...)
	e.head = append(b, `,"choices":[`...)
	return e
}

// quote returns s as a JSON string.
func quote(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		return []byte(`""`)
	}
	return b
}

// role appends chat's first event, which carries no token.
func (e *encoder) role(b []byte, choice int32, at int64) []byte {
	b = append(b, e.head...)
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(choice), 10)
	b = append(b, `,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]`...)
	if e.call.returnIDs {
		b = append(b, `,"prompt_token_ids":`...)
		b = appendIDs(b, e.req.Prompt)
	}
	return e.close(b, at, e.call.continuous)
}

// output appends the event of one engine output; bad makes its text invalid UTF-8, mute leaves its
// finish reason out.
func (e *encoder) output(b []byte, o Output, at int64, bad, mute bool) []byte {
	if e.call.native {
		return e.nativeOutput(b, o, at, bad, mute)
	}
	e.speak(o.Choice)
	b = append(b, e.head...)
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(o.Choice), 10)
	first := e.tokens == 0
	word, start := e.word, e.length
	if e.call.chat {
		b = append(b, `,"delta":{`...)
		b = e.delta(b, o, bad)
		b = append(b, `},"logprobs":`...)
		b = e.logprobs(b, word, o.Tokens, start)
		b = append(b, `,"finish_reason":`...)
		b = appendFinish(b, o.Finish, mute)
	} else {
		b = append(b, `,"text":"`...)
		b = e.words(b, o.Tokens, bad)
		b = append(b, `","logprobs":`...)
		b = e.logprobs(b, word, o.Tokens, start)
		b = append(b, `,"finish_reason":`...)
		b = appendFinish(b, o.Finish, mute)
		b = append(b, `,"stop_reason":null`...)
	}
	e.tokens += int(o.Tokens)
	if o.Kind == Reasoning {
		e.reasoned += int(o.Tokens)
	}
	if e.call.returnIDs {
		if !e.call.chat && first {
			b = append(b, `,"prompt_token_ids":`...)
			b = appendIDs(b, e.req.Prompt)
		}
		b = append(b, `,"token_ids":`...)
		b = e.ids(b, word, o.Tokens)
	}
	b = append(b, `}]`...)
	return e.close(b, at, e.call.continuous)
}

// delta appends what a chat output adds: content, reasoning, or a piece of a tool call.
func (e *encoder) delta(b []byte, o Output, bad bool) []byte {
	switch o.Kind {
	case Reasoning:
		b = append(b, '"')
		b = append(b, e.reasoning...)
		b = append(b, `":"`...)
		b = e.words(b, o.Tokens, bad)
		return append(b, '"')
	case Tool:
		if !e.toolOpened {
			e.toolOpened = true
			b = append(b, `"tool_calls":[{"index":0,"id":"call-0","type":"function","function":{"name":"look_up","arguments":"`...)
		} else {
			b = append(b, `"tool_calls":[{"index":0,"function":{"arguments":"`...)
		}
		b = e.words(b, o.Tokens, bad)
		return append(b, `"}}]`...)
	default:
		b = append(b, `"content":"`...)
		b = e.words(b, o.Tokens, bad)
		return append(b, '"')
	}
}

// words appends the next n words of the answer. They are plain letters and need no escaping.
func (e *encoder) words(b []byte, n int32, bad bool) []byte {
	for range n {
		b = append(b, outWords[e.word]...)
		e.length += len(outWords[e.word])
		e.word = (e.word + e.stride) % len(outWords)
	}
	if bad {
		b = append(b, 0xff, 0xc3, 0x28)
	}
	return b
}

func (e *encoder) ids(b []byte, word int, n int32) []byte {
	b = append(b, '[')
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(outIDs[word]), 10)
		word = (word + e.stride) % len(outWords)
	}
	return append(b, ']')
}

func appendIDs(b []byte, ids []int32) []byte {
	b = append(b, '[')
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(id), 10)
	}
	return append(b, ']')
}

func appendFinish(b []byte, f Finish, mute bool) []byte {
	if f == Running || mute {
		return append(b, `null`...)
	}
	b = append(b, '"')
	b = append(b, f.String()...)
	return append(b, '"')
}

// final appends the usage event.
func (e *encoder) final(b []byte, at int64, metrics []byte) []byte {
	b = append(b, e.head...)
	b = append(b, ']')
	if metrics != nil {
		b = append(b, `,"metrics":`...)
		b = append(b, metrics...)
	}
	return e.close(b, at, true)
}

// close appends the end every event has: usage, the stamp, the blank line.
func (e *encoder) close(b []byte, at int64, usage bool) []byte {
	if usage {
		b = append(b, `,"usage":`...)
		b = e.appendUsage(b)
	} else if !e.call.chat {
		b = append(b, `,"usage":null`...)
	}
	if e.stampKey {
		b = append(b, `,"spate_ns":`...)
		b = strconv.AppendInt(b, at, 10)
	}
	return append(b, "}\n\n"...)
}

func (e *encoder) appendUsage(b []byte) []byte {
	b = append(b, `{"prompt_tokens":`...)
	b = strconv.AppendInt(b, int64(e.req.PromptTokens), 10)
	b = append(b, `,"total_tokens":`...)
	n := e.total()
	b = strconv.AppendInt(b, int64(e.req.PromptTokens+n), 10)
	b = append(b, `,"completion_tokens":`...)
	b = strconv.AppendInt(b, int64(n), 10)
	if e.details {
		b = append(b, `,"prompt_tokens_details":{"cached_tokens":`...)
		b = strconv.AppendInt(b, e.cached.Load(), 10)
		b = append(b, '}')
	}
	if e.reasoned > 0 {
		b = append(b, `,"completion_tokens_details":{"reasoning_tokens":`...)
		b = strconv.AppendInt(b, int64(e.reasoned), 10)
		b = append(b, '}')
	}
	return append(b, '}')
}

const doneEvent = "data: [DONE]\n\n"

// errorEvent is an error object as vLLM sends it after the headers have gone.
func errorEvent(b []byte, message string) []byte {
	if message == "" {
		message = "the engine gave up on this request"
	}
	b = append(b, `data: {"error":{"message":`...)
	b = append(b, quote(message)...)
	return append(b, `,"type":"InternalServerError","param":null,"code":500}}`+"\n\n"...)
}

// frame collects the bytes of one write and can put them into one HTTP chunk without copying: room
// for the chunk's length is kept in front.
type frame struct{ buf []byte }

const frameRoom = 10

func (f *frame) reset() {
	if f.buf == nil {
		f.buf = make([]byte, frameRoom, 1024)
	}
	f.buf = f.buf[:frameRoom]
}

func (f *frame) empty() bool { return len(f.buf) <= frameRoom }

// chunk returns the bytes to write: the collected ones as one chunk, with the last-chunk marker
// after it when the body ends here.
func (f *frame) chunk(chunked, last bool) []byte {
	if !chunked {
		return f.buf[frameRoom:]
	}
	n := len(f.buf) - frameRoom
	at := frameRoom
	if n > 0 {
		f.buf = append(f.buf, "\r\n"...)
		f.buf[at-1], f.buf[at-2] = '\n', '\r'
		at -= 2
		for {
			at--
			f.buf[at] = "0123456789abcdef"[n&15]
			if n >>= 4; n == 0 {
				break
			}
		}
	}
	if last {
		f.buf = append(f.buf, "0\r\n\r\n"...)
	}
	return f.buf[at:]
}
