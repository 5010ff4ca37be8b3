package metrics

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"time"

	"spate/internal/call"
	"spate/internal/judge/stats"
)

// Summarize computes every metric from the records of a run, in whatever order they come.
func Summarize(recs []call.Record, run Run) Summary { return SummarizeSet(call.List(recs), run) }

// SummarizeSet is Summarize of records that need not lie in memory. Nothing is held for each chunk, and for each
// request no more than a few numbers at a time: the set is gone through as often as it takes. There is one way to
// compute a figure, whatever the size of the run.
func SummarizeSet(set call.Set, run Run) Summary { return summarize(set, run, defaultRoom) }

// defaultRoom is how many values are held at a time: 256 MiB.
const defaultRoom = 32 << 20

func summarize(set call.Set, run Run, room int) Summary {
	z := newSummarizer(set, run, room)
	z.flights()
	z.vllm()
	z.clocks()
	z.speed()
	z.rates()
	z.lengths()
	z.goodput()
	z.failures()
	z.connections()
	z.server()
	z.cache()
	z.beside()
	z.columns.gather(z)
	z.concurrency()
	z.streams()
	z.steady()
	z.series()
	z.pooling()
	return z.s
}

// summarizer carries what the sections share.
type summarizer struct {
	set     call.Set
	room    int // values that may be held at a time
	run     Run
	order   []int32                // numbers of the records that count, in dispatch order
	recs    iter.Seq[*call.Record] // measured requests' last attempts, in dispatch order
	ok      iter.Seq[*call.Record] // the successes among them
	oks     int                    // how many these are
	misses  int                    // failed, dropped or cut off: not delivered, and not because the user stopped
	b       builder
	columns columns
	wire    wire
	closed  float64 // mean time from sending to the end of the response, in seconds
	s       Summary
}

func newSummarizer(set call.Set, run Run, room int) *summarizer {
	z := &summarizer{set: set, room: room}
	z.order = z.counted()
	z.recs = set.Pick(z.order)
	z.ok = func(yield func(*call.Record) bool) {
		for r := range z.recs {
			if r.Outcome == call.OK && !yield(r) {
				return
			}
		}
	}
	z.run = run.normal(len(z.order), z.recs)
	z.b = builder{z.run.percentiles()}
	z.s.Tally.Due = z.run.Due
	z.s.DurationS = z.run.duration()
	return z
}

// counted picks the records that count and puts them into dispatch order: sums of floats, arrays
// for other tools and the bootstrap all depend on it, and records arrive in order of completion.
// It also counts fates, since it sees every record.
func (z *summarizer) counted() []int32 {
	order, i := dispatched{}, int32(0)
	for r := range z.set.All() {
		if r.Phase == call.Measure {
			z.s.Tally.Add(r)
		}
		if order.add(i, r) {
			switch {
			case r.Outcome == call.OK:
				z.oks++
			case r.Fault != call.FaultStopped:
				z.misses++
			}
		}
		i++
	}
	return order.sorted()
}

// dispatched sorts the numbers of records that count by the order they were dispatched in.
type dispatched []dispatch

type dispatch struct {
	key    uint64 // id, then attempt
	number int32
}

func (d *dispatched) add(number int32, r *call.Record) bool {
	if r.Phase != call.Measure || r.Retried {
		return false
	}
	*d = append(*d, dispatch{uint64(r.ID)<<32 | uint64(uint32(r.Attempt)), number}) // both are at most call.MaxCount
	return true
}

func (d dispatched) sorted() []int32 {
	out := make([]int32, len(d))
	slices.SortStableFunc(d, func(a, b dispatch) int { return cmp.Compare(a.key, b.key) })
	for i := range d {
		out[i] = d[i].number
	}
	return out
}

// vllm fills in the figures vLLM prints, by its formulas. ITL is left to streams.
func (z *summarizer) vllm() {
	s, dur := &z.s, z.run.duration()
	s.Completed, s.Failed = s.Tally.OK, s.Tally.Failed
	var speech time.Duration
	for r := range z.ok {
		speech += r.Audio
		s.TotalInput += InputTokens(r)
		s.TotalOutput += OutputTokens(r, z.run.Tokenizer)
	}
	s.RTFx = per(seconds(speech), dur)
	s.RequestThroughput = per(float64(s.Completed), dur)
	s.OutputThroughput = per(float64(s.TotalOutput), dur)
	s.TotalTokenThroughput = per(float64(s.TotalInput+s.TotalOutput), dur)
	e := &s.ErrorAdjusted
	e.Failures = z.misses
	z.columns.times(TTFT, func(xs []float64) { s.TTFT, e.TTFT = z.headline("ttft", xs), z.adjusted(xs) })
	z.columns.numbers(z.tpot, func(xs []float64) { s.TPOT = z.headline("tpot", xs) })
	z.columns.times(z.latency, func(xs []float64) { s.E2EL, e.E2EL = z.headline("e2el", xs), z.adjusted(xs) })
	s.MaxOutputPerS, s.MaxConcurrent = z.buckets()
}

