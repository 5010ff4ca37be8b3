package engineconf

import (
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"spate/internal/sim"
	"spate/internal/sim/catalog"
	"spate/internal/sim/latency"
)

// parse reads a server's command line: the model, then flags.
func parse(line string) (*Settings, error) {
	var s Settings
	f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	f.SetOutput(discard{})
	f.SetNormalizeFunc(Normalize)
	s.Bind(f)
	BindIgnored(f)
	if err := f.Parse(strings.Fields(line)); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		s.Model = f.Arg(0)
	}
	return &s, nil
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

func resolve(t *testing.T, line string) *Conf {
	t.Helper()
	s, err := parse(line)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	c, err := s.Resolve()
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return c
}

func TestDefaults(t *testing.T) {
	for _, c := range []struct {
		line          string
		policy        sim.Policy
		seqs, tokens  int
		prefix, async bool
		reserve       bool
	}{
		{"Qwen/Qwen3-8B --gpu H100", sim.V1, 1024, 8192, true, true, true},
		{"Qwen/Qwen3-8B --gpu H100 --engine-version 0.8.5", sim.V1, 1024, 8192, true, false, false},
		{"Qwen/Qwen3-8B --gpu A100-80GB --engine-version 0.10.1", sim.V1, 256, 2048, true, false, false},
		{"Qwen/Qwen3-8B --gpu H100 --engine-version 0.15.1", sim.V1, 1024, 8192, true, true, false},
		{"Qwen/Qwen3-8B --gpu B200 --engine-version 0.28.0", sim.V1, 1024, 16384, true, true, true},
		{"Qwen2.5-7B-Instruct --gpu H100 --engine-version 0.6.2", sim.V0, 256, 32768, false, false, false},
		{"Qwen2.5-7B-Instruct --gpu H100 --engine-version 0.6.2 --max-model-len 1024", sim.V0, 256, 2048, false, false, false},
		{"Qwen2.5-7B-Instruct --gpu H100 --engine-version 0.6.2 --enable-chunked-prefill", sim.V0Chunked, 256, 512, false, false, false},
		{"Qwen2.5-7B-Instruct --gpu H100 --engine-version 0.6.6 --enable-chunked-prefill", sim.V0Chunked, 256, 2048, false, false, false},
		{"Llama-3.1-8B --gpu H100 --engine-version 0.6.6", sim.V0Chunked, 256, 2048, false, false, false},
		{"Qwen3-8B --gpu H100 --engine-version 0.9.2 --scheduler-delay-factor 0.5 --max-model-len 8192", sim.V0, 256, 8192, false, false, false},
		{"Qwen3-8B --gpu H100 --no-enable-prefix-caching --no-async-scheduling", sim.V1, 1024, 8192, false, false, true},
		{"Qwen3-8B --gpu H100 --max-num-batched-tokens 512", sim.V1, 512, 512, true, true, true},
		{"Qwen3-8B --gpu H100 --max_num_seqs=8k --max_model_len 8K", sim.V1, 8000, 8192, true, true, true},
		{"Qwen3-8B --gpu H100 --no-enable-chunked-prefill", sim.V1, 1024, 40960, true, true, true},
		{"Qwen3-8B --gpu H100 --engine sglang", sim.SGLang, 4096, 8192, true, true, false},
		{"Qwen3-8B --gpu A100 --engine lmdeploy", sim.LMDeploy, 256, 8192, false, false, false},
		{"Qwen3-8B --gpu H100 --pp 2 --engine-version 0.14.0", sim.V1, 1024, 8192, true, false, false},
	} {
		got := resolve(t, c.line)
		s := &got.Sim
		if s.Policy != c.policy || s.MaxSeqs != c.seqs || s.MaxTokens != c.tokens || s.PrefixCaching != c.prefix || s.Async != c.async || s.ReserveFull != c.reserve {
			t.Errorf("%s: %+v", c.line, s)
		}
		if err := s.Check(); err != nil {
			t.Errorf("%s: %v", c.line, err)
		}
	}
}

