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
	if !p.gathering {
		p.settle() // what is emitted is written at once
	}
	p.engine.Advance(now)
	p.gathering = false
	if len(p.burst) > 0 {
		p.writeBurst()
	}
}

// writeBurst has what was collected written. A large burst is left to the scribes, so that the engine
// wakes in time for what is due while they write: the next arrival, or the next step. A stream always
// goes to the same scribe within a burst, and bursts follow one another, so its outputs stay in order.
func (p *pacer) writeBurst() {
	p.settle()
	if len(p.burst) < sharedBurst {
		p.own.write(p.burst, 1)
		clear(p.burst)
		p.burst = p.burst[:0]
		return
	}
	p.burst, p.flying = p.flying, p.burst
	n := min(runtime.GOMAXPROCS(0), maxScribes)
	for len(p.helpers) < n {
		p.hire()
	}
	for _, h := range p.helpers[:n] {
		h.start <- n
	}
	p.writing = n
}

// settle waits until the scribes are through. Before it neither their streams nor what they noted may be
// touched.
func (p *pacer) settle() {
	for ; p.writing > 0; p.writing-- {
		<-p.wrote
	}
	clear(p.flying)
	p.flying = p.flying[:0]
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
	w := &scribe{share: len(p.helpers), start: make(chan int)}
	p.helpers = append(p.helpers, w)
	p.staff.Go(func() {
		for n := range w.start {
			w.write(p.flying, n)
			p.wrote <- struct{}{}
		}
	})
}

// dismiss ends the helpers.
func (p *pacer) dismiss() {
	p.settle()
	for _, h := range p.helpers {
		close(h.start)
	}
	p.staff.Wait()
}
