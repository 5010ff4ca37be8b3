package protocol

import (
	"strconv"

	"github.com/valyala/fastjson"

	"spate/internal/call"
)

var miiProtocol = Protocol{
	Name: "deepspeed-mii", About: "DeepSpeed-MII's completions, not streamed", Path: completionsPath, Suffix: "completions", Port: 28080,
	Family: Completion, Codec: mii{},
}

// mii speaks DeepSpeed-MII's completions, which come whole.
type mii struct{}

// Encode implements Codec.
func (mii) Encode(dst []byte, s *Body, r *call.Request) ([]byte, error) {
	var o object
	o.set("model", appendString(nil, model(s, r)))
	o.set("prompt", appendString(nil, r.Prompt.Text))
	o.set("max_tokens", strconv.AppendInt(nil, int64(r.MaxOut), 10))
	o.set("temperature", []byte("0.01"))
	o.set("top_p", []byte("1.0"))
	return o.finish(dst, s.Sampling, s.Extra, r.Extra)
}

// Decode implements Codec.
func (mii) Decode(v *fastjson.Value, e *Event) {
	completions{}.Decode(v, e)
	if texts := v.GetArray("text"); len(texts) > 0 && !e.Failed {
		e.Choices, e.Text, e.Finish = true, texts[0].GetStringBytes(), "end"
		e.mark(e.Text, call.Visible)
	}
}