func TestStartRefusals(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{
			"Qwen3-8B --gpu H100 --no-enable-chunked-prefill --max-num-batched-tokens 8185 --max-model-len 32768",
			"ValueError: max_num_batched_tokens (8185) is smaller than max_model_len (32768). This effectively limits the maximum sequence length to max_num_batched_tokens and makes vLLM reject longer sequences. Please increase max_num_batched_tokens or decrease max_model_len.",
		},
		{"Qwen3-8B --gpu H100 --max-num-batched-tokens 128 --max-num-seqs 256", "ValueError: max_num_batched_tokens (128) must be greater than or equal to max_num_seqs (256)."},
		{"Qwen3-8B --gpu H100 --tp 3", "ValueError: Total number of attention heads (32) must be divisible by tensor parallel size (3)."},
		{"Qwen3-32B --gpu H100 --gpu-memory-utilization 0.7", "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine."},
		{"Qwen3-32B --gpu H100 --engine-version 0.11.0", "ValueError: To serve at least one request with the models's max seq len (40960), (10.00 GiB KV cache is needed, which is larger than the available KV cache memory ("},
		{"Qwen3-32B --gpu A10", "torch.OutOfMemoryError: CUDA out of memory."},
		{"Qwen3-8B --gpu H100 --scheduler-delay-factor 0.5", "vllm serve: error: unrecognized arguments: --scheduler-delay-factor 0.5"},
		{"Qwen3-8B --gpu H100 --engine-version 0.13.0 --num-scheduler-steps 8", "vllm serve: error: unrecognized arguments: --num-scheduler-steps 8"},
		{"Qwen3-8B --gpu H100 --engine-version 0.8.5 --async-scheduling", "vllm serve: error: unrecognized arguments: --async-scheduling"},
		{"Qwen3-8B --gpu H100 --max-model-len 100000", "ValueError: User-specified max_model_len (100000) is greater than the derived max_model_len (max_position_embeddings=40960"},
	} {
		s, err := parse(c.line)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Resolve()
		var start *catalog.StartError
		if !errors.As(err, &start) || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s:\n got %v\nwant %s", c.line, err, c.want)
		}
	}
}

func TestMistakes(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"--gpu H100", "no model"},
		{"Qwen3-8B", "no GPU for Qwen3-8B: add --gpu H100, or another of A10, "},
		{"Qwen3-9B --gpu H100", "did you mean"},
		{"Qwen3-8B --gpu H100 --engine-version main", "not one such as"},
		{"Qwen3-8B --gpu H100 --node-link x", "not in the catalog"},
		{"Qwen3-8B --gpu H100 --dtype int3", "dtype"},
		{"Qwen3-8B --gpu H100 --quantization x", "quantization"},
		{"Qwen3-8B --gpu H100 --kv-cache-dtype x", "kv-cache-dtype"},
		{"Qwen3-8B --gpu H100 --max-model-len many", "not a number"},
		{"Qwen3-8B --gpu H100 --max-num-seqs 0", "out of range"},
		{`Qwen3-8B --gpu H100 --speculative-config {"num_speculative_tokens":0}`, "num_speculative_tokens is 0"},
		{"Qwen3-8B --gpu H100 --enable-prefix-caching=perhaps", "neither true nor false"},
	} {
		s, err := parse(c.line)
		if err == nil {
			_, err = s.Resolve()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want it to say %s", c.line, err, c.want)
		}
	}
}

