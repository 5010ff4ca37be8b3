package protocol

import (
	"strconv"
	"time"

	"github.com/valyala/fastjson"

	"spate/internal/call"
)

var (
	llamaCompletions = Protocol{
		Name: "llama.cpp", About: "completions of llama.cpp, its prompt cache off", Path: completionsPath, Suffix: "completions", Port: 8080,
		Family: Completion, IDs: true, Manner: Manner{Content: true}, Codec: completions{uncached: true},
	}
	llamaNative = Protocol{
		Name: "llama.cpp-native", About: "llama.cpp's own /completion", Path: "/completion", Suffix: "completion", Port: 8080,
		Family: Completion, IDs: true, Manner: Manner{Content: true}, Codec: llamacpp{},
	}
)

// llamacpp speaks llama.cpp's own /completion.
type llamacpp struct{}

// Encode implements Codec.
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

// Decode implements Codec.
func (llamacpp) Decode(v *fastjson.Value, e *Event) {
	if decodeCommon(v, e); e.Failed {
		return
	}
	if text := v.Get("content"); text != nil && text.Type() == fastjson.TypeString {
		e.Text = text.GetStringBytes()
		e.Tokens = len(v.GetArray("tokens"))
		e.mark(e.Text, call.Visible)
		e.Choices = len(e.Text) > 0 || e.Tokens > 0
	}
	if !v.GetBool("stop") {
		return
	}
	e.Ended, e.Finish = true, llamaFinish(v)
	if n := number(v, "tokens_predicted"); n > 0 {
		e.Usage = &Usage{Prompt: number(v, "tokens_evaluated"), Completion: n}
		e.Usage.Cached, e.Usage.HasCached = told(v, "timings", "cache_n")
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
func decodeTimings(v *fastjson.Value, e *Event) {
	t := v.Get("timings")
	if t == nil || t.Type() != fastjson.TypeObject {
		return
	}
	e.Server = &call.ServerTimes{
		FirstToken: millis(t, "prompt_ms"), Generation: millis(t, "predicted_ms"), MeanITL: millis(t, "predicted_per_token_ms"),
	}
	if e.Usage != nil && !e.Usage.HasCached {
		e.Usage.Cached, e.Usage.HasCached = told(t, "cache_n")
	}
}

// nanos is a time given in nanoseconds.
func nanos(v *fastjson.Value, key string) time.Duration {
	return inUnits(v.GetFloat64(key), time.Nanosecond)
}
