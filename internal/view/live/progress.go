package live

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"spate/internal/call"
	"spate/internal/judge/metrics"
)

// Progress gathers what a live view shows, cheaply enough to run beside the measurement: nothing per
// chunk, one lock per first message and finished request, histograms instead of samples. The figures of the result
// never come from here. It is a record sink and safe for concurrent use.
type Progress struct {
	total   atomic.Int64
	waiting atomic.Int64
	sent    atomic.Int64

	mu     sync.Mutex
	phase  string
	until  time.Duration
	began  time.Duration
	warmed bool          // a warm-up came first
	first  time.Duration // when the first measured request was sent; call.Unset before one has ended
	done   int64
	ended  int64 // of those counted by Sent
	failed int
	tokens int64
	errors map[string]int
	ttft   *hdrhistogram.Histogram // microseconds
	itl    *hdrhistogram.Histogram
	marks  []mark // the last few seconds, oldest first

	coming func() int64 // tokens of answers still coming; nil: not known
}

// Watch makes the view follow answers while they come: coming are the tokens of those that have not ended,
// and First is told their first messages instead of their records.
func (p *Progress) Watch(coming func() int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.coming = coming
}

// First counts the time to an answer's first message.
func (p *Progress) First(ttft time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	record(p.ttft, ttft)
}

// mark is where the counters stood at one time.
type mark struct {
	at                 time.Duration
	sent, done, tokens int64
}

const (
	highest = int64(time.Hour / time.Microsecond)
	// window is how far back rates look.
	window = 5 * time.Second
	// markEvery spaces the marks, so that their number stays small however often one asks.
	markEvery = 250 * time.Millisecond
)

// NewProgress starts counting towards total requests; 0 when their number is not known.
func NewProgress(total int) *Progress {
	p := &Progress{
		errors: make(map[string]int),
		ttft:   hdrhistogram.New(1, highest, 3),
		itl:    hdrhistogram.New(1, highest, 3),
		until:  call.Unset,
		first:  call.Unset,
	}
	p.total.Store(int64(total))
	return p
}

// SetPhase names the part of the run that begins at the given offset. until is the offset it is
// bounded by, or call.Unset.
func (p *Progress) SetPhase(name string, at, until time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.phase, p.began, p.until = name, at, until
}

// SetWaiting says how many requests are due but without a slot.
func (p *Progress) SetWaiting(n int) { p.waiting.Store(int64(n)) }

// Sent counts a request that left.
func (p *Progress) Sent() { p.sent.Add(1) }

// SetSent says how many requests others have sent.
func (p *Progress) SetSent(n int) { p.sent.Store(int64(n)) }

// Record counts a request that ended.
func (p *Progress) Record(r *call.Record) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Sent >= 0 {
		p.ended++
	}
	p.warmed = p.warmed || r.Phase == call.Warmup
	if r.Phase != call.Measure || r.Retried {
		return nil
	}
	if r.Sent >= 0 && (p.first < 0 || r.Sent < p.first) {
		p.first = r.Sent
	}
	p.done++
	if r.Outcome != call.OK {
		p.failed++
		p.errors[r.Fault.Named(r.Status)]++
		return nil
	}
	p.tokens += int64(r.Out.N)
	if len(r.Chunks) == 0 {
		return nil
	}
	if ttft, ok := metrics.TTFT(r); ok && p.coming == nil {
		record(p.ttft, ttft)
	}
	for i := 1; i < len(r.Chunks); i++ {
		record(p.itl, r.Chunks[i].At-r.Chunks[i-1].At)
	}
	return nil
}

// Close does nothing: the last figures stay readable.
func (p *Progress) Close() error { return nil }

// record counts d; beyond the histogram's range it counts as the end of it.
func record(h *hdrhistogram.Histogram, d time.Duration) {
	v := min(max(int64(d/time.Microsecond), 0), highest)
	if err := h.RecordValue(v); err != nil {
		panic(err) // v is within the range the histogram was made for
	}
}

// Snapshot is the state of the run at now, an offset on the run's clock.
func (p *Progress) Snapshot(now time.Duration) Snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	cur := mark{now, p.sent.Load(), p.done, p.tokens}
	if p.coming != nil {
		cur.tokens += p.coming()
	}
	s := Snapshot{
		Phase: p.phase, Done: int(p.done), Total: int(p.total.Load()), Elapsed: max(0, now-p.began), Left: call.Unset,
		InFlight: int(max(0, cur.sent-p.ended)), Waiting: int(p.waiting.Load()),
		TTFT: quantiles(p.ttft), ITL: quantiles(p.itl),
		Failed: p.failed, Errors: p.kinds(),
	}
	if from := p.remember(cur); cur.at > from.at {
		secs := (cur.at - from.at).Seconds()
		s.SentRate = float64(cur.sent-from.sent) / secs
		if p.warmed && p.first > from.at && p.first < cur.at {
			secs = (cur.at - p.first).Seconds() // what follows is not counted during the warm-up
		}
		s.DoneRate = float64(cur.done-from.done) / secs
		s.OutRate = max(0, float64(cur.tokens-from.tokens)/secs) // an answer that fails takes its tokens with it
	}
	s.Left = p.left(s, now)
	return s
}

// remember keeps cur among the marks and returns the oldest one within the window.
func (p *Progress) remember(cur mark) mark {
	if len(p.marks) == 0 {
		p.marks = append(p.marks, mark{at: p.began})
	}
	for len(p.marks) > 1 && p.marks[1].at <= cur.at-window {
		p.marks = p.marks[1:]
	}
	from := p.marks[0]
	if cur.at-p.marks[len(p.marks)-1].at >= markEvery {
		p.marks = append(p.marks, cur)
	}
	return from
}

// left guesses the time to the end: to the time bound, or at the present rate to the count, whichever
// comes first.
func (p *Progress) left(s Snapshot, now time.Duration) time.Duration {
	left := call.Unset
	if p.until >= 0 {
		left = max(0, p.until-now)
	}
	if s.Total > 0 && s.DoneRate > 0 && s.Done > 0 {
		byCount := time.Duration(float64(max(0, s.Total-s.Done)) / s.DoneRate * float64(time.Second))
		if left < 0 || byCount < left {
			left = byCount
		}
	}
	return left
}

func (p *Progress) kinds() []ErrorCount {
	var out []ErrorCount
	for kind, n := range p.errors {
		out = append(out, ErrorCount{kind, n})
	}
	slices.SortFunc(out, func(a, b ErrorCount) int {
		return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Kind, b.Kind))
	})
	return out
}

func quantiles(h *hdrhistogram.Histogram) Quantiles {
	n := h.TotalCount()
	if n == 0 {
		return Quantiles{}
	}
	at := func(q float64) time.Duration { return time.Duration(h.ValueAtQuantile(q)) * time.Microsecond }
	return Quantiles{N: n, Mean: time.Duration(h.Mean() * float64(time.Microsecond)), P50: at(50), P99: at(99)}
}
