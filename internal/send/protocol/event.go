package protocol

import (
	"math"

	"github.com/valyala/fastjson"

	"spate/internal/call"
)

// Event is what one streamed message says.
type Event struct {
	Choices bool // it carried a choice, which is what vLLM's client times
	Kind    call.Kind
	Text    []byte
	Thought []byte
	Tool    []byte
	Whole   bool // Text is all of the answer so far, not what is new
	Finish  string
	Ended   bool // the protocol's end mark, where it is a message
	Tokens  int  // tokens named by id in the message; 0 when it names none
	Usage   *Usage
	Server  *call.ServerTimes
	Failure string // an error object's message
	Failed  bool
}

// Usage is the server's own count, cumulative when it comes with every chunk.
type Usage struct {
	Prompt, Completion, Cached, Reasoning int
	HasCached                             bool
	Partial                               bool // says nothing of the counts that are 0
}

// After is the usage with what an earlier one said and this one does not.
func (u *Usage) After(earlier *Usage) *Usage {
	if !u.Partial || earlier == nil {
		return u
	}
	out := *u
	out.Prompt, out.Completion = max(u.Prompt, earlier.Prompt), max(u.Completion, earlier.Completion)
	if !u.HasCached {
		out.Cached, out.HasCached = earlier.Cached, earlier.HasCached
	}
	return &out
}

// decodeCommon reads what the OpenAI protocols share: errors, usage and per-request server times.
func decodeCommon(v *fastjson.Value, e *Event) {
	if ev := v.Get("error"); ev != nil && ev.Type() != fastjson.TypeNull {
		e.Failed, e.Failure = true, errorText(ev)
		return
	}
	if string(v.GetStringBytes("object")) == "error" {
		e.Failed, e.Failure = true, errorText(v)
		return
	}
	if u := v.Get("usage"); u != nil && u.Type() == fastjson.TypeObject {
		e.Usage = &Usage{
			Prompt:     number(u, "prompt_tokens"),
			Completion: number(u, "completion_tokens"),
			Reasoning:  number(u, "completion_tokens_details", "reasoning_tokens"),
		}
		e.Usage.Cached, e.Usage.HasCached = told(u, "prompt_tokens_details", "cached_tokens")
	}
	decodeTimings(v, e)
	if m := v.Get("metrics"); m != nil && m.Type() == fastjson.TypeObject {
		e.Server = &call.ServerTimes{
			Queue:      millis(m, "queue_time_ms"),
			FirstToken: millis(m, "time_to_first_token_ms"),
			Generation: millis(m, "generation_time_ms"),
			MeanITL:    millis(m, "mean_itl_ms"),
		}
	}
}

// told is a count a message gives, and whether it gives one. What is no count is none.
func told(v *fastjson.Value, keys ...string) (n int, ok bool) {
	f := v.Get(keys...)
	if f == nil || f.Type() != fastjson.TypeNumber {
		return 0, false
	}
	return min(max(f.GetInt(), 0), math.MaxInt32), true
}

// number is a count, 0 when there is none.
func number(v *fastjson.Value, keys ...string) int {
	n, _ := told(v, keys...)
	return n
}

// errorText is what an error object says.
func errorText(v *fastjson.Value) string {
	if v == nil {
		return "without a word"
	}
	if v.Type() == fastjson.TypeString {
		return string(v.GetStringBytes())
	}
	msg := string(v.GetStringBytes("message"))
	if kind := string(v.GetStringBytes("type")); kind != "" && kind != msg {
		msg = kind + ": " + msg
	}
	if msg == "" {
		msg = v.String()
	}
	return msg
}

// mark notes a kind of content when there is some.
func (e *Event) mark(content []byte, kind call.Kind) {
	if len(content) > 0 {
		e.Kind |= kind
	}
}

// markAll notes every kind of content there is; a message without any carries no choice.
func (e *Event) markAll() {
	e.mark(e.Text, call.Visible)
	e.mark(e.Thought, call.Reasoning)
	e.mark(e.Tool, call.Tool)
	e.Choices = e.Kind != 0
}
