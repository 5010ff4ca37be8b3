package client

import (
	"strconv"
	"time"

	"github.com/valyala/fastjson"

	"spate/internal/call"
)

// ollama speaks Ollama's /api/generate and /api/chat: a JSON object on each line.
type ollama struct {
	chat bool
}

// Manner implements Backend.
func (ollama) Manner() Manner { return Manner{Lines: true} }

// Encode implements Backend.
func (b ollama) Encode(dst []byte, s *Body, r *call.Request) ([]byte, error) {
	var options object
	options.set("num_predict", strconv.AppendInt(nil, int64(r.MaxOut), 10))
	if err := options.merge(s.Sampling); err != nil {
		return dst, err
	}
	options.rename("repetition_penalty", "repeat_penalty")
	var o object
	o.set("model", appendString(nil, model(s, r)))
	if b.chat {
		o.set("messages", plainMessages(r))
	} else {
		o.set("prompt", appendString(nil, r.Prompt.Text))
		o.set("raw", []byte("true")) // the prompt is sent as it is, as completions are
	}
	o.set("stream", []byte("true"))
	o.set("options", options.appendTo(nil))
	return o.finish(dst, s.Extra, r.Extra)
}

// Decode implements Backend.
func (b ollama) Decode(v *fastjson.Value, e *event) {
	if decodeCommon(v, e); e.failed {
		return
	}
	m := v
	if b.chat {
		m = v.Get("message")
		e.text = m.GetStringBytes("content")
		for _, t := range m.GetArray("tool_calls") {
			if f := t.Get("function"); f != nil {
				e.tool = f.MarshalTo(e.tool)
			}
		}
	} else {
		e.text = v.GetStringBytes("response")
	}
	e.thought = m.GetStringBytes("thinking")
	e.markAll()
	if v.GetBool("done") {
		decodeOllamaEnd(v, e)
	}
}

// decodeOllamaEnd reads the counts and durations of the last message. Its load time is that until the
// model was there to run the request, waiting for others included.
func decodeOllamaEnd(v *fastjson.Value, e *event) {
	e.ended = true
	if e.finish = string(v.GetStringBytes("done_reason")); e.finish == "" {
		e.finish = "stop" // older servers do not say
	}
	e.usage = &usage{prompt: number(v, "prompt_eval_count"), completion: number(v, "eval_count")}
	e.server = &call.ServerTimes{
		Queue: nanos(v, "load_duration"), FirstToken: nanos(v, "prompt_eval_duration"), Generation: nanos(v, "eval_duration"),
	}
	if n := e.usage.completion; n > 0 {
		e.server.MeanITL = e.server.Generation / time.Duration(n)
	}
}
