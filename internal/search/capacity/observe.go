package capacity

import (
	"math"
	"slices"
	"strings"
	"time"

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
func Read(objectives []config.Objective, s *metrics.Summary) []Reading {
	out := make([]Reading, len(objectives))
	for i, o := range objectives {
		switch {
		case o.Metric == "error_rate":
			bad := s.ErrorAdjusted.Failures
			out[i] = ratio(bad, bad+s.Completed)
		case o.Metric == "goodput_ratio" && s.Goodput != nil:
			out[i] = ratio(s.Goodput.Good, s.Completed+s.ErrorAdjusted.Failures)
		case o.Unit == "ms":
			out[i] = latency(o, s)
		default:
			out[i] = Reading{Value: nan, Low: nan, High: nan}
		}
	}
	return out
}

var nan = config.Float(math.NaN())

func ratio(count, of int) Reading {
	r := Reading{Count: count, Of: of, Value: nan, Low: nan, High: nan}
	if of > 0 {
		low, high := wilson(count, of)
		r.Value, r.Low, r.High = config.Float(float64(count)/float64(of)), config.Float(low), config.Float(high)
	}
	return r
}

// latency is a figure with its interval: by bootstrap where the summary has one, else by order
// statistics, else none.
func latency(o config.Objective, s *metrics.Summary) Reading {
	d := map[string]*metrics.Dist{"ttft": &s.TTFT, "tpot": &s.TPOT, "itl": &s.ITL, "e2el": &s.E2EL}[o.Metric]
	if d == nil || d.N == 0 {
		return Reading{Value: nan, Low: nan, High: nan}
	}
	v, in := statistic(o, d)
	r := Reading{Value: config.Float(v), Low: config.Float(v), High: config.Float(v)}
	if in != nil {
		r.Low, r.High = config.Float(in[0]), config.Float(in[1])
	}
	return r
}

func statistic(o config.Objective, d *metrics.Dist) (float64, *metrics.Range) {
	ci := d.CI95
	if ci == nil {
		ci = &metrics.CI{}
	}
	known := func(r metrics.Range) *metrics.Range {
		if d.CI95 == nil {
			return nil
		}
		return &r
	}
	switch {
	case o.Stat == "median" || o.IsPct && o.Pct == 50:
		return d.Median, known(ci.Median)
	case o.IsPct:
		q, ok := d.At(o.Pct)
		if !ok || q.Infinite {
			return math.NaN(), nil
		}
		switch {
		case o.Pct == 90:
			return q.Value, known(ci.P90)
		case o.Pct == 99:
			return q.Value, known(ci.P99)
		case q.Low != nil && q.High != nil:
			return q.Value, &metrics.Range{*q.Low, *q.High}
		}
		return q.Value, nil
	case o.Stat == "std":
		return d.Std, nil
	case o.Stat == "min":
		return d.Min, nil
	case o.Stat == "max":
		return d.Max, nil
	}
	return d.Mean, known(ci.Mean)
}

// floor is the sample a percentile needs before it is bounded on both sides.
func floor(o config.Objective) int {
	if !o.IsPct {
		return 0
	}
	return stats.Floor(o.Pct, 0.95)
}
