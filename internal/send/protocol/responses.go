package protocol

import (
	"strconv"

	"github.com/valyala/fastjson"

	"spate/internal/call"
)

var responsesProtocol = Protocol{
	Name: "openai-responses", About: "the responses API", Path: "/v1/responses", Suffix: "responses", Port: 8000, Family: Chat,
	Manner: Manner{UsageEnds: true}, Codec: responses{},
}

// responses speaks OpenAI's /v1/responses.
type responses struct{}

// Encode implements Codec.
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

// Decode implements Codec.
func (responses) Decode(v *fastjson.Value, e *Event) {
	switch string(v.GetStringBytes("type")) {
	case "error":
		e.Failed, e.Failure = true, streamError(v)
	case "response.output_text.delta", "response.refusal.delta":
		e.Text = v.GetStringBytes("delta")
		e.markAll()
	case "response.reasoning_text.delta", "response.reasoning_summary_text.delta", "response.reasoning.delta":
		e.Thought = v.GetStringBytes("delta")
		e.markAll()
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta",
		"response.mcp_call_arguments.delta", "response.code_interpreter_call_code.delta":
		e.Tool = v.GetStringBytes("delta")
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
func decodeResponse(v *fastjson.Value, e *Event) {
	if v == nil {
		return
	}
	if fail := v.Get("error"); fail != nil && fail.Type() != fastjson.TypeNull {
		e.Failed, e.Failure = true, errorText(fail)
		return
	}
	e.Ended, e.Finish = true, "stop"
	switch status := string(v.GetStringBytes("status")); status {
	case "incomplete":
		if e.Finish = string(v.GetStringBytes("incomplete_details", "reason")); e.Finish == "max_output_tokens" || e.Finish == "" {
			e.Finish = "length"
		}
	case "failed", "cancelled":
		e.Failed, e.Failure = true, "the response has status "+status
	}
	if u := v.Get("usage"); u != nil && u.Type() == fastjson.TypeObject {
		e.Usage = &Usage{
			Prompt: number(u, "input_tokens"), Completion: number(u, "output_tokens"),
			Reasoning: number(u, "output_tokens_details", "reasoning_tokens"),
		}
		e.Usage.Cached, e.Usage.HasCached = told(u, "input_tokens_details", "cached_tokens")
	}
}

func decodeWholeResponse(v *fastjson.Value, e *Event) {
	if decodeResponse(v, e); e.Failed {
		return
	}
	for _, item := range v.GetArray("output") {
		e.Tool = append(e.Tool, item.GetStringBytes("arguments")...)
		thinks := string(item.GetStringBytes("type")) == "reasoning"
		for _, part := range item.GetArray("content") {
			if thinks {
				e.Thought = append(e.Thought, part.GetStringBytes("text")...)
			} else {
				e.Text = append(e.Text, part.GetStringBytes("text")...)
			}
		}
	}
	e.markAll()
}
