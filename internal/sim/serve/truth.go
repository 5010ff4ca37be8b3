package serve

import (
	"bufio"
	"fmt"
	"io"
	"math/bits"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// EventKind says what a written event was.
type EventKind uint8

// Kinds of events.
const (
	EventToken EventKind = iota
	EventRole
	EventUsage
	EventDone
	EventError   // an error object
	EventGarbage // bytes outside the protocol
)

// Event is one event as it was really written.
type Event struct {
	At     int64 // Mono time just before the system call that wrote it
	Due    int64 // when the engine wanted it written
	Tokens int32
	Kind   EventKind
}

// Truth is what really happened to one request, as only the server can know.
type Truth struct {
	Index     int
	ID        string // x-request-id
	Arrived   int64  // Mono time at which its last byte had been read
	Scheduled int64
	Prompt    int
	Cached    int
	Tokens    int
	Status    string // "ok", "abort" (the client left or the stream was cut), or a fault's name
	Finish    string
	Events    []Event
}

// TruthLog keeps what happened to every finished request.
type TruthLog struct {
	mu  sync.Mutex
	all []*Truth
}

func (l *TruthLog) add(t *Truth) {
	l.mu.Lock()
	l.all = append(l.all, t)
	l.mu.Unlock()
}

// All returns the truth of every request finished so far, in order of finishing.
func (l *TruthLog) All() []*Truth {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]*Truth(nil), l.all...)
}

// Find returns the truth of the last finished request with that x-request-id, or nil.
func (l *TruthLog) Find(id string) *Truth {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.all) - 1; i >= 0; i-- {
		if l.all[i].ID == id {
			return l.all[i]
		}
	}
	return nil
}

// Reset forgets everything.
func (l *TruthLog) Reset() {
	l.mu.Lock()
	l.all = nil
	l.mu.Unlock()
}

// WriteTo writes one JSON object per request: its identity and counts, then events as
// [at_ns, due_ns, tokens, kind].
func (l *TruthLog) WriteTo(w io.Writer) (int64, error) {
	var total int64
	var b []byte
	for _, t := range l.All() {
		b = t.appendJSON(b[:0])
		n, err := w.Write(b)
		total += int64(n)
		if err != nil {
			return total, fmt.Errorf("writing the truth log: %w", err)
		}
	}
	return total, nil
}

func (t *Truth) appendJSON(b []byte) []byte {
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(t.Index), 10)
	b = append(b, `,"id":`...)
	b = append(b, quote(t.ID)...)
	b = append(b, `,"status":`...)
	b = append(b, quote(t.Status)...)
	b = append(b, `,"finish":`...)
	b = append(b, quote(t.Finish)...)
	for _, f := range [...]struct {
		key string
		v   int64
	}{
		{"arrived_ns", t.Arrived},
		{"scheduled_ns", t.Scheduled},
		{"prompt_tokens", int64(t.Prompt)},
		{"cached_tokens", int64(t.Cached)},
		{"completion_tokens", int64(t.Tokens)},
	} {
		b = append(b, `,"`...)
		b = append(b, f.key...)
		b = append(b, `":`...)
		b = strconv.AppendInt(b, f.v, 10)
	}
	b = append(b, `,"events":[`...)
	for i, e := range t.Events {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '[')
		b = strconv.AppendInt(b, e.At, 10)
		b = append(b, ',')
		b = strconv.AppendInt(b, e.Due, 10)
		b = append(b, ',')
		b = strconv.AppendInt(b, int64(e.Tokens), 10)
		b = append(b, ',')
		b = strconv.AppendInt(b, int64(e.Kind), 10)
		b = append(b, ']')
	}
	return append(b, "]}\n"...)
}

// writeFile writes the whole log to a file.
func (l *TruthLog) writeFile(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("creating the truth log: %w", err)
	}
	w := bufio.NewWriterSize(f, 1<<16)
	_, err = l.WriteTo(w)
	if err == nil {
		err = w.Flush()
	}
	if cerr := f.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("closing the truth log: %w", cerr)
	}
	return err
}

// Lateness sums up how late events were written, deadline against true time.
type Lateness struct {
	N       int64         `json:"n"`
	P50     time.Duration `json:"p50_ns"`
	P99     time.Duration `json:"p99_ns"`
	Max     time.Duration `json:"max_ns"`
	Over1ms int64         `json:"over_1ms"`
	Lagging bool          `json:"lagging"` // p99 above one millisecond: the timetable was not kept
}

// lateHist counts latenesses in buckets of about 3 % width. Any goroutine may add.
type lateHist struct {
	bucket [64 * lateSub]atomic.Int64
	n, max atomic.Int64
	over   atomic.Int64
}

const lateSub = 32

func (h *lateHist) add(d int64) {
	d = max(d, 0)
	h.bucket[lateBucket(d)].Add(1)
	h.n.Add(1)
	if d > int64(time.Millisecond) {
		h.over.Add(1)
	}
	for {
		old := h.max.Load()
		if d <= old || h.max.CompareAndSwap(old, d) {
			return
		}
	}
}

func lateBucket(d int64) int {
	if d < lateSub {
		return int(d)
	}
	e := bits.Len64(uint64(d)) - 6 // keeps 6 significant bits: 32..63
	return (e+1)*lateSub + int(d>>e) - lateSub
}

// lateTop returns the largest value of a bucket.
func lateTop(i int) int64 {
	if i < lateSub {
		return int64(i)
	}
	e := i/lateSub - 1
	return int64(i%lateSub+lateSub+1)<<e - 1
}

func (h *lateHist) summary() Lateness {
	l := Lateness{N: h.n.Load(), Max: time.Duration(h.max.Load()), Over1ms: h.over.Load()}
	l.P50, l.P99 = h.quantile(l.N, 0.5), h.quantile(l.N, 0.99)
	l.Lagging = l.P99 > time.Millisecond
	return l
}

func (h *lateHist) quantile(n int64, q float64) time.Duration {
	rank := int64(q*float64(n-1)) + 1
	for i := range h.bucket {
		if rank -= h.bucket[i].Load(); rank <= 0 && n > 0 {
			return time.Duration(min(lateTop(i), h.max.Load()))
		}
	}
	return time.Duration(h.max.Load())
}
