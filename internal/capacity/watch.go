package capacity

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"sync"
	"time"

	"spate/internal/call"
	"spate/internal/config"
	"spate/internal/metrics"
	"spate/internal/stats"
)

// Watch follows a probe while it goes, and says when there is no use in going on: its queue grows, or
// so many requests have broken a bound that the rest cannot make up for it. It may be told from
// several goroutines.
type Watch struct {
	objectives []config.Objective
	requests   int  // the probe will make; 0: unknown
	open       bool // requests come by a schedule, so that a queue can grow

	mu     sync.Mutex
	broken []int
	ended  []time.Duration
	due    []time.Duration
	seen   []sample
	reason string
	full   bool // the reason is a growing queue
}

// sample is a count of requests at a time.
type sample struct {
	at        time.Duration
	due, done int
}

// NewWatch watches a probe of so many requests.
func NewWatch(objectives []config.Objective, by By, requests int) *Watch {
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
	if w.open && w.reason == "" && growing(w.seen, whileItGoes) {
		w.reason, w.full = "the queue grows: the server does not keep up", true
	}
}

// Record tells of a request that ended. It is a recorder's sink, too.
func (w *Watch) Record(r *call.Record) error {
	if r.Phase != call.Measure || r.Retried {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = append(w.ended, r.End)
	w.due = append(w.due, r.Due)
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

// Close ends nothing: a watch has no resources.
func (w *Watch) Close() error { return nil }

// breaks reports whether a request is one of those an objective allows few of.
func breaks(o config.Objective, r *call.Record) bool {
	if o.Metric == "error_rate" {
		return r.Outcome == call.Failed || r.Outcome == call.Dropped
	}
	if !o.IsPct || r.Outcome != call.OK {
		return false
	}
	var v float64
	ok := false
	switch o.Metric {
	case "ttft":
		var d time.Duration
		d, ok = metrics.TTFT(r)
		v = float64(d) / float64(time.Millisecond)
	case "e2el":
		var d time.Duration
		d, ok = metrics.Latency(r, metrics.LastChunk)
		v = float64(d) / float64(time.Millisecond)
	case "tpot":
		v, ok = metrics.TPOT(r, metrics.LastChunk, true)
		v *= 1e3
	}
	return ok && !o.Met(v)
}

// bearable is how many requests may break an objective before the probe is hopeless: twice as many as
// put the lower end of its interval beyond the bound, since neighbours fare alike.
func (w *Watch) bearable(o config.Objective) int {
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

// Kept reports whether the server kept up with the requests of a probe that came to its end.
func (w *Watch) Kept() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.open {
		return true
	}
	return !growing(counts(w.due, w.ended), whenOver)
}

// counts makes samples of when requests were due and when they ended, at the times they were due.
func counts(due, ended []time.Duration) []sample {
	due, ended = slices.Clone(due), slices.Clone(ended)
	slices.Sort(due)
	slices.Sort(ended)
	out := make([]sample, len(due))
	done := 0
	for i, at := range due {
		for done < len(ended) && ended[done] <= at {
			done++
		}
		out[i] = sample{at, i + 1, done}
	}
	return out
}

// proof is what it takes to say that a queue grows.
type proof struct {
	share  float64 // of the requests of the second half of the probe, fewer end in it
	chance float64 // the queue grows by more than this many times what chance would let it
}

// A probe that goes is ended only when it is plain.
var (
	whileItGoes = proof{share: 0.8, chance: 3}
	whenOver    = proof{share: 0.9, chance: 2}
)

// Fewer requests than these say nothing.
const (
	leastDone = 10
	leastDue  = 30
)

// growing reports whether a queue grows: by the middle answers had begun to come, since then fewer
// ended than came, and what is waiting has grown in both quarters by more than chance lets it.
func growing(seen []sample, p proof) bool {
	if len(seen) < 4 {
		return false
	}
	last := seen[len(seen)-1]
	at := func(part float64) sample {
		from := seen[0].at
		t := from + time.Duration(part*float64(last.at-from))
		return seen[min(sort.Search(len(seen), func(i int) bool { return seen[i].at >= t }), len(seen)-1)]
	}
	half, later := at(0.5), at(0.75)
	came, went := float64(last.due-half.due), float64(last.done-half.done)
	waiting := func(s sample) float64 { return float64(s.due - s.done) }
	return half.done >= leastDone && came >= leastDue && went < p.share*came &&
		waiting(later) > waiting(half) && waiting(last) > waiting(later) &&
		waiting(last)-waiting(half) >= p.chance*math.Sqrt(came)
}
