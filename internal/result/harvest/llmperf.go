package harvest

import (
	"strings"

	"spate/internal/result"
)

// llmperf: one flat object, its statistics flattened into the keys, times in seconds.

func isLLMPerf(n *node) bool {
	return n.has("results_ttft_s_mean") || n.has("results_end_to_end_latency_s_mean", "results_num_completed_requests")
}

// llmperfLatencies maps its metrics. Its inter-token latency spreads the first token's wait over all
// tokens, so it is none of vLLM's.
var llmperfLatencies = map[string]string{"ttft_s": "ttft", "end_to_end_latency_s": "e2el"}

func readLLMPerf(n *node) []result.Entry {
	r := result.Entry{Format: result.FormatLLMPerf}
	m := &r.Metrics
	copyNumber(m, "completed", n, "results_num_completed_requests")
	converted(m, "request_throughput", 1.0/60, "per minute / 60", n, "results_num_completed_requests_per_min")
	copyNumber(m, "output_throughput", n, "results_mean_output_throughput_token_per_s")
	for i, key := range n.keys {
		metric, ok := strings.CutPrefix(key, "results_")
		if !ok {
			continue
		}
		if !llmperfLatency(m, metric, key, n.kids[i]) {
			if _, used := m.Get(llmperfSingles[metric]); !used {
				flatten(&r.Extra, metric, n.kids[i])
			}
		}
	}
	fact(&r.Context, "model", n, "model")
	fact(&r.Context, "input_len", n, "mean_input_tokens")
	fact(&r.Context, "output_len", n, "mean_output_tokens")
	fact(&r.Context, "max_concurrency", n, "num_concurrent_requests")
	return []result.Entry{r}
}

// llmperfSingles are the figures that are not statistics of requests.
var llmperfSingles = map[string]string{
	"num_completed_requests": "completed", "num_completed_requests_per_min": "request_throughput",
	"mean_output_throughput_token_per_s": "output_throughput",
}

// llmperfLatency takes a statistic of a latency; it reports whether it is one.
func llmperfLatency(m *result.Figures, metric, key string, v *node) bool {
	for name, latency := range llmperfLatencies {
		stat, ok := strings.CutPrefix(metric, name+"_")
		if !ok {
			continue
		}
		if stat, ok = statName(strings.TrimPrefix(stat, "quantiles_")); !ok {
			return false
		}
		if f, ok := number(stat+"_"+latency+"_ms", v, key); ok {
			m.Set(f.Scaled(1000, "seconds × 1000"))
			return true
		}
	}
	return false
}
