package catalog

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func model(t *testing.T, name string) *Model {
	t.Helper()
	m, err := FindModel(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func gpu(t *testing.T, name string) *GPU {
	t.Helper()
	g, err := FindGPU(name)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func engine(t *testing.T, name, version string) *Engine {
	t.Helper()
	e, err := FindEngine(name, version)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got/want-1) > tolerance {
		t.Errorf("%s = %.4g, want %.4g within %.2g %%", what, got, want, 100*tolerance)
	}
}

// TestParams holds the computed counts against the figures model cards give.
func TestParams(t *testing.T) {
	for _, c := range []struct {
		name          string
		total, active float64 // billions
		kv            int
	}{
		{"Qwen2-0.5B", 0.494, 0.494, 12288},
		{"Qwen2-7B-Instruct", 7.62, 7.62, 57344},
		{"Qwen2.5-7B", 7.62, 7.62, 57344},
		{"Qwen2.5-7B-Instruct-GPTQ-Int4", 7.62, 7.62, 57344},
		{"Qwen2.5-32B-Instruct", 32.76, 32.76, 262144},
		{"Qwen2.5-72B-Instruct", 72.71, 72.71, 327680},
		{"Qwen3-0.6B", 0.596, 0.596, 114688},
		{"Qwen3-8B", 8.19, 8.19, 147456},
		{"Qwen3-32B", 32.76, 32.76, 262144},
		{"Qwen3-30B-A3B", 30.53, 3.35, 98304},
		{"Qwen3-235B-A22B", 235.1, 22.2, 192512},
		{"gpt-oss-20b", 20.9, 4.2, 49152},
		{"gpt-oss-120b", 116.8, 5.7, 73728},
		{"Llama-3.1-8B-Instruct", 8.03, 8.03, 131072},
		{"Llama-3.3-70B-Instruct", 70.55, 70.55, 327680},
		{"Llama-3.1-405B", 405.85, 405.85, 516096},
		{"Llama-3.2-1B", 1.236, 1.236, 32768},
		{"Llama-2-7b-hf", 6.738, 6.738, 524288},
		{"Llama-2-13b-hf", 13.016, 13.016, 819200},
		{"Llama-2-70b-hf", 68.98, 68.98, 327680},
		{"Mistral-7B-v0.1", 7.24, 7.24, 131072},
		{"Mistral-Nemo-Instruct-2407", 12.25, 12.25, 163840},
		{"Mixtral-8x7B-v0.1", 46.70, 12.88, 131072},
		{"Mixtral-8x22B-v0.1", 140.6, 39.1, 229376},
		{"DeepSeek-V3", 671, 37.6, 70272},
		{"DeepSeek-V2-Lite", 15.7, 2.66, 31104},
	} {
		m := model(t, c.name)
		near(t, c.name+" total", float64(m.Params().Total())/1e9, c.total, 0.005)
		near(t, c.name+" active", float64(m.Active())/1e9, c.active, 0.01)
		if got := m.KVBytesPerToken(); got != c.kv {
			t.Errorf("%s: %d KV bytes per token, want %d", c.name, got, c.kv)
		}
	}
	if got := float64(model(t, "Qwen2-7B").Params().NonEmbedding()) / 1e9; math.Abs(got-6.53) > 0.01 {
		t.Errorf("Qwen2-7B without embeddings: %.3f billion, want 6.53", got)
	}
	if got := model(t, "gpt-oss-120b").KVBytesGrowing(); got != 36864 {
		t.Errorf("gpt-oss-120b: %d growing KV bytes, want 36864", got)
	}
}

// TestWeights holds computed weights against what engines report to have loaded.
func TestWeights(t *testing.T) {
	for _, c := range []struct {
		name string
		gib  float64
	}{
		{"gpt-oss-20b", 13.47},
		{"gpt-oss-120b", 64.38},
		{"Llama-3.1-8B", 14.99},
		{"Qwen3-0.6B", 1.12},
		{"Qwen3-32B", 61.03},
		{"Llama-3.3-70B-Instruct-FP8-dynamic", 2 * 33.88},
		{"Qwen2.5-7B-Instruct-GPTQ-Int4", 5.6e9 / gib},
	} {
		near(t, c.name, model(t, c.name).WeightBytes()/gib, c.gib, 0.012)
	}
}

// TestKVPerGPU: heads divide while there are enough, then repeat.
func TestKVPerGPU(t *testing.T) {
	m := model(t, "Qwen3-30B-A3B") // 4 KV heads
	for tp, want := range map[int]int{1: 2048, 2: 1024, 4: 512, 8: 512} {
		if got := m.KVBytesPerGPU(2, tp); got != want {
			t.Errorf("TP %d: %d bytes per layer, want %d", tp, got, want)
		}
	}
	ds := model(t, "DeepSeek-V3")
	if ds.KVBytesPerGPU(2, 8) != ds.KVBytesPerGPU(2, 1) {
		t.Error("latent KV is divided between ranks; every rank keeps all of it")
	}
}

func TestEveryModelParses(t *testing.T) {
	names := ModelNames()
	if len(names) < 50 {
		t.Fatalf("%d models", len(names))
	}
	seen := map[string]bool{}
	for _, n := range names {
		m := model(t, n)
		if m.Name != n {
			t.Errorf("%s finds %s", n, m.Name)
		}
		if seen[n] {
			t.Errorf("%s is listed twice", n)
		}
		seen[n] = true
		if m.WeightBytes() <= 0 || m.Linear() <= 0 || m.Active() > m.Params().Total() {
			t.Errorf("%s: sizes do not add up: %+v", n, m.Params())
		}
	}
}

func TestFindHints(t *testing.T) {
	for _, c := range []struct {
		name string
		err  func() error
		want string
	}{
		{"model", func() error { _, err := FindModel("Qwen3-9B"); return err }, `did you mean "Qwen3-`},
		{"gpu", func() error { _, err := FindGPU("H10O"); return err }, `did you mean "H100"`},
		{"gpu by memory", func() error { _, err := FindGPU("46068MiB"); return err }, "not in the catalog"},
		{"link", func() error { _, err := FindLink("rdma-401"); return err }, `did you mean "rdma-400"`},
		{"engine", func() error { _, err := FindEngine("vlm", ""); return err }, `did you mean "vllm"`},
		{"version", func() error { _, err := FindEngine("vllm", "main"); return err }, "not one such as"},
	} {
		if err := c.err(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want it to say %s", c.name, err, c.want)
		}
	}
}

// TestVersions follows the table of defaults.
func TestVersions(t *testing.T) {
	h100, a100, b200, l4 := gpu(t, "H100"), gpu(t, "A100-80GB"), gpu(t, "B200"), gpu(t, "L4")
	for _, c := range []struct {
		version      string
		gpu          *GPU
		family       Family
		seqs, tokens int
		util         float64
	}{
		{"0.6.2", a100, V0, 256, 2048, 0.90},
		{"0.3.1", a100, V0, 256, 2048, 0.90},
		{"0.7.3", h100, V0, 256, 2048, 0.90},
		{"0.8.5", h100, V1, 1024, 8192, 0.90},
		{"0.8.5", a100, V1, 1024, 8192, 0.90},
		{"0.10.1.1", a100, V1, 256, 2048, 0.90},
		{"0.10.1", h100, V1, 1024, 8192, 0.90},
		{"0.15.1", l4, V1, 256, 2048, 0.90},
		{"0.19.2", b200, V1, 1024, 8192, 0.90},
		{"v0.27.0", b200, V1, 1024, 8192, 0.92},
		{"0.28.0rc2", b200, V1, 1024, 16384, 0.92},
		{"0.28.0", h100, V1, 1024, 8192, 0.92},
		{"1.0", gpu(t, "H200"), V1, 1024, 8192, 0.92},
	} {
		e := engine(t, "vllm", c.version)
		class := c.gpu.Class(e.A100)
		if e.Family != c.family || e.Seqs.For(class) != c.seqs || e.Tokens.For(class) != c.tokens || e.Util != c.util {
			t.Errorf("%s on %s: %s %d %d %v", c.version, c.gpu.Name, e.Family, e.Seqs.For(class), e.Tokens.For(class), e.Util)
		}
	}
	for _, c := range []struct {
		version string
		what    string
		get     func(*Engine) bool
		want    bool
	}{
		{"0.13.0", "async by default", func(e *Engine) bool { return e.Async }, false},
		{"0.14.0", "async by default", func(e *Engine) bool { return e.Async }, true},
		{"0.18.1", "full prompt admission", func(e *Engine) bool { return e.FullISL }, false},
		{"0.19.0", "full prompt admission", func(e *Engine) bool { return e.FullISL }, true},
		{"0.10.2", "delay factor", func(e *Engine) bool { return e.DelayFlag }, true},
		{"0.11.0", "delay factor", func(e *Engine) bool { return e.DelayFlag }, false},
		{"0.7.0", "prefix caching", func(e *Engine) bool { return e.Prefix }, false},
		{"0.8.0", "prefix caching", func(e *Engine) bool { return e.Prefix }, true},
		{"0.23.0", "watermark flag", func(e *Engine) bool { return e.WatermarkFlag }, false},
		{"0.24.0", "watermark flag", func(e *Engine) bool { return e.WatermarkFlag }, true},
	} {
		if got := c.get(engine(t, "vllm", c.version)); got != c.want {
			t.Errorf("%s: %s is %v", c.version, c.what, got)
		}
	}
}

// TestGPUNotFromMemory: boards of one memory size stay apart.
func TestGPUNotFromMemory(t *testing.T) {
	same := 0
	for _, n := range GPUNames() {
		g := gpu(t, n)
		if math.Abs(g.MemoryGiB-44.5) < 0.2 {
			same++
		}
		if l, err := FindLink(g.Link); err != nil || l.Bandwidth <= 0 {
			t.Errorf("%s: link %s: %v", n, g.Link, err)
		}
		if g.BF16 <= 0 || g.Bandwidth <= 0 || g.NodeGPUs < 1 {
			t.Errorf("%s: %+v", n, g)
		}
	}
	if same < 4 {
		t.Errorf("%d boards of 46068 MiB, want at least 4", same)
	}
}

func h100Start(t *testing.T, name string, tp int) *Deployment {
	t.Helper()
	return &Deployment{
		Model: model(t, name), GPU: gpu(t, "H100"), Engine: engine(t, "vllm", "0.11.0"), TP: tp, PP: 1, DP: 1,
		MaxModelLen: 8192, Seqs: 1024, Tokens: 8192, Util: 0.9, Block: 16, KVWidth: 2, Chunked: true,
	}
}

// TestBudget holds the memory plan against published starts on an H100 (vLLM 0.11).
func TestBudget(t *testing.T) {
	for _, c := range []struct {
		name                    string
		tp                      int
		weights, activation, kv float64 // GiB
	}{
		{"gpt-oss-20b", 1, 13.47, 7.38, 50.28},
		{"Llama-3.1-8B", 1, 14.99, 4.76, 51.38},
		{"Qwen3-0.6B", 1, 1.12, 5.56, 64.45},
		{"Qwen3-32B", 1, 61.03, 5.64, 4.45},
		{"Qwen3-32B", 2, 30.59, 5.64, 34.49},
		{"Llama-3.3-70B-Instruct-FP8-dynamic", 2, 33.88, 4.84, 32.00},
	} {
		b := h100Start(t, c.name, c.tp).Budget()
		near(t, c.name+" weights", b.Weights/gib, c.weights, 0.012)
		near(t, c.name+" activation", b.Activation/gib, c.activation, 0.03)
		if math.Abs(b.KV/gib-c.kv) > 0.4 {
			t.Errorf("%s TP %d: %.2f GiB for KV, want %.2f", c.name, c.tp, b.KV/gib, c.kv)
		}
	}
}

// TestBudgetTokens: 12.02 GiB for KV at two GPUs are the 450,192 tokens a real log shows.
func TestBudgetTokens(t *testing.T) {
	d := h100Start(t, "Qwen2-7B-Instruct", 2)
	d.MaxModelLen = 16384
	d.BlocksOverride = 450192 / 16
	b := d.Budget()
	if got := b.KV / gib; math.Abs(got-12.02) > 0.005 {
		t.Errorf("450192 tokens take %.3f GiB, want 12.02", got)
	}
	if b.Tokens != 450192 || math.Abs(b.Concurrency-27.48) > 0.01 {
		t.Errorf("%d tokens, concurrency %.2f", b.Tokens, b.Concurrency)
	}
}

func TestSlidingGroups(t *testing.T) {
	d := h100Start(t, "gpt-oss-20b", 1)
	b := d.Budget()
	if len(b.Groups) != 2 || b.Groups[0] != (Group{Layers: 12}) || b.Groups[1] != (Group{Layers: 12, Window: 128}) {
		t.Fatalf("groups %+v", b.Groups)
	}
	d.MaxModelLen = 131072
	long := d.Budget()
	full := float64(long.Blocks) / float64(131072/16)
	if long.Concurrency >= full || long.Concurrency < 0.9*full {
		t.Errorf("concurrency %.1f of %.1f: window layers cost a little, not as much as full ones", long.Concurrency, full)
	}
}

func TestBudgetLaws(t *testing.T) {
	base := h100Start(t, "Qwen3-8B", 1)
	b := base.Budget()
	for _, c := range []struct {
		name   string
		change func(*Deployment)
		more   bool
	}{
		{"more utilisation", func(d *Deployment) { d.Util = 0.95 }, true},
		{"FP8 cache", func(d *Deployment) { d.KVWidth = 1 }, true},
		{"two GPUs", func(d *Deployment) { d.TP = 2 }, true},
		{"pipeline", func(d *Deployment) { d.PP = 2 }, true},
		{"fewer sequences", func(d *Deployment) { d.Seqs = 64 }, true},
		{"bigger GPU", func(d *Deployment) { d.GPU = gpu(t, "H200") }, true},
		{"less utilisation", func(d *Deployment) { d.Util = 0.6 }, false},
	} {
		d := *base
		c.change(&d)
		if got := d.Budget(); (got.Blocks > b.Blocks) != c.more {
			t.Errorf("%s: %d blocks against %d", c.name, got.Blocks, b.Blocks)
		}
	}
}

func TestStartErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Deployment)
		want   string
	}{
		{
			"budget below context", func(d *Deployment) { d.Chunked, d.Tokens, d.MaxModelLen = false, 8185, 32768 },
			"ValueError: max_num_batched_tokens (8185) is smaller than max_model_len (32768). This effectively limits the maximum sequence length to max_num_batched_tokens and makes vLLM reject longer sequences. Please increase max_num_batched_tokens or decrease max_model_len.",
		},
		{
			"budget below sequences", func(d *Deployment) { d.Tokens = 512 },
			"ValueError: max_num_batched_tokens (512) must be greater than or equal to max_num_seqs (1024).",
		},
		{
			"heads", func(d *Deployment) { d.TP = 3 },
			"ValueError: Total number of attention heads (32) must be divisible by tensor parallel size (3).",
		},
		{
			"context above the model's", func(d *Deployment) { d.MaxModelLen = 50000 },
			"ValueError: User-specified max_model_len (50000) is greater than the derived max_model_len (max_position_embeddings=40960 or model_max_length=None in model's config.json). This may lead to incorrect model outputs or CUDA errors. To allow overriding this maximum, set the env var VLLM_ALLOW_LONG_MAX_MODEL_LEN=1",
		},
		{"block size", func(d *Deployment) { d.Block = 12 }, "ValueError: Block size must be a power of two, got 12."},
		{
			"no room for one request", func(d *Deployment) { d.GPU, d.Seqs, d.MaxModelLen, d.Util = gpu(t, "L4"), 256, 40960, 0.88 },
			"ValueError: To serve at least one request with the models's max seq len (40960), (5.62 GiB KV cache is needed, which is larger than the available KV cache memory (2.60 GiB). Based on the available memory, the estimated maximum model length is 18944. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.",
		},
		{
			"no room at all", func(d *Deployment) { d.GPU, d.Seqs, d.Util = gpu(t, "L4"), 256, 0.6 },
			"ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
		},
		{
			"old engine", func(d *Deployment) {
				d.Engine, d.GPU, d.Seqs, d.Tokens, d.MaxModelLen, d.Util = engine(t, "vllm", "0.6.2"), gpu(t, "L4"), 256, 40960, 40960, 0.68
				d.Model = model(t, "Qwen3-4B")
			},
			"ValueError: The model's max seq len (40960) is larger than the maximum number of tokens that can be stored in KV cache (",
		},
		{
			"weights do not fit", func(d *Deployment) { d.Model = model(t, "Qwen3-32B"); d.GPU = gpu(t, "A10") },
			"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 500.00 MiB. GPU 0 has a total capacity of 22.06 GiB of which 0.00 MiB is free.",
		},
	} {
		d := h100Start(t, "Qwen3-8B", 1)
		c.change(d)
		err := d.Check()
		if err == nil {
			b := d.Budget()
			err = d.CheckMemory(&b)
		}
		var start *StartError
		if !errors.As(err, &start) {
			t.Errorf("%s: %v is not a start error", c.name, err)
			continue
		}
		if !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s:\n got %s\nwant %s", c.name, err, c.want)
		}
	}
}

