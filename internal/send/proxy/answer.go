package proxy

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"strings"
	"time"

	"github.com/valyala/fastjson"
)

// reply is what an answer says.
type reply struct {
	in, out int // tokens by the server's count; 0 where it gave none
	cached  int
	counted bool // the server told of cached tokens
	text    []byte
	first   time.Duration // when the first text was read; 0 when none was
}

// digest stands for bytes that are no text.
func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// readReply goes through the answer to any of the protocols: server-sent events, lines, or one object.
func readReply(p *fastjson.Parser, x *exchange) reply {
	var r reply
	data, plain := x.answer, true
	if strings.Contains(strings.ToLower(x.encoding), "gzip") {
		data, plain = unzipped(x.answer), false
	}
	events := strings.Contains(x.form, "event-stream")
	for at := 0; at < len(data); {
		line := data[at:]
		next := len(data)
		if i := bytes.IndexByte(line, '\n'); i >= 0 && (events || lined(x.form, data)) {
			line, next = line[:i], at+i+1
		}
		msg := bytes.TrimSpace(line)
		if events {
			msg = bytes.TrimSpace(bytes.TrimPrefix(msg, []byte("data:")))
		}
		if len(msg) > 0 && msg[0] == '{' {
			place := next - 1
			if !plain {
				place = 0 // which read brought it is not known
			}
			r.message(p, msg, x.when(place))
		}
		at = next
	}
	return r
}

// lined reports whether a body is one object to a line.
func lined(form string, data []byte) bool {
	if strings.Contains(form, "ndjson") || strings.Contains(form, "jsonl") {
		return true
	}
	first, rest, ok := bytes.Cut(bytes.TrimSpace(data), []byte("\n"))
	return ok && bytes.HasSuffix(bytes.TrimSpace(first), []byte("}")) && bytes.HasPrefix(bytes.TrimSpace(rest), []byte("{"))
}

func unzipped(b []byte) []byte {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil
	}
	out, _ := io.ReadAll(io.LimitReader(z, maxBody)) // of an answer that was cut, what there is
	return out
}

func (r *reply) message(p *fastjson.Parser, msg []byte, at time.Duration) {
	v, err := p.ParseBytes(msg)
	if err != nil {
		return
	}
	before := len(r.text)
	r.texts(v)
	if len(r.text) > before && r.first == 0 {
		r.first = at
	}
	r.counts(v)
}

// texts appends what a message brings of the answer.
func (r *reply) texts(v *fastjson.Value) {
	for _, c := range v.GetArray("choices") {
		r.add(c, "text")
		for _, part := range []string{"delta", "message"} {
			r.add(c, part, "reasoning_content")
			r.add(c, part, "reasoning")
			r.add(c, part, "content")
			for _, t := range c.GetArray(part, "tool_calls") {
				r.add(t, "function", "arguments")
			}
		}
	}
	r.add(v, "content")            // llama.cpp
	r.add(v, "response")           // Ollama
	r.add(v, "message", "content") // Ollama's chat
	r.add(v, "delta")              // responses
	r.add(v, "delta", "text")      // Anthropic
	r.add(v, "delta", "thinking")
	r.add(v, "delta", "partial_json")
	r.add(v, "token", "text") // TGI
	r.add(v, "text_output")   // Triton
	for _, part := range v.GetArray("content") {
		r.add(part, "text")
	}
	for _, item := range v.GetArray("output") {
		for _, part := range item.GetArray("content") {
			r.add(part, "text")
		}
	}
	if v.Get("token") == nil {
		r.replace(v.GetStringBytes("generated_text"))
	}
	if v.Get("meta_info") != nil {
		r.replace(v.GetStringBytes("text")) // SGLang repeats the whole answer
	}
}

func (r *reply) add(v *fastjson.Value, at ...string) {
	if part := v.Get(at...); part != nil && part.Type() == fastjson.TypeString {
		r.text = append(r.text, part.GetStringBytes()...)
	}
}

// replace takes a text that repeats what came before.
func (r *reply) replace(text []byte) {
	if len(text) > len(r.text) {
		r.text = append(r.text[:0], text...)
	}
}

// counts reads the tokens the server counted, wherever its protocol puts them. Later messages hold for
// earlier ones: some servers count along.
func (r *reply) counts(v *fastjson.Value) {
	for _, at := range [][]string{{"usage"}, {"message", "usage"}, {"response", "usage"}, {"x_groq", "usage"}} {
		if u := v.Get(at...); u != nil && u.Type() == fastjson.TypeObject {
			r.usage(u)
		}
	}
	if m := v.Get("meta_info"); m != nil {
		r.usage(m)
	}
	if v.GetBool("stop") {
		r.in, r.out = max(r.in, v.GetInt("tokens_evaluated")), max(r.out, v.GetInt("tokens_predicted"))
	}
	if v.GetBool("done") {
		r.in, r.out = max(r.in, v.GetInt("prompt_eval_count")), max(r.out, v.GetInt("eval_count"))
	}
	r.out = max(r.out, v.GetInt("details", "generated_tokens"))
	if n := v.Get("timings", "cache_n"); n != nil {
		r.cached, r.counted = n.GetInt(), true
	}
}

func (r *reply) usage(u *fastjson.Value) {
	in := u.GetInt("prompt_tokens")
	if in == 0 { // Anthropic counts what was cached apart from the rest
		in = u.GetInt("input_tokens") + u.GetInt("cache_read_input_tokens") + u.GetInt("cache_creation_input_tokens")
	}
	r.in = max(r.in, in)
	r.out = max(r.out, u.GetInt("completion_tokens"), u.GetInt("output_tokens"))
	for _, at := range [][]string{{"prompt_tokens_details", "cached_tokens"}, {"input_tokens_details", "cached_tokens"}, {"cached_tokens"}, {"cache_read_input_tokens"}} {
		if n := u.Get(at...); n != nil && n.Type() == fastjson.TypeNumber {
			r.cached, r.counted = n.GetInt(), true
		}
	}
}
