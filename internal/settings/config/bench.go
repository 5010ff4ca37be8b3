// Package config holds the typed settings of one benchmark run and says whether they make sense
// together. internal/settings/flags fills a Bench from the command line, a config file and the environment;
// Bench.Resolve derives what depends on several settings; Bench.Validate names what contradicts; then
// internal/bench runs it. Nothing here reads a file, a clock or the network.
//
// Read this file first: every setting there is stands in it.
package config

import (
	"encoding/json"
	"time"

	"spate/internal/figure"
	"spate/internal/load/schedule"
	"spate/internal/load/workload"
	"spate/internal/pytext"
	"spate/internal/safe/secret"
	"spate/internal/send/protocol"
)

// Bench holds all settings of a `spate bench` run. A nil pointer, an empty string or an empty
// list means "not set", what vLLM calls None.
type Bench struct {
	Target  Target  `json:"target"`
	Model   Model   `json:"model"`
	Dataset Dataset `json:"dataset"`
	Load    Load    `json:"load"`
	Body    Body    `json:"body"`
	Client  Client  `json:"client"`
	Output  Output  `json:"output"`
	Check   Check   `json:"check"`
	Sim     Sim     `json:"sim"`
	Observe Observe `json:"observe"`
	Launch  Launch  `json:"launch,omitzero"`
	Repeat  Repeat  `json:"repeat,omitzero"`
	Fleet   Fleet   `json:"fleet,omitzero"`

	// Tenants are the workloads of a run that has several; then what is said of one above is what they
	// amount to together, see JoinTenants.
	Tenants []Tenant `json:"tenants,omitempty"`

	// Given says which flags (canonical names, with dashes) were set and by what; a flag that is
	// not in it has its default.
	Given map[string]Source `json:"given,omitempty"`
}

// Source says who set a flag.
type Source string

// The sources of a setting, from the weakest to the strongest.
const (
	FromEnv  Source = "env"
	FromFile Source = "file"
	FromArgs Source = "args"
)

// Has reports whether the user set the flag, by whatever way.
func (b *Bench) Has(flag string) bool { return b.Given[flag] != "" }

// Target says where the server is and how to reach it.
type Target struct {
	Backend    Backend  `json:"backend"`
	BaseURLs   []string `json:"base_urls"` // as given; empty means Host and Port. See URLs.
	Route      Route    `json:"route"`
	Host       string   `json:"host"`
	Port       int      `json:"port"`
	Endpoint   string   `json:"endpoint"` // after Resolve, never empty
	UnixSocket string   `json:"unix_socket,omitempty"`

	Headers  []Header     `json:"headers,omitempty"`
	APIKey   secret.Value `json:"api_key,omitempty"`
	Insecure bool         `json:"insecure"`
	CACert   string       `json:"ca_cert,omitempty"`

	ReadyTimeout     time.Duration `json:"ready_timeout_ns"` // 0 skips the readiness check
	ResetPrefixCache bool          `json:"reset_prefix_cache"`
	Profile          bool          `json:"profile"`
}

// Backend names the protocol of the server, as package protocol lists them.
type Backend string

// Backends named here.
const (
	VLLM       Backend = "vllm"
	OpenAI     Backend = "openai"
	OpenAIChat Backend = "openai-chat"
)

// Protocol is what is known of it.
func (b Backend) Protocol() protocol.Protocol { return protocol.Find(string(b)) }

// Chat reports whether the backend speaks chat messages rather than plain prompts.
func (b Backend) Chat() bool { return b.Protocol().Family == protocol.Chat }

// Pools reports whether the backend embeds or ranks: nothing is generated.
func (b Backend) Pools() bool { return b.Protocol().Family == protocol.Pooling }

// Route says how requests are spread over several base URLs.
type Route string

// Routes.
const (
	RoundRobin Route = "round-robin"
	Sticky     Route = "sticky" // a session stays on the URL of its first request
)

