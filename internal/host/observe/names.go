package observe

// The sources of samples. GPUs are gpu0, gpu1 and so on.
const (
	Server = "server" // its metrics page
	Log    = "log"    // its log
	Host   = "host"   // the machine the client runs on
	gpu    = "gpu"
)

// quantity is a value a sample can hold.
type quantity struct {
	name, unit string
	counter    bool   // it only grows
	rate       string // of a counter: the series its growth per second makes; none when empty
	rateUnit   string
}

// quantities are what samples hold. A name that is not here, from a later version, has no unit.
var quantities = []quantity{
	{name: "running", unit: "requests"},
	{name: "waiting", unit: "requests"},
	{name: "kv_usage", unit: "share"},
	{name: "prompt_tokens", unit: "tokens", counter: true, rate: "prompt_rate", rateUnit: "tokens/s"},
	{name: "generation_tokens", unit: "tokens", counter: true, rate: "generation_rate", rateUnit: "tokens/s"},
	{name: "preemptions", unit: "preemptions", counter: true, rate: "preemption_rate", rateUnit: "1/s"},
	{name: "requests_finished", unit: "requests", counter: true, rate: "finish_rate", rateUnit: "requests/s"},
	{name: "prefix_queries", unit: "tokens", counter: true},
	{name: "prefix_hits", unit: "tokens", counter: true},

	{name: "prompt_rate", unit: "tokens/s"},     // as the log prints it
	{name: "generation_rate", unit: "tokens/s"}, // likewise
	{name: "prefix_hit_rate", unit: "share"},    // likewise, over its last requests

	{name: "swapped", unit: "requests"}, // the first engine's

	{name: "memory_bandwidth", unit: "share"},
	{name: "tensor_active", unit: "share"},
	{name: "power", unit: "W"},
	{name: "energy", unit: "J", counter: true},
	{name: "utilization", unit: "share"},
	{name: "memory_utilization", unit: "share"},
	{name: "memory_used", unit: "bytes"},
	{name: "temperature", unit: "celsius"},
	{name: "clock", unit: "MHz"},

	{name: "cpu", unit: "share"},        // of all cores
	{name: "cpu_own", unit: "cores"},    // spate itself
	{name: "load", unit: "processes"},   // over the last minute
	{name: "memory_own", unit: "bytes"}, // resident, spate itself
	{name: "goroutines", unit: "goroutines"},
}

// quotients are series made of two counters: the growth of one over that of the other between two samples.
var quotients = []struct {
	name, unit, over, under string
	scale                   float64
}{
	{"prefix_hit_rate", "share", "prefix_hits", "prefix_queries", 1},
	{"queue_time", "ms", "queue_sum", "queue_count", 1000},
	{"prefill_time", "ms", "prefill_sum", "prefill_count", 1000},
	{"decode_time", "ms", "decode_sum", "decode_count", 1000},
	{"ttft", "ms", "ttft_sum", "ttft_count", 1000},
	{"itl", "ms", "itl_sum", "itl_count", 1000},
	{"e2el", "ms", "e2el_sum", "e2el_count", 1000},
}
