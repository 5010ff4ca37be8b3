package harvest

import (
	"spate/internal/result"
)

// GuideLLM: a list of benchmarks, each metric a set of distributions by how requests ended.

func isGuideLLM(n *node) bool {
	list := n.get("benchmarks")
	return list != nil && list.kind == '[' && len(list.kids) > 0 && list.kids[0].get("metrics", "requests_per_second") != nil
}

func readGuideLLM(n *node) []result.Entry {
	var out []result.Entry
	for _, b := range n.get("benchmarks").kids {
		if b.get("metrics") != nil {
			out = append(out, guideBenchmark(n, b))
		}
	}
	return out
}

func guideBenchmark(file, b *node) result.Entry {
	r := result.Entry{Format: result.FormatGuideLLM, Source: result.Source{Line: b.line}}
	m := &r.Metrics
	metrics := b.get("metrics")
	for _, totals := range [][]string{{"metrics", "request_totals"}, {"request_totals"}, {"run_stats", "requests_made"}} {
		at := b.get(totals...)
		copyNumber(m, "completed", at, "successful")
		copyNumber(m, "failed", at, "errored")
		copyNumber(&r.Extra, "incomplete_requests", at, "incomplete")
	}
	copyNumber(m, "duration", b, "duration")
	copyNumber(m, "total_input_tokens", metrics, "prompt_token_count", "successful", "total_sum")
	copyNumber(m, "total_output_tokens", metrics, "output_token_count", "successful", "total_sum")
	copyNumber(m, "request_throughput", metrics, "requests_per_second", "successful", "mean")
	copyNumber(m, "output_throughput", metrics, "output_tokens_per_second", "successful", "mean")
	copyNumber(m, "total_token_throughput", metrics, "tokens_per_second", "successful", "mean")
	guideLatency(m, "ttft", 1, "", metrics, "time_to_first_token_ms")
	guideLatency(m, "itl", 1, "", metrics, "inter_token_latency_ms")
	guideLatency(m, "e2el", 1000, "seconds × 1000", metrics, "request_latency")
	// Its time per output token has the first token in it, which vLLM's has not.
	flatten(&r.Extra, "time_per_output_token_ms", metrics.get("time_per_output_token_ms", "successful"))
	copyNumber(&r.Extra, "mean_concurrency", metrics, "request_concurrency", "successful", "mean")
	for _, strategy := range [][]string{{"args", "strategy"}, {"config", "strategy"}, {"scheduler", "strategy"}} {
		fact(&r.Context, "strategy", b, append(strategy, "type_")...)
		fact(&r.Context, "request_rate", b, append(strategy, "rate")...)
		fact(&r.Context, "max_concurrency", b, append(strategy, "streams")...)
	}
	for _, path := range [][]string{{"worker", "backend_model"}, {"config", "backend", "model"}, {"backend", "model"}} {
		fact(&r.Context, "model", b, path...)
	}
	fact(&r.Context, "model", file, "args", "model")
	fact(&r.Context, "settings", file, "args")
	return r
}

func guideLatency(m *result.Figures, latency string, factor float64, how string, metrics *node, name string) {
	distribution(m, latency, factor, how, metrics, name, "successful")
	distribution(m, latency, factor, how, metrics, name, "successful", "percentiles")
}
