package compare

import (
	"cmp"
	"math"
	"slices"
	"time"

	"spate/internal/call"
	"spate/internal/figure"
	"spate/internal/judge/metrics"
	"spate/internal/judge/stats"
	"spate/internal/result"
)

// measured is what a comparison needs of one run. Without records only values are filled.
type measured struct {
	sample *Sample
	entry  *result.Entry
	values map[string]float64 // by metric
	slots  []slot             // measured requests in dispatch order; nil without records
	lat    map[string]stats.Groups
	work   [][]float64 // for each of rates: amounts in equal stretches of the run
	failed int
	due    int
	unread error // why there are no records, where there should be
}

// slot is one request, as far as it tells whether two runs sent the same.
type slot struct{ id, in, out int }

// setting names what was sent.
func (t *measured) setting() string {
	if t.entry.Run != nil && t.entry.Run.Plan.Text != "" {
		return t.entry.Run.Plan.Text
	}
	if l := t.entry.Label(); l != "" {
		return l
	}
	return t.entry.Name
}

// read reads the records, where they are not given.
func (s *Sample) read() ([]call.Record, error) {
	if s.Records != nil {
		return s.Records, nil
	}
	recs, err := s.Entry.Records()
	if err != nil {
		return nil, err
	}
	return recs, nil
}

func take(s *Sample, defs []def) *measured {
	t := &measured{sample: s, entry: &s.Entry, values: map[string]float64{}, lat: map[string]stats.Groups{}}
	recs, err := s.read()
	t.unread = err // the figures are still worth comparing
	if s.Entry.Run != nil && len(recs) > 0 {
		t.fromRecords(recs)
	}
	t.counts()
	for _, d := range defs {
		if v, ok := t.value(d); ok {
			t.values[d.name] = v
		}
	}
	return t
}

// counts finds how many requests there were and how many failed, where records do not tell.
func (t *measured) counts() {
	if t.due > 0 {
		return
	}
	if run := t.entry.Run; run != nil {
		if v := figure.Must(errorRate).Of(&run.Summary); v.OK {
			t.failed, t.due = v.Count, v.Of
			return
		}
	}
	ok, haveOK := t.entry.Float("completed")
	failed, haveFailed := t.entry.Float("failed")
	if !haveFailed {
		asked, known := t.entry.Context.Number("num_prompts")
		if haveFailed = known && asked >= ok; haveFailed {
			failed = asked - ok
		}
	}
	if haveOK && haveFailed {
		t.failed, t.due = int(failed), int(ok+failed)
	}
}

// value is a figure of the run's summary or as it was printed, else computed from the records.
func (t *measured) value(d def) (float64, bool) {
	if d.name == errorRate {
		return 100 * float64(t.failed) / float64(max(1, t.due)), t.due > 0
	}
	if run := t.entry.Run; run != nil {
		if v := d.ref.Of(&run.Summary); v.OK {
			return v.V, true
		}
	}
	if v, ok := t.entry.Float(d.name); ok {
		return v, !math.IsNaN(v) && !math.IsInf(v, 0)
	}
	g := t.lat[d.latency]
	if len(g.Values) == 0 {
		return 0, false
	}
	if d.pct == 0 {
		return stats.Mean(g.Values), true
	}
	return stats.Percentile(g.Values, d.pct), true
}

func (t *measured) fromRecords(all []call.Record) {
	run := t.entry.Run
	plan := run.Plan.Metrics()
	recs := make([]*call.Record, 0, len(all))
	for i := range all {
		if r := &all[i]; r.Phase == call.Measure && !r.Retried {
			recs = append(recs, r)
		}
	}
	slices.SortStableFunc(recs, func(a, b *call.Record) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Attempt, b.Attempt))
	})
	t.slots = make([]slot, 0, len(recs))
	for _, r := range recs {
		t.slots = append(t.slots, slot{r.ID, r.Asked.N, r.AskedOut})
		if r.Outcome != call.OK && r.Fault != call.FaultStopped {
			t.failed++
		}
		if r.Fault != call.FaultStopped { // what a stop left undone is no failure, and was no chance to succeed
			t.due++
		}
	}
	t.latencies(recs, plan)
	t.works(recs, plan, time.Duration(run.Summary.DurationS*float64(time.Second)))
}

// latencies groups values by request; those that failed leave their place empty.
func (t *measured) latencies(recs []*call.Record, plan metrics.Run) {
	for _, name := range figure.Latencies() {
		of := plan.Each(name)
		add := func(dst []float64, r *call.Record) []float64 {
			if v, ok := of(r); ok {
				return append(dst, v)
			}
			return dst
		}
		if name == "itl" {
			add = gaps(gapStride(recs))
		}
		g := stats.Groups{Ends: make([]int, 0, len(recs))}
		for _, r := range recs {
			if r.Outcome == call.OK {
				g.Values = add(g.Values, r)
			}
			g.Ends = append(g.Ends, len(g.Values))
		}
		t.lat[name] = g
	}
}

// gaps adds every so many-th gap between the chunks of a request.
func gaps(stride int) func(dst []float64, r *call.Record) []float64 {
	nth := 0
	return func(dst []float64, r *call.Record) []float64 {
		nth++
		// The offset differs per request so that no position in the answer is left out.
		for j := 1 + nth%stride; j < len(r.Chunks); j += stride {
			dst = append(dst, call.Millis(r.Chunks[j].At-r.Chunks[j-1].At))
		}
		return dst
	}
}

// maxGaps bounds the inter-token gaps looked at, and gapsEach those of one request, so that resampling
// draws many requests rather than many gaps of few.
const (
	maxGaps  = 400_000
	gapsEach = 64
)

func gapStride(recs []*call.Record) int {
	total := 0
	for _, r := range recs {
		total += max(0, len(r.Chunks)-1)
	}
	each := total / max(1, len(recs))
	return max(1+total/maxGaps, 1+(each-1)/gapsEach)
}

// A throughput needs at least fewStretches stretches, each a request's lifetime or longer, to show how
// steady it was.
const (
	fewStretches = 8
	mostStretchs = 40
)

// works cuts the run into stretches of at least one mean latency and adds up what was done in each. The
// work of a request counts evenly over its time in flight: counting it when it ends would make waves of
// requests that end together look like an unsteady server.
func (t *measured) works(recs []*call.Record, plan metrics.Run, dur time.Duration) {
	life := stats.Mean(t.lat["e2el"].Values)
	n := 0
	if life > 0 {
		n = min(mostStretchs, int(call.Millis(dur)/life))
	}
	if n < fewStretches {
		return
	}
	t.work = make([][]float64, len(rates))
	for i := range t.work {
		t.work[i] = make([]float64, n)
	}
	step := float64(dur) / float64(n)
	for _, r := range recs {
		if r.Outcome != call.OK || r.Sent < 0 || r.End <= r.Sent {
			continue
		}
		out := float64(metrics.OutputTokens(r, plan.Tokenizer))
		amount := []float64{1, out, out + float64(metrics.InputTokens(r))}
		from, to := float64(r.Sent-plan.Start)/step, float64(r.End-plan.Start)/step
		for k := max(0, int(from)); k < n && float64(k) < to; k++ {
			part := (min(to, float64(k+1)) - max(from, float64(k))) / (to - from)
			for i, a := range amount {
				t.work[i][k] += part * a
			}
		}
	}
}