func TestTranslation(t *testing.T) {
	c := resolve(t, `gpt-oss-20b --gpu H100 --engine-version 0.11.0 --enable-lora --max-loras 4 --lora-modules a=/x,b=/y --served-model-name fast --kv-cache-dtype fp8 --speculative-config {"method":"ngram","num_speculative_tokens":3}`)
	if c.Sim.LoRASlots != 4 || !cmp.Equal(c.Adapters, []string{"a", "b"}) || !cmp.Equal(c.Served, []string{"fast"}) || c.Sim.Drafts != 3 {
		t.Errorf("%+v %v %v", c.Sim, c.Adapters, c.Served)
	}
	if c.Sim.Window != 128 || c.Sim.WindowGroups != 1 || c.KVWidth != 1 {
		t.Errorf("window %d in %d groups, KV width %d", c.Sim.Window, c.Sim.WindowGroups, c.KVWidth)
	}
	plain := resolve(t, "gpt-oss-20b --gpu H100 --engine-version 0.11.0")
	if want := []string{"gpt-oss-20b", "openai/gpt-oss-20b"}; !cmp.Equal(plain.Served, want) {
		t.Errorf("served as %q, want %q", plain.Served, want)
	}
	if r := float64(c.Budget.Blocks) / float64(plain.Budget.Blocks); r < 1.9 || r > 2 {
		t.Errorf("FP8 gives %.2f times the blocks", r)
	}
	forced := resolve(t, "Qwen2-7B-Instruct --gpu A100-80GB --tp 2 --num-gpu-blocks-override 28137 --max-model-len 16384")
	if forced.Budget.Tokens != 450192 || forced.Sim.Blocks != 28137 {
		t.Errorf("%d tokens, %d blocks", forced.Budget.Tokens, forced.Sim.Blocks)
	}
	given := resolve(t, "Qwen2-7B-Instruct --gpu A100-80GB --kv-cache-memory-bytes 10G")
	if got := given.Budget.KV; got != 10<<30 {
		t.Errorf("%v bytes for KV", got)
	}
	own := Settings{Model: "mine", GPU: "H100", Watermark: -1, Config: []byte(`{"hidden_size":1024,"intermediate_size":4096,"num_hidden_layers":8,
		"num_attention_heads":8,"vocab_size":32000,"max_position_embeddings":2048}`)}
	if m, err := own.Resolve(); err != nil || m.Model.Layers != 8 || m.MaxModelLen != 2048 {
		t.Errorf("own config.json: %+v, %v", m, err)
	}
}

func TestStartLines(t *testing.T) {
	for _, c := range []struct {
		line string
		want []string
	}{
		{
			"Qwen2-7B-Instruct --gpu A100-80GB --tp 2 --num-gpu-blocks-override 28137 --max-model-len 16384 --engine-version 0.10.1.1",
			[]string{
				"vLLM API server version 0.10.1.1",
				"non-default args: {'model': 'Qwen2-7B-Instruct', 'max_model_len': 16384, 'tensor_parallel_size': 2, 'num_gpu_blocks_override': 28137}",
				"Model loading took 7.0926 GiB", "Available KV cache memory: 12.02 GiB", "GPU KV cache size: 450,192 tokens", "Maximum concurrency for 16,384 tokens per request: 27.48x",
			},
		},
		{
			"Qwen2.5-7B-Instruct --gpu A10 --max-model-len 8192 --engine-version 0.6.3 --num-gpu-blocks-override 1000",
			[]string{
				"vLLM API server version 0.6.3", "args: Namespace(model='Qwen2.5-7B-Instruct', max_model_len=8192, num_gpu_blocks_override=1000)",
				"Model loading took 14.1852 GiB", "# GPU blocks: 1000, # CPU blocks: 4681", "Maximum concurrency for 8192 tokens per request: 1.95x",
			},
		},
		{
			"Qwen3-8B --gpu H100 --engine sglang --num-gpu-blocks-override 400000",
			[]string{
				"Load weight end. type=qwen3, avail mem=63.92 GB, mem usage=15.26 GB.", "KV Cache is allocated. #tokens: 400000, KV size: 54.93 GB",
				"max_total_num_tokens=400000, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=4096, context_len=40960",
			},
		},
	} {
		if diff := cmp.Diff(c.want, resolve(t, c.line).StartLines()); diff != "" {
			t.Errorf("%s:\n%s", c.line, diff)
		}
	}
}

