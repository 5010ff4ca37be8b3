package client

import (
	"encoding/json"
	"strconv"

	"github.com/valyala/fastjson"

	"spate/internal/call"
)

// triton speaks TensorRT-LLM's generate_stream behind Triton. It has neither a finish reason nor an end
// mark: an answer ends when the stream does.
type triton struct{}

// Manner implements Backend.
func (triton) Manner() Manner { return Manner{Endless: true} }

// Encode implements Backend.
func (triton) Encode(dst []byte, s *Body, r *call.Request) ([]byte, error) {
	var o object
	o.set("accumulate_tokens", []byte("true"))
	o.set("text_input", appendString(nil, r.Prompt.Text))
	o.set("temperature", []byte("0.0"))
	o.set("top_p", []byte("1.0"))
	o.set("max_tokens", strconv.AppendInt(nil, int64(r.MaxOut), 10))
	o.set("stream", []byte("true"))
	if s.IgnoreEOS {
		o.set("min_length", strconv.AppendInt(nil, int64(r.MaxOut), 10))
	}
	for _, raw := range []json.RawMessage{s.Sampling, s.Extra, r.Extra} {
		if err := o.merge(raw); err != nil {
			return dst, err
		}
	}
	return o.appendTo(dst), nil
}

// Decode implements Backend.
func (triton) Decode(v *fastjson.Value, e *event) {
	if decodeCommon(v, e); e.failed {
		return
	}
	if text := v.Get("text_output"); text != nil && text.Type() == fastjson.TypeString {
		e.choices, e.text = true, text.GetStringBytes()
		e.mark(e.text, call.Visible)
	}
}

// mii speaks DeepSpeed-MII's completions, which come whole.
type mii struct{}

// Manner implements Backend.
func (mii) Manner() Manner { return Manner{} }

// Encode implements Backend.
func (mii) Encode(dst []byte, s *Body, r *call.Request) ([]byte, error) {
	var o object
	o.set("model", appendString(nil, model(s, r)))
	o.set("prompt", appendString(nil, r.Prompt.Text))
	o.set("max_tokens", strconv.AppendInt(nil, int64(r.MaxOut), 10))
	o.set("temperature", []byte("0.01"))
	o.set("top_p", []byte("1.0"))
	for _, raw := range []json.RawMessage{s.Sampling, s.Extra, r.Extra} {
		if err := o.merge(raw); err != nil {
			return dst, err
		}
	}
	return o.appendTo(dst), nil
}

// Decode implements Backend.
func (mii) Decode(v *fastjson.Value, e *event) {
	completions{}.Decode(v, e)
	if texts := v.GetArray("text"); len(texts) > 0 && !e.failed {
		e.choices, e.text = true, texts[0].GetStringBytes()
		e.mark(e.text, call.Visible)
	}
}
