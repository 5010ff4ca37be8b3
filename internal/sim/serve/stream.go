package serve

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// wire is where a stream's bytes go.
type wire interface {
	// Write blocks until all is written.
	Write(b []byte) (int, error)
	// sendNow writes what can be written without blocking; only used on direct streams.
	sendNow(b []byte) (int, error)
	// answer sends a whole response.
	answer(a answer) error
	// pause waits before the response begins; false when the client left or the server stopped.
	pause(d time.Duration) bool
	// kill closes the connection, by reset if asked.
	kill(reset bool)
}

// stream answers one call. The engine emits into it on the pacer's thread.
//
// A direct stream is a healthy one on a plain socket: Emit writes its event on the spot. When the
// socket is full the rest goes to a goroutine (pump) until it has caught up, so that one slow
// reader never delays the others. Streams over TLS, through Handler, with faults, and answers that
// are not streamed always have their pump.
type stream struct {
	srv     *Server
	call    *genCall
	req     *Request
	fate    fate
	enc     encoder
	wire    wire
	chunked bool
	keep    bool // the connection serves another request afterwards
	direct  bool

	jammed atomic.Bool // direct, but a pump is catching up; set by the pacer, cleared by the pump
	mu     sync.Mutex
	queue  []item
	rest   []byte        // what a short write left over; goes before queue
	hung   bool          // the client left while a pump was catching up
	wake   chan struct{} // tells a lasting pump that queue has grown
	cancel chan struct{} // closed when the client has gone
	once   sync.Once

	scheduled, cached atomic.Int64 // set by Start on the pacer's thread, read by whoever writes

	n           int // token events written
	first, last int64
	truth       *Truth
	ended       atomic.Bool
	done        chan struct{}
}

// item is an output waiting for the pump, and how much of it has been written already.
type item struct {
	out  Output
	from part
}

// part is one write of an output: chat's role event before the first token, the token event, and
// after the last one usage and [DONE].
type part uint8

const (
	partRole part = iota
	partToken
	partTail
	partEnd
)

func (s *stream) has(p part, o Output) bool {
	switch p {
	case partRole:
		return s.call.chat && o.Err == nil && (s.n == 0 || s.enc.silent(o.Choice))
	case partTail:
		return o.ends()
	default:
		return p == partToken
	}
}

// fill renders one part into f and notes the truth of it. The stamp is the last thing taken before
// the few bytes that depend on it are rendered and the caller writes.
func (s *stream) fill(f *frame, p part, o Output, bad bool) {
	at := Mono()
	switch p {
	case partRole:
		f.buf = s.enc.role(f.buf, o.Choice, at)
		s.note(Event{At: at, Due: o.Due, Kind: EventRole})
	case partToken:
		if o.Err != nil {
			f.buf = failureEvent(f.buf, o.Err)
			s.note(Event{At: at, Due: o.Due, Kind: EventError})
			return
		}
		f.buf = s.enc.output(f.buf, o, at, bad, s.fate.style.noFinish)
		s.note(Event{At: at, Due: o.Due, Tokens: o.Tokens, Kind: EventToken})
		s.token(at, o)
	case partTail:
		s.truth.Finish = o.Finish.String()
		if s.call.usage && o.Err == nil {
			f.buf = s.enc.final(f.buf, at, s.metrics())
			s.note(Event{At: at, Due: o.Due, Kind: EventUsage})
		}
		if !s.fate.style.noDone {
			f.buf = append(f.buf, doneEvent...)
			s.note(Event{At: at, Due: o.Due, Kind: EventDone})
		}
	}
}

func (s *stream) note(e Event) {
	if s.srv.keepEvents {
		s.truth.Events = append(s.truth.Events, e)
	}
}

// token counts one token event written at a true time.
func (s *stream) token(at int64, o Output) {
	m := &s.srv.metrics
	if o.Choice > 0 { // the gaps of a stream are those of its first answer
		s.n++
		m.generated.Add(int64(o.Tokens))
		return
	}
	if s.last == 0 {
		s.first = at
		m.ttft.observe(at - s.req.Arrived)
	} else {
		m.itl.observe(at - s.last)
	}
	s.last = at
	s.n++
	m.generated.Add(int64(o.Tokens))
	if s.fate.style == (style{}) && len(s.fate.strikes) == 0 {
		s.srv.late.add(at - o.Due)
	}
}

// Start implements Stream.
func (s *stream) Start(at int64, cached int) {
	s.scheduled.Store(at)
	s.cached.Store(int64(cached))
}

// Emit implements Stream.
func (s *stream) Emit(o Output) {
	if s.ended.Load() {
		return
	}
	switch p := s.srv.pacer; {
	case !s.direct:
		s.enqueue(o)
	case p.gathering:
		p.gathered = append(p.gathered, delivery{s, o})
	default:
		s.deliver(&p.own, o)
	}
}

// deliver writes an output on the spot, with the scratch of the thread it runs on.
func (s *stream) deliver(w *outWriter, o Output) {
	if s.ended.Load() || s.jammed.Load() && s.enqueue(o) {
		return
	}
	f := &w.frame
	for p := partRole; p < partEnd; p++ {
		if !s.has(p, o) {
			continue
		}
		f.reset()
		s.fill(f, p, o, false)
		b := f.chunk(s.chunked, p == partTail)
		n, err := s.wire.sendNow(b)
		if err != nil {
			w.gone = append(w.gone, s)
			s.end("abort")
			return
		}
		if n < len(b) {
			s.jam(b[n:], o, p+1)
			return
		}
	}
	if o.ends() {
		s.end(o.status())
	}
}

