package harvest

import (
	"strings"

	"spate/internal/result"
)

// EvalScope: a summary whose keys are what it displays, and a list of rows, one per percentile.

func isEvalScope(n *node) bool {
	return n.has("Test Duration (s)", "Success Requests") || n.has("Time taken for tests (s)", "Succeed requests")
}

// evalScopeKeys names its figures: today's spelling and the one before it.
var evalScopeKeys = []struct {
	name    string
	keys    []string
	seconds bool
}{
	{"completed", []string{"Success Requests", "Succeed requests"}, false},
	{"failed", []string{"Failed Requests", "Failed requests"}, false},
	{"duration", []string{"Test Duration (s)", "Time taken for tests (s)"}, false},
	{"request_throughput", []string{"Req Throughput (req/s)", "Request throughput (req/s)"}, false},
	{"output_throughput", []string{"Output Throughput (tok/s)", "Output token throughput (tok/s)"}, false},
	{"total_token_throughput", []string{"Total Throughput (tok/s)", "Total token throughput (tok/s)"}, false},
	{"mean_e2el_ms", []string{"Avg Latency (s)", "Average latency (s)"}, true},
	{"mean_ttft_ms", []string{"Avg TTFT (ms)"}, false},
	{"mean_ttft_ms", []string{"Average time to first token (s)"}, true},
	{"mean_tpot_ms", []string{"Avg TPOT (ms)"}, false},
	{"mean_tpot_ms", []string{"Average time per output token (s)"}, true},
	{"mean_itl_ms", []string{"Avg ITL (ms)"}, false},
	{"mean_itl_ms", []string{"Average inter-token latency (s)"}, true},
}

func readEvalScope(n *node) []result.Entry {
	r := result.Entry{Format: result.FormatEvalScope}
	used := map[string]bool{}
	for _, k := range evalScopeKeys {
		for _, key := range k.keys {
			used[key] = true
			if k.seconds {
				milliseconds(&r.Metrics, k.name, n, key)
			} else {
				copyNumber(&r.Metrics, k.name, n, key)
			}
		}
	}
	for _, key := range []string{"Total Requests", "Total requests"} {
		used[key] = true
		fact(&r.Context, "num_prompts", n, key)
	}
	for _, key := range []string{"Concurrency", "Number of concurrency"} {
		used[key] = true
		fact(&r.Context, "max_concurrency", n, key)
	}
	used["Request Rate (req/s)"] = true
	fact(&r.Context, "request_rate", n, "Request Rate (req/s)")
	for i, key := range n.keys {
		if !used[key] {
			flatten(&r.Extra, key, n.kids[i])
		}
	}
	return []result.Entry{r}
}

func isEvalScopeRank(n *node) bool {
	return n.has("Percentiles") && (n.has("TTFT (ms)") || n.has("TTFT (s)"))
}

func readEvalScopeRank(n *node) []result.Entry {
	r := result.Entry{Format: result.FormatEvalScopeRank}
	rank := n.get("Percentiles")
	stat, ok := statName("p" + strings.TrimSuffix(rank.text, "%"))
	if rank.text == "min" || rank.text == "max" {
		stat, ok = rank.text, true
	}
	if !ok {
		return nil
	}
	for _, l := range []string{"ttft", "itl", "tpot"} {
		key := strings.ToUpper(l)
		copyNumber(&r.Metrics, stat+"_"+l+"_ms", n, key+" (ms)")
		milliseconds(&r.Metrics, stat+"_"+l+"_ms", n, key+" (s)")
	}
	milliseconds(&r.Metrics, stat+"_e2el_ms", n, "Latency (s)")
	for _, key := range []string{"Input tokens", "Output tokens", "Output (tok/s)", "Total (tok/s)", "Decode (tok/s)"} {
		flatten(&r.Extra, stat+" "+key, n.get(key))
	}
	r.Context.Propose(result.Fact{Name: "percentile", Value: rank.value(), From: "file: Percentiles", Line: rank.line})
	r.Context.Propose(result.Fact{Name: "percentile_rule", Value: "sorted[int(n*p/100)], no interpolation", From: "format", Line: 0})
	return []result.Entry{r}
}
