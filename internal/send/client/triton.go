package client

import (
	"strconv"

	"github.com/valyala/fastjson"

	"spate/internal/call"
)

// triton speaks TensorRT-LLM's generate_stream behind Triton. It has neither a finish reason nor an end
// mark: an answer ends when the stream does.
type triton struct {
	noEnd bool // SGLang's and LMDeploy's clients keep answers going by naming a token that never comes as their end
}

// Manner implements Backend.
func (triton) Manner() Manner { return Manner{Endless: true} }

// Encode implements Backend.
func (b triton) Encode(dst []byte, s *Body, r *call.Request) ([]byte, error) {
	temperature := "0.0"
	if b.noEnd {
		temperature = "0.000001"
	}
	length := strconv.AppendInt(nil, int64(r.MaxOut), 10)
	var o object
	o.set("accumulate_tokens", []byte("true"))
	o.set("text_input", appendString(nil, r.Prompt.Text))
	o.set("temperature", []byte(temperature))
	o.set("top_p", []byte("1.0"))
	o.set("max_tokens", length)
	o.set("stream", []byte("true"))
	if s.IgnoreEOS {
		o.set("min_length", length)
		if b.noEnd {
			o.set("end_id", []byte("1048576"))
		}
	}
	return o.finish(dst, s.Sampling, s.Extra, r.Extra)
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
	return o.finish(dst, s.Sampling, s.Extra, r.Extra)
}

// Decode implements Backend.
func (mii) Decode(v *fastjson.Value, e *event) {
	completions{}.Decode(v, e)
	if texts := v.GetArray("text"); len(texts) > 0 && !e.failed {
		e.choices, e.text, e.finish = true, texts[0].GetStringBytes(), "end"
		e.mark(e.text, call.Visible)
	}
}
