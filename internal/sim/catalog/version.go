package catalog

import (
	_ "embed" // the data files
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"spate/internal/nearest"
)

//go:embed data/engines.json
var engineData []byte

// Engine is how one version of an engine behaves and what it takes for granted.
type Engine struct {
	Name    string // vllm, sglang, lmdeploy
	Version string // as asked for
	Since   string `json:"since"` // the data's entry it follows

	Family  Family   `json:"family"`
	Seqs    PerClass `json:"seqs"`               // max_num_seqs
	Tokens  PerClass `json:"tokens"`             // max_num_batched_tokens
	Within  bool     `json:"seqs_within_tokens"` // the default of max_num_seqs gives way to a smaller max_num_batched_tokens
	Cover   bool     `json:"tokens_cover_context"`
	Chunk   int      `json:"chunked_tokens"` // max_num_batched_tokens when chunked prefill was asked for
	Chunked bool     `json:"chunked"`
	Above   int      `json:"chunked_above"` // chunked prefill comes by itself for longer contexts
	Prefix  bool     `json:"prefix_caching"`
	Util    float64  `json:"utilization"`
	OfFree  bool     `json:"utilization_of_free"` // of what the weights leave, not of the whole memory
	Block   int      `json:"block_size"`
	SwapGiB float64  `json:"swap_gib"`
	A100    bool     `json:"a100_small"` // every A100 counts as a small GPU
	Reserve float64  `json:"watermark"`  // share of blocks admission keeps free
	FullISL bool     `json:"full_prompt_admission"`
	Async   bool     `json:"async"`
	AsyncPP bool     `json:"async_pp"`
	Graphs  bool     `json:"graph_memory"` // CUDA graphs count in the memory profile
	StepUS  float64  `json:"step_us"`      // of scheduling and input preparation that no step hides
	EntryUS float64  `json:"request_us"`   // the front end's time for one request
	V1OptIn bool     `json:"v1_opt_in"`
	V0Back  bool     `json:"v0_fallback"` // flags only the older engine knows bring it back

	DelayFlag     bool `json:"delay_factor"`
	StepsFlag     bool `json:"multi_step"`
	AsyncFlag     bool `json:"async_flag"`
	WatermarkFlag bool `json:"watermark_flag"`
	PrefixFlag    bool `json:"prefix_caching_flag"`
	IterationFlag bool `json:"iteration_details"`

	Log          string  `json:"log"`         // form of the statistics line: v0, v1, sglang
	LogSeconds   float64 `json:"log_seconds"` // between two of them
	LogSource    string  `json:"log_source"`  // file and line as printed
	LogProcess   bool    `json:"log_process"` // the process is named before the level
	StartLog     string  `json:"start_log"`   // form of the KV lines at start
	StartConc    bool    `json:"start_concurrency"`
	StartMemory  bool    `json:"start_memory"`
	TPOTMetric   string  `json:"tpot_metric"`
	V0Gauges     bool    `json:"v0_gauges"`
	V10Gauges    bool    `json:"v10_gauges"`
	ReasonField  string  `json:"reasoning_field"`
	versionParts []int
}

// Family is a scheduler.
type Family string

// Families.
const (
	V0       Family = "v0"       // vLLM: prompts first, or chunks behind decodes
	V1       Family = "v1"       // vLLM: one token budget for all
	SGLang   Family = "sglang"   // prompts first, radix cache, retraction
	LMDeploy Family = "lmdeploy" // persistent batch
)

// PerClass is a default by GPU class.
type PerClass struct {
	Small int `json:"small"`
	Large int `json:"large"`
	Huge  int `json:"huge"`
}

// For returns the value of a class.
func (p PerClass) For(c Class) int {
	switch c {
	case Huge:
		return p.Huge
	case Large:
		return p.Large
	default:
		return p.Small
	}
}

var engines = sync.OnceValues(func() (map[string][]Engine, error) {
	var raw map[string][]json.RawMessage
	if err := json.Unmarshal(engineData, &raw); err != nil {
		return nil, fmt.Errorf("embedded engines: %w", err)
	}
	out := make(map[string][]Engine, len(raw))
	for name, list := range raw {
		var e Engine
		for _, entry := range list { // each entry says only what changed
			if err := json.Unmarshal(entry, &e); err != nil {
				return nil, fmt.Errorf("embedded engines: %s: %w", name, err)
			}
			e.Name = name
			parts, err := versionParts(e.Since)
			if err != nil {
				return nil, fmt.Errorf("embedded engines: %s: %w", name, err)
			}
			e.versionParts = parts
			out[name] = append(out[name], e)
		}
	}
	return out, nil
})

// LatestVLLM is what an empty version means.
const LatestVLLM = "0.27.0"

// FindEngine returns the behaviour of an engine's version: that of the newest entry not newer than
// it, so a version nobody has described behaves like its nearest predecessor, and one before all
// entries like the first.
func FindEngine(name, version string) (*Engine, error) {
	all, err := engines()
	if err != nil {
		return nil, err
	}
	name = strings.ToLower(name)
	if name == "" {
		name = "vllm"
	}
	list, ok := all[name]
	if !ok {
		return nil, fmt.Errorf("engine %q is not known%s", name, nearest.Hint(name, EngineNames()))
	}
	if version == "" {
		version = list[len(list)-1].Since
		if name == "vllm" {
			version = LatestVLLM
		}
	}
	want, err := versionParts(version)
	if err != nil {
		return nil, err
	}
	e := list[0]
	for _, c := range list[1:] {
		if slices.Compare(c.versionParts, want) > 0 {
			break
		}
		e = c
	}
	e.Version = strings.TrimPrefix(version, "v")
	return &e, nil
}

// EngineNames lists the engines by name.
func EngineNames() []string {
	all, err := engines()
	if err != nil {
		return nil
	}
	var out []string
	for n := range all {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// versionParts reads the leading numbers of a version: 0.10.1.1 and v0.28.0rc2 alike. A release
// candidate counts as its release, since that is what it behaves like.
func versionParts(v string) ([]int, error) {
	var out []int
	for part := range strings.SplitSeq(strings.TrimPrefix(v, "v"), ".") {
		digits := len(part) - len(strings.TrimLeft(part, "0123456789"))
		if digits == 0 {
			break
		}
		n, err := strconv.Atoi(part[:digits])
		if err != nil {
			return nil, fmt.Errorf("engine version %q: %w", v, err)
		}
		out = append(out, n)
		if digits < len(part) {
			break
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("engine version %q is not one such as 0.10.1", v)
	}
	for len(out) < 3 {
		out = append(out, 0)
	}
	return out, nil
}

// WithV0 returns the engine as it behaves when a flag brings its older scheduler back.
func (e *Engine) WithV0() (*Engine, error) {
	old, err := FindEngine(e.Name, "0.7.3")
	if err != nil {
		return nil, err
	}
	old.Version, old.A100 = e.Version, e.A100
	old.LogSource, old.LogProcess = "[metrics.py:481]", e.LogProcess
	return old, nil
}

// WithV1 returns the engine as it behaves when its newer scheduler is asked for ahead of time.
func (e *Engine) WithV1() (*Engine, error) {
	v1, err := FindEngine(e.Name, "0.8.0")
	if err != nil {
		return nil, err
	}
	v1.Version = e.Version
	return v1, nil
}
