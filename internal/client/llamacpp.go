package client

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/valyala/fastjson"

	"spate/internal/call"
)

// llamacpp speaks llama.cpp's own /completion.
type llamacpp struct{}

// Manner implements Backend.
func (llamacpp) Manner() Manner { return Manner{} }

// Encode implements Backend.
func (llamacpp) Encode(dst []byte, s *Body, r *call.Request) ([]byte, error) {
	var o object
	o.set("prompt", prompt(r))
	o.set("n_predict", strconv.AppendInt(nil, int64(r.MaxOut), 10))
	o.set("stream", []byte("true"))
	o.set("cache_prompt", []byte("false"))
	if s.IgnoreEOS {
		o.set("ignore_eos", []byte("true"))
	}
	if s.Logprobs != nil {
		o.set("n_probs", strconv.AppendInt(nil, int64(*s.Logprobs), 10))
	}
	for _, raw := range []json.RawMessage{s.Sampling, s.Extra, r.Extra} {
		if err := o.merge(raw); err != nil {
			return dst, err
		}
	}
	return o.appendTo(dst), nil
}

// Decode implements Backend.
func (llamacpp) Decode(v *fastjson.Value, e *event) {
	if decodeCommon(v, e); e.failed {
		return
	}
	if text := v.Get("content"); text != nil && text.Type() == fastjson.TypeString {
		e.text = text.GetStringBytes()
		e.tokens = len(v.GetArray("tokens"))
		e.mark(e.text, call.Visible)
		e.choices = len(e.text) > 0 || e.tokens > 0
	}
	if !v.GetBool("stop") {
		return
	}
	e.ended, e.finish = true, llamaFinish(v)
	if n := v.GetInt("tokens_predicted"); n > 0 {
		e.usage = &usage{prompt: v.GetInt("tokens_evaluated"), completion: n}
		if c := v.Get("timings", "cache_n"); c != nil && c.Type() == fastjson.TypeNumber {
			e.usage.cached, e.usage.hasCached = c.GetInt(), true
		}
	}
}

// llamaFinish is why an answer ended; older servers say it by switches.
func llamaFinish(v *fastjson.Value) string {
	switch kind := string(v.GetStringBytes("stop_type")); {
	case kind == "limit" || v.GetBool("stopped_limit") || v.GetBool("truncated"):
		return "length"
	case kind != "" && kind != "none":
		return kind
	}
	return "stop"
}

// decodeTimings reads the figures llama.cpp puts into the last message of all its protocols.
func decodeTimings(v *fastjson.Value, e *event) {
	t := v.Get("timings")
	if t == nil || t.Type() != fastjson.TypeObject {
		return
	}
	e.server = &call.ServerTimes{
		FirstToken: millis(t, "prompt_ms"), Generation: millis(t, "predicted_ms"), MeanITL: millis(t, "predicted_per_token_ms"),
	}
}

func nanos(v *fastjson.Value, key string) time.Duration { return time.Duration(v.GetInt64(key)) }
