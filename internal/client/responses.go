package client

import (
	"encoding/json"
	"strconv"

	"github.com/valyala/fastjson"

	"spate/internal/call"
)

// responses speaks OpenAI's /v1/responses.
type responses struct{}

// Manner implements Backend.
func (responses) Manner() Manner { return Manner{UsageEnds: true} }

// Encode implements Backend.
func (responses) Encode(dst []byte, s *Body, r *call.Request) ([]byte, error) {
	var o object
	o.set("model", appendString(nil, model(s, r)))
	if len(r.Prompt.Messages) > 0 {
		o.set("input", r.Prompt.Messages)
	} else {
		o.set("input", appendString(nil, r.Prompt.Text))
	}
	o.set("max_output_tokens", strconv.AppendInt(nil, int64(r.MaxOut), 10))
	o.set("stream", []byte("true"))
	if s.IgnoreEOS {
		o.set("ignore_eos", []byte("true"))
	}
	for _, raw := range []json.RawMessage{s.Sampling, s.Extra, r.Extra} {
		if err := o.merge(raw); err != nil {
			return dst, err
		}
	}
	return o.appendTo(dst), nil
}

// Decode implements Backend.
func (responses) Decode(v *fastjson.Value, e *event) {
	switch string(v.GetStringBytes("type")) {
	case "error":
		e.failed, e.failure = true, errorText(v)
	case "response.output_text.delta", "response.refusal.delta":
		e.choices, e.text = true, v.GetStringBytes("delta")
		e.mark(e.text, call.Visible)
	case "response.reasoning_text.delta", "response.reasoning_summary_text.delta", "response.reasoning.delta":
		e.choices, e.thought = true, v.GetStringBytes("delta")
		e.mark(e.thought, call.Reasoning)
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
		e.choices, e.tool = true, v.GetStringBytes("delta")
		e.mark(e.tool, call.Tool)
	case "response.completed", "response.incomplete", "response.failed":
		decodeResponse(v.Get("response"), e)
	case "":
		if v.Get("output") != nil { // a server that did not stream
			decodeWholeResponse(v, e)
			return
		}
		decodeCommon(v, e)
	}
}

// decodeResponse reads the object that ends a stream.
func decodeResponse(v *fastjson.Value, e *event) {
	if v == nil {
		return
	}
	if fail := v.Get("error"); fail != nil && fail.Type() != fastjson.TypeNull {
		e.failed, e.failure = true, errorText(fail)
		return
	}
	e.ended, e.finish = true, "stop"
	switch status := string(v.GetStringBytes("status")); status {
	case "incomplete":
		if e.finish = string(v.GetStringBytes("incomplete_details", "reason")); e.finish == "max_output_tokens" || e.finish == "" {
			e.finish = "length"
		}
	case "failed", "cancelled":
		e.failed, e.failure = true, "the response has status "+status
	}
	if u := v.Get("usage"); u != nil && u.Type() == fastjson.TypeObject {
		e.usage = &usage{
			prompt: u.GetInt("input_tokens"), completion: u.GetInt("output_tokens"),
			reasoning: u.GetInt("output_tokens_details", "reasoning_tokens"),
		}
		if c := u.Get("input_tokens_details", "cached_tokens"); c != nil && c.Type() == fastjson.TypeNumber {
			e.usage.cached, e.usage.hasCached = c.GetInt(), true
		}
	}
}

func decodeWholeResponse(v *fastjson.Value, e *event) {
	decodeResponse(v, e)
	for _, item := range v.GetArray("output") {
		for _, part := range item.GetArray("content") {
			e.choices = true
			e.text = append(e.text, part.GetStringBytes("text")...)
		}
	}
	e.mark(e.text, call.Visible)
}

// mark notes a kind of content when there is some.
func (e *event) mark(content []byte, kind call.Kind) {
	if len(content) > 0 {
		e.kind |= kind
	}
}