func (z *summarizer) latency(r *call.Record) (time.Duration, bool) { return Latency(r, z.run.EndRule) }

func (z *summarizer) tpot(r *call.Record) (float64, bool) {
	return TPOT(r, z.run.EndRule, z.run.Tokenizer)
}

// inSeconds adapts a duration formula to a number.
func inSeconds(d time.Duration, ok bool) (float64, bool) { return seconds(d), ok }

func (z *summarizer) clocks() {
	c, e := &z.s.Clocks, &z.s.ErrorAdjusted
	z.columns.times(TTFTDue, func(xs []float64) { c.TTFTDue, e.TTFTDue = z.b.dist(xs, milli), z.adjusted(xs) })
	due := func(r *call.Record) (time.Duration, bool) { return LatencyDue(r, z.run.EndRule) }
	z.columns.times(due, func(xs []float64) { c.E2ELDue, e.E2ELDue = z.b.dist(xs, milli), z.adjusted(xs) })
	z.ms(&c.FirstByte, FirstByte)
	z.ms(&c.FirstToken, FirstToken)
	z.ms(&c.FirstText, FirstText)
	z.ms(&c.E2ELToken, LastToken)
	z.columns.times(Closed, func(xs []float64) {
		z.closed = stats.Mean(xs)
		c.E2ELClose = z.b.dist(xs, milli)
	})
	// Lateness and queueing are the client's doing: failures have them too.
	z.msAll(&c.Queue, Queue)
	z.msAll(&c.DispatchLag, DispatchLag)
	z.msAll(&c.SendLag, SlotToSend)
}

// ms describes a duration of the successes, in milliseconds.
func (z *summarizer) ms(to *Dist, f func(*call.Record) (time.Duration, bool)) {
	z.columns.times(f, func(xs []float64) { *to = z.b.dist(xs, milli) })
}

// msAll describes a duration of everything that counts, in milliseconds.
func (z *summarizer) msAll(to *Dist, f func(*call.Record) (time.Duration, bool)) {
	z.columns.add(column{all: true, of: timed(f), use: func(xs []float64) { *to = z.b.dist(xs, milli) }})
}

// userSpeed is output tokens over end-to-end latency, per second.
func userSpeed(r *call.Record, run *Run) (float64, bool) {
	latency, ok := Latency(r, run.EndRule)
	if !ok || latency <= 0 {
		return 0, false
	}
	return float64(OutputTokens(r, run.Tokenizer)) / seconds(latency), true
}

// decodeSpeed is tokens per second behind the first token: 1/TPOT.
func decodeSpeed(r *call.Record, run *Run) (float64, bool) {
	t, ok := TPOT(r, run.EndRule, run.Tokenizer)
	if !ok || t <= 0 {
		return 0, false
	}
	return 1 / t, true
}

func (z *summarizer) speed() {
	z.columns.numbers(func(r *call.Record) (float64, bool) { return userSpeed(r, &z.run) },
		func(xs []float64) { z.s.Speed.User = z.b.dist(xs, 1) })
	z.columns.numbers(func(r *call.Record) (float64, bool) { return decodeSpeed(r, &z.run) },
		func(xs []float64) { z.s.Speed.Decode = z.b.dist(xs, 1) })
}

// rates compares schedule, dispatch and wire. Each rate is the number of requests over the time
// from the run's start to the last of them, which is how vLLM's rescaled schedule defines its rate.
func (z *summarizer) rates() {
	r := &z.s.Rates
	if !math.IsInf(z.run.RequestRate, 1) {
		r.Requested = &z.run.RequestRate
	}
	due, let, sent := z.newRate(), z.newRate(), z.newRate()
	for rec := range z.recs {
		due.add(rec.Due)
		let.add(rec.Dispatched)
		sent.add(rec.Sent)
		if lag, ok := DispatchLag(rec); ok {
			if lag > time.Millisecond {
				r.Late1ms++
			}
			if lag > 10*time.Millisecond {
				r.Late10ms++
			}
		}
	}
	r.Scheduled, r.Dispatched, r.Sent = due.per(), let.per(), sent.per()
	if r.Scheduled != nil && r.Sent != nil {
		ratio := *r.Sent / *r.Scheduled
		r.Achieved = &ratio
	}
}

// rate counts stamps up to the last of them.
type rate struct {
	n           int
	start, last time.Duration
}

func (z *summarizer) newRate() rate { return rate{start: z.run.Start, last: z.run.Start} }

func (r *rate) add(at time.Duration) {
	if at >= 0 {
		r.n++
		r.last = max(r.last, at)
	}
}

// per is the rate; nil where there is none.
func (r *rate) per() *float64 {
	if r.n == 0 || r.last <= r.start {
		return nil
	}
	v := float64(r.n) / seconds(r.last-r.start)
	return &v
}

// adjusted are the percentiles with every request that was not delivered counted as an infinite latency; xs are the
// latencies of the others, which it reorders.
func (z *summarizer) adjusted(xs []float64) Percentiles {
	xs = slices.Grow(xs, z.misses)
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