// TestStatsLine writes a line of a real log again from the state it tells of.
func TestStatsLine(t *testing.T) {
	c := resolve(t, "Qwen2-7B-Instruct --gpu A100-80GB --tp 2 --engine-version 0.10.1.1")
	before := []sim.State{{}}
	after := []sim.State{{Running: 256, Waiting: 242, Free: 755, Total: 1000, HitRecent: 0.537}}
	after[0].Stats.PromptTokens, after[0].Stats.Tokens = 264196, 28861
	want := "Engine 000: Avg prompt throughput: 26419.6 tokens/s, Avg generation throughput: 2886.1 tokens/s, Running: 256 reqs, Waiting: 242 reqs, GPU KV cache usage: 24.5%, Prefix cache hit rate: 53.7%"
	if got := c.StatsLine(before, after, 10*time.Second); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	at := time.Date(2025, 9, 3, 2, 25, 52, 0, time.UTC)
	if got := c.Prefix(at, 3761, c.Engine.LogSource); got != "(APIServer pid=3761) INFO 09-03 02:25:52 [loggers.py:123] " {
		t.Errorf("prefix %q", got)
	}
	two := c.StatsLine(append(before, before...), append(after, after...), 10*time.Second)
	if !strings.HasPrefix(two, "2 Engines Aggregated: Avg prompt throughput: 52839.2") {
		t.Errorf("two replicas: %s", two)
	}
	old := resolve(t, "Qwen2.5-7B-Instruct --gpu A100-80GB --engine-version 0.6.2 --enable-prefix-caching")
	want = "Avg prompt throughput: 26419.6 tokens/s, Avg generation throughput: 2886.1 tokens/s, Running: 256 reqs, Swapped: 0 reqs, Pending: 242 reqs, GPU KV cache usage: 24.5%, CPU KV cache usage: 0.0%."
	if got := old.StatsLine(before, after, 10*time.Second); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := old.PrefixLine(after); got != "Prefix cache hit rate: GPU: 53.70%, CPU: 0.00%" {
		t.Errorf("prefix line %q", got)
	}
	if old.LogEvery() != 5*time.Second || c.LogEvery() != 10*time.Second {
		t.Errorf("every %v and %v", old.LogEvery(), c.LogEvery())
	}
	spec := resolve(t, `Qwen3-8B --gpu H100 --speculative-config {"num_speculative_tokens":3}`)
	if got := spec.SpecLine(30, 15, 10, 10*time.Second); got != "SpecDecoding metrics: Mean acceptance length: 2.50, Accepted throughput: 1.50 tokens/s, Drafted throughput: 3.00 tokens/s, Accepted: 15 tokens, Drafted: 30 tokens, Avg Draft acceptance rate: 50.0%" {
		t.Error(got)
	}
}

