package client

import (
	"strconv"
	"time"

	"github.com/valyala/fastjson"

	"spate/internal/call"
)

// llamacpp speaks llama.cpp's own /completion.
type llamacpp struct{}

// Manner implements Backend.
func (llamacpp) Manner() Manner { return Manner{Content: true} }

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
	if err := o.merge(s.Sampling); err != nil {
		return dst, err
	}
	o.rename("repetition_penalty", "repeat_penalty")
	return o.finish(dst, s.Extra, r.Extra)
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
	if n := number(v, "tokens_predicted"); n > 0 {
		e.usage = &usage{prompt: number(v, "tokens_evaluated"), completion: n}
		e.usage.cached, e.usage.hasCached = told(v, "timings", "cache_n")
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
	if e.usage != nil && !e.usage.hasCached {
		e.usage.cached, e.usage.hasCached = told(t, "cache_n")
	}
}

// nanos is a time given in nanoseconds.
func nanos(v *fastjson.Value, key string) time.Duration {
	return inUnits(v.GetFloat64(key), time.Nanosecond)
}
