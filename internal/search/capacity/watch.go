package capacity

import (
	"fmt"
	"math"
	"sync"
	"time"

	"spate/internal/call"
	"spate/internal/figure"
	"spate/internal/judge/metrics"
	"spate/internal/judge/stats"
	"spate/internal/settings/config"
)

// Watch follows a probe and says when it need not go on: its queue grows, or too many requests have broken a bound for
// the rest to make up for it. Its methods may be called from several goroutines.
type Watch struct {
	objectives []figure.Objective
	requests   int  // the probe will make; 0: unknown
	open       bool // requests come by a schedule, so that a queue can grow

	mu     sync.Mutex
	broken []int
	ended  []stay
	seen   []sample
	grown  Growth
	reason string
	full   bool // the reason is a growing queue
}

// NewWatch watches a probe of this many requests.
func NewWatch(objectives []figure.Objective, by By, requests int) *Watch {
	return &Watch{objectives: objectives, requests: requests, open: by == Rate, broken: make([]int, len(objectives))}
}

// Hopeless is why the probe should end now, empty while it should not; full says that its queue grows.
func (w *Watch) Hopeless() (reason string, full bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reason, w.full
}

// Sample tells how many requests were due and done at a time since the probe's start.
func (w *Watch) Sample(at time.Duration, due, done int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, sample{at, due, done})
	if !w.open || w.reason != "" {
		return
	}
	if g, plain := plainlyGrows(w.seen, w.ended); plain {
		w.grown, w.reason, w.full = g, "the queue grows: the server does not keep up", true
	}
}

// Record tells of a request that ended.
func (w *Watch) Record(r *call.Record) error {
	if r.Phase != call.Measure || r.Retried {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = append(w.ended, stayOf(r))
	for i, o := range w.objectives {
		if breaks(o, r) {
			w.broken[i]++
			if most := w.bearable(o); w.reason == "" && w.broken[i] > most {
				w.reason = fmt.Sprintf("%s cannot be met any more: %d requests are beyond it", o.Text, w.broken[i])
			}
		}
	}
	return nil
}

// breaks reports whether a request is one of those an objective allows few of.
func breaks(o figure.Objective, r *call.Record) bool {
	if o.Metric == "error_rate" {
		return (r.Outcome == call.Failed || r.Outcome == call.Dropped) && r.Fault != call.FaultStopped
	}
	if !o.IsPct || r.Outcome != call.OK {
		return false
	}
	of := metrics.Run{Tokenizer: true}.Each(o.Metric)
	if of == nil || o.Metric == string(config.ITL) { // its percentiles are over all gaps, not over requests
		return false
	}
	v, ok := of(r)
	return ok && !o.Met(v)
}

// bearable is how many requests may break an objective before the probe is hopeless: twice as many as
// put the lower end of its interval beyond the bound, since neighbours fare alike.
func (w *Watch) bearable(o figure.Objective) int {
	n := w.requests
	if n == 0 {
		return math.MaxInt
	}
	if o.Metric == "error_rate" {
		expected := o.Bound * float64(n)
		return int(2 * (expected + 3*math.Sqrt(expected) + 3))
	}
	low := stats.QuantileBounds(n, o.Pct, 0.99).Low
	return 2 * (n - low + 1)
}

// Growth is how much the queue grew over the second half of the probe.
func (w *Watch) Growth() Growth {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.open || w.reason != "" {
		return w.grown
	}
	if len(w.ended) == 0 {
		return Growth{}
	}
	return wholeGrowth(w.ended)
}

// Busy is what the server served at the end of the probe, while it was never idle.
func (w *Watch) Busy() Service {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.open || w.reason != "" || len(w.ended) == 0 {
		return Service{}
	}
	return service(w.ended)
}
