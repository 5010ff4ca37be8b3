package metrics

import (
	"time"

	"spate/internal/call"
)

// maxSteps bounds the length of the time series whatever the length of the run.
const maxSteps = 600

// stepSizes are the steps a series may have, in seconds.
var stepSizes = []time.Duration{1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600}

// series cuts the run into steps. Events outside of it count in the first or last one.
func (z *summarizer) series() {
	dur := z.run.End - z.run.Start
	step := stepFor(dur)
	n := max(1, int((dur+step-1)/step))
	s := Series{
		StepS: seconds(step),
		Sent:  make([]int, n), Finished: make([]int, n), Failed: make([]int, n),
		InFlight: make([]float64, n), Output: make([]int, n),
	}
	at := func(t time.Duration) int { return min(n-1, max(0, int((t-z.run.Start)/step))) }
	for _, r := range z.recs {
		if r.Sent >= 0 {
			s.Sent[at(r.Sent)]++
		}
		switch r.Outcome {
		case call.OK:
			s.Finished[at(r.End)]++
		case call.Failed:
			s.Failed[at(r.End)]++
		}
	}
	z.walkTokens(func(t time.Duration, k int) { s.Output[at(t)] += k })
	z.meanInFlight(s.InFlight, step)
	z.s.Series = s
}

// stepFor is the smallest step that keeps the series within maxSteps.
func stepFor(dur time.Duration) time.Duration {
	for _, s := range stepSizes {
		if s *= time.Second; dur <= maxSteps*s {
			return s
		}
	}
	return (dur + maxSteps - 1) / maxSteps
}

// meanInFlight integrates the requests in flight over each step. An attempt covers whole steps and a
// part of its first and last, so each touches two steps and a running sum does the rest. Sums are
// of whole nanoseconds: the order of records must not show in the last digit.
func (z *summarizer) meanInFlight(dst []float64, step time.Duration) {
	held := make([]time.Duration, len(dst))
	open := make([]int, len(dst)+1) // attempts that cover the step, as differences
	for _, w := range z.wire {
		from, to := w.from-z.run.Start, w.to-z.run.Start
		if to <= from {
			continue
		}
		a, b := int(from/step), int(to/step)
		open[a]++
		held[a] -= from % step
		open[b]--
		if b < len(dst) {
			held[b] += to % step
		}
	}
	now := 0
	for k := range dst {
		now += open[k]
		length := min(step, max(1, z.run.End-z.run.Start-time.Duration(k)*step))
		dst[k] = seconds(held[k]+time.Duration(now)*step) / seconds(length)
	}
}