// TestFeasibleLength: starting again with the length the message names works.
func TestFeasibleLength(t *testing.T) {
	d := h100Start(t, "Qwen3-8B", 1)
	d.GPU, d.Seqs, d.MaxModelLen = gpu(t, "L4"), 256, 40960
	b := d.Budget()
	if d.CheckMemory(&b) == nil {
		t.Fatal("fits at once")
	}
	d.MaxModelLen = d.longest(&b)
	b = d.Budget()
	if err := d.CheckMemory(&b); err != nil {
		t.Errorf("the length named does not fit: %v", err)
	}
	d.MaxModelLen += d.Block
	b = d.Budget()
	if d.CheckMemory(&b) == nil {
		t.Error("one block more fits too: the length named is not the longest")
	}
}

func TestOwnConfig(t *testing.T) {
	m, err := ParseConfig("mine", []byte(`{"model_type":"llama","hidden_size":64,"intermediate_size":128,"num_hidden_layers":2,
		"num_attention_heads":4,"num_key_value_heads":2,"vocab_size":100,"max_position_embeddings":512,"tie_word_embeddings":false}`))
	if err != nil {
		t.Fatal(err)
	}
	// Per layer: q and o 64×64, k and v 64×32, three 64×128; two norms of 64. Twice, one more norm, two embeddings.
	if got, want := m.Params().Total(), int64(2*(2*64*64+2*64*32+3*64*128+2*64)+64+2*100*64); got != want {
		t.Errorf("%d parameters, want %d", got, want)
	}
	for _, c := range []struct{ name, json, want string }{
		{"no layers", `{"hidden_size":64}`, "num_hidden_layers"},
		{"not JSON", `x`, "config.json of mine"},
		{"experts", `{"hidden_size":64,"intermediate_size":128,"num_hidden_layers":2,"num_attention_heads":4,"vocab_size":100,"max_position_embeddings":512,"num_experts":4,"num_experts_per_tok":9}`, "num_experts_per_tok is 9 of 4"},
	} {
		if _, err := ParseConfig("mine", []byte(c.json)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	nested, err := ParseConfig("vision", []byte(`{"model_type":"x","text_config":{"model_type":"qwen3","hidden_size":64,"intermediate_size":128,
		"num_hidden_layers":2,"num_attention_heads":4,"vocab_size":100,"max_position_embeddings":512}}`))
	if err != nil || nested.Layers != 2 || !nested.QKNorm {
		t.Errorf("nested: %+v, %v", nested, err)
	}
}

func FuzzParseConfig(f *testing.F) {
	list, err := models()
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range list {
		f.Add([]byte(e.Config))
	}
	g, err := FindGPU("H100")
	if err != nil {
		f.Fatal(err)
	}
	e, err := FindEngine("vllm", "")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseConfig("fuzz", data)
		if err != nil {
			return
		}
		d := Deployment{Model: m, GPU: g, Engine: e, TP: 2, PP: 2, DP: 1, MaxModelLen: m.MaxLen, Seqs: 8, Tokens: 2048, Util: 0.9, Block: 16, KVWidth: 2}
		b := d.Budget()
		if b.Weights <= 0 || b.Blocks < 0 || math.IsNaN(b.KV) {
			t.Errorf("%+v of %+v", b, m)
		}
	})
}

func FuzzVersion(f *testing.F) {
	for _, v := range []string{"0.10.1.1", "v0.28.0rc2", "1", "", "0.", "99999999999999999999"} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v string) {
		if e, err := FindEngine("vllm", v); err == nil && (e.Block != 16 || e.Since == "") {
			t.Errorf("%q: %+v", v, e)
		}
	})
}
