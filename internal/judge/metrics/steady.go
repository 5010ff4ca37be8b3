package metrics

import (
	"fmt"
	"math"
	"time"

	"spate/internal/call"
	"spate/internal/judge/stats"
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
	starts, ends := make([]uint64, 0, z.oks), make([]uint64, 0, z.oks)
	for r := range z.ok { // a stamp that was never taken is -1
		starts, ends = append(starts, uint64(r.Sent+1)), append(ends, uint64(endOf(r, z.run.EndRule)+1))
	}
	scratch := stats.SortUints(starts, nil, 0)
	stats.SortUints(ends, scratch, 0)
	now, e := 0, 0
	end := func() {
		if now--; now == threshold-1 {
			to = time.Duration(ends[e]) - 1
		}
		e++
	}
	for _, at := range starts {
		for e < len(ends) && ends[e] <= at {
			end()
		}
		if now++; !ok && now >= threshold {
			from, ok = time.Duration(at)-1, true
		}
	}
	for e < len(ends) {
		end()
	}
	return from, to, ok
}

// window fills in the figures of the plateau, each event attributed by its own time.
func (z *summarizer) window(from, to time.Duration) {
	s := &z.s.Steady
	inside := func(t time.Duration) bool { return t >= from && t <= to }
	input, chunks, tokens := 0, 0, 0
	for r := range z.ok {
		if inside(endOf(r, z.run.EndRule)) {
			s.Completed++
		}
		if inside(r.Sent) {
			s.Started++
			input += InputTokens(r)
		}
		for _, c := range r.Chunks {
			if inside(c.At) {
				chunks++
			}
		}
	}
	z.tokenTimes(func(t time.Duration, k int) {
		if inside(t) {
			tokens += k
		}
	})
	s.Request = per(float64(s.Completed), s.WindowS)
	s.Chunks = per(float64(chunks), s.WindowS)
	s.Output = per(float64(tokens), s.WindowS)
	s.Input = per(float64(input), s.WindowS)
	z.columns.times(func(r *call.Record) (time.Duration, bool) {
		d, ok := TTFT(r)
		return d, ok && inside(r.Sent)
	}, func(xs []float64) { s.TTFT = z.b.dist(xs, milli) })
	z.columns.numbers(func(r *call.Record) (float64, bool) {
		v, ok := z.tpot(r)
		return v, ok && inside(r.Sent)
	}, func(xs []float64) { s.TPOT = z.b.dist(xs, milli) })
	z.columns.gather(z)
}