// Header is one extra request header.
type Header struct {
	Name  string
	Value string
}

// Model says what to ask for and how to count its tokens.
type Model struct {
	ID                string    `json:"id"`          // --model; empty means ask /v1/models
	ServedName        string    `json:"served_name"` // "model" in the body; empty means ID
	Tokenizer         string    `json:"tokenizer"`   // name or path; empty means ID
	TokenizerMode     string    `json:"tokenizer_mode"`
	TrustRemoteCode   bool      `json:"trust_remote_code"` // accepted; spate runs no remote code
	SkipTokenizerInit bool      `json:"skip_tokenizer_init"`
	LoRAModules       []string  `json:"lora_modules,omitempty"`
	LoRAAssignment    Assign    `json:"lora_assignment"`
	LoRAWeights       []float64 `json:"lora_weights,omitempty"` // of the modules, in their order; none: all alike
}

// Assign says how LoRA modules are assigned to requests.
type Assign string

// Assignments.
const (
	AssignRandom     Assign = "random"
	AssignRoundRobin Assign = "round-robin"
)

// Float is a number that may be infinite and still be written as JSON.
type Float = pytext.Number

// Load says when requests leave and when the run ends.
type Load struct {
	NumPrompts int `json:"num_prompts"` // 0 after Resolve: bounded by Duration or the dataset only
	schedule.Settings
	GracePeriod  time.Duration `json:"grace_period_ns"` // how long requests in flight may finish after Duration or an interrupt; <0: for ever
	AbortOnError Abort         `json:"abort_on_error,omitzero"`

	NumWarmups     int           `json:"num_warmups"`
	WarmupDuration time.Duration `json:"warmup_duration_ns"`
	ProbeRate      Float         `json:"probe_request_rate"`
	SelfTimed      *bool         `json:"self_timed"`

	Seed            int64  `json:"seed"`
	RequestIDPrefix string `json:"request_id_prefix"`
}

// noTimes stands for a dataset's times where only their being used matters.
func noTimes() ([]time.Duration, error) { return nil, nil }

// Arrivals is the run as its arrivals are planned: n requests, at the dataset's own times where the settings say so.
func (b *Bench) Arrivals(n int, times func() ([]time.Duration, error)) *schedule.Run {
	r := &schedule.Run{Settings: &b.Load.Settings, N: n, Seed: uint32(b.Load.Seed)}
	if b.SelfTimed() {
		r.Times = times
	}
	return r
}

// Body says what each request has besides the prompt.
type Body struct {
	IgnoreEOS         bool            `json:"ignore_eos"` // after Resolve: with vLLM's rule for random applied
	Logprobs          *int            `json:"logprobs"`
	UseBeamSearch     bool            `json:"use_beam_search"` // accepted; no client ever used it
	BestOf            *int            `json:"best_of,omitempty"`
	Temperature       *float64        `json:"temperature"`
	TopP              *float64        `json:"top_p"`
	TopK              *int            `json:"top_k"`
	MinP              *float64        `json:"min_p"`
	FrequencyPenalty  *float64        `json:"frequency_penalty"`
	PresencePenalty   *float64        `json:"presence_penalty"`
	RepetitionPenalty *float64        `json:"repetition_penalty"`
	Extra             json.RawMessage `json:"extra_body,omitempty"`           // an object
	ChatTemplate      json.RawMessage `json:"chat_template_kwargs,omitempty"` // an object; client-side templating only
	ContinuousUsage   bool            `json:"continuous_usage"`               // ask for usage on every chunk: token-true ITL
	PromptTokenIDs    bool            `json:"prompt_token_ids"`               // send token ids instead of text
}

