package metrics

import "spate/internal/call"

// Summary is everything computed from a run's records. Fields from DurationS to E2EL are vLLM's,
// under vLLM's definitions; the rest is additive. Units are in the JSON names.
type Summary struct {
	Tally     call.Tally `json:"tally"`
	DurationS float64    `json:"duration_s"`

	Completed            int      `json:"completed"`
	Failed               int      `json:"failed"`
	TotalInput           int      `json:"total_input_tokens"`
	TotalOutput          int      `json:"total_output_tokens"`
	RequestThroughput    float64  `json:"request_throughput_per_s"`
	RequestGoodput       *float64 `json:"request_goodput_per_s"` // null without objectives
	OutputThroughput     float64  `json:"output_throughput_tokens_per_s"`
	TotalTokenThroughput float64  `json:"total_token_throughput_tokens_per_s"`
	MaxOutputPerS        float64  `json:"max_output_tokens_per_s"`
	MaxConcurrent        int      `json:"max_concurrent_requests"`
	RTFx                 float64  `json:"rtfx"`
	TTFT                 Dist     `json:"ttft_ms"`
	TPOT                 Dist     `json:"tpot_ms"`
	ITL                  Dist     `json:"itl_ms"`
	E2EL                 Dist     `json:"e2el_ms"`

	Pooling       *Pooling      `json:"pooling,omitempty"` // only where nothing is generated
	Clocks        Clocks        `json:"clocks"`
	Streaming     Streaming     `json:"streaming"`
	Speed         Speed         `json:"speed"`
	Rates         Rates         `json:"rates"`
	Throughput    Throughput    `json:"throughput"`
	Concurrency   Concurrency   `json:"concurrency"`
	Lengths       Lengths       `json:"lengths"`
	Goodput       *Goodput      `json:"goodput"` // null without objectives
	ErrorAdjusted ErrorAdjusted `json:"error_adjusted"`
	Failures      Failures      `json:"failures"`
	Connections   Connections   `json:"connections"`
	Server        ServerSide    `json:"server"`
	Cache         Cache         `json:"cache"`
	Steady        Steady        `json:"steady_state"`
	Probe         Probe         `json:"probe"`
	Warmup        Warmup        `json:"warmup"`
	Series        Series        `json:"series"`
}

// Pooling is what vLLM counts where servers embed, score or rank instead of generating.
type Pooling struct {
	Inputs     int     `json:"total_input_sequences"`
	Throughput float64 `json:"input_sequence_throughput_per_s"`
}

// Clocks are latencies under other start and end marks than vLLM's.
type Clocks struct {
	TTFTDue     Dist `json:"ttft_due_ms"`         // due to first chunk
	E2ELDue     Dist `json:"e2el_due_ms"`         // due to end
	FirstByte   Dist `json:"first_byte_ms"`       // sent to first response byte
	FirstToken  Dist `json:"first_token_ms"`      // sent to first content of any kind
	FirstText   Dist `json:"first_text_ms"`       // sent to first visible content
	E2ELToken   Dist `json:"e2el_last_token_ms"`  // sent to last content
	E2ELClose   Dist `json:"e2el_close_ms"`       // sent to end of response
	Queue       Dist `json:"client_queue_ms"`     // dispatched to slot
	DispatchLag Dist `json:"dispatch_lag_ms"`     // due to dispatched
	SendLag     Dist `json:"slot_to_send_lag_ms"` // slot to first byte written
}

// Streaming tells how the answers came in pieces.
type Streaming struct {
	TokenITL       Dist           `json:"token_itl_ms"`
	TokenITLSource map[string]int `json:"token_itl_source"` // requests by TokenSource
	ITLNoRole      Dist           `json:"itl_no_role_ms"`
	Chunks         int            `json:"chunks"`
	ContentChunks  int            `json:"content_chunks"`
	TokensPerChunk float64        `json:"tokens_per_chunk"`      // over chunks that bore tokens
	MaxChunkTokens int            `json:"max_tokens_per_chunk"`  // largest of them
	MultiShare     float64        `json:"multi_token_share"`     // chunks of more than one token
	ReasoningShare float64        `json:"reasoning_token_share"` // of output tokens
	ToolShare      float64        `json:"tool_token_share"`
}

// Speed is what one user sees.
type Speed struct {
	User   Dist `json:"user_tokens_per_s"`   // output tokens over end-to-end latency
	Decode Dist `json:"decode_tokens_per_s"` // 1/TPOT
}

