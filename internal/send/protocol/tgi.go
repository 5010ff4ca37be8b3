package protocol

import (
	"strconv"

	"github.com/valyala/fastjson"

	"spate/internal/call"
)

var tgiProtocol = Protocol{
	Name: "tgi", About: "Text Generation Inference's /generate_stream", Path: "/generate_stream", Suffix: "generate_stream", Port: 8080,
	Family: Completion, Codec: tgi{},
}

// tgi speaks Text Generation Inference's /generate_stream: one token a message; the last one repeats the
// whole text.
type tgi struct{}

// Encode implements Codec. The parameters are vLLM's: a temperature of 0 is refused by the server.
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

// Decode implements Codec.
func (tgi) Decode(v *fastjson.Value, e *Event) {
	if decodeCommon(v, e); e.Failed {
		return
	}
	if token := v.Get("token"); token != nil && token.Type() == fastjson.TypeObject {
		e.Choices, e.Tokens = true, 1
		if !token.GetBool("special") {
			e.Text = token.GetStringBytes("text")
			e.mark(e.Text, call.Visible)
		}
	}
	all := v.Get("generated_text")
	if all == nil || all.Type() != fastjson.TypeString {
		return
	}
	e.Ended, e.Finish = true, "end" // of what kind, only details tell
	if d := v.Get("details"); d != nil && d.Type() == fastjson.TypeObject {
		if reason := string(d.GetStringBytes("finish_reason")); reason != "" {
			e.Finish = reason
		}
		e.Usage = &Usage{Prompt: number(d, "input_length"), Completion: number(d, "generated_tokens")}
	}
}
