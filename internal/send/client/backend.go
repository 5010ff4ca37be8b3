package client

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/valyala/fastjson"

	"spate/internal/call"
)

// Backend is one server protocol: how a request is written and how a streamed message is read.
// A new protocol is one file with a type that implements it, one line in Backends and one in package
// protocol.
type Backend interface {
	// Encode appends the body of a request.
	Encode(dst []byte, s *Body, r *call.Request) ([]byte, error)
	// Decode reads one message into e. The value is valid during the call only.
	Decode(v *fastjson.Value, e *event)
	// Manner is how answers come.
	Manner() Manner
}

// Manner is how a protocol's answers come and end. The zero Manner is an event stream that ends with a
// finish reason and an end mark.
type Manner struct {
	Lines     bool   // a JSON object on each line instead of an event stream
	Whole     bool   // one JSON object, and nothing is generated: success is a good status
	Endless   bool   // no finish reason exists: an answer with a token that ends cleanly is a success
	EndMark   string // the message that must end a stream, where a finish reason is not yet the end
	UsageEnds bool   // the usage message counts as the end of the request in vLLM's latency
	Ranks     bool   // the first input of a request is the query of the others
	Content   bool   // its /tokenize calls the text content, as llama.cpp's does
	Type      string // of the request's body, when it is not JSON
	Key       string // header the API key goes into, when it is not a bearer token
	Header    [2]string
}

// headers are what every request of the protocol carries unless the user says otherwise.
func (m Manner) headers() [][2]string {
	accept, kind := "text/event-stream, application/json", "application/json"
	if m.Lines {
		accept = "application/x-ndjson, application/json"
	}
	if m.Type != "" {
		kind = m.Type
	}
	return [][2]string{{"Accept", accept}, {"Content-Type", kind}, m.Header}
}

// Body holds the settings that go into every request body.
type Body struct {
	Model      string
	IgnoreEOS  bool
	MaxTokens  bool // chat servers that know only the older name of max_completion_tokens
	Logprobs   *int
	Continuous bool            // ask for usage on every chunk, for token-true inter-token latency
	Sampling   json.RawMessage // temperature and the like, as a JSON object; nil when none was set
	Extra      json.RawMessage // --extra-body, over everything but the request's own Extra
}

// Backends is the table of protocols by the name users type.
func Backends() map[string]Backend {
	return map[string]Backend{
		"vllm": completions{}, "openai": completions{}, "sglang-oai": completions{}, "lmdeploy": completions{}, "scalellm": completions{},
		"openai-chat": chat{}, "vllm-chat": chat{}, "sglang-oai-chat": chat{}, "lmdeploy-chat": chat{},
		"openai-responses": responses{},
		"openai-audio":     audio{},
		"sglang":           sglang{}, "sglang-native": sglang{},
		"tgi":          tgi{},
		"tensorrt-llm": triton{}, "trt": triton{noEnd: true},
		"llama.cpp": completions{uncached: true}, "llama.cpp-native": llamacpp{},
		"ollama": ollama{}, "ollama-chat": ollama{chat: true},
		"anthropic":         anthropic{},
		"deepspeed-mii":     mii{},
		"openai-embeddings": pooling{truncate: true}, "sglang-embedding": pooling{},
		"openai-embeddings-chat":    pooling{truncate: true, messages: true},
		"openai-embeddings-clip":    pooling{truncate: true, messages: true, clip: true},
		"openai-embeddings-vlm2vec": pooling{truncate: true, messages: true, vlm2vec: true},
		"infinity-embeddings":       pooling{infinity: true},
		"infinity-embeddings-clip":  pooling{infinity: true, clip: true},
		"vllm-pooling":              pooling{truncate: true},
		"vllm-rerank":               pooling{truncate: true, rank: true},
	}
}

// Lookup finds a backend by name.
func Lookup(name string) (Backend, error) {
	all := Backends()
	if b, ok := all[name]; ok {
		return b, nil
	}
	names := make([]string, 0, len(all))
	for n := range all {
		names = append(names, n)
	}
	slices.Sort(names)
	return nil, fmt.Errorf("backend %q is not available: want one of %s", name, strings.Join(names, ", "))
}

// event is what one streamed message says.
type event struct {
	choices bool // it carried a choice, which is what vLLM's client times
	kind    call.Kind
	text    []byte
	thought []byte
	tool    []byte
	whole   bool // text is all of the answer so far, not what is new
	finish  string
	ended   bool // the protocol's end mark, where it is a message
	tokens  int  // tokens named by id in the message; 0 when it names none
	usage   *usage
	server  *call.ServerTimes
	failure string // an error object's message
	failed  bool
}

