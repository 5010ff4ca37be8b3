package client

import (
	"encoding/json"
	"strconv"

	"github.com/valyala/fastjson"

	"spate/internal/call"
)

// ollama speaks Ollama's /api/generate and /api/chat: a JSON object on each line.
type ollama struct {
	chat bool
}

// Manner implements Backend.
func (ollama) Manner() Manner { return Manner{Lines: true} }

// Encode implements Backend.
func (b ollama) Encode(dst []byte, s *Body, r *call.Request) ([]byte, error) {
	var options object
	options.set("num_predict", strconv.AppendInt(nil, int64(r.MaxOut), 10))
	if err := options.merge(s.Sampling); err != nil {
		return dst, err
	}
	var o object
	o.set("model", appendString(nil, model(s, r)))
	switch {
	case !b.chat:
		o.set("prompt", appendString(nil, r.Prompt.Text))
		o.set("raw", []byte("true")) // the prompt is sent as it is, as completions are
	case len(r.Prompt.Messages) > 0:
		o.set("messages", r.Prompt.Messages)
	default:
		o.set("messages", append(appendString([]byte(`[{"role":"user","content":`), r.Prompt.Text), `}]`...))
	}
	o.set("stream", []byte("true"))
	o.set("options", options.appendTo(nil))
	for _, raw := range []json.RawMessage{s.Extra, r.Extra} {
		if err := o.merge(raw); err != nil {
			return dst, err
		}
	}
	return o.appendTo(dst), nil
}

// Decode implements Backend.
func (b ollama) Decode(v *fastjson.Value, e *event) {
	if decodeCommon(v, e); e.failed {
		return
	}
	m := v
	if b.chat {
		m = v.Get("message")
		e.text = m.GetStringBytes("content")
		for _, t := range m.GetArray("tool_calls") {
			e.tool = t.Get("function").MarshalTo(e.tool)
		}
	} else {
		e.text = v.GetStringBytes("response")
	}
	e.thought = m.GetStringBytes("thinking")
	e.mark(e.text, call.Visible)
	e.mark(e.thought, call.Reasoning)
	e.mark(e.tool, call.Tool)
	e.choices = e.kind != 0
	if v.GetBool("done") {
		decodeOllamaEnd(v, e)
	}
}

// decodeOllamaEnd reads the counts and durations of the last message.
func decodeOllamaEnd(v *fastjson.Value, e *event) {
	e.ended = true
	if e.finish = string(v.GetStringBytes("done_reason")); e.finish == "" {
		e.finish = "stop" // older servers do not say
	}
	e.usage = &usage{prompt: v.GetInt("prompt_eval_count"), completion: v.GetInt("eval_count")}
	e.server = &call.ServerTimes{
		Queue: nanos(v, "load_duration"), FirstToken: nanos(v, "prompt_eval_duration"), Generation: nanos(v, "eval_duration"),
	}
}
