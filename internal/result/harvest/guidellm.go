package harvest

// GuideLLM: a list of benchmarks, each metric a set of distributions by how requests ended.

func isGuideLLM(n *node) bool {
	list := n.get("benchmarks")
	return list != nil && list.kind == '[' && len(list.kids) > 0 && list.kids[0].get("metrics", "requests_per_second") != nil
}

func readGuideLLM(n *node) []Result {
	var out []Result
	for _, b := range n.get("benchmarks").kids {
		if b.get("metrics") != nil {
			out = append(out, guideBenchmark(n, b))
		}
	}
	return out
}

func guideBenchmark(file, b *node) Result {
	r := Result{Format: FormatGuideLLM, Source: Source{Line: b.line}}
	m := &r.Metrics
	metrics := b.get("metrics")
	for _, totals := range [][]string{{"metrics", "request_totals"}, {"request_totals"}, {"run_stats", "requests_made"}} {
		at := b.get(totals...)
		m.copyNumber("completed", at, "successful")
		m.copyNumber("failed", at, "errored")
		r.Extra.copyNumber("incomplete_requests", at, "incomplete")
	}
	m.copyNumber("duration", b, "duration")
	m.copyNumber("total_input_tokens", metrics, "prompt_token_count", "successful", "total_sum")
	m.copyNumber("total_output_tokens", metrics, "output_token_count", "successful", "total_sum")
	m.copyNumber("request_throughput", metrics, "requests_per_second", "successful", "mean")
	m.copyNumber("output_throughput", metrics, "output_tokens_per_second", "successful", "mean")
	m.copyNumber("total_token_throughput", metrics, "tokens_per_second", "successful", "mean")
	guideLatency(m, "ttft", 1, "", metrics, "time_to_first_token_ms")
	guideLatency(m, "itl", 1, "", metrics, "inter_token_latency_ms")
	guideLatency(m, "e2el", 1000, "seconds × 1000", metrics, "request_latency")
	// Its time per output token has the first token in it, which vLLM's has not.
	r.Extra.flatten("time_per_output_token_ms", metrics.get("time_per_output_token_ms", "successful"))
	r.Extra.copyNumber("mean_concurrency", metrics, "request_concurrency", "successful", "mean")
	for _, strategy := range [][]string{{"args", "strategy"}, {"config", "strategy"}, {"scheduler", "strategy"}} {
		r.Context.fact("strategy", b, append(strategy, "type_")...)
		r.Context.fact("request_rate", b, append(strategy, "rate")...)
		r.Context.fact("max_concurrency", b, append(strategy, "streams")...)
	}
	for _, path := range [][]string{{"worker", "backend_model"}, {"config", "backend", "model"}, {"backend", "model"}} {
		r.Context.fact("model", b, path...)
	}
	r.Context.fact("model", file, "args", "model")
	r.Context.fact("settings", file, "args")
	return r
}

func guideLatency(m *Figures, latency string, factor float64, how string, metrics *node, name string) {
	m.distribution(latency, factor, how, metrics, name, "successful")
	m.distribution(latency, factor, how, metrics, name, "successful", "percentiles")
}
