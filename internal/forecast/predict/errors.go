package predict

import (
	"math"
	"slices"

	"spate/internal/forecast/profile"
)

// Compared are the figures that predictions are judged by.
var Compared = []string{
	"output_throughput", "mean_ttft_ms", "median_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "median_tpot_ms", "p99_tpot_ms",
	"mean_itl_ms", "median_itl_ms", "p99_itl_ms",
}

// errorPct is the signed error in percent; ok is false where nothing was measured.
func errorPct(got, want float64) (pct float64, ok bool) {
	if !(want > 0) || math.IsNaN(got) {
		return 0, false
	}
	return 100 * (got/want - 1), true
}

// MeanErrors are the mean absolute errors in percent over some rows.
func MeanErrors(rows []*Row, got map[string]Metrics) profile.Errors {
	out := profile.Errors{}
	for _, name := range Compared {
		sum, n := 0.0, 0
		for _, r := range rows {
			m, there := got[r.ID]
			if pct, ok := errorPct(m[name], r.Metrics[name]); ok && there {
				sum += math.Abs(pct)
				n++
			}
		}
		if n > 0 {
			out[name] = math.Round(100*sum/float64(n)) / 100
		}
	}
	return out
}

// Shown are the rows that have figures.
func (f *File) Shown() []*Row {
	var out []*Row
	for i := range f.Rows {
		if f.Rows[i].Metrics != nil {
			out = append(out, &f.Rows[i])
		}
	}
	return out
}

// names lists the figures of a prediction in order.
func (m Metrics) names() []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
