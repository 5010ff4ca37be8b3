package client

import (
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
	return o.finish(dst, s.Sampling, s.Extra, r.Extra)
}

// Decode implements Backend.
func (responses) Decode(v *fastjson.Value, e *event) {
	switch string(v.GetStringBytes("type")) {
	case "error":
		e.failed, e.failure = true, streamError(v)
	case "response.output_text.delta", "response.refusal.delta":
		e.text = v.GetStringBytes("delta")
		e.markAll()
	case "response.reasoning_text.delta", "response.reasoning_summary_text.delta", "response.reasoning.delta":
		e.thought = v.GetStringBytes("delta")
		e.markAll()
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta",
		"response.mcp_call_arguments.delta", "response.code_interpreter_call_code.delta":
		e.tool = v.GetStringBytes("delta")
		e.markAll()
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

// streamError is what an error event says: the error may lie in it or be it.
func streamError(v *fastjson.Value) string {
	if inner := v.Get("error"); inner != nil && inner.Type() != fastjson.TypeNull {
		return errorText(inner)
	}
	if msg := string(v.GetStringBytes("message")); msg != "" {
		return msg
	}
	return errorText(v)
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
			prompt: number(u, "input_tokens"), completion: number(u, "output_tokens"),
			reasoning: number(u, "output_tokens_details", "reasoning_tokens"),
		}
		e.usage.cached, e.usage.hasCached = told(u, "input_tokens_details", "cached_tokens")
	}
}

func decodeWholeResponse(v *fastjson.Value, e *event) {
	if decodeResponse(v, e); e.failed {
		return
	}
	for _, item := range v.GetArray("output") {
		e.tool = append(e.tool, item.GetStringBytes("arguments")...)
		thinks := string(item.GetStringBytes("type")) == "reasoning"
		for _, part := range item.GetArray("content") {
			if thinks {
				e.thought = append(e.thought, part.GetStringBytes("text")...)
			} else {
				e.text = append(e.text, part.GetStringBytes("text")...)
			}
		}
	}
	e.markAll()
}

// mark notes a kind of content when there is some.
func (e *event) mark(content []byte, kind call.Kind) {
	if len(content) > 0 {
		e.kind |= kind
	}
}

// markAll notes every kind of content there is; a message without any carries no choice.
func (e *event) markAll() {
	e.mark(e.text, call.Visible)
	e.mark(e.thought, call.Reasoning)
	e.mark(e.tool, call.Tool)
	e.choices = e.kind != 0
}
