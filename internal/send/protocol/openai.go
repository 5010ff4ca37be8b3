package protocol

import (
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/valyala/fastjson"

	"spate/internal/call"
)

const (
	completionsPath = "/v1/completions"
	chatPath        = "/v1/chat/completions"
)

// completionsOf and chatOf are OpenAI's protocols as another server has them.
func completionsOf(name, about string, port int) Protocol {
	return Protocol{Name: name, About: about, Path: completionsPath, Suffix: "completions", Port: port, Family: Completion, IDs: true, Codec: completions{}}
}

func chatOf(name, about string, port int) Protocol {
	return Protocol{
		Name: name, About: about, Path: chatPath, Suffix: "chat/completions", Port: port, Family: Chat, Manner: Manner{UsageEnds: true}, Codec: chat{},
	}
}

// completions speaks /v1/completions, as vLLM's `vllm` and `openai` backends do.
type completions struct {
	uncached bool // llama.cpp: do not take prompts from its cache
}

// Encode implements Codec.
func (c completions) Encode(dst []byte, s *Body, r *call.Request) ([]byte, error) {
	var o object
	o.set("model", appendString(nil, model(s, r)))
	o.set("prompt", prompt(r))
	o.set("repetition_penalty", []byte("1.0"))
	o.set("max_tokens", strconv.AppendInt(nil, int64(r.MaxOut), 10))
	o.set("logprobs", []byte("null"))
	if s.Logprobs != nil {
		o.set("logprobs", strconv.AppendInt(nil, int64(*s.Logprobs), 10))
	}
	if c.uncached {
		o.set("cache_prompt", []byte("false"))
	}
	return finishBody(dst, &o, s, r)
}

// Decode implements Codec.
func (completions) Decode(v *fastjson.Value, e *Event) {
	decodeCommon(v, e)
	for i, c := range v.GetArray("choices") {
		e.Choices = true
		text := c.GetStringBytes("text")
		if len(text) > 0 {
			e.Kind |= call.Visible
		}
		if i == 0 {
			e.Text = text
		}
		choiceEnd(c, e)
	}
}

// chat speaks /v1/chat/completions.
type chat struct{}

// Encode implements Codec.
func (chat) Encode(dst []byte, s *Body, r *call.Request) ([]byte, error) {
	var o object
	o.set("model", appendString(nil, model(s, r)))
	o.set("messages", messages(r))
	bound := "max_completion_tokens"
	if s.MaxTokens {
		bound = "max_tokens"
	}
	o.set(bound, strconv.AppendInt(nil, int64(r.MaxOut), 10))
	return finishBody(dst, &o, s, r)
}

// Decode implements Codec.
func (chat) Decode(v *fastjson.Value, e *Event) {
	decodeCommon(v, e)
	for i, c := range v.GetArray("choices") {
		e.Choices = true
		d := c.Get("delta")
		if d == nil {
			d = c.Get("message") // a server that did not stream
		}
		if d != nil {
			decodeDelta(d, e, i == 0)
		}
		choiceEnd(c, e)
	}
}

func decodeDelta(d *fastjson.Value, e *Event, first bool) {
	text := d.GetStringBytes("content")
	thought := d.GetStringBytes("reasoning")
	if len(thought) == 0 {
		thought = d.GetStringBytes("reasoning_content") // the older spelling
	}
	if len(text) > 0 {
		e.Kind |= call.Visible
	}
	if len(thought) > 0 {
		e.Kind |= call.Reasoning
	}
	var tool []byte
	for _, t := range d.GetArray("tool_calls") {
		tool = append(tool, t.GetStringBytes("function", "name")...)
		tool = append(tool, t.GetStringBytes("function", "arguments")...)
	}
	if len(tool) > 0 {
		e.Kind |= call.Tool
	}
	if first {
		e.Text, e.Thought, e.Tool = text, thought, tool
	}
}

// choiceEnd reads what ends a choice and the token ids a chunk may name.
func choiceEnd(c *fastjson.Value, e *Event) {
	if f := c.GetStringBytes("finish_reason"); len(f) > 0 {
		e.Finish = string(f)
	}
	e.Tokens += len(c.GetArray("token_ids"))
}

// millis is a time given in milliseconds; what cannot be one is 0.
func millis(v *fastjson.Value, key string) time.Duration {
	return inUnits(v.GetFloat64(key), time.Millisecond)
}

func inUnits(n float64, unit time.Duration) time.Duration {
	d := n * float64(unit)
	if !(d > 0 && d <= float64(call.MaxTime)) {
		return 0
	}
	return time.Duration(d)
}

func model(s *Body, r *call.Request) string {
	if r.Model != "" {
		return r.Model
	}
	return s.Model
}

// finishBody adds what both protocols share, in vLLM's order of precedence: backend, ignore_eos,
// sampling flags, --extra-body, the request's own overrides.
func finishBody(dst []byte, o *object, s *Body, r *call.Request) ([]byte, error) {
	o.set("stream", []byte("true"))
	options := `{"include_usage":true}`
	if s.Continuous {
		options = `{"include_usage":true,"continuous_usage_stats":true}`
	}
	o.set("stream_options", []byte(options))
	if s.IgnoreEOS {
		o.set("ignore_eos", []byte("true"))
	}
	return o.finish(dst, s.Sampling, s.Extra, r.Extra)
}

func prompt(r *call.Request) []byte {
	if r.Prompt.IDs != nil {
		return appendIDs(nil, r.Prompt.IDs)
	}
	return appendString(make([]byte, 0, len(r.Prompt.Text)+len(r.Prompt.Text)/8+2), r.Prompt.Text)
}

// plainMessages is the same with the text as it is, for servers that know no list of parts.
func plainMessages(r *call.Request) []byte {
	if len(r.Prompt.Messages) > 0 {
		return r.Prompt.Messages
	}
	return append(appendString([]byte(`[{"role":"user","content":`), r.Prompt.Text), `}]`...)
}

// messages is the chat form of a prompt: given messages verbatim, else one user message.
func messages(r *call.Request) []byte {
	if len(r.Prompt.Messages) > 0 {
		return r.Prompt.Messages
	}
	b := make([]byte, 0, len(r.Prompt.Text)+len(r.Prompt.Text)/8+64)
	b = append(b, `[{"role":"user","content":[{"type":"text","text":`...)
	b = appendString(b, r.Prompt.Text)
	return append(b, `}]}]`...)
}

func appendIDs(b []byte, ids []int32) []byte {
	b = append(b, '[')
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(id), 10)
	}
	return append(b, ']')
}

const hexDigits = "0123456789abcdef"

// appendString writes a JSON string. Prompts are large and many, and encoding/json's HTML escaping
// would change them on the wire, so this is written here. Bytes that are not UTF-8 become U+FFFD.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				b = append(b, s[start:i]...)
				b = append(b, "\ufffd"...)
				start = i + 1
			}
			i += n
			continue
		}
		if c >= 0x20 && c != '"' && c != '\\' {
			i++
			continue
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\t':
			b = append(b, '\\', 't')
		case '\r':
			b = append(b, '\\', 'r')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}