// Dataset says where prompts come from.
type Dataset struct {
	Name             string  `json:"name"`
	Path             string  `json:"path,omitempty"`
	MediaPath        string  `json:"allowed_local_media_path,omitempty"` // further folders whose files rows may name
	InputLen         *int    `json:"input_len,omitempty"`
	OutputLen        *int    `json:"output_len,omitempty"`
	InputDist        string  `json:"input_dist,omitempty"` // a law for random lengths, as lengths.ParseDist reads it
	OutputDist       string  `json:"output_dist,omitempty"`
	InputStd         float64 `json:"input_stddev,omitempty"`
	OutputStd        float64 `json:"output_stddev,omitempty"`
	Joint            string  `json:"joint_lengths,omitempty"` // as lengths.ParseBuckets reads them
	NoStream         bool    `json:"no_stream"`
	NoOversample     bool    `json:"no_oversample"`
	DisableShuffle   bool    `json:"disable_shuffle"`
	SkipChatTemplate bool    `json:"skip_chat_template"`
	MultimodalChat   bool    `json:"enable_multimodal_chat"`
	Salt             string  `json:"salt,omitempty"` // put before every prompt, so that a run finds no earlier run's prefix cache

	workload.Settings // of each dataset
}

// Client says how requests travel.
type Client struct {
	HTTPVersion    HTTPVersion   `json:"http_version"`
	HTTPClient     HTTPClient    `json:"http_client"`
	Connect        Connect       `json:"connect"`
	RequestTimeout time.Duration `json:"request_timeout_ns"`
	IdleTimeout    time.Duration `json:"idle_timeout_ns"`
	Retries        int           `json:"retries"`
	MaxResponse    int64         `json:"max_response_bytes"`
}

// HTTPVersion is the protocol version on the wire.
type HTTPVersion string

// HTTP versions.
const (
	HTTP11 HTTPVersion = "1.1"
	HTTP2  HTTPVersion = "2"
)

// HTTPClient chooses the HTTP implementation.
type HTTPClient string

// HTTP clients.
const (
	ClientAuto HTTPClient = "auto" // raw where it can (HTTP/1.1), std elsewhere
	ClientRaw  HTTPClient = "raw"
	ClientStd  HTTPClient = "std"
)

// Connect says whether opening a connection counts in a request's latency.
type Connect string

// Connect modes.
const (
	ConnectAhead  Connect = "ahead"
	ConnectInBand Connect = "in-band"
)

// Output says what is written and shown.
type Output struct {
	SaveResult     bool       `json:"save_result"`
	SaveDetailed   bool       `json:"save_detailed"`
	AppendResult   bool       `json:"append_result"`
	ResultDir      string     `json:"result_dir,omitempty"`
	ResultFilename string     `json:"result_filename,omitempty"`
	Metadata       []KeyValue `json:"metadata,omitempty"`
	Label          string     `json:"label,omitempty"`
	Compat         string     `json:"compat,omitempty"` // whose arguments, definitions and block

	PercentileMetrics []Metric  `json:"percentile_metrics"`
	Percentiles       []float64 `json:"metric_percentiles"`

	PlotTimeline      bool       `json:"plot_timeline"`
	TimelineITL       [2]float64 `json:"timeline_itl_thresholds_ms"`
	PlotDatasetStats  bool       `json:"plot_dataset_stats"`
	OutputDir         string     `json:"output_dir,omitempty"` // run folder; empty: a timestamped one
	NoOutput          bool       `json:"no_output"`            // no run folder at all
	Store             string     `json:"-"`                    // where the run is noted down; it may hold a password, and changes nothing about the run
	NoStore           bool       `json:"-"`
	UI                UI         `json:"ui"`
	DisableTQDM       bool       `json:"disable_tqdm"` // Resolve turns it into UI none
	DryRun            bool       `json:"dry_run"`
	Quiet             bool       `json:"-"`                  // the block alone; changes nothing about the run, nor does Details
	Details           bool       `json:"-"`                  // all findings below the block
	PyTorchBenchmarks bool       `json:"pytorch_benchmarks"` // SAVE_TO_PYTORCH_BENCHMARK_FORMAT
}

