package harvest

import (
	"strings"

	"spate/internal/figure"
	"spate/internal/result"
)

// GenAI-Perf and AIPerf: metrics as objects {unit, avg, p50 ...}.

func isNVIDIA(n *node) bool {
	for _, key := range []string{"request_throughput", "request_latency"} {
		if n.get(key, "avg") == nil {
			return false
		}
	}
	return true
}

// nvidiaMetrics are the metrics with a counterpart. Their inter-token latency is one mean per request,
// (latency - ttft)/(tokens - 1): what vLLM calls time per output token.
var nvidiaMetrics = figure.By(figure.AIPerf)

var nvidiaNotes = map[string]string{"inter_token_latency": "one mean per request, which is vLLM's TPOT"}

func readNVIDIA(n *node) []result.Entry {
	r := result.Entry{Format: result.FormatGenAIPerfJSON}
	if n.has("was_cancelled") || n.has("error_summary") || n.has("aiperf_version") || n.has("benchmark_duration") {
		r.Format = result.FormatAIPerfJSON
	}
	for i, key := range n.keys {
		dist := n.kids[i]
		if dist.get("avg") == nil {
			continue
		}
		unit := dist.get("unit").str()
		for j, stat := range dist.keys {
			if f, ok := number(stat, dist.kids[j], ""); ok {
				nvidiaFigure(&r, key, stat, unit, f)
			}
		}
	}
	fact(&r.Context, "settings", n, "input_config")
	for _, path := range [][]string{
		{"input_config", "endpoint", "model_names"}, {"input_config", "model_names"}, {"input_config", "model"},
	} {
		fact(&r.Context, "model", n, path...)
	}
	fact(&r.Context, "max_concurrency", n, "input_config", "loadgen", "concurrency")
	fact(&r.Context, "max_concurrency", n, "input_config", "perf_analyzer", "stimulus", "concurrency")
	fact(&r.Context, "start_time", n, "start_time")
	fact(&r.Context, "end_time", n, "end_time")
	fact(&r.Context, "was_cancelled", n, "was_cancelled")
	return []result.Entry{r}
}

// nvidiaFigure files one statistic of one metric, from JSON or CSV.
func nvidiaFigure(r *result.Entry, metric, stat, unit string, f result.Figure) {
	to, known := nvidiaMetrics[metric]
	f.From = metric + "." + stat
	if note := nvidiaNotes[metric]; note != "" {
		f.From += " (" + note + ")"
	}
	name, isStat := statName(stat)
	switch {
	case known && !to.HasStats() && stat == "avg":
		f.Name = to.Name
		r.Metrics.Set(f)
	case known && to.HasStats() && isStat:
		f.Name = name + "_" + to.Name + "_ms"
		factor, how, ok := toMilliseconds(unit)
		if !ok {
			f.Name = metric + "." + stat + " (" + unit + ")"
			r.Extra.Set(f)
			return
		}
		r.Metrics.Set(f.Scaled(factor, how))
	case isStat && (!known || to.HasStats()):
		f.Name = metric + "." + stat
		f.From = ""
		r.Extra.Set(f)
	}
}

// toMilliseconds is the factor of a unit of time.
func toMilliseconds(unit string) (factor float64, how string, ok bool) {
	switch strings.ToLower(unit) {
	case "ms", "milliseconds":
		return 1, "", true
	case "s", "sec", "seconds":
		return 1000, "seconds × 1000", true
	case "us", "µs", "microseconds":
		return 0.001, "microseconds / 1000", true
	case "ns", "nanoseconds":
		return 1e-6, "nanoseconds / 1000000", true
	}
	return 1, "", false
}