// Rates compares the load asked for with the load made.
type Rates struct {
	Requested  *float64 `json:"requested_per_s"`  // null without a rate
	Scheduled  *float64 `json:"scheduled_per_s"`  // what the due times amount to
	Dispatched *float64 `json:"dispatched_per_s"` // what the dispatcher let go
	Sent       *float64 `json:"sent_per_s"`       // what reached the wire
	Achieved   *float64 `json:"achieved_ratio"`   // sent over scheduled
	Late1ms    int      `json:"late_over_1ms"`    // dispatched more than 1 ms after due
	Late10ms   int      `json:"late_over_10ms"`
}

// Throughput adds intervals and an exact peak to vLLM's throughputs.
type Throughput struct {
	RequestCI95 *Range  `json:"request_throughput_ci95_per_s"` // null below 20 batches' worth of requests
	OutputCI95  *Range  `json:"output_throughput_ci95_tokens_per_s"`
	PeakOutput  float64 `json:"peak_output_tokens_per_s"` // most tokens within any one second
	Input       float64 `json:"input_throughput_tokens_per_s"`
}

// Concurrency is exact: from a sweep over the times requests were sent and ended.
type Concurrency struct {
	Cap    int     `json:"cap"` // 0 when uncapped
	Peak   int     `json:"peak"`
	Mean   float64 `json:"mean"`               // weighted by time
	Little float64 `json:"rate_times_latency"` // of successes
	Ratio  float64 `json:"little_ratio"`       // the latter over the former
}

// Lengths compares lengths asked for with lengths received.
type Lengths struct {
	Input       Dist           `json:"input_tokens"`
	Output      Dist           `json:"output_tokens"`
	InputFrom   map[string]int `json:"input_source"` // requests by where the count is from
	OutputFrom  map[string]int `json:"output_source"`
	InputMatch  Match          `json:"input_match"`
	OutMatch    Match          `json:"output_match"`
	Finish      map[string]int `json:"finish_reasons"`
	Unexplained int            `json:"short_without_finish_reason"` // answers that may be incomplete

	// Contradicted counts the answers whose output count the answer itself contradicts; MaxClaimed is the largest such count.
	Contradicted int `json:"contradicted_counts"`
	MaxClaimed   int `json:"max_claimed_tokens"`
}

// Match counts how often a length asked for was received, over successes that asked for one.
type Match struct {
	N         int     `json:"n"`
	Exact     int     `json:"exact"`
	Short     int     `json:"short"`
	Long      int     `json:"long"`
	Honoured  float64 `json:"honoured_share"` // exact over n
	MeanRatio float64 `json:"received_ratio"` // tokens received over tokens asked for
	MaxOff    int     `json:"max_difference"`
}

// Goodput counts requests that met every objective.
type Goodput struct {
	Good       int          `json:"good"`
	Share      float64      `json:"good_share"` // of all requests not stopped by the user
	PerSecond  float64      `json:"per_s"`
	Objectives []Attainment `json:"objectives"`
}

// Attainment is how often one objective was met.
type Attainment struct {
	Metric string  `json:"metric"`
	Bound  float64 `json:"bound"` // ms, or tokens/s for speeds
	Met    int     `json:"met"`
	Share  float64 `json:"met_share"`
}

// ErrorAdjusted counts each failure as an infinite latency.
type ErrorAdjusted struct {
	Failures int         `json:"failures"` // failed, dropped or cut off; not those a stop left undone
	TTFT     Percentiles `json:"ttft_ms"`
	TTFTDue  Percentiles `json:"ttft_due_ms"`
	E2EL     Percentiles `json:"e2el_ms"`
	E2ELDue  Percentiles `json:"e2el_due_ms"`
}

// Failures tells what went wrong.
type Failures struct {
	Share      float64        `json:"failed_share"` // failed over due
	Kinds      []FailureKind  `json:"kinds"`        // most frequent first
	Statuses   map[string]int `json:"http_statuses"`
	Shed       Shed           `json:"shed"`
	CutOff     int            `json:"cut_off"`                        // still running when the grace period ended
	Stopped    int            `json:"interrupted"`                    // in flight, given up when the run was stopped; no failure
	Unsent     int            `json:"not_sent"`                       // due, but not sent because the run was stopped; no failure
	Gone       int            `json:"worker_lost,omitempty"`          // due from a worker that was gone; how they ended is not known
	GoneUnsent int            `json:"worker_lost_not_sent,omitempty"` // of those, not let go as far as is known
	Lost       int            `json:"unaccounted"`                    // due, but without a record
	Attempts   int            `json:"attempts"`
	Retries    int            `json:"retries"`   // attempts that were followed by another
	Recovered  int            `json:"recovered"` // requests that succeeded on a later attempt
}

