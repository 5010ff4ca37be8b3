package protocol

import (
	"strconv"

	"github.com/valyala/fastjson"

	"spate/internal/call"
)

func tritonOf(name, about string, how triton) Protocol {
	return Protocol{
		Name: name, About: about, Path: "/v2/models/ensemble/generate_stream", Suffix: "generate_stream", Port: 8000, Family: Completion,
		Manner: Manner{Endless: true}, Codec: how,
	}
}

// triton speaks TensorRT-LLM's generate_stream behind Triton. It has neither a finish reason nor an end
// mark: an answer ends when the stream does.
type triton struct {
	noEnd bool // SGLang's and LMDeploy's clients keep answers going by naming a token that never comes as their end
}

// Encode implements Codec.
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

// Decode implements Codec.
func (triton) Decode(v *fastjson.Value, e *Event) {
	if decodeCommon(v, e); e.Failed {
		return
	}
	if text := v.Get("text_output"); text != nil && text.Type() == fastjson.TypeString {
		e.Choices, e.Text = true, text.GetStringBytes()
		e.mark(e.Text, call.Visible)
	}
}