// CutsConversations reports whether the tool whose arguments these are makes random prompts of a file's
// conversations.
func (o *Output) CutsConversations() bool { return o.Compat == "sglang" || o.Compat == "lmdeploy" }

// KeyValue is one --metadata entry.
type KeyValue struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Metric names one of vLLM's latency metrics.
type Metric string

// Metrics that can be selected, judged and asked for.
const (
	TTFT Metric = "ttft"
	TPOT Metric = "tpot"
	ITL  Metric = "itl"
	E2EL Metric = "e2el"
)

// UI is how progress is shown.
type UI string

// User interfaces.
const (
	UIAuto  UI = "auto" // live on a terminal, plain elsewhere
	UILive  UI = "live"
	UIPlain UI = "plain"
	UINone  UI = "none"
)

// Check says what the run is judged by.
type Check struct {
	Goodput         []Limit            `json:"goodput,omitempty"` // per request, vLLM's
	SLO             []figure.Objective `json:"slo,omitempty"`     // over the run; exit 3 when not met
	Strict          bool               `json:"strict"`            // INVALID exits 3
	SteadyThreshold float64            `json:"steady_state_threshold"`
	SteadyMinWindow float64            `json:"steady_state_min_window_s"` // 0: max(10 s, 10 % of the run)
	NoSteadyState   bool               `json:"no_steady_state"`
}

// Limit is a per-request bound: the metric may not exceed it.
type Limit struct {
	Metric Metric  `json:"metric"`
	MS     float64 `json:"ms"`
}

// Observe says what is watched while the run goes.
type Observe struct {
	Off           bool          `json:"off,omitempty"`
	Interval      time.Duration `json:"interval_ns"`    // 0 watches nothing too
	ServerMetrics string        `json:"server_metrics"` // auto, the same as empty, off or the address of a metrics page
	ServerLog     string        `json:"server_log,omitempty"`
	GPUMetrics    string        `json:"gpu_metrics"` // auto, off, nvidia-smi or the address of a DCGM exporter
	PricePerHour  float64       `json:"price_per_hour,omitempty"`
}

// Launch is a server to start for the run and to end after it.
type Launch struct {
	Command string        `json:"command,omitempty"` // as a shell takes it; {port} stands for the port
	Ready   time.Duration `json:"ready_ns,omitempty"`
	Log     string        `json:"log,omitempty"`
	GPUs    string        `json:"gpus,omitempty"`               // numbers or UUIDs, the only ones the server sees
	UsedOK  string        `json:"gpu_memory_used_ok,omitempty"` // what others may use of their memory

	Protection string `json:"protection,omitempty"` // what ends all the server started, should spate be killed; known once it runs
}

// Sim asks for the embedded server and says how it behaves. Its draws use the run's seed.
type Sim struct {
	Enabled        bool          `json:"enabled"`
	Profile        string        `json:"profile,omitempty"` // what to simulate; see Timetabled
	TTFT           time.Duration `json:"ttft_ns"`
	ITL            time.Duration `json:"itl_ns"`
	TokensPerChunk int           `json:"tokens_per_chunk"`
	Jitter         float64       `json:"jitter"` // each wait is multiplied by a factor in [1-Jitter, 1+Jitter]
	TTFTSpread     time.Duration `json:"ttft_spread_ns"`
	Prefill        time.Duration `json:"prefill_ns"` // more TTFT per 1,000 prompt tokens
	OutputLen      int           `json:"output_len"` // tokens after which answers end by themselves; 0: never
	OutputVary     float64       `json:"output_vary"`
	MaxRunning     int           `json:"max_running"` // 0: no limit
	Reasoning      int           `json:"reasoning"`   // tokens
	ToolTokens     int           `json:"tool_tokens"`
	PrefixCache    bool          `json:"prefix_cache"`
	Faults         []string      `json:"faults,omitempty"` // such as "cut,at=5,p=0.1"; sim/serve reads them
	Script         string        `json:"script,omitempty"` // file of rules and outages; sim/serve reads it
}
