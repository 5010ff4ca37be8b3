package client

import (
	"encoding/json"
	"strconv"

	"github.com/valyala/fastjson"

	"spate/internal/call"
)

// anthropic speaks Anthropic's /v1/messages.
type anthropic struct{}

// Manner implements Backend.
func (anthropic) Manner() Manner {
	return Manner{UsageEnds: true, Key: "x-api-key", Header: [2]string{"anthropic-version", "2023-06-01"}}
}

// Encode implements Backend.
func (anthropic) Encode(dst []byte, s *Body, r *call.Request) ([]byte, error) {
	var o object
	o.set("model", appendString(nil, model(s, r)))
	if len(r.Prompt.Messages) > 0 {
		o.set("messages", r.Prompt.Messages)
	} else {
		o.set("messages", append(appendString([]byte(`[{"role":"user","content":`), r.Prompt.Text), `}]`...))
	}
	o.set("max_tokens", strconv.AppendInt(nil, int64(r.MaxOut), 10))
	o.set("stream", []byte("true"))
	for _, raw := range []json.RawMessage{s.Sampling, s.Extra, r.Extra} {
		if err := o.merge(raw); err != nil {
			return dst, err
		}
	}
	return o.appendTo(dst), nil
}

// Decode implements Backend.
func (anthropic) Decode(v *fastjson.Value, e *event) {
	switch string(v.GetStringBytes("type")) {
	case "error":
		e.failed, e.failure = true, errorText(v.Get("error"))
	case "message_start":
		e.usage = anthropicUsage(v.Get("message", "usage"))
	case "content_block_delta":
		d := v.Get("delta")
		e.text, e.thought, e.tool = d.GetStringBytes("text"), d.GetStringBytes("thinking"), d.GetStringBytes("partial_json")
		e.markAll()
	case "message_delta":
		e.finish = string(v.GetStringBytes("delta", "stop_reason"))
		e.usage = anthropicUsage(v.Get("usage"))
	case "message_stop":
		e.ended = true
	case "message": // a server that did not stream
		for _, part := range v.GetArray("content") {
			e.text = append(e.text, part.GetStringBytes("text")...)
		}
		e.markAll()
		e.finish, e.ended = string(v.GetStringBytes("stop_reason")), true
		e.usage = anthropicUsage(v.Get("usage"))
	case "":
		decodeCommon(v, e) // an error in the form of other protocols
	}
}

// markAll notes every kind of content there is.
func (e *event) markAll() {
	e.mark(e.text, call.Visible)
	e.mark(e.thought, call.Reasoning)
	e.mark(e.tool, call.Tool)
	e.choices = e.kind != 0
}

// anthropicUsage reads counts, which come in two parts: the prompt's with the first message, the answer's
// with the last. Prompt tokens read from the cache are counted apart from the others there.
func anthropicUsage(u *fastjson.Value) *usage {
	if u == nil || u.Type() != fastjson.TypeObject {
		return nil
	}
	out := &usage{completion: u.GetInt("output_tokens"), partial: true}
	if in := u.Get("input_tokens"); in != nil && in.Type() == fastjson.TypeNumber {
		out.prompt = in.GetInt() + u.GetInt("cache_creation_input_tokens") + u.GetInt("cache_read_input_tokens")
	}
	if c := u.Get("cache_read_input_tokens"); c != nil && c.Type() == fastjson.TypeNumber {
		out.cached, out.hasCached = c.GetInt(), true
	}
	return out
}
