package serve

import (
	"runtime"
	"sync/atomic"
)

// A step of a simulated engine gives tokens to hundreds of streams at one instant. Written by one
// thread, the last of them would be milliseconds late, so large bursts are shared out among threads.

// Burster is an engine whose outputs come in bursts.
type Burster interface {
	// Burst is the number of streams that may get an output at once.
	Burst() int
}

const (
	sharedBurst = 64 // streams from which on sharing pays
	maxScribes  = 8
	handful     = 16 // deliveries written before looking up
)

// delivery is an output to be written.
type delivery struct {
	s *stream
	o Output
}

// burst is what several threads are writing: deliveries, shared out by stream.
type burst struct {
	deliveries []delivery
	shares     int
	at         int          // the first delivery that the pacer has not looked at
	busy       atomic.Int32 // helpers that are not through
}

// outWriter is a thread that writes, with its scratch.
type outWriter struct {
	frame frame
	gone  []*stream // streams whose write went wrong
	share int       // which streams are its own: those whose index has this remainder
	start chan *burst
}

// advance lets the engine work. What it emits is written at once, or gathered for a burst.
func (p *pacer) advance(now int64) {
	b, ok := p.engine.(Burster)
	p.gathering = p.flying || ok && b.Burst() >= sharedBurst && runtime.GOMAXPROCS(0) > 1
	p.engine.Advance(now)
	p.gathering = p.flying
	p.dropGone(now)
	p.checkAlive()
}

// write goes on with what was gathered, a few deliveries at a time so that the engine's deadlines and
// arrivals meanwhile are not kept waiting; false when there is nothing to do but sleep.
func (p *pacer) write() bool {
	switch b := &p.burst; {
	case b.at < len(b.deliveries):
		b.at = p.own.some(b, b.at)
	case b.busy.Load() > 0:
		return false
	case p.flying:
		p.landed()
	case len(p.gathered) > 0:
		p.launch()
	default:
		return false
	}
	return true
}

// launch begins to write what was gathered. A stream has one writer within a burst, and the next burst
// begins when all of this one is written, so its outputs stay in order.
func (p *pacer) launch() {
	b := &p.burst
	b.deliveries, p.gathered = p.gathered, b.deliveries[:0]
	b.at, b.shares = 0, 1
	if len(b.deliveries) >= sharedBurst {
		b.shares = min(runtime.GOMAXPROCS(0), maxScribes)
	}
	p.flying, p.gathering = true, true
	b.busy.Store(int32(b.shares - 1))
	for len(p.helpers) < b.shares-1 {
		p.startWriter()
	}
	for _, h := range p.helpers[:b.shares-1] {
		h.start <- b
	}
}

// landed does what had to wait until no other thread writes.
func (p *pacer) landed() {
	clear(p.burst.deliveries)
	p.burst.deliveries = p.burst.deliveries[:0]
	p.burst.at = 0
	p.flying, p.gathering = false, false
	p.dropGone(Mono())
}

// some writes the next few deliveries of a writer's share and returns how far it has come.
func (w *outWriter) some(b *burst, at int) int {
	for left := handful; at < len(b.deliveries) && left > 0; at++ {
		l := &b.deliveries[at]
		if b.shares == 1 || l.s.req.Index%b.shares == w.share {
			l.s.deliver(w, l.o)
			left--
		}
	}
	return at
}

// startWriter starts one more writer. It ends when its channel is closed. Between handfuls it lets others run:
// whoever reads requests needs the processor, too.
func (p *pacer) startWriter() {
	w := &outWriter{share: len(p.helpers) + 1, start: make(chan *burst, 1)} // one at a time: handing it over never waits
	p.helpers = append(p.helpers, w)
	p.staff.Go(func() {
		for b := range w.start {
			for at := 0; at < len(b.deliveries); runtime.Gosched() {
				at = w.some(b, at)
			}
			if b.busy.Add(-1) == 0 {
				p.alarm.ring()
			}
		}
	})
}

// dismiss ends the helpers.
func (p *pacer) dismiss() {
	for _, h := range p.helpers {
		close(h.start)
	}
	p.staff.Wait()
}
