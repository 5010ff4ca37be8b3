package result

import (
	"math"
	"strings"

	"spate/internal/judge/metrics"
	"spate/internal/settings/config"
)

// Figure is the value an objective over a run bounds; NaN where the run has none.
func Figure(o config.Objective, s *metrics.Summary) float64 {
	switch o.Metric {
	case "request_throughput":
		return s.RequestThroughput
	case "output_throughput":
		return s.OutputThroughput
	case "total_token_throughput":
		return s.TotalTokenThroughput
	case "request_goodput":
		if s.RequestGoodput != nil {
			return *s.RequestGoodput
		}
	case "goodput_ratio":
		if s.Goodput != nil {
			return s.Goodput.Share
		}
	case "error_rate": // a request that was cut off or never left was not answered either
		if bad := s.ErrorAdjusted.Failures; s.Completed+bad > 0 {
			return float64(bad) / float64(s.Completed+bad)
		}
	}
	d, ok := map[string]*metrics.Dist{"ttft": &s.TTFT, "tpot": &s.TPOT, "itl": &s.ITL, "e2el": &s.E2EL}[o.Metric]
	if !ok || d.N == 0 {
		return math.NaN()
	}
	return statistic(o, d)
}

// Lack says why a run has no figure for an objective; empty when it has one.
func Lack(o config.Objective, s *metrics.Summary) string {
	switch {
	case !math.IsNaN(Figure(o, s)):
		return ""
	case o.Metric == "error_rate":
		return "no request came to an end of its own"
	case strings.Contains(o.Metric, "goodput") && s.Goodput == nil:
		return "--goodput gives no bounds to count by"
	case s.Completed == 0:
		return "no request succeeded"
	case o.Metric == "tpot" || o.Metric == "itl":
		return "no answer had a second token"
	}
	return "no answer had what it is made of"
}

func statistic(o config.Objective, d *metrics.Dist) float64 {
	if o.IsPct {
		if q, ok := d.At(o.Pct); ok {
			return q.Value
		}
		return math.NaN()
	}
	switch o.Stat {
	case "mean":
		return d.Mean
	case "std":
		return d.Std
	case "min":
		return d.Min
	case "max":
		return d.Max
	}
	return math.NaN()
}
