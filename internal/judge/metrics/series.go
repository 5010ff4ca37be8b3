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
	step, n := z.steps()
	s := Series{
		StepS: seconds(step),
		Sent:  make([]int, n), Finished: make([]int, n), Failed: make([]int, n),
		InFlight: make([]float64, n), Output: make([]int, n),
	}
	at := func(t time.Duration) int { return min(n-1, max(0, int((t-z.run.Start)/step))) }
	for r := range z.recs {
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
	z.tokenTimes(func(t time.Duration, k int) { s.Output[at(t)] += k })
	z.wire.series.means(s.InFlight)
	z.s.Series = s
}

// steps are the length and the number of the steps the run is cut into.
func (z *summarizer) steps() (step time.Duration, n int) {
	dur := z.run.End - z.run.Start
	step = stepFor(dur)
	return step, max(1, int((dur+step-1)/step))
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

// flightSeries integrates the requests in flight over each step. An attempt covers whole steps and a
// part of its first and last, so each touches two steps and a running sum does the rest. Sums are
// of whole nanoseconds: the order of records must not show in the last digit.
type flightSeries struct {
	run  Run
	step time.Duration
	held []time.Duration
	open []int // attempts that cover the step, as differences
}

func newFlightSeries(run Run, step time.Duration, n int) flightSeries {
	return flightSeries{run, step, make([]time.Duration, n), make([]int, n+1)}
}

// add counts an attempt that was on the wire from one moment to another, both within the run.
func (f *flightSeries) add(from, to time.Duration) {
	if from, to = from-f.run.Start, to-f.run.Start; to <= from {
		return
	}
	a, b := int(from/f.step), int(to/f.step)
	f.open[a]++
	f.held[a] -= from % f.step
	f.open[b]--
	if b < len(f.held) {
		f.held[b] += to % f.step
	}
}

// means fills in the mean of each step.
func (f *flightSeries) means(dst []float64) {
	now := 0
	for k := range dst {
		now += f.open[k]
		length := min(f.step, max(1, f.run.End-f.run.Start-time.Duration(k)*f.step))
		dst[k] = seconds(f.held[k]+time.Duration(now)*f.step) / seconds(length)
	}
}
