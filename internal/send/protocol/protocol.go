// Package protocol is the server protocols spate speaks, each in a file of its own: how a request is written, how an
// answer is read, where its servers listen and what kind of work it asks for. Client sends and receives the bytes;
// settings and flags take names and defaults from the table. Nothing here reaches a server.
//
// Read this file first, then openai.go, whose protocols most servers speak.
package protocol

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/valyala/fastjson"

	"spate/internal/call"
)

// Family is what a protocol asks a server to do.
type Family string

// The families.
const (
	Completion Family = "completion" // go on with a text
	Chat       Family = "chat"       // answer messages
	Pooling    Family = "pooling"    // embed, score or rank; nothing is generated
	Audio      Family = "audio"      // write down speech
)

// Protocol is one way to speak to a server. The name is what users type as --backend.
type Protocol struct {
	Name   string
	About  string
	Path   string // the endpoint when the user gives none
	Suffix string // what the path of a given endpoint must end in; empty: anything
	Port   int    // where its server listens unless told otherwise
	Family Family
	IDs    bool // it takes prompts as token ids
	Manner
	Codec
}

// Codec writes requests and reads answers.
type Codec interface {
	// Encode appends the body of a request.
	Encode(dst []byte, s *Body, r *call.Request) ([]byte, error)
	// Decode reads one message into e. The value is valid during the call only.
	Decode(v *fastjson.Value, e *Event)
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

// Headers are what every request of the protocol carries unless the user says otherwise.
func (m *Manner) Headers() [][2]string {
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

// all is the table of protocols, the usual ones first.
var all = []Protocol{
	completionsOf("openai", "completions", 8000),
	completionsOf("vllm", "completions, as openai", 8000),
	chatOf("openai-chat", "chat completions", 8000),
	chatOf("vllm-chat", "chat completions, as openai-chat", 8000),
	responsesProtocol,
	audioProtocol,
	poolingOf("openai-embeddings", "embeddings", embeddings, 8000, pooling{truncate: true}),
	poolingOf("openai-embeddings-chat", "embeddings of messages", embeddings, 8000, pooling{truncate: true, messages: true}),
	poolingOf("openai-embeddings-clip", "embeddings of a text or an image", embeddings, 8000, pooling{truncate: true, messages: true, clip: true}),
	poolingOf("openai-embeddings-vlm2vec", "embeddings of images with instructions", embeddings, 8000, pooling{truncate: true, messages: true, vlm2vec: true}),
	poolingOf("infinity-embeddings", "embeddings by Infinity", "/embeddings", 7997, pooling{infinity: true}),
	poolingOf("infinity-embeddings-clip", "embeddings of texts and images by Infinity", "/embeddings", 7997, pooling{infinity: true, clip: true}),
	poolingOf("vllm-pooling", "vLLM's pooling", "/pooling", 8000, pooling{truncate: true}),
	poolingOf("vllm-rerank", "ranking documents", "/v1/rerank", 8000, pooling{truncate: true, rank: true}),
	sglangOf("sglang", "SGLang's own /generate"),
	sglangOf("sglang-native", "as sglang"),
	completionsOf("sglang-oai", "completions of SGLang", 30000),
	chatOf("sglang-oai-chat", "chat completions of SGLang", 30000),
	poolingOf("sglang-embedding", "embeddings of SGLang", embeddings, 30000, pooling{}),
	completionsOf("lmdeploy", "completions of LMDeploy", 23333),
	chatOf("lmdeploy-chat", "chat completions of LMDeploy", 23333),
	completionsOf("scalellm", "completions of ScaleLLM", 8080),
	tgiProtocol,
	tritonOf("tensorrt-llm", "TensorRT-LLM behind Triton", triton{}),
	tritonOf("trt", "as tensorrt-llm", triton{noEnd: true}),
	llamaCompletions,
	llamaNative,
	ollamaGenerate,
	ollamaChat,
	anthropicProtocol,
	miiProtocol,
}

// All are the protocols, the usual ones first.
func All() []Protocol { return slices.Clone(all) }

// Names are their names in the same order.
func Names() []string {
	out := make([]string, len(all))
	for i := range all {
		out[i] = all[i].Name
	}
	return out
}

// Find is the protocol of a name; the zero Protocol when there is none.
func Find(name string) Protocol {
	i := slices.IndexFunc(all, func(p Protocol) bool { return p.Name == name })
	if i < 0 {
		return Protocol{}
	}
	return all[i]
}

// Lookup is the protocol of a name, or an error that lists them.
func Lookup(name string) (*Protocol, error) {
	if p := Find(name); p.Name != "" {
		return &p, nil
	}
	return nil, fmt.Errorf("backend %q is not available: want one of %s", name, strings.Join(slices.Sorted(slices.Values(Names())), ", "))
}
