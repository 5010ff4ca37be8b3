// Package engineconf turns the flags of `vllm serve` into a simulated deployment: it knows their
// names, fills in what the engine version takes for granted, refuses what that version refuses, and
// hands the result on as scheduling settings (package sim), memory plan (package catalog) and step
// times (package latency). It also words what the engine prints at start and while it runs.
//
// Read settings.go for the flags, then resolve.go.
package engineconf

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// Settings are the flags of a server, as given: zero and nil mean the engine's own default.
type Settings struct {
	Model  string
	Config []byte // the model's own config.json; the catalog's when empty
	Served []string

	Engine  string // vllm, sglang, lmdeploy
	Version string
	GPU     string
	Link    string // between GPUs of different nodes
	Nodes   int

	TP, PP, DP  int
	EP          bool
	MaxModelLen int
	MaxSeqs     int
	MaxTokens   int
	Util        float64
	Block       int
	Blocks      int
	KVMemory    int64
	Prefix      *bool
	Chunked     *bool
	Async       *bool
	FullISL     *bool
	Watermark   float64
	Delay       float64
	Steps       int
	LongPrefill int
	KVDType     string
	DType       string
	Quant       string
	SwapGiB     float64
	Preemption  string
	Eager       bool
	Spec        string
	Acceptance  float64
	LoRA        bool
	MaxLoRAs    int
	LoRARank    int
	LoRAModules []string
	UseV1       *bool // VLLM_USE_V1
	Seed        uint64
}

// Bind adds the flags to a set, under vLLM's names.
func (s *Settings) Bind(f *pflag.FlagSet) {
	if f.Lookup("model") == nil { // commands with a wider meaning of the word have their own
		f.StringVar(&s.Model, "model", "", "model to serve, such as Qwen/Qwen3-8B")
	}
	f.StringVar(&s.Engine, "engine", "vllm", "engine to behave like: vllm, sglang, lmdeploy")
	f.StringVar(&s.Version, "engine-version", "", "its version, such as 0.6.6 or 0.10.1 (default "+defaultVersion+")")
	f.StringVar(&s.GPU, "gpu", "", "GPU to behave like, such as H100 or A100-80GB")
	f.StringVar(&s.Link, "node-link", "", "link between nodes, such as rdma-400 or tcp-25")
	f.IntVar(&s.Nodes, "nnodes", 1, "nodes the GPUs are spread over")
	f.Var((*names)(&s.Served), "served-model-name", "names to answer to (default the model's)")
	f.IntVar(&s.TP, "tensor-parallel-size", 1, "GPUs that share every layer")
	f.IntVar(&s.PP, "pipeline-parallel-size", 1, "groups of GPUs that share the layers in order")
	f.IntVar(&s.DP, "data-parallel-size", 1, "replicas")
	f.BoolVar(&s.EP, "enable-expert-parallel", false, "spread experts over replicas")
	f.Var((*count)(&s.MaxModelLen), "max-model-len", "longest prompt and answer together (default the model's)")
	f.Var((*count)(&s.MaxSeqs), "max-num-seqs", "sequences in a step (default by version and GPU)")
	f.Var((*count)(&s.MaxTokens), "max-num-batched-tokens", "tokens in a step (default by version and GPU)")
	f.Float64Var(&s.Util, "gpu-memory-utilization", 0, "share of GPU memory to use (default by version)")
	f.IntVar(&s.Block, "block-size", 0, "tokens in a KV block (default 16)")
	f.IntVar(&s.Blocks, "num-gpu-blocks-override", 0, "number of KV blocks, instead of as many as fit into memory")
	f.Var((*size)(&s.KVMemory), "kv-cache-memory-bytes", "memory for KV on each GPU, instead of --gpu-memory-utilization")
	onOff(f, &s.Prefix, "enable-prefix-caching", "reuse the KV of common prompt beginnings (default by version)")
	onOff(f, &s.Chunked, "enable-chunked-prefill", "compute long prompts in pieces (default by version)")
	onOff(f, &s.Async, "async-scheduling", "plan a step while the one before runs (default by version)")
	onOff(f, &s.FullISL, "scheduler-reserve-full-isl", "admit only requests whose whole prompt fits (default by version)")
	f.Float64Var(&s.Watermark, "watermark", -1, "share of KV blocks that admission keeps free (default by version)")
	f.Float64Var(&s.Delay, "scheduler-delay-factor", 0, "wait this many prompt steps before admitting (old engine)")
	f.IntVar(&s.Steps, "num-scheduler-steps", 1, "decode steps per scheduling decision (old engine)")
	f.IntVar(&s.LongPrefill, "long-prefill-token-threshold", 0, "most tokens of one prompt in a step; 0 is no limit")
	f.StringVar(&s.KVDType, "kv-cache-dtype", "auto", "auto, fp8, fp8_e4m3, fp8_e5m2, bfloat16, float16")
	f.StringVar(&s.DType, "dtype", "auto", "auto, bfloat16, float16, half, float32")
	f.StringVarP(&s.Quant, "quantization", "q", "", "weights: fp8, gptq, awq, mxfp4 (default the model's)")
	f.Float64Var(&s.SwapGiB, "swap-space", 4, "CPU memory for preempted requests, in GiB (old engine)")
	f.StringVar(&s.Preemption, "preemption-mode", "", "what to do with the KV of a preempted request: recompute, swap (old engine; default depends on the number of answers)")
	f.BoolVar(&s.Eager, "enforce-eager", false, "run without CUDA graphs")
	f.StringVar(&s.Spec, "speculative-config", "", `speculative decoding, as JSON: {"method": "eagle", "num_speculative_tokens": 3}`)
	f.Float64Var(&s.Acceptance, "speculative-acceptance", 0.7, "chance that a drafted token is accepted")
	f.BoolVar(&s.LoRA, "enable-lora", false, "serve LoRA adapters")
	f.IntVar(&s.MaxLoRAs, "max-loras", 1, "adapters in one step")
	f.IntVar(&s.LoRARank, "max-lora-rank", 16, "largest rank of an adapter")
	f.Var((*names)(&s.LoRAModules), "lora-modules", `adapters to serve, as name=path or {"name": ..., "path": ...}`)
}

