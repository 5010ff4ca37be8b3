// Package protocol is the table of the server protocols spate speaks: their names, where their servers
// listen and what kind of work they ask for. Settings and flags check against it without knowing how a
// request is sent; client has the code of each. It depends on nothing.
package protocol

import "slices"

// Family is what a protocol asks a server to do.
type Family string

// The families.
const (
	Completion Family = "completion" // go on with a text
	Chat       Family = "chat"       // answer messages
	Pooling    Family = "pooling"    // embed, score or rank; nothing is generated
	Audio      Family = "audio"      // write down speech
)

// Protocol is one way to speak to a server.
type Protocol struct {
	Name   string
	About  string
	Path   string // the endpoint when the user gives none
	Suffix string // what the path of a given endpoint must end in; empty: anything
	Port   int    // where its server listens unless told otherwise
	Family Family
	IDs    bool // it takes prompts as token ids
}

const (
	completions = "/v1/completions"
	chat        = "/v1/chat/completions"
	embeddings  = "/v1/embeddings"
)

var all = []Protocol{
	{"openai", "completions", completions, "completions", 8000, Completion, true},
	{"vllm", "completions, as openai", completions, "completions", 8000, Completion, true},
	{"openai-chat", "chat completions", chat, "chat/completions", 8000, Chat, false},
	{"vllm-chat", "chat completions, as openai-chat", chat, "chat/completions", 8000, Chat, false},
	{"openai-responses", "the responses API", "/v1/responses", "responses", 8000, Chat, false},
	{"openai-audio", "speech to text", "/v1/audio/transcriptions", "", 8000, Audio, false},
	{"openai-embeddings", "embeddings", embeddings, "embeddings", 8000, Pooling, true},
	{"openai-embeddings-chat", "embeddings of messages", embeddings, "embeddings", 8000, Pooling, false},
	{"openai-embeddings-clip", "embeddings of a text or an image", embeddings, "embeddings", 8000, Pooling, false},
	{"openai-embeddings-vlm2vec", "embeddings of images with instructions", embeddings, "embeddings", 8000, Pooling, false},
	{"infinity-embeddings", "embeddings by Infinity", "/embeddings", "embeddings", 7997, Pooling, false},
	{"infinity-embeddings-clip", "embeddings of texts and images by Infinity", "/embeddings", "embeddings", 7997, Pooling, false},
	{"vllm-pooling", "vLLM's pooling", "/pooling", "pooling", 8000, Pooling, true},
	{"vllm-rerank", "ranking documents", "/v1/rerank", "rerank", 8000, Pooling, false},
	{"sglang", "SGLang's own /generate", "/generate", "generate", 30000, Completion, true},
	{"sglang-native", "as sglang", "/generate", "generate", 30000, Completion, true},
	{"sglang-oai", "completions of SGLang", completions, "completions", 30000, Completion, true},
	{"sglang-oai-chat", "chat completions of SGLang", chat, "chat/completions", 30000, Chat, false},
	{"sglang-embedding", "embeddings of SGLang", embeddings, "embeddings", 30000, Pooling, true},
	{"lmdeploy", "completions of LMDeploy", completions, "completions", 23333, Completion, true},
	{"lmdeploy-chat", "chat completions of LMDeploy", chat, "chat/completions", 23333, Chat, false},
	{"scalellm", "completions of ScaleLLM", completions, "completions", 8080, Completion, true},
	{"tgi", "Text Generation Inference's /generate_stream", "/generate_stream", "generate_stream", 8080, Completion, false},
	{"tensorrt-llm", "TensorRT-LLM behind Triton", "/v2/models/ensemble/generate_stream", "generate_stream", 8000, Completion, false},
	{"trt", "as tensorrt-llm", "/v2/models/ensemble/generate_stream", "generate_stream", 8000, Completion, false},
	{"llama.cpp", "completions of llama.cpp, its prompt cache off", completions, "completions", 8080, Completion, true},
	{"llama.cpp-native", "llama.cpp's own /completion", "/completion", "completion", 8080, Completion, true},
	{"ollama", "Ollama's /api/generate", "/api/generate", "generate", 11434, Completion, false},
	{"ollama-chat", "Ollama's /api/chat", "/api/chat", "chat", 11434, Chat, false},
	{"anthropic", "Anthropic's messages", "/v1/messages", "messages", 8000, Chat, false},
	{"deepspeed-mii", "DeepSpeed-MII's completions, not streamed", completions, "completions", 28080, Completion, false},
}

// All are the protocols, the usual ones first.
func All() []Protocol { return slices.Clone(all) }

// Names are their names in the same order.
func Names() []string {
	out := make([]string, len(all))
	for i, p := range all {
		out[i] = p.Name
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
