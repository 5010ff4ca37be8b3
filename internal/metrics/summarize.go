package metrics

import (
	"cmp"
	"math"
	"slices"
	"time"

	"spate/internal/call"
	"spate/internal/stats"
)

// Summarize computes every metric from the records of a run, in whatever order they come.
func Summarize(recs []call.Record, run Run) Summary {
	z := newSummarizer(recs, run)
	z.tally(recs)
	z.flights(recs)
	z.vllm()
	z.clocks()
	z.streams()
	z.speed()
	z.rates()
	z.lengths()
	z.concurrency()
	z.goodput()
	z.errorAdjusted()
	z.failures(recs)
	z.connections()
	z.server()
	z.cache()
	z.steady()
	z.beside(recs)
	z.series()
	z.pooling()
	return z.s
}

// summarizer carries what the sections share.
type summarizer struct {
	run    Run
	recs   []*call.Record // measured requests' last attempts, in dispatch order
	ok     []*call.Record // the successes among them
	misses int            // failed, dropped or cut off: not delivered, and not because the user stopped
	b      builder
	wire   []stretch
	events []uint64 // output tokens of the successes in order of time, packed by tokenEvents
	large  map[uint64]int
	s      Summary
}

func newSummarizer(recs []call.Record, run Run) *summarizer {
	z := &summarizer{recs: counted(recs)}
	z.run = run.normal(z.recs)
	z.b.percentiles = z.run.percentiles()
	z.ok = make([]*call.Record, 0, len(z.recs))
	for _, r := range z.recs {
		switch {
		case r.Outcome == call.OK:
			z.ok = append(z.ok, r)
		case r.Fault != call.FaultStopped:
			z.misses++
		}
	}
	return z
}

// counted picks the records that count and puts them into dispatch order: sums of floats, arrays
// for other tools and the bootstrap all depend on it, and records arrive in order of completion.
func counted(recs []call.Record) []*call.Record {
	out := make([]*call.Record, 0, len(recs))
	for i := range recs {
		if r := &recs[i]; r.Phase == call.Measure && !r.Retried {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b *call.Record) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Attempt, b.Attempt))
	})
	return out
}

func (z *summarizer) tally(recs []call.Record) {
	z.s.Tally.Due = z.run.Due
	for i := range recs {
		if recs[i].Phase == call.Measure {
			z.s.Tally.Add(&recs[i])
		}
	}
	z.s.DurationS = z.run.duration()
}

// vllm fills in the figures vLLM prints, by its formulas. ITL is left to streams.
func (z *summarizer) vllm() {
	s, dur := &z.s, z.run.duration()
	s.Completed, s.Failed = s.Tally.OK, s.Tally.Failed
	var speech time.Duration
	for _, r := range z.ok {
		speech += r.Audio
		s.TotalInput += InputTokens(r)
		s.TotalOutput += OutputTokens(r, z.run.Tokenizer)
	}
	s.RTFx = per(seconds(speech), dur)
	s.RequestThroughput = per(float64(s.Completed), dur)
	s.OutputThroughput = per(float64(s.TotalOutput), dur)
	s.TotalTokenThroughput = per(float64(s.TotalInput+s.TotalOutput), dur)
	s.TTFT = z.headline("ttft", z.times(z.ok, TTFT))
	s.TPOT = z.headline("tpot", z.numbers(z.ok, z.tpot))
	s.E2EL = z.headline("e2el", z.times(z.ok, z.latency))
	s.MaxOutputPerS, s.MaxConcurrent = z.buckets()
}

func (z *summarizer) latency(r *call.Record) (time.Duration, bool) { return Latency(r, z.run.EndRule) }

func (z *summarizer) tpot(r *call.Record) (float64, bool) {
	return TPOT(r, z.run.EndRule, z.run.Tokenizer)
}

// inSeconds adapts a duration formula to a number.
func inSeconds(d time.Duration, ok bool) (float64, bool) { return seconds(d), ok }

// times gathers a duration of each record that has it, in seconds.
func (z *summarizer) times(recs []*call.Record, f func(*call.Record) (time.Duration, bool)) []float64 {
	xs := make([]float64, 0, len(recs))
	for _, r := range recs {
		if d, ok := f(r); ok {
			xs = append(xs, seconds(d))
		}
	}
	return xs
}

// numbers gathers a number of each record that has it.
func (z *summarizer) numbers(recs []*call.Record, f func(*call.Record) (float64, bool)) []float64 {
	xs := make([]float64, 0, len(recs))
	for _, r := range recs {
		if v, ok := f(r); ok {
			xs = append(xs, v)
		}
	}
	return xs
}

