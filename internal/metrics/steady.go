package metrics

import (
	"fmt"
	"math"
	"slices"
	"time"

	"spate/internal/call"
)

// steady finds the plateau of a capped, unpaced run: from the first time the successes in flight
// reach the threshold to the last time they fall below it.
func (z *summarizer) steady() {
	s := &z.s.Steady
	s.TTFT, s.TPOT = z.b.dist(nil, milli), z.b.dist(nil, milli)
	switch {
	case z.run.NoSteady:
		return
	case z.run.MaxConcurrency <= 0:
		s.Reason = "no concurrency cap was set, so there is no plateau to find"
		return
	case !math.IsInf(z.run.RequestRate, 1):
		s.Reason = "requests were paced by a rate, so the cap need not be reached"
		return
	}
	s.Threshold = max(1, int(math.Ceil(z.run.SteadyThreshold*float64(z.run.MaxConcurrency))))
	from, to, ok := z.plateau(s.Threshold)
	if !ok {
		s.Reason = fmt.Sprintf("requests in flight never reached %d", s.Threshold)
		return
	}
	s.Applies = true
	s.StartS, s.EndS = seconds(from-z.run.Start), seconds(to-z.run.Start)
	s.WindowS = seconds(to - from)
	floor := z.run.SteadyMinWindow
	if floor <= 0 {
		floor = max(10, z.run.duration()/10)
	}
	if s.WindowS < floor {
		s.Short = true
		s.Reason = fmt.Sprintf("the window is %.1f s, below the %.1f s that would settle the figures", s.WindowS, floor)
	}
	z.window(from, to)
}

// plateau sweeps over sends and ends; on a tie the end comes first.
func (z *summarizer) plateau(threshold int) (from, to time.Duration, ok bool) {
	type event struct {
		at   time.Duration
		step int
	}
	events := make([]event, 0, 2*len(z.ok))
	for _, r := range z.ok {
		events = append(events, event{r.Sent, 1}, event{endOf(r, z.run.EndRule), -1})
	}
	slices.SortFunc(events, func(a, b event) int {
		if a.at != b.at {
			return int(max(-1, min(1, a.at-b.at)))
		}
		return a.step - b.step
	})
	now := 0
	for _, e := range events {
		before := now
		now += e.step
		if !ok && now >= threshold {
			from, ok = e.at, true
		}
		if before >= threshold && now < threshold {
			to = e.at
		}
	}
	return from, to, ok
}

// window fills in the figures of the plateau, each event attributed by its own time.
func (z *summarizer) window(from, to time.Duration) {
	s := &z.s.Steady
	inside := func(t time.Duration) bool { return t >= from && t <= to }
	input, chunks, tokens := 0, 0, 0
	var started []*call.Record
	for _, r := range z.ok {
		if inside(endOf(r, z.run.EndRule)) {
			s.Completed++
		}
		if inside(r.Sent) {
			started = append(started, r)
			input += InputTokens(r)
		}
		for _, c := range r.Chunks {
			if inside(c.At) {
				chunks++
			}
		}
	}
	z.walkTokens(func(t time.Duration, k int) {
		if inside(t) {
			tokens += k
		}
	})
	s.Started = len(started)
	s.Request = per(float64(s.Completed), s.WindowS)
	s.Chunks = per(float64(chunks), s.WindowS)
	s.Output = per(float64(tokens), s.WindowS)
	s.Input = per(float64(input), s.WindowS)
	s.TTFT = z.ms(started, TTFT)
	s.TPOT = z.b.dist(z.numbers(started, z.tpot), milli)
}
