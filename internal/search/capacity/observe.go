package capacity

import (
	"math"
	"slices"
	"strings"
	"time"

	"spate/internal/figure"
	"spate/internal/judge/metrics"
	"spate/internal/judge/stats"
	"spate/internal/judge/verdict"
	"spate/internal/settings/config"
)

// A probe has at least this many requests, and sends at most that many, unless the user says it.
const (
	leastRequests = 100
	mostRequests  = 20_000
	perSlot       = 8 // requests for each that is in flight
)

// Requests is how many a probe of a load makes that is to take so long.
func Requests(load float64, takes time.Duration, by By) int {
	n := load * takes.Seconds()
	if by == Concurrency {
		n = load * perSlot
	}
	return int(min(mostRequests, max(leastRequests, math.Ceil(n))))
}

// Unusable says which check a probe did not pass and why its figures do not describe the server, empty when they do. Requests that failed or
// were cut off make a run INVALID, too, but that is what a server does that is given too much: the objectives
// count it.
func Unusable(v *verdict.Verdict) (check, why string) {
	theServers := []string{"failures", "dropped_work", "cut_off"}
	for _, f := range v.Findings {
		if f.Level == verdict.Invalid && !slices.Contains(theServers, f.Name) {
			return f.Name, strings.TrimSuffix(f.Sentence, ".")
		}
	}
	return "", ""
}

// Read is what a run's summary says about the objectives.
func Read(objectives []figure.Objective, s *metrics.Summary) []Reading {
	out := make([]Reading, len(objectives))
	for i, o := range objectives {
		out[i] = reading(o.Ref().Of(s))
	}
	return out
}

// reading is a figure with its interval; without one it stands alone.
func reading(v figure.Value) Reading {
	r := Reading{Count: v.Count, Of: v.Of, Value: nan, Low: nan, High: nan}
	if !v.OK {
		return r
	}
	low, high := v.V, v.V
	switch {
	case v.Of > 0:
		in := stats.Wilson(v.Count, v.Of, 0.95)
		low, high = in.Low, in.High
	case v.CI != nil:
		low, high = v.CI[0], v.CI[1]
	}
	r.Value, r.Low, r.High = config.Float(v.V), config.Float(low), config.Float(high)
	return r
}

var nan = config.Float(math.NaN())

// floor is the sample a percentile needs before it is bounded on both sides.
func floor(o figure.Objective) int {
	if !o.IsPct {
		return 0
	}
	return stats.Floor(o.Pct, 0.95)
}
