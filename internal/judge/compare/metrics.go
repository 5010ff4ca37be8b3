package compare

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"spate/internal/nearest"
)

// def is one metric that can be compared.
type def struct {
	name    string
	latency string  // ttft, tpot, itl or e2el; empty for the rest
	pct     float64 // percentile of the latency; 0 is its mean
	unit    string
	higher  bool // is better
	primary bool
}

const errorRate = "error_rate"

var latencies = []string{"ttft", "tpot", "itl", "e2el"}

// rates are the throughputs, in the order of taken.work.
var rates = []struct{ name, unit string }{
	{"request_throughput", "req/s"},
	{"output_throughput", "tok/s"},
	{"total_token_throughput", "tok/s"},
}

// DefaultMetrics are compared when none are named.
func DefaultMetrics() []string {
	var out []string
	for _, l := range latencies {
		for _, stat := range []string{"mean", "median", "p99"} {
			out = append(out, stat+"_"+l+"_ms")
		}
	}
	return append(out, rates[0].name, rates[1].name, errorRate)
}

var latencyName = regexp.MustCompile(`^(mean|median|p([0-9]{1,2}(?:\.[0-9]{1,4})?))_(ttft|tpot|itl|e2el)(?:_ms)?$`)

// readMetrics turns names into definitions. A bare latency stands for its mean, median and 99th percentile.
func readMetrics(names []string) ([]def, error) {
	asked := len(names) > 0
	if !asked {
		names = DefaultMetrics()
	}
	var out []def
	for _, name := range names {
		defs, err := readMetric(strings.ToLower(strings.TrimSpace(name)))
		if err != nil {
			return nil, err
		}
		for _, d := range defs {
			d.primary = asked || d.pct == 0 && d.name != errorRate
			if !slices.ContainsFunc(out, func(o def) bool { return o.name == d.name }) {
				out = append(out, d)
			}
		}
	}
	return out, nil
}

func readMetric(name string) ([]def, error) {
	name = strings.ReplaceAll(name, "-", "_")
	if slices.Contains(latencies, name) {
		return []def{latencyDef("mean", name, 0), latencyDef("median", name, 50), latencyDef("p99", name, 99)}, nil
	}
	for _, r := range rates {
		if r.name == name {
			return []def{{name: name, unit: r.unit, higher: true}}, nil
		}
	}
	if name == errorRate {
		return []def{{name: name, unit: "%"}}, nil
	}
	m := latencyName.FindStringSubmatch(name)
	if m == nil {
		known := append(DefaultMetrics(), "total_token_throughput", "p90_ttft_ms", "p95_ttft_ms")
		return nil, fmt.Errorf("unknown metric %q%s", name, nearest.Hint(name, append(known, latencies...)))
	}
	pct := 0.0
	switch m[1] {
	case "mean":
	case "median":
		pct = 50
	default:
		pct, _ = strconv.ParseFloat(m[2], 64) // digits only
		if pct == 0 {
			return nil, fmt.Errorf("metric %q: percentiles lie above 0 and below 100", name)
		}
	}
	return []def{latencyDef(m[1], m[3], pct)}, nil
}

func latencyDef(stat, latency string, pct float64) def {
	return def{name: stat + "_" + latency + "_ms", latency: latency, pct: pct, unit: "ms"}
}
