package protocol

import (
	"strconv"

	"github.com/valyala/fastjson"

	"spate/internal/call"
)

var anthropicProtocol = Protocol{
	Name: "anthropic", About: "Anthropic's messages", Path: "/v1/messages", Suffix: "messages", Port: 8000, Family: Chat,
	Manner: Manner{UsageEnds: true, EndMark: "message_stop", Key: "x-api-key", Header: [2]string{"anthropic-version", "2023-06-01"}}, Codec: anthropic{},
}

// anthropic speaks Anthropic's /v1/messages.
type anthropic struct{}

// Encode implements Codec.
func (anthropic) Encode(dst []byte, s *Body, r *call.Request) ([]byte, error) {
	var o object
	o.set("model", appendString(nil, model(s, r)))
	o.set("messages", plainMessages(r))
	o.set("max_tokens", strconv.AppendInt(nil, int64(r.MaxOut), 10))
	o.set("stream", []byte("true"))
	return o.finish(dst, s.Sampling, s.Extra, r.Extra)
}

// Decode implements Codec.
func (anthropic) Decode(v *fastjson.Value, e *Event) {
	switch string(v.GetStringBytes("type")) {
	case "error":
		e.Failed, e.Failure = true, streamError(v)
	case "message_start":
		e.Usage = anthropicUsage(v.Get("message", "usage"))
	case "content_block_start":
		e.block(v.Get("content_block"))
		e.markAll()
	case "content_block_delta":
		d := v.Get("delta")
		e.Text, e.Thought, e.Tool = d.GetStringBytes("text"), d.GetStringBytes("thinking"), d.GetStringBytes("partial_json")
		e.markAll()
	case "message_delta":
		e.Finish = string(v.GetStringBytes("delta", "stop_reason"))
		e.Usage = anthropicUsage(v.Get("usage"))
	case "message_stop":
		e.Ended = true
	case "message": // a server that did not stream
		for _, part := range v.GetArray("content") {
			e.block(part)
		}
		e.markAll()
		e.Finish, e.Ended = string(v.GetStringBytes("stop_reason")), true
		e.Usage = anthropicUsage(v.Get("usage"))
	case "":
		decodeCommon(v, e) // an error in the form of other protocols
	}
}

// block adds what a block of content holds: its text, its thoughts, or the name and input of a tool.
func (e *Event) block(b *fastjson.Value) {
	e.Text = append(e.Text, b.GetStringBytes("text")...)
	e.Thought = append(e.Thought, b.GetStringBytes("thinking")...)
	e.Tool = append(e.Tool, b.GetStringBytes("name")...)
	if in := b.GetObject("input"); in != nil && in.Len() > 0 {
		e.Tool = in.MarshalTo(e.Tool)
	}
}

// anthropicUsage reads counts, which come in two parts: the prompt's with the first message, the answer's
// with the last. Prompt tokens read from the cache are counted apart from the others there.
func anthropicUsage(u *fastjson.Value) *Usage {
	if u == nil || u.Type() != fastjson.TypeObject {
		return nil
	}
	out := &Usage{Completion: number(u, "output_tokens"), Partial: true}
	if in, ok := told(u, "input_tokens"); ok {
		out.Prompt = in + number(u, "cache_creation_input_tokens") + number(u, "cache_read_input_tokens")
	}
	out.Cached, out.HasCached = told(u, "cache_read_input_tokens")
	return out
}
