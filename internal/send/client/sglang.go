package client

import (
	"strconv"

	"github.com/valyala/fastjson"

	"spate/internal/call"
)

// sglang speaks SGLang's own /generate. Each message repeats the whole answer with the number of its
// tokens so far, so the tokens of a chunk are known exactly.
type sglang struct{}

// Manner implements Backend.
func (sglang) Manner() Manner { return Manner{} }

// Encode implements Backend.
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

// Decode implements Backend.
func (sglang) Decode(v *fastjson.Value, e *event) {
	if decodeCommon(v, e); e.failed {
		return
	}
	text := v.Get("text")
	if text == nil || text.Type() != fastjson.TypeString {
		return
	}
	e.choices, e.whole, e.text = true, true, text.GetStringBytes()
	e.mark(e.text, call.Visible)
	meta := v.Get("meta_info")
	if meta == nil || meta.Type() != fastjson.TypeObject {
		return
	}
	e.usage = &usage{prompt: number(meta, "prompt_tokens"), completion: number(meta, "completion_tokens")}
	e.usage.cached, e.usage.hasCached = told(meta, "cached_tokens")
	switch f := meta.Get("finish_reason"); {
	case f == nil:
	case f.Type() == fastjson.TypeString:
		e.finish = string(f.GetStringBytes())
	case f.Type() == fastjson.TypeObject:
		e.finish = string(f.GetStringBytes("type"))
		if e.finish == "abort" {
			e.failed, e.failure = true, "aborted: "+string(f.GetStringBytes("message"))
		}
	}
}