// Normalize maps the spellings vLLM takes to one: underscores are dashes.
func Normalize(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	name = strings.ReplaceAll(name, "_", "-")
	if long, ok := shortNames[name]; ok {
		name = long
	}
	return pflag.NormalizedName(name)
}

// onOff adds a switch and its opposite.
func onOff(f *pflag.FlagSet, p **bool, name, help string) {
	f.Var(&tri{p: p, on: true}, name, help)
	f.Lookup(name).NoOptDefVal = "true"
	f.Var(&tri{p: p}, "no-"+name, "the opposite")
	f.Lookup("no-" + name).NoOptDefVal = "true"
	f.Lookup("no-" + name).Hidden = true
}

// tri is a switch that can be unset.
type tri struct {
	p  **bool
	on bool
}

func (t *tri) Set(s string) error {
	v, err := strconv.ParseBool(s)
	if err != nil {
		return fmt.Errorf("%q is neither true nor false", s)
	}
	v = v == t.on
	*t.p = &v
	return nil
}

func (t *tri) String() string {
	if t.p == nil || *t.p == nil {
		return ""
	}
	return strconv.FormatBool(**t.p == t.on)
}
func (t *tri) Type() string     { return "bool" }
func (t *tri) IsBoolFlag() bool { return true }

// count is a number of tokens: 8192, 8k (thousands) or 8K (1024s), as vLLM reads them.
type count int

func (c *count) Set(s string) error {
	v, err := parseCount(s)
	if err != nil {
		return err
	}
	if v < 1 || v > math.MaxInt32 {
		return fmt.Errorf("%q is out of range", s)
	}
	*c = count(v)
	return nil
}
func (c *count) String() string { return strconv.Itoa(int(*c)) }
func (c *count) Type() string   { return "int" }

// size is a number of bytes, with the same suffixes.
type size int64

func (c *size) Set(s string) error {
	v, err := parseCount(s)
	if err != nil {
		return err
	}
	*c = size(v)
	return nil
}
func (c *size) String() string { return strconv.FormatInt(int64(*c), 10) }
func (c *size) Type() string   { return "bytes" }

// parseCount reads a number with a suffix: k, m, g are powers of a thousand, K, M, G of 1024. Only
// the former take fractions.
func parseCount(s string) (int64, error) {
	factor, fraction := 1.0, false
	num := s
	if n := len(s); n > 0 {
		if i := strings.IndexByte("kmg", s[n-1]); i >= 0 {
			factor, fraction, num = math.Pow(1000, float64(i+1)), true, s[:n-1]
		} else if i := strings.IndexByte("KMG", s[n-1]); i >= 0 {
			factor, num = math.Pow(1024, float64(i+1)), s[:n-1]
		}
	}
	v, err := strconv.ParseFloat(num, 64)
	if err != nil || math.IsNaN(v) || (!fraction && v != math.Trunc(v)) || math.Abs(v*factor) > 1<<62 {
		return 0, fmt.Errorf("%q is not a number such as 8192 or 8k", s)
	}
	return int64(v * factor), nil
}

// spec is the part of a speculative-config that decides how many tokens are drafted.
type spec struct {
	Method string `json:"method"`
	Model  string `json:"model"`
	Tokens int    `json:"num_speculative_tokens"`
}

func parseSpec(s string) (spec, error) {
	var v spec
	if s == "" {
		return v, nil
	}
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		return v, fmt.Errorf("speculative-config: %w", err)
	}
	if v.Tokens < 1 || v.Tokens > 64 {
		return v, fmt.Errorf("speculative-config: num_speculative_tokens is %d, want 1 to 64", v.Tokens)
	}
	return v, nil
}