// TestPublishedCommands: server command lines as people typed them start, or fail for the reason
// they failed for.
func TestPublishedCommands(t *testing.T) {
	data, err := os.ReadFile("testdata/commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		line, want, _ := strings.Cut(strings.TrimSpace(line), " => ")
		s, err := parse(line)
		if err == nil {
			_, err = s.Resolve()
		}
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", line, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

// TestPhysicalLaws: more of something never makes it slower.
func TestPhysicalLaws(t *testing.T) {
	base := resolve(t, "Qwen3-8B --gpu H100").Physical()
	decode := latency.Batch{Decode: 32, KV: 32 * 1000, WindowKV: 32 * 1000}
	prompt := latency.Batch{Prefill: 4096, Prompts: 2, Attention2: 4096 * 2048}
	for _, c := range []struct {
		line   string
		faster bool
	}{
		{"Qwen3-8B --gpu H200", true},
		{"Qwen3-4B --gpu H100", true},
		{"Qwen3-8B --gpu H100 --quantization fp8", true},
		{"Qwen3-8B --gpu A100-80GB", false},
		{"Qwen3-14B --gpu H100", false},
		{"Qwen3-8B --gpu H100 --enforce-eager", false},
		{"Qwen3-8B --gpu H100 --engine-version 0.6.2 --max-model-len 8192", false},
	} {
		p := resolve(t, c.line).Physical()
		if got := p.Step(decode) < base.Step(decode); got != c.faster {
			t.Errorf("%s decodes in %v, H100 in %v", c.line, p.Step(decode), base.Step(decode))
		}
	}
	one, four := resolve(t, "Qwen3-32B --gpu H100 --max-model-len 4096").Physical(), resolve(t, "Qwen3-32B --gpu H100 --tp 4").Physical()
	if r := float64(one.Step(prompt)) / float64(four.Step(prompt)); r < 2 || r > 4 {
		t.Errorf("four GPUs are %.1f times as fast at prompts", r)
	}
	nodes := resolve(t, "Qwen3-32B --gpu H100 --tp 2 --nnodes 2 --node-link tcp-25 --max-model-len 4096").Physical()
	near := resolve(t, "Qwen3-32B --gpu H100 --tp 2 --max-model-len 4096").Physical()
	if nodes.Step(decode) <= near.Step(decode) {
		t.Error("two nodes are as fast as one")
	}
	moe := resolve(t, "Qwen3-30B-A3B --gpu H100").Physical()
	if few, many := moe.Step(latency.Batch{Decode: 1, KV: 1}), moe.Step(latency.Batch{Decode: 256, KV: 256}); float64(many) < 3*float64(few) {
		t.Errorf("experts: %v for one request, %v for 256", few, many)
	}
}

func TestExhausts(t *testing.T) {
	if resolve(t, "Qwen3-8B --gpu H100 --gpu-memory-utilization 0.9").Exhausts() != nil {
		t.Error("a tenth of the memory free is not enough")
	}
	tight := resolve(t, "gpt-oss-20b --gpu H100 --gpu-memory-utilization 0.99 --engine-version 0.11.0").Exhausts()
	if tight == nil {
		t.Fatal("99 % is fine")
	}
	if tight(latency.Batch{Decode: 10}) || !tight(latency.Batch{Prefill: 8192, Prompts: 4}) {
		t.Error("a small step must fit and a full one must not")
	}
}

func TestCommonProfiles(t *testing.T) {
	list := CommonProfiles()
	if len(list) < 100 {
		t.Errorf("%d pairs", len(list))
	}
	seen := map[string]int{}
	for _, p := range list {
		seen[p.Name()] = p.TP
		model, gpu, ok := ProfileName(p.Name())
		if !ok || model != p.Model || gpu != p.GPU {
			t.Errorf("%s is split into %s and %s", p.Name(), model, gpu)
		}
	}
	for name, tp := range map[string]int{"Qwen3-8B@H100-SXM": 1, "Llama-3.3-70B-Instruct@H100-SXM": 4, "gpt-oss-120b@B200-SXM": 1, "Qwen3-8B@L4": 2, "DeepSeek-V3@H200-SXM": 8} {
		if seen[name] != tp {
			t.Errorf("%s on %d GPUs, want %d", name, seen[name], tp)
		}
	}
	if _, ok := seen["DeepSeek-V3@L4"]; ok {
		t.Error("DeepSeek-V3 fits on L4")
	}
}

func FuzzParseCount(f *testing.F) {
	for _, s := range []string{"8192", "8k", "8K", "1.5k", "1.5K", "-1", "nan", "1e400", "k", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := parseCount(s)
		if err == nil && (v > 1<<62 || v < -1<<62) {
			t.Errorf("%q is %d", s, v)
		}
	})
}

func FuzzSettings(f *testing.F) {
	f.Add("Qwen3-8B --gpu H100 --max-num-seqs 8 --tp 2")
	f.Add(`gpt-oss-20b --gpu A10 --speculative-config {"num_speculative_tokens":2}`)
	f.Fuzz(func(t *testing.T, line string) {
		s, err := parse(line)
		if err != nil {
			return
		}
		c, err := s.Resolve()
		if err != nil {
			return
		}
		if c.Budget.Blocks < 1 || c.Physical().Step(latency.Batch{Decode: 1, KV: 1}) <= 0 || c.Sim.Check() != nil {
			t.Errorf("%s: %+v", line, c.Sim)
		}
	})
}

// TestExpertsAreSlower works out what a prompt token costs beyond the reading of weights: two operations
// for each parameter it meets, at the share of the peak rate that engines reach with and without experts.
func TestExpertsAreSlower(t *testing.T) {
	for _, c := range []struct {
		model string
		tp    int
		share float64
	}{{"Qwen3-8B", 1, 0.55}, {"Qwen3-30B-A3B", 2, 0.2}} {
		s := Settings{Model: c.model, GPU: "A100-80GB", TP: c.tp, MaxModelLen: 4096, Watermark: -1}
		conf, err := s.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		p := conf.Physical()
		const many = 1 << 20 // tokens, so that weights are read in the shade of products
		per := float64(p.Step(latency.Batch{Prefill: 2 * many, Prompts: 1})-p.Step(latency.Batch{Prefill: many, Prompts: 1})) / many
		want := 1e9 * 2 * float64(conf.Model.Linear()) / float64(c.tp) / (312e12 * c.share)
		if c.tp > 1 {
			want += 1e9 * 2 * float64(conf.Model.Layers) * float64(conf.Model.Hidden) * 2 / (p.Device.Link * p.Efficiency.ReduceShare)
		}
		if math.Abs(per/want-1) > 1e-3 {
			t.Errorf("%s: %.1f ns per prompt token, want %.1f", c.model, per, want)
		}
	}
}