// usage is the server's own count, cumulative when it comes with every chunk.
type usage struct {
	prompt, completion, cached, reasoning int
	hasCached                             bool
	partial                               bool // says nothing of the counts that are 0
}

// decodeCommon reads what the OpenAI protocols share: errors, usage and per-request server times.
func decodeCommon(v *fastjson.Value, e *event) {
	if ev := v.Get("error"); ev != nil && ev.Type() != fastjson.TypeNull {
		e.failed, e.failure = true, errorText(ev)
		return
	}
	if string(v.GetStringBytes("object")) == "error" {
		e.failed, e.failure = true, errorText(v)
		return
	}
	if u := v.Get("usage"); u != nil && u.Type() == fastjson.TypeObject {
		e.usage = &usage{
			prompt:     number(u, "prompt_tokens"),
			completion: number(u, "completion_tokens"),
			reasoning:  number(u, "completion_tokens_details", "reasoning_tokens"),
		}
		e.usage.cached, e.usage.hasCached = told(u, "prompt_tokens_details", "cached_tokens")
	}
	decodeTimings(v, e)
	if m := v.Get("metrics"); m != nil && m.Type() == fastjson.TypeObject {
		e.server = &call.ServerTimes{
			Queue:      millis(m, "queue_time_ms"),
			FirstToken: millis(m, "time_to_first_token_ms"),
			Generation: millis(m, "generation_time_ms"),
			MeanITL:    millis(m, "mean_itl_ms"),
		}
	}
}

// told is a count a message gives, and whether it gives one. What is no count is none.
func told(v *fastjson.Value, keys ...string) (n int, ok bool) {
	f := v.Get(keys...)
	if f == nil || f.Type() != fastjson.TypeNumber {
		return 0, false
	}
	return min(max(f.GetInt(), 0), math.MaxInt32), true
}

// number is a count, 0 when there is none.
func number(v *fastjson.Value, keys ...string) int {
	n, _ := told(v, keys...)
	return n
}

// errorText is what an error object says.
func errorText(v *fastjson.Value) string {
	if v == nil {
		return "without a word"
	}
	if v.Type() == fastjson.TypeString {
		return string(v.GetStringBytes())
	}
	msg := string(v.GetStringBytes("message"))
	if kind := string(v.GetStringBytes("type")); kind != "" && kind != msg {
		msg = kind + ": " + msg
	}
	if msg == "" {
		msg = v.String()
	}
	return msg
}

// object writes a JSON object in a fixed key order. Later keys replace earlier ones in place, so that
// --extra-body can override what the backend sets; a null takes a field out, for servers that refuse
// requests with fields they do not know.
type object struct {
	keys   []string
	values [][]byte
}

func (o *object) set(key string, value []byte) {
	if i := slices.Index(o.keys, key); i >= 0 {
		o.values[i] = value
		return
	}
	o.keys = append(o.keys, key)
	o.values = append(o.values, value)
}

func (o *object) merge(raw json.RawMessage) error {
	if len(raw) == 0 {
		return nil
	}
	var p fastjson.Parser
	v, err := p.ParseBytes(raw)
	if err != nil {
		return fmt.Errorf("merge request body: %w", err)
	}
	fields, err := v.Object()
	if err != nil {
		return fmt.Errorf("merge request body: want a JSON object, got %.40s", raw)
	}
	fields.Visit(func(k []byte, v *fastjson.Value) {
		if v.Type() == fastjson.TypeNull {
			o.remove(string(k))
			return
		}
		o.set(string(k), v.MarshalTo(nil))
	})
	return nil
}

func (o *object) remove(key string) {
	if i := slices.Index(o.keys, key); i >= 0 {
		o.keys = slices.Delete(o.keys, i, i+1)
		o.values = slices.Delete(o.values, i, i+1)
	}
}

// rename gives a key the name a server knows it by.
func (o *object) rename(from, to string) {
	if i := slices.Index(o.keys, from); i >= 0 {
		o.keys[i] = to
	}
}

// finish merges what overrides the backend's own fields, the strongest last, and appends the object.
func (o *object) finish(dst []byte, over ...json.RawMessage) ([]byte, error) {
	for _, raw := range over {
		if err := o.merge(raw); err != nil {
			return dst, err
		}
	}
	return o.appendTo(dst), nil
}

func (o *object) appendTo(dst []byte) []byte {
	dst = append(dst, '{')
	for i, k := range o.keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, k)
		dst = append(dst, ':')
		dst = append(dst, o.values[i]...)
	}
	return append(dst, '}')
}
