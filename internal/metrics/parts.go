package metrics

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"spate/internal/call"
	"spate/internal/stats"
)

// lengths compares what was asked for with what came.
func (z *summarizer) lengths() {
	l := &z.s.Lengths
	l.InputFrom, l.OutputFrom, l.Finish = map[string]int{}, map[string]int{}, map[string]int{}
	in, out := make([]float64, 0, len(z.ok)), make([]float64, 0, len(z.ok))
	var inMatch, outMatch matcher
	for _, r := range z.ok {
		got := OutputTokens(r, z.run.Tokenizer)
		in, out = append(in, float64(InputTokens(r))), append(out, float64(got))
		l.InputFrom[sourceName(r.In)]++
		l.OutputFrom[sourceName(r.Out)]++
		finish := r.Finish
		if finish == "" {
			finish = "none"
			if got < r.AskedOut {
				l.Unexplained++
			}
		}
		l.Finish[finish]++
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
	l.Input, l.Output = z.b.dist(in, 1), z.b.dist(out, 1)
	l.InputMatch, l.OutMatch = inMatch.match(), outMatch.match()
}

// sourceName is the provenance of a count as a map key.
func sourceName(c call.Count) string {
	if c.From == call.FromNone {
		return "unknown"
	}
	return string(c.From)
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
func (z *summarizer) failures(recs []call.Record) {
	f := &z.s.Failures
	f.Kinds, f.Statuses = []FailureKind{}, map[string]int{}
	at := map[string]int{}
	for _, r := range z.recs {
		if r.Outcome == call.OK {
			if r.Attempt > 0 {
				f.Recovered++
			}
			continue
		}
		k := FailureKind{Kind: r.Fault, Example: r.Err}
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
		case call.FaultStopped:
			if r.Outcome == call.Dropped {
				f.Unsent++
			} else {
				f.Stopped++
			}
		}
	}
	slices.SortStableFunc(f.Kinds, func(a, b FailureKind) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name(), b.Name()))
	})
	z.attempts(recs)
}

// attempts counts what happened to single attempts, and checks the books.
func (z *summarizer) attempts(recs []call.Record) {
	f, t := &z.s.Failures, z.s.Tally
	var shed []*call.Record
	for i := range recs {
		r := &recs[i]
		if r.Phase != call.Measure {
			continue
		}
		if r.Retried {
			f.Retries++
		}
		if r.Fault == call.FaultShed {
			shed = append(shed, r)
		}
	}
	f.Shed.Count = len(shed)
	f.Shed.Latency = z.ms(shed, Closed)
	f.Shed.RetryAfter = z.ms(shed, func(r *call.Record) (time.Duration, bool) { return r.RetryWait, r.RetryWait > 0 })
	f.Attempts = t.Attempts
	f.Share = share(t.Failed, t.Due)
	f.Lost = t.Due - (t.OK + t.Failed + t.Dropped + t.Canceled)
}

// connections tells what opening them cost. A reused connection's dial belongs to another request.
func (z *summarizer) connections() {
	c := &z.s.Connections
	sent, reused := 0, 0
	for _, r := range z.recs {
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
	c.Dial = z.ms(z.recs, func(r *call.Record) (time.Duration, bool) { return r.Dial, !r.Reused && r.Dial > 0 })
	c.TLS = z.ms(z.recs, func(r *call.Record) (time.Duration, bool) { return r.Handshake, !r.Reused && r.Handshake > 0 })
}

// server holds the client's clocks against the server's own.
func (z *summarizer) server() {
	told := make([]*call.Record, 0)
	for _, r := range z.ok {
		if r.Server != nil {
			told = append(told, r)
		}
	}
	s := &z.s.Server
	s.N = len(told)
	s.Queue = z.ms(told, func(r *call.Record) (time.Duration, bool) { return r.Server.Queue, true })
	s.FirstToken = z.ms(told, func(r *call.Record) (time.Duration, bool) { return r.Server.FirstToken, true })
	s.Generation = z.ms(told, func(r *call.Record) (time.Duration, bool) { return r.Server.Generation, true })
	s.MeanITL = z.ms(told, func(r *call.Record) (time.Duration, bool) { return r.Server.MeanITL, true })
	s.TTFTRest = z.ms(told, func(r *call.Record) (time.Duration, bool) {
		d, ok := TTFT(r)
		return d - r.Server.Queue - r.Server.FirstToken, ok
	})
	s.E2ELRest = z.ms(told, func(r *call.Record) (time.Duration, bool) {
		d, ok := z.latency(r)
		return d - r.Server.Queue - r.Server.FirstToken - r.Server.Generation, ok
	})
}

// cache sums up cached prompt tokens, and TTFT of prompts sent before against the others.
func (z *summarizer) cache() {
	c := &z.s.Cache
	prompt := 0
	var fresh, repeats []*call.Record
	for _, r := range z.ok {
		if r.Cached.From != call.FromNone {
			c.Reported++
			c.Cached += r.Cached.N
			prompt += InputTokens(r)
			if r.Cached.N > 0 {
				c.Hits++
			}
		}
		if _, ok := r.Labels[call.RepeatLabel]; ok {
			repeats = append(repeats, r)
		} else {
			fresh = append(fresh, r)
		}
	}
	c.Share = share(c.Cached, prompt)
	c.Repeats = len(repeats)
	if len(repeats) == 0 {
		return
	}
	c.RepeatTTFT = stats.Median(z.times(repeats, TTFT)) * milli
	c.FirstTTFT = stats.Median(z.times(fresh, TTFT)) * milli
	c.RepeatRatio = per(c.RepeatTTFT, c.FirstTTFT)
}

// beside sums up the requests outside the measured part: warm-up and probes.
func (z *summarizer) beside(recs []call.Record) {
	var probes, warm []*call.Record
	for i := range recs {
		r := &recs[i]
		ok := r.Outcome == call.OK
		switch {
		case r.Retried:
		case r.Phase == call.Probe && ok:
			probes = append(probes, r)
		case r.Phase == call.Probe:
			z.s.Probe.Failed++
		case r.Phase == call.Warmup:
			z.s.Warmup.Requests++
			if ok {
				warm = append(warm, r)
			} else {
				z.s.Warmup.Failed++
			}
		}
	}
	z.s.Warmup.Median = stats.Median(z.times(warm, TTFT)) * milli
	xs := z.times(probes, z.latency)
	z.s.Probe.Completed = len(probes)
	z.s.Probe.Median = stats.Median(xs) * milli
	z.s.Probe.P99 = stats.Percentile(xs, 99) * milli
	z.s.Probe.Max = stats.Percentile(xs, 100) * milli
}
