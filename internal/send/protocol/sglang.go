package protocol

import (
	"strconv"

	"github.com/valyala/fastjson"

	"spate/internal/call"
)

func sglangOf(name, about string) Protocol {
	return Protocol{Name: name, About: about, Path: "/generate", Suffix: "generate", Port: 30000, Family: Completion, IDs: true, Codec: sglang{}}
}

// sglang speaks SGLang's own /generate. Each message repeats the whole answer with the number of its
// tokens so far, so the tokens of a chunk are known exactly.
type sglang struct{}

// Encode implements Codec.
func (sglang) Encode(dst []byte, s *Body, r *call.Request) ([]byte, error) {
	var params object
	params.set("temperature", []byte("0.0"))
	params.set("max_new_tokens", strconv.AppendInt(nil, int64(r.MaxOut), 10))
	params.set("ignore_eos", strconv.AppendBool(nil, s.IgnoreEOS))
	if err := params.merge(s.Sampling); err != nil {
		return dst, err
	}
	var o object
	if r.Prompt.IDs != nil {
		o.set("input_ids", appendIDs(nil, r.Prompt.IDs))
	} else {
		o.set("text", appendString(nil, r.Prompt.Text))
	}
	o.set("sampling_params", params.appendTo(nil))
	o.set("stream", []byte("true"))
	if r.Model != "" && r.Model != s.Model {
		o.set("lora_path", appendString(nil, r.Model))
	}
	if s.Logprobs != nil {
		o.set("return_logprob", []byte("true"))
		o.set("logprob_start_len", []byte("-1"))
		o.set("top_logprobs_num", strconv.AppendInt(nil, int64(*s.Logprobs), 10))
	}
	return o.finish(dst, s.Extra, r.Extra)
}

// Decode implements Codec.
func (sglang) Decode(v *fastjson.Value, e *Event) {
	if decodeCommon(v, e); e.Failed {
		return
	}
	text := v.Get("text")
	if text == nil || text.Type() != fastjson.TypeString {
		return
	}
	e.Choices, e.Whole, e.Text = true, true, text.GetStringBytes()
	e.mark(e.Text, call.Visible)
	meta := v.Get("meta_info")
	if meta == nil || meta.Type() != fastjson.TypeObject {
		return
	}
	e.Usage = &Usage{Prompt: number(meta, "prompt_tokens"), Completion: number(meta, "completion_tokens")}
	e.Usage.Cached, e.Usage.HasCached = told(meta, "cached_tokens")
	switch f := meta.Get("finish_reason"); {
	case f == nil:
	case f.Type() == fastjson.TypeString:
		e.Finish = string(f.GetStringBytes())
	case f.Type() == fastjson.TypeObject:
		e.Finish = string(f.GetStringBytes("type"))
		if e.Finish == "abort" {
			e.Failed, e.Failure = true, "aborted: "+string(f.GetStringBytes("message"))
		}
	}
}
