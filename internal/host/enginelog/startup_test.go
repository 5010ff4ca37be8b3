package enginelog

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseStep(t *testing.T) {
	whole := "(EngineCore pid=7) INFO 11-15 12:00:00 [core.py:9] Iteration(12): 2 context requests, 1024 context tokens, 30 generation requests, 31 generation tokens, iteration elapsed time: 12.50 ms, GPU KV cache usage: 3.1%"
	for _, c := range []struct {
		name, text string
		want       Step
		ok         bool
	}{
		{"whole", whole, Step{Prompts: 2, PromptTokens: 1024, Decodes: 30, DecodeTokens: 31, Elapsed: 12500 * time.Microsecond, Usage: 0.031}, true},
		{
			"without usage and generated tokens", "Iteration(1): 0 context requests, 0 context tokens, 4 generation requests, iteration elapsed time: 9 ms",
			Step{Decodes: 4, DecodeTokens: 4, Elapsed: 9 * time.Millisecond, Usage: -1},
			true,
		},
		{"cut before its time", whole[:len(whole)-60], Step{}, false},
		{"cut within its time", strings.SplitN(whole, ".50", 2)[0], Step{}, false},
		{"cut at its beginning", strings.SplitN(whole, "context requests, ", 2)[1], Step{}, false},
		{"nothing computed", "Iteration(1): 0 context requests, 0 context tokens, 0 generation requests, 0 generation tokens, iteration elapsed time: 9 ms", Step{}, false},
	} {
		got, ok := ParseStep(c.text)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%s: %+v %v, want %+v %v", c.name, got, ok, c.want, c.ok)
		}
	}
}

// TestStart reads what different engines say while they start; the lines of a whole start are in calibrate's and
// launch's tests.
func TestStart(t *testing.T) {
	for _, c := range []struct {
		name, log string
		want      Start
	}{
		{"version with the logo", "(APIServer pid=1) INFO 11-15 12:00:00 [utils.py:299]   █▄█▀ █     █     █     █  version 0.27.0", Start{Engine: "vllm", Version: "0.27.0"}},
		{"versions of other things", "CUDA version 12.4\nPython version: 3.12.1\nvLLM API server version 0.10.1", Start{Engine: "vllm", Version: "0.10.1"}},
		{"the first of two", "GPU KV cache size: 1,024 tokens\nGPU KV cache size: 2,048 tokens", Start{KVTokens: 1024}},
		{"more than there can be", "GPU KV cache size: 99,999,999,999 tokens", Start{}},
		{"blocks of another device", "# cuda blocks: 1000, # CPU blocks: 4681", Start{Blocks: 1000}},
		{
			"SGLang", "max_total_num_tokens=434923, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=0, context_len=131072",
			Start{Engine: "sglang", KVTokens: 434923, Flags: map[string]string{"max-num-batched-tokens": "8192", "max-model-len": "131072"}},
		},
		{"slots of llama.cpp", "load_model: initializing, n_slots = 4, n_ctx_slot = 2048, kv_unified = 'false'", Start{Length: 2048, Requests: 4, KVTokens: 8192}},
		{"nothing", "GPU KV cache size: many\nmodel loading took ages", Start{}},
	} {
		var got Start
		for line := range strings.SplitSeq(c.log, "\n") {
			got.Read(line)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
	}
}
