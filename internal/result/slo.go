package result

import (
	"math"
	"strings"

	"spate/internal/judge/metrics"
	"spate/internal/settings/config"
)

// Figure is the value an objective over a run bounds; NaN where the run has none.
func Figure(o config.Objective, s *metrics.Summary) float64 {
	if v := o.Ref().Of(s); v.OK {
		return v.V
	}
	return math.NaN()
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
