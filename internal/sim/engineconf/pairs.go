package engineconf

import "strings"

// pairLen is the context that a pair must hold a few times over.
const pairLen = 8192

// ProfileName splits "model@gpu"; ok is false for other names.
func ProfileName(name string) (model, gpu string, ok bool) {
	return strings.Cut(name, "@")
}

// CommonProfiles lists the model and GPU pairs offered by name, each with the tensor parallel size
// that makes it fit and whether it fits at all.
func CommonProfiles() []Pair {
	var out []Pair
	for _, gpu := range []string{"A10", "L4", "L40S", "A100-80GB-SXM", "H100-SXM", "H200-SXM", "B200-SXM", "MI300X"} {
		for _, model := range commonModels {
			if p, ok := FindPair(model, gpu); ok {
				out = append(out, p)
			}
		}
	}
	return out
}

// Pair is an uncalibrated profile: a model on enough GPUs of one kind.
type Pair struct {
	Model, GPU string
	TP         int
}

// Name is the pair as --sim takes it.
func (p Pair) Name() string { return p.Model + "@" + p.GPU }

var commonModels = []string{
	"Qwen2-7B-Instruct", "Qwen2.5-7B-Instruct", "Qwen2.5-14B-Instruct", "Qwen2.5-32B-Instruct", "Qwen2.5-72B-Instruct",
	"Qwen3-0.6B", "Qwen3-4B", "Qwen3-8B", "Qwen3-14B", "Qwen3-32B", "Qwen3-30B-A3B", "Qwen3-235B-A22B",
	"Llama-3.1-8B-Instruct", "Llama-3.3-70B-Instruct", "Llama-3.1-405B-Instruct-FP8", "Mistral-7B-Instruct-v0.3",
	"Mixtral-8x7B-Instruct-v0.1", "Mixtral-8x22B-Instruct-v0.1", "gpt-oss-20b", "gpt-oss-120b", "DeepSeek-V3",
}

// FindPair finds the smallest tensor parallel size within one node that leaves room for a few requests.
func FindPair(model, gpu string) (Pair, bool) {
	for tp := 1; tp <= 8; tp *= 2 {
		s := Settings{Model: model, GPU: gpu, TP: tp, MaxModelLen: pairLen, Watermark: -1}
		if c, err := s.Resolve(); err == nil && c.Budget.Concurrency >= 4 {
			return Pair{Model: model, GPU: gpu, TP: tp}, true
		}
	}
	return Pair{}, false
}
