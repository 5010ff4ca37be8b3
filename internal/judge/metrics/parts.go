package metrics

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"spate/internal/call"
	"spate/internal/judge/stats"
)

// lengths compares what was asked for with what came.
func (z *summarizer) lengths() {
	l := &z.s.Lengths
	l.InputFrom, l.OutputFrom, l.Finish = map[string]int{}, map[string]int{}, map[string]int{}
	var inMatch, outMatch matcher
	for r := range z.ok {
		got := OutputTokens(r, z.run.Tokenizer)
		l.InputFrom[sourceName(r.In)]++
		l.OutputFrom[sourceName(r.Out)]++
		finish := r.Finish
		if finish == "" {
			finish = "none"
			if got < r.AskedOut {
				l.Unexplained++
			}
		}
		l.Finish[reasonName(l.Finish, finish)]++
		if r.Claimed > 0 {
			l.Contradicted++
			l.MaxClaimed = max(l.MaxClaimed, r.Claimed)
		}
		if r.In.From == call.FromServer {
			inMatch.add(r.Asked.N, r.In.N)
		}
		if r.Out.From != call.FromNone && r.Out.From != call.FromRequested {
			outMatch.add(r.AskedOut, got)
		}
	}
	z.columns.numbers(func(r *call.Record) (float64, bool) { return float64(InputTokens(r)), true },
		func(xs []float64) { l.Input = z.b.dist(xs, 1) })
	z.columns.numbers(func(r *call.Record) (float64, bool) { return float64(OutputTokens(r, z.run.Tokenizer)), true },
		func(xs []float64) { l.Output = z.b.dist(xs, 1) })
	l.InputMatch, l.OutMatch = inMatch.match(), outMatch.match()
}

// sourceName is the provenance of a count as a map key.
func sourceName(c call.Count) string {
	if c.From == call.FromNone {
		return "unknown"
	}
	return string(c.From)
}

// maxReasons bounds the finish reasons told apart: they are a server's words.
const maxReasons = 64

// reasonName is the key of a finish reason; one too many is among the others.
func reasonName(known map[string]int, reason string) string {
	if _, ok := known[reason]; ok || len(known) < maxReasons {
		return reason
	}
	return "other"
}

// matcher adds up a Match.
type matcher struct {
	Match
	asked, got int
}

func (m *matcher) add(asked, got int) {
	if asked <= 0 {
		return
	}
	m.N++
	m.asked += asked
	m.got += got
	switch {
	case got == asked:
		m.Exact++
	case got < asked:
		m.Short++
		m.MaxOff = max(m.MaxOff, asked-got)
	default:
		m.Long++
		m.MaxOff = max(m.MaxOff, got-asked)
	}
}

func (m *matcher) match() Match {
	m.Honoured = share(m.Exact, m.N)
	m.MeanRatio = share(m.got, m.asked)
	return m.Match
}

// failures groups what did not end well by its reason.
func (z *summarizer) failures() {
	f := &z.s.Failures
	f.Kinds, f.Statuses = []FailureKind{}, map[string]int{}
	at := map[string]int{}
	for r := range z.recs {
		if r.Outcome == call.OK {
			if r.Attempt > 0 {
				f.Recovered++
			}
			continue
		}
		if r.Fault == call.FaultStopped {
			f.stopped(r)
			continue
		}
		k := FailureKind{Kind: r.Fault, Example: strings.Clone(r.Err)}
		if r.Fault == call.FaultStatus {
			k.Status = r.Status
		}
		i, seen := at[k.Name()]
		if !seen {
			i = len(f.Kinds)
			at[k.Name()] = i
			f.Kinds = append(f.Kinds, k)
		}
		f.Kinds[i].Count++
		if r.Status != 0 {
			f.Statuses[strconv.Itoa(r.Status)]++
		}
		switch r.Fault {
		case call.FaultCutoff:
			f.CutOff++
		case call.FaultLost:
			f.Gone++
			if r.Outcome == call.Dropped {
				f.GoneUnsent++
			}
		}
	}
	slices.SortStableFunc(f.Kinds, func(a, b FailureKind) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name(), b.Name()))
	})
	z.attempts()
}

// stopped counts a request that a stop left undone. That is no failure, so it has no kind.
func (f *Failures) stopped(r *call.Record) {
	if r.Outcome == call.Dropped {
		f.Unsent++
	} else {
		f.Stopped++
	}
}

// Undone is how many requests that fell due a stop left without an answer.
func (f *Failures) Undone() int { return f.Stopped + f.Unsent }

// attempts counts what happened to single attempts, and checks the books.
func (z *summarizer) attempts() {
	f, t := &z.s.Failures, z.s.Tally
	var latency, wait []float64
	for r := range z.set.All() {
		if r.Phase != call.Measure {
			continue
		}
		if r.Retried {
			f.Retries++
		}
		if r.Fault == call.FaultShed {
			f.Shed.Count++
			latency, wait = appendTime(latency, r, Closed), appendTime(wait, r, retryWait)
		}
	}
	f.Shed.Latency = z.b.dist(latency, milli)
	f.Shed.RetryAfter = z.b.dist(wait, milli)
	f.Attempts = t.Attempts
	f.Share = share(t.Failed, t.Due)
	f.Lost = t.Due - (t.OK + t.Failed + t.Dropped + t.Canceled)
}

