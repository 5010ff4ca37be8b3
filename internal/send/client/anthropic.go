package client

import (
	"strconv"

	"github.com/valyala/fastjson"

	"spate/internal/call"
)

// anthropic speaks Anthropic's /v1/messages.
type anthropic struct{}

// Manner implements Backend.
func (anthropic) Manner() Manner {
	return Manner{UsageEnds: true, EndMark: "message_stop", Key: "x-api-key", Header: [2]string{"anthropic-version", "2023-06-01"}}
}

// Encode implements Backend.
func (anthropic) Encode(dst []byte, s *Body, r *call.Request) ([]byte, error) {
	var o object
	o.set("model", appendString(nil, model(s, r)))
	o.set("messages", plainMessages(r))
	o.set("max_tokens", strconv.AppendInt(nil, int64(r.MaxOut), 10))
	o.set("stream", []byte("true"))
	return o.finish(dst, s.Sampling, s.Extra, r.Extra)
}

// Decode implements Backend.
func (anthropic) Decode(v *fastjson.Value, e *event) {
	switch string(v.GetStringBytes("type")) {
	case "error":
		e.failed, e.failure = true, streamError(v)
	case "message_start":
		e.usage = anthropicUsage(v.Get("message", "usage"))
	case "content_block_start":
		e.block(v.Get("content_block"))
		e.markAll()
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
			e.block(part)
		}
		e.markAll()
		e.finish, e.ended = string(v.GetStringBytes("stop_reason")), true
		e.usage = anthropicUsage(v.Get("usage"))
	case "":
		decodeCommon(v, e) // an error in the form of other protocols
	}
}

// block adds what a block of content holds: its text, its thoughts, or the name and input of a tool.
func (e *event) block(b *fastjson.Value) {
	e.text = append(e.text, b.GetStringBytes("text")...)
	e.thought = append(e.thought, b.GetStringBytes("thinking")...)
	e.tool = append(e.tool, b.GetStringBytes("name")...)
	if in := b.GetObject("input"); in != nil && in.Len() > 0 {
		e.tool = in.MarshalTo(e.tool)
	}
}

// anthropicUsage reads counts, which come in two parts: the prompt's with the first message, the answer's
// with the last. Prompt tokens read from the cache are counted apart from the others there.
func anthropicUsage(u *fastjson.Value) *usage {
	if u == nil || u.Type() != fastjson.TypeObject {
		return nil
	}
	out := &usage{completion: number(u, "output_tokens"), partial: true}
	if in, ok := told(u, "input_tokens"); ok {
		out.prompt = in + number(u, "cache_creation_input_tokens") + number(u, "cache_read_input_tokens")
	}
	out.cached, out.hasCached = told(u, "cache_read_input_tokens")
	return out
}