// ms describes a duration over records, in milliseconds.
func (z *summarizer) ms(recs []*call.Record, f func(*call.Record) (time.Duration, bool)) Dist {
	return z.b.dist(z.times(recs, f), milli)
}

func (z *summarizer) clocks() {
	c := &z.s.Clocks
	c.TTFTDue = z.ms(z.ok, TTFTDue)
	c.E2ELDue = z.ms(z.ok, func(r *call.Record) (time.Duration, bool) { return LatencyDue(r, z.run.EndRule) })
	c.FirstByte = z.ms(z.ok, FirstByte)
	c.FirstToken = z.ms(z.ok, FirstToken)
	c.FirstText = z.ms(z.ok, FirstText)
	c.E2ELToken = z.ms(z.ok, LastToken)
	c.E2ELClose = z.ms(z.ok, Closed)
	// Lateness and queueing are the client's doing: failures have them too.
	c.Queue = z.ms(z.recs, Queue)
	c.DispatchLag = z.ms(z.recs, DispatchLag)
	c.SendLag = z.ms(z.recs, SlotToSend)
}

// userSpeed is output tokens over end-to-end latency, per second.
func userSpeed(r *call.Record, run *Run) (float64, bool) {
	latency, ok := Latency(r, run.EndRule)
	if !ok || latency <= 0 {
		return 0, false
	}
	return float64(OutputTokens(r, run.Tokenizer)) / seconds(latency), true
}

func (z *summarizer) speed() {
	z.s.Speed.User = z.b.dist(z.numbers(z.ok, func(r *call.Record) (float64, bool) {
		return userSpeed(r, &z.run)
	}), 1)
	z.s.Speed.Decode = z.b.dist(z.numbers(z.ok, func(r *call.Record) (float64, bool) {
		t, ok := z.tpot(r)
		if !ok || t <= 0 {
			return 0, false
		}
		return 1 / t, true
	}), 1)
}

// rates compares schedule, dispatch and wire. Each rate is the number of requests over the time
// from the run's start to the last of them, which is how vLLM's rescaled schedule defines its rate.
func (z *summarizer) rates() {
	r := &z.s.Rates
	if !math.IsInf(z.run.RequestRate, 1) {
		r.Requested = &z.run.RequestRate
	}
	r.Scheduled = z.rateOf(func(r *call.Record) time.Duration { return r.Due })
	r.Dispatched = z.rateOf(func(r *call.Record) time.Duration { return r.Dispatched })
	r.Sent = z.rateOf(func(r *call.Record) time.Duration { return r.Sent })
	if r.Scheduled != nil && r.Sent != nil {
		ratio := *r.Sent / *r.Scheduled
		r.Achieved = &ratio
	}
	for _, rec := range z.recs {
		if lag, ok := DispatchLag(rec); ok {
			if lag > time.Millisecond {
				r.Late1ms++
			}
			if lag > 10*time.Millisecond {
				r.Late10ms++
			}
		}
	}
}

func (z *summarizer) rateOf(stamp func(*call.Record) time.Duration) *float64 {
	n, last := 0, z.run.Start
	for _, r := range z.recs {
		if at := stamp(r); at >= 0 {
			n++
			last = max(last, at)
		}
	}
	if n == 0 || last <= z.run.Start {
		return nil
	}
	rate := float64(n) / seconds(last-z.run.Start)
	return &rate
}

// errorAdjusted counts every request that was not delivered as an infinite latency.
func (z *summarizer) errorAdjusted() {
	adjust := func(f func(*call.Record) (time.Duration, bool)) Percentiles {
		xs := z.times(z.ok, f)
		for range z.misses {
			xs = append(xs, math.Inf(1))
		}
		z.b.arrange(xs)
		ps := make(Percentiles, 0, len(z.b.percentiles))
		for _, p := range z.b.percentiles {
			ps = append(ps, quantile(stats.Sorted(xs), p, milli))
		}
		return ps
	}
	z.s.ErrorAdjusted = ErrorAdjusted{
		Failures: z.misses,
		TTFT:     adjust(TTFT),
		TTFTDue:  adjust(TTFTDue),
		E2EL:     adjust(z.latency),
		E2ELDue:  adjust(func(r *call.Record) (time.Duration, bool) { return LatencyDue(r, z.run.EndRule) }),
	}
}
