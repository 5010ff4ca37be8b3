package protocol

import (
	"strconv"
	"time"

	"github.com/valyala/fastjson"

	"spate/internal/call"
)

var (
	ollamaGenerate = Protocol{
		Name: "ollama", About: "Ollama's /api/generate", Path: "/api/generate", Suffix: "generate", Port: 11434, Family: Completion,
		Manner: Manner{Lines: true}, Codec: ollama{},
	}
	ollamaChat = Protocol{
		Name: "ollama-chat", About: "Ollama's /api/chat", Path: "/api/chat", Suffix: "chat", Port: 11434, Family: Chat,
		Manner: Manner{Lines: true}, Codec: ollama{chat: true},
	}
)

// ollama speaks Ollama's /api/generate and /api/chat: a JSON object on each line.
type ollama struct {
	chat bool
}

// Encode implements Codec.
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

// Decode implements Codec.
func (b ollama) Decode(v *fastjson.Value, e *Event) {
	if decodeCommon(v, e); e.Failed {
		return
	}
	m := v
	if b.chat {
		m = v.Get("message")
		e.Text = m.GetStringBytes("content")
		for _, t := range m.GetArray("tool_calls") {
			if f := t.Get("function"); f != nil {
				e.Tool = f.MarshalTo(e.Tool)
			}
		}
	} else {
		e.Text = v.GetStringBytes("response")
	}
	e.Thought = m.GetStringBytes("thinking")
	e.markAll()
	if v.GetBool("done") {
		decodeOllamaEnd(v, e)
	}
}

// decodeOllamaEnd reads the counts and durations of the last message. Its load time is that until the
// model was there to run the request, waiting for others included.
func decodeOllamaEnd(v *fastjson.Value, e *Event) {
	e.Ended = true
	if e.Finish = string(v.GetStringBytes("done_reason")); e.Finish == "" {
		e.Finish = "stop" // older servers do not say
	}
	e.Usage = &Usage{Prompt: number(v, "prompt_eval_count"), Completion: number(v, "eval_count")}
	e.Server = &call.ServerTimes{
		Queue: nanos(v, "load_duration"), FirstToken: nanos(v, "prompt_eval_duration"), Generation: nanos(v, "eval_duration"),
	}
	if n := e.Usage.Completion; n > 0 {
		e.Server.MeanITL = e.Server.Generation / time.Duration(n)
	}
}
