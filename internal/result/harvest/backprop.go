package harvest

// The closed-loop client vllm_benchmark.py and its forks: one object, times in seconds.

func isBackprop(n *node) bool {
	return n.has("successful_requests", "total_time") && n.get("latency").has("average")
}

// Its forks spell these differently.
var (
	backpropTTFT = []string{"time_to_first_token(ttft)", "time_to_first_token"}
	backpropTPOT = []string{"time-per-output-token(tpot)", "time_per_output_token"}
)

func readBackprop(n *node) []Result {
	r := Result{Format: FormatBackprop}
	m := &r.Metrics
	m.copyNumber("completed", n, "successful_requests")
	m.copyNumber("duration", n, "total_time")
	m.copyNumber("request_throughput", n, "requests_per_second")
	m.copyNumber("total_output_tokens", n, "total_output_tokens")
	m.distribution("e2el", 1000, "seconds × 1000", n, "latency")
	for _, key := range backpropTTFT {
		m.distribution("ttft", 1000, "seconds × 1000", n, key)
	}
	// Its speeds are per request and its percentiles of them are counted from the fast end, and the
	// percentiles of its time per token are all the mean: they stay under their own names.
	r.Extra.flatten("tokens_per_second", n.get("tokens_per_second"))
	for _, key := range backpropTPOT {
		r.Extra.flatten(key, n.get(key))
		m.converted("mean_tpot_ms", 1000, "seconds × 1000, with the first token in it", n, key, "average")
	}
	r.Context.fact("num_prompts", n, "total_requests")
	r.Context.fact("max_concurrency", n, "concurrency")
	r.Context.fact("request_timeout_s", n, "request_timeout")
	r.Context.fact("output_len", n, "max_output_tokens")
	r.Context.fact("long_context", n, "use_long_context")
	return []Result{r}
}
