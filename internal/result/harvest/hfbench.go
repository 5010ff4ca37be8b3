package harvest

import (
	"spate/internal/result"
)

// Hugging Face's inference-benchmarker: a list of results, one per rate.

func isHFBench(n *node) bool {
	list := n.get("results")
	return list != nil && list.kind == '[' && len(list.kids) > 0 && list.kids[0].has("executor_type", "token_throughput_secs")
}

func readHFBench(n *node) []result.Entry {
	var out []result.Entry
	for _, one := range n.get("results").kids {
		r := result.Entry{Format: result.FormatHFBench, Source: result.Source{Line: one.line}}
		m := &r.Metrics
		copyNumber(m, "completed", one, "successful_requests")
		copyNumber(m, "failed", one, "failed_requests")
		converted(m, "duration", 0.001, "milliseconds / 1000", one, "duration_ms")
		copyNumber(m, "total_input_tokens", one, "total_tokens_sent")
		copyNumber(m, "total_output_tokens", one, "total_tokens")
		copyNumber(m, "request_throughput", one, "request_rate")
		copyNumber(m, "output_throughput", one, "token_throughput_secs")
		distribution(m, "ttft", 1, "", one, "time_to_first_token_ms")
		distribution(m, "itl", 1, "", one, "inter_token_latency_ms")
		distribution(m, "e2el", 1, "", one, "e2e_latency_ms")
		fact(&r.Context, "label", one, "id")
		fact(&r.Context, "executor", one, "executor_type")
		fact(&r.Context, "num_prompts", one, "total_requests")
		fact(&r.Context, "request_rate", one, "config", "rate")
		fact(&r.Context, "max_concurrency", one, "config", "max_vus")
		fact(&r.Context, "model", n, "config", "model_name")
		fact(&r.Context, "settings", n, "config")
		out = append(out, r)
	}
	return out
}
