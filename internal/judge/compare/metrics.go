package compare

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"spate/internal/figure"
	"spate/internal/nearest"
)

// def is one metric that can be compared.
type def struct {
	ref     figure.Ref
	name    string
	latency string  // ttft, tpot, itl or e2el; empty for the rest
	pct     float64 // percentile of the latency; 0 is its mean
	unit    string
	higher  bool // is better
	primary bool
}

const errorRate = "error_rate"

// rates are the throughputs, in the order of measured.work.
var rates = []string{"request_throughput", "output_throughput", "total_token_throughput"}

// usualStats are the statistics a latency is compared by.
var usualStats = []string{"mean", "median", "p99"}

// DefaultMetrics are compared when none are named.
func DefaultMetrics() []string {
	var out []string
	for _, r := range figure.Stats(usualStats...) {
		out = append(out, r.Key())
	}
	return append(out, rates[0], rates[1], errorRate)
}

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
	if slices.Contains(figure.Latencies(), name) {
		var out []def
		for _, stat := range usualStats {
			out = append(out, newDef(figure.Must(stat+"_"+name)))
		}
		return out, nil
	}
	r, err := figure.Find(name)
	known := err == nil && (slices.Contains(append(rates, errorRate), r.Key()) || slices.Contains(figure.Latencies(), r.Name))
	p, isP := r.Percentile()
	switch unknown := (*figure.Unknown)(nil); {
	case err != nil && !errors.As(err, &unknown):
		return nil, fmt.Errorf("metric %q: %w", name, err)
	case !known:
		names := append(DefaultMetrics(), "total_token_throughput", "p90_ttft_ms", "p95_ttft_ms")
		return nil, fmt.Errorf("unknown metric %q%s", name, nearest.Hint(name, append(names, figure.Latencies()...)))
	case r.Stat != "" && r.Stat != "mean" && !isP:
		return nil, fmt.Errorf("metric %q: compare takes means, medians and percentiles", name)
	case isP && (p <= 0 || p >= 100):
		return nil, fmt.Errorf("metric %q: percentiles lie above 0 and below 100", name)
	}
	return []def{newDef(r)}, nil
}

func newDef(r figure.Ref) def {
	d := def{ref: r, name: r.Key(), pct: r.P, unit: string(r.Unit), higher: r.Better == figure.Higher}
	switch {
	case r.Stat != "":
		d.latency = r.Name
	case r.Unit == figure.Ratio:
		d.unit = "%"
	}
	return d
}
