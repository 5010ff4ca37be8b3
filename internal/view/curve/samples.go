package curve

import (
	"cmp"
	"slices"
	"time"

	"spate/internal/call"
	"spate/internal/figure"
	"spate/internal/judge/metrics"
)

// Latency is one of the four latencies every tool reports.
type Latency string

// The latencies, under vLLM's names and definitions.
const (
	TTFT Latency = "ttft"
	TPOT Latency = "tpot"
	ITL  Latency = "itl"
	E2EL Latency = "e2el"
)

// Latencies lists them in the order they are shown.
func Latencies() []Latency { return []Latency{TTFT, TPOT, ITL, E2EL} }

// Short is how tables write it.
func (l Latency) Short() string { return figure.Get(string(l)).Label }

// Name is what it means.
func (l Latency) Name() string { return figure.Get(string(l)).Meaning }

// Counts is what one sample of it belongs to.
func (l Latency) Counts() string {
	if l == ITL {
		return "gaps"
	}
	return "requests"
}

// Samples are the latencies of a run's successful requests in milliseconds, ascending.
type Samples map[Latency][]float64

// Of are the samples of one latency; they must not be changed. Nil samples have none.
func (s *Samples) Of(l Latency) []float64 {
	if s == nil {
		return nil
	}
	return (*s)[l]
}

// SamplesOf computes every sample, by the definitions of metrics.
func SamplesOf(recs []call.Record, run metrics.Run) *Samples {
	s := Samples{}
	for _, l := range Latencies() {
		of := run.Each(string(l))
		for _, r := range measured(recs) {
			switch {
			case r.Outcome != call.OK:
			case l == ITL:
				for i := 1; i < len(r.Chunks); i++ {
					s[l] = append(s[l], call.Millis(r.Chunks[i].At-r.Chunks[i-1].At))
				}
			default:
				if v, ok := of(r); ok {
					s[l] = append(s[l], v)
				}
			}
		}
		slices.Sort(s[l])
	}
	return &s
}

// measured picks the records that count, each request's last attempt, in the order they were sent.
func measured(recs []call.Record) []*call.Record {
	out := make([]*call.Record, 0, len(recs))
	for i := range recs {
		if r := &recs[i]; r.Phase == call.Measure && !r.Retried {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b *call.Record) int {
		return cmp.Or(cmp.Compare(start(a), start(b)), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// start is when a request left, or when it should have.
func start(r *call.Record) time.Duration {
	if r.Sent != call.Unset {
		return r.Sent
	}
	return r.Due
}
