package capacity

import (
	"math"

	"spate/internal/config"
	"spate/internal/metrics"
	"spate/internal/stats"
)

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
