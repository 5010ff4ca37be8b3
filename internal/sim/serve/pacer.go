package serve

import (
	"sync"
	"sync/atomic"
)

// pacer owns the engine. Its loop runs on one locked thread that sleeps until the engine's next
// deadline, wakes, and lets the engine emit: for healthy plain connections each Emit is one
// non-blocking write on this very thread.
type pacer struct {
	engine Engine
	alarm  *alarm
	own    scribe // of the loop's thread

	gathering bool     // Emit collects instead of writing
	burst     []letter // what it collected
	helpers   []*scribe
	staff     sync.WaitGroup
	wrote     chan struct{} // one for each helper that is through

	mu      sync.Mutex
	inbox   []order
	pending atomic.Bool
	spare   []order

	lag  lateHist                // of the engine's deadlines
	dead atomic.Pointer[Failure] // why the engine is, when it is
	done chan struct{}
}

// order is something another goroutine wants done on the pacer's thread.
type order struct {
	submit *stream
	abort  *stream
	ask    func(Engine)
	stop   bool
}

func newPacer(e Engine) *pacer {
	return &pacer{engine: e, alarm: newAlarm(), done: make(chan struct{}), wrote: make(chan struct{}, maxScribes)}
}

func (p *pacer) send(o order) {
	p.mu.Lock()
	p.inbox = append(p.inbox, o)
	p.mu.Unlock()
	p.pending.Store(true)
	p.alarm.ring()
}

// ask runs f on the pacer's thread and waits for it; false when the pacer has stopped.
func (p *pacer) ask(f func(Engine)) bool {
	ok := make(chan struct{})
	p.send(order{ask: func(e Engine) { f(e); p.feel(); close(ok) }})
	select {
	case <-ok:
		return true
	case <-p.done:
		return false
	}
}

func (p *pacer) run() {
	lockThread()
	defer close(p.done)
	defer p.dismiss()
	for {
		seen := p.alarm.count()
		if p.pending.Load() && !p.orders() {
			return
		}
		now := Mono()
		next := p.engine.Next()
		if next > now {
			p.alarm.sleep(seen, next)
			continue
		}
		p.lag.add(now - next)
		p.advance(now)
		p.dropGone(now)
		p.feel()
	}
}

// orders does what other goroutines asked for; false means stop.
func (p *pacer) orders() bool {
	p.mu.Lock()
	p.pending.Store(false)
	todo := p.inbox
	p.inbox = p.spare[:0]
	p.mu.Unlock()
	now := Mono()
	for i, o := range todo {
		switch {
		case o.submit != nil:
			p.engine.Submit(now, o.submit.req, o.submit)
		case o.abort != nil:
			p.engine.Abort(now, o.abort.req)
			o.abort.dropped()
		case o.ask != nil:
			o.ask(p.engine)
		case o.stop:
			return false
		}
		todo[i] = order{}
	}
	p.spare = todo
	p.dropGone(now)
	p.feel()
	return true
}

// feel notes whether the engine is still alive.
func (p *pacer) feel() {
	if m, ok := p.engine.(Mortal); ok {
		if f := m.Dead(); f != p.dead.Load() {
			p.dead.Store(f)
		}
	}
}

// dropGone aborts streams that failed inside Emit, where the engine could not be called.
func (p *pacer) dropGone(now int64) {
	p.drop(now, &p.own)
	for _, h := range p.helpers {
		p.drop(now, h)
	}
}

func (p *pacer) drop(now int64, w *scribe) {
	for i, s := range w.gone {
		p.engine.Abort(now, s.req)
		w.gone[i] = nil
	}
	w.gone = w.gone[:0]
}