// retryWait is the delay that a refusal named.
func retryWait(r *call.Record) (time.Duration, bool) { return r.RetryWait, r.RetryWait > 0 }

// appendTime adds a duration of a record that has it, in seconds.
func appendTime(xs []float64, r *call.Record, f func(*call.Record) (time.Duration, bool)) []float64 {
	if d, ok := f(r); ok {
		return append(xs, seconds(d))
	}
	return xs
}

// connections tells what opening them cost. A reused connection's dial belongs to another request.
func (z *summarizer) connections() {
	c := &z.s.Connections
	sent, reused := 0, 0
	for r := range z.recs {
		if r.Sent < 0 {
			continue
		}
		sent++
		if r.Reused {
			reused++
		}
		if r.InBand {
			c.InBand++
		}
	}
	c.ReusedShare = share(reused, sent)
	z.msAll(&c.Dial, func(r *call.Record) (time.Duration, bool) { return r.Dial, !r.Reused && r.Dial > 0 })
	z.msAll(&c.TLS, func(r *call.Record) (time.Duration, bool) { return r.Handshake, !r.Reused && r.Handshake > 0 })
}

// server holds the client's clocks against the server's own.
func (z *summarizer) server() {
	s := &z.s.Server
	for r := range z.ok {
		if r.Server != nil {
			s.N++
		}
	}
	told := func(to *Dist, f func(r *call.Record, s *call.ServerTimes) (time.Duration, bool)) {
		z.ms(to, func(r *call.Record) (time.Duration, bool) {
			if r.Server == nil {
				return 0, false
			}
			return f(r, r.Server)
		})
	}
	told(&s.Queue, func(_ *call.Record, s *call.ServerTimes) (time.Duration, bool) { return s.Queue, true })
	told(&s.FirstToken, func(_ *call.Record, s *call.ServerTimes) (time.Duration, bool) { return s.FirstToken, true })
	told(&s.Generation, func(_ *call.Record, s *call.ServerTimes) (time.Duration, bool) { return s.Generation, true })
	told(&s.MeanITL, func(_ *call.Record, s *call.ServerTimes) (time.Duration, bool) { return s.MeanITL, true })
	told(&s.TTFTRest, func(r *call.Record, s *call.ServerTimes) (time.Duration, bool) {
		d, ok := TTFT(r)
		return d - s.Queue - s.FirstToken, ok
	})
	told(&s.E2ELRest, func(r *call.Record, s *call.ServerTimes) (time.Duration, bool) {
		d, ok := z.latency(r)
		return d - s.Queue - s.FirstToken - s.Generation, ok
	})
}

// cache sums up cached prompt tokens, and TTFT of prompts sent before against the others.
func (z *summarizer) cache() {
	c := &z.s.Cache
	prompt := 0
	for r := range z.ok {
		if r.Cached.From != call.FromNone {
			c.Reported++
			c.Cached += r.Cached.N
			prompt += InputTokens(r)
			if r.Cached.N > 0 {
				c.Hits++
			}
		}
		if repeats(r) {
			c.Repeats++
		}
	}
	c.Share = share(c.Cached, prompt)
	if c.Repeats == 0 {
		return
	}
	median := func(to *float64, repeated bool) {
		z.columns.times(func(r *call.Record) (time.Duration, bool) {
			d, ok := TTFT(r)
			return d, ok && repeats(r) == repeated
		}, func(xs []float64) {
			*to = stats.Median(xs) * milli
			c.RepeatRatio = per(c.RepeatTTFT, c.FirstTTFT)
		})
	}
	median(&c.RepeatTTFT, true)
	median(&c.FirstTTFT, false)
}

// repeats reports a prompt that was sent before.
func repeats(r *call.Record) bool {
	_, ok := r.Labels[call.RepeatLabel]
	return ok
}

// beside sums up the requests outside the measured part: warm-up and probes.
func (z *summarizer) beside() {
	var probes, warm []float64
	for r := range z.set.All() {
		ok := r.Outcome == call.OK
		switch {
		case r.Retried:
		case r.Phase == call.Probe && ok:
			z.s.Probe.Completed++
			probes = appendTime(probes, r, z.latency)
		case r.Phase == call.Probe:
			z.s.Probe.Failed++
		case r.Phase == call.Warmup:
			z.s.Warmup.Requests++
			if ok {
				warm = appendTime(warm, r, TTFT)
			} else {
				z.s.Warmup.Failed++
			}
		}
	}
	z.s.Warmup.Median = stats.Median(warm) * milli
	z.s.Probe.Median = stats.Median(probes) * milli
	z.s.Probe.P99 = stats.Percentile(probes, 99) * milli
	z.s.Probe.Max = stats.Percentile(probes, 100) * milli
}