// FailureKind groups requests that ended for the same reason.
type FailureKind struct {
	Kind    call.Fault `json:"kind"`
	Status  int        `json:"status,omitempty"` // HTTP, where that is the failure
	Count   int        `json:"count"`
	Example string     `json:"example"` // message of the first of them
}

// Name is what people call it.
func (k FailureKind) Name() string { return k.Kind.Named(k.Status) }

// Shed is load the server refused (429, or 503 with Retry-After); every attempt counts.
type Shed struct {
	Count      int  `json:"count"`
	Latency    Dist `json:"latency_ms"`     // sent to end
	RetryAfter Dist `json:"retry_after_ms"` // where one was named
}

// Connections tells what the network cost.
type Connections struct {
	ReusedShare float64 `json:"reused_share"`
	InBand      int     `json:"opened_in_band"` // dialled inside a request's latency
	Dial        Dist    `json:"dial_ms"`
	TLS         Dist    `json:"tls_ms"`
}

// ServerSide holds the server's own figures, where it sent them.
type ServerSide struct {
	N          int  `json:"n"`
	Queue      Dist `json:"queue_ms"`
	FirstToken Dist `json:"first_token_ms"`
	Generation Dist `json:"generation_ms"`
	MeanITL    Dist `json:"mean_itl_ms"`
	// TTFTRest is client TTFT less the server's queue and first token: network and front end.
	TTFTRest Dist `json:"ttft_remainder_ms"`
	E2ELRest Dist `json:"e2el_remainder_ms"`
}

// Cache is what the answers say about the server's prefix cache.
type Cache struct {
	Reported    int     `json:"reported"` // requests whose answer told cached tokens
	Cached      int     `json:"cached_tokens"`
	Share       float64 `json:"cached_share"` // of those requests' prompt tokens
	Hits        int     `json:"hits"`         // requests with any
	Repeats     int     `json:"repeats"`      // requests labelled as repeats of an earlier prompt
	FirstTTFT   float64 `json:"first_median_ttft_ms"`
	RepeatTTFT  float64 `json:"repeat_median_ttft_ms"`
	RepeatRatio float64 `json:"repeat_ttft_ratio"` // the latter over the former; 0 when unknown
}

// Steady is the plateau of a capped, unpaced run, as the Rust vllm-bench defines it.
type Steady struct {
	Applies   bool    `json:"applies"`
	Reason    string  `json:"reason"` // why not, or what to mind
	Threshold int     `json:"threshold"`
	StartS    float64 `json:"start_s"`
	EndS      float64 `json:"end_s"`
	WindowS   float64 `json:"window_s"`
	Short     bool    `json:"short"` // below the shortest window that settles the figures
	Completed int     `json:"completed"`
	Started   int     `json:"started"`
	Request   float64 `json:"request_throughput_per_s"`
	Chunks    float64 `json:"output_chunks_per_s"`
	Output    float64 `json:"output_throughput_tokens_per_s"`
	Input     float64 `json:"input_throughput_tokens_per_s"`
	TTFT      Dist    `json:"ttft_ms"`
	TPOT      Dist    `json:"tpot_ms"`
}

// Probe sums up the one-token requests sent beside the load.
type Probe struct {
	Completed int     `json:"completed"`
	Failed    int     `json:"failed"`
	Median    float64 `json:"median_e2el_ms"`
	P99       float64 `json:"p99_e2el_ms"`
	Max       float64 `json:"max_e2el_ms"`
}

// Warmup counts the requests left out because they came before the measured part.
type Warmup struct {
	Requests int     `json:"requests"`
	Failed   int     `json:"failed"`
	Median   float64 `json:"median_ttft_ms"`
}

// Series is the run in equal steps of time, at most maxSteps of them.
type Series struct {
	StepS    float64   `json:"step_s"`
	Sent     []int     `json:"sent"`
	Finished []int     `json:"finished"`
	Failed   []int     `json:"failed"`
	InFlight []float64 `json:"in_flight"` // mean over the step
	Output   []int     `json:"output_tokens"`
}