// status is how a stream ends with its last output.
func (o *Output) status() string {
	if o.Err != nil {
		return "error"
	}
	return "ok"
}

// enqueue leaves an output to the pump; false when the pump has just caught up and gone.
func (s *stream) enqueue(o Output) bool {
	s.mu.Lock()
	if s.direct && !s.jammed.Load() {
		s.mu.Unlock()
		return false
	}
	s.queue = append(s.queue, item{out: o})
	s.mu.Unlock()
	if !s.direct {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// jam hands a stream whose socket is full to a pump.
func (s *stream) jam(rest []byte, o Output, from part) {
	s.srv.jams.Add(1)
	s.rest = append(s.rest[:0], rest...)
	s.queue = append(s.queue[:0], item{out: o, from: from})
	s.jammed.Store(true)
	s.srv.wg.Go(s.pump)
}

// pump writes queued outputs, blocking as long as the client makes it. On a direct stream it
// leaves when it has caught up, otherwise when the stream ends.
func (s *stream) pump() {
	w := pumping{s: s}
	for {
		s.mu.Lock()
		rest, todo := s.rest, s.queue
		s.rest, s.queue = nil, w.spare[:0]
		if len(rest) == 0 && len(todo) == 0 && s.direct {
			s.jammed.Store(false)
			hung := s.hung
			s.mu.Unlock()
			if hung {
				s.end("abort")
			}
			return
		}
		s.mu.Unlock()
		if len(rest) > 0 && !w.write(rest) {
			return
		}
		for _, it := range todo {
			if !w.item(it) {
				return
			}
		}
		w.spare = todo
		if len(todo) == 0 && len(rest) == 0 && !s.waitMore(&w) {
			return
		}
	}
}

// waitMore sleeps until there is more to write; false when the stream has ended.
func (s *stream) waitMore(w *pumping) bool {
	if s.fate.style.flood && !w.flush(false) {
		return false
	}
	select {
	case <-s.wake:
		return true
	case <-s.cancel:
	case <-s.srv.dying:
	}
	s.leave("abort")
	return false
}

// end settles the stream's fate, once.
func (s *stream) end(status string) {
	if !s.ended.CompareAndSwap(false, true) {
		return
	}
	t := s.truth
	t.Status, t.Scheduled, t.Cached, t.Tokens = status, s.scheduled.Load(), int(s.cached.Load()), s.enc.total()
	s.srv.settle(s)
	if !s.keep || s.srv.closing.Load() {
		s.wire.kill(false)
	}
	close(s.done)
}

// hangUp says that the client has gone. Any goroutine may call it: whoever is writing the stream
// settles it.
func (s *stream) hangUp() {
	s.once.Do(func() {
		close(s.cancel)
		s.srv.pacer.send(order{abort: s})
	})
}

// dropped settles a stream after its request was aborted, on the pacer's thread, unless a pump has
// it in hand.
func (s *stream) dropped() {
	if !s.direct {
		return
	}
	s.mu.Lock()
	s.hung = true
	jammed := s.jammed.Load()
	s.mu.Unlock()
	if !jammed {
		s.end("abort")
	}
}

// leave is called by the pump when the client has gone or the stream cannot go on; the engine is told.
func (s *stream) leave(status string) {
	if s.ended.Load() {
		return
	}
	s.srv.pacer.send(order{abort: s})
	s.end(status)
}

// metrics returns the per-request timings vLLM can add to the usage event, or nil.
func (s *stream) metrics() []byte {
	if !s.srv.cfg.RequestMetrics {
		return nil
	}
	ms := func(ns int64) float64 { return float64(ns) / float64(time.Millisecond) }
	gen, sched := s.last-s.first, s.scheduled.Load()
	var itl, rate float64
	if s.enc.tokens > 1 {
		itl = ms(gen) / float64(s.enc.tokens-1)
	}
	if total := s.last - sched; total > 0 {
		rate = float64(s.enc.tokens) / (float64(total) / float64(time.Second))
	}
	return appendTimings(nil, ms(s.first-sched), ms(gen), ms(sched-s.req.Arrived), itl, rate)
}

// refused carries out the faults that come instead of an answer; true when one did.
func (s *stream) refused() bool {
	f := &s.fate
	if f.stall != 0 && !s.wire.pause(f.stall) {
		s.end("abort")
		return true
	}
	switch {
	case f.reset:
		s.wire.kill(true)
		s.end("reset")
	case f.garbled != nil:
		_, _ = s.wire.Write(f.garbled) // garbage need not arrive
		s.wire.kill(false)
		s.end("garbage")
	case f.status != nil:
		if s.wire.answer(f.statusAnswer()) != nil {
			s.end("abort")
			return true
		}
		s.end("status")
	default:
		return false
	}
	return true
}

// statusAnswer is the HTTP error a status fault sends.
func (f *fate) statusAnswer() answer {
	ft := f.status
	a := answer{status: ft.Code, retryAfter: ft.RetryAfter}
	if ft.Text != "" {
		a.body, a.ctype = []byte(ft.Text), "text/plain; charset=utf-8"
		if strings.HasPrefix(ft.Text, "{") {
			a.ctype = ""
		}
		return a
	}
	kind := "InternalServerError"
	if ft.Code == http.StatusTooManyRequests {
		kind = "RateLimitError"
	}
	e := failure(&apiError{status: ft.Code, kind: kind, message: http.StatusText(ft.Code)})
	a.body = e.body
	return a
}
