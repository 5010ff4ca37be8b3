package serve

import "runtime"

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
)

// letter is an output to be written.
type letter struct {
	s *stream
	o Output
}

// scribe is a thread that writes, with its scratch.
type scribe struct {
	frame frame
	gone  []*stream // streams whose write went wrong
	share int       // which streams are its own: those whose index has this remainder
	start chan int  // number of shares
}

// advance lets the engine work and writes what it emits.
func (p *pacer) advance(now int64) {
	b, ok := p.engine.(Burster)
	p.gathering = ok && b.Burst() >= sharedBurst && runtime.GOMAXPROCS(0) > 1
	p.engine.Advance(now)
	p.gathering = false
	if len(p.burst) > 0 {
		p.writeBurst()
	}
}

// writeBurst writes what was collected and waits until all is written. A stream always goes to the
// same scribe within a burst, so its outputs stay in order.
func (p *pacer) writeBurst() {
	n := 1
	if len(p.burst) >= sharedBurst {
		n = min(runtime.GOMAXPROCS(0), maxScribes)
	}
	for len(p.helpers) < n-1 {
		p.hire()
	}
	for _, h := range p.helpers[:n-1] {
		h.start <- n
	}
	p.own.write(p.burst, n)
	for range n - 1 {
		<-p.wrote
	}
	clear(p.burst)
	p.burst = p.burst[:0]
}

func (w *scribe) write(burst []letter, shares int) {
	for i := range burst {
		l := &burst[i]
		if shares == 1 || l.s.req.Index%shares == w.share {
			l.s.deliver(w, l.o)
		}
	}
}

// hire starts one more scribe. It ends when its channel is closed.
func (p *pacer) hire() {
	w := &scribe{share: len(p.helpers) + 1, start: make(chan int)}
	p.helpers = append(p.helpers, w)
	p.staff.Go(func() {
		for n := range w.start {
			w.write(p.burst, n)
			p.wrote <- struct{}{}
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
