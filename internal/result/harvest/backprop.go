package harvest

import (
	"spate/internal/result"
)

// The closed-loop client vllm_benchmark.py and its forks: one object, times in seconds.

func isBackprop(n *node) bool {
	return n.has("successful_requests", "total_time") && n.get("latency").has("average")
}

// Its forks spell these differently.
var (
	backpropTTFT = []string{"time_to_first_token(ttft)", "time_to_first_token"}
	backpropTPOT = []string{"time-per-output-token(tpot)", "time_per_output_token"}
)

func readBackprop(n *node) []result.Entry {
	r := result.Entry{Format: result.FormatBackprop}
	m := &r.Metrics
	copyNumber(m, "completed", n, "successful_requests")
	copyNumber(m, "duration", n, "total_time")
	copyNumber(m, "request_throughput", n, "requests_per_second")
	copyNumber(m, "total_output_tokens", n, "total_output_tokens")
	distribution(m, "e2el", 1000, "seconds × 1000", n, "latency")
	for _, key := range backpropTTFT {
		distribution(m, "ttft", 1000, "seconds × 1000", n, key)
	}
	// Its speeds are per request and its percentiles of them are counted from the fast end, and the
	// percentiles of its time per token are all the mean: they stay under their own names.
	flatten(&r.Extra, "tokens_per_second", n.get("tokens_per_second"))
	for _, key := range backpropTPOT {
		flatten(&r.Extra, key, n.get(key))
		converted(m, "mean_tpot_ms", 1000, "seconds × 1000, with the first token in it", n, key, "average")
	}
	fact(&r.Context, "num_prompts", n, "total_requests")
	fact(&r.Context, "max_concurrency", n, "concurrency")
	fact(&r.Context, "request_timeout_s", n, "request_timeout")
	fact(&r.Context, "output_len", n, "max_output_tokens")
	fact(&r.Context, "long_context", n, "use_long_context")
	return []result.Entry{r}
}

// checkFlat notes percentiles that are no percentiles: the closed-loop client takes those of one average.
func checkFlat(r *result.Entry) {
	if r.Format != result.FormatBackprop {
		return
	}
	for _, key := range backpropTPOT {
		mean, ok1 := r.Extra.Get(key + ".average")
		p99, ok2 := r.Extra.Get(key + ".p99")
		if ok1 && ok2 && mean.Text == p99.Text {
			r.Problems = append(r.Problems, result.Problem{
				File: r.Source.File, Line: r.Source.Line, Kind: result.Note,
				Text: "all percentiles of " + key + " are its average: this client takes percentiles of that one number",
			})
		}
	}
}
