package client

import (
	"strconv"

	"github.com/valyala/fastjson"

	"spate/internal/call"
)

// tgi speaks Text Generation Inference's /generate_stream: one token a message; the last one repeats the
// whole text.
type tgi struct{}

// Manner implements Backend.
func (tgi) Manner() Manner { return Manner{} }

// Encode implements Backend. The parameters are vLLM's: a temperature of 0 is refused by the server.
// Details are asked for beyond them, because only they tell why an answer ended and its token counts.
func (tgi) Encode(dst []byte, s *Body, r *call.Request) ([]byte, error) {
	var params object
	params.set("max_new_tokens", strconv.AppendInt(nil, int64(r.MaxOut), 10))
	params.set("do_sample", []byte("true"))
	params.set("temperature", []byte("0.01"))
	params.set("top_p", []byte("0.99"))
	if r.In.N > 0 {
		params.set("truncate", strconv.AppendInt(nil, int64(r.In.N), 10))
	}
	params.set("ignore_eos_token", strconv.AppendBool(nil, s.IgnoreEOS))
	params.set("details", []byte("true"))
	if s.Logprobs != nil {
		params.set("top_n_tokens", strconv.AppendInt(nil, int64(*s.Logprobs), 10))
	}
	if err := params.merge(s.Sampling); err != nil {
		return dst, err
	}
	var o object
	o.set("inputs", appendString(nil, r.Prompt.Text))
	o.set("parameters", params.appendTo(nil))
	return o.finish(dst, s.Extra, r.Extra)
}

// Decode implements Backend.
func (tgi) Decode(v *fastjson.Value, e *event) {
	if decodeCommon(v, e); e.failed {
		return
	}
	if token := v.Get("token"); token != nil && token.Type() == fastjson.TypeObject {
		e.choices, e.tokens = true, 1
		if !token.GetBool("special") {
			e.text = token.GetStringBytes("text")
			e.mark(e.text, call.Visible)
		}
	}
	all := v.Get("generated_text")
	if all == nil || all.Type() != fastjson.TypeString {
		return
	}
	e.ended, e.finish = true, "end" // of what kind, only details tell
	if d := v.Get("details"); d != nil && d.Type() == fastjson.TypeObject {
		if reason := string(d.GetStringBytes("finish_reason")); reason != "" {
			e.finish = reason
		}
		e.usage = &usage{prompt: number(d, "input_length"), completion: number(d, "generated_tokens")}
	}
}
