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
	own    outWriter // of the loop's thread

	gathering bool       // Emit collects instead of writing
	gathered  []delivery // what it collected
	flying    bool       // burst is being written, maybe by helpers
	burst     burst
	helpers   []*outWriter
	staff     sync.WaitGroup

	mu      sync.Mutex
	inbox   []order
	pending atomic.Bool
	todo    []order // taken out of it

	lag   lateHist                // of the engine's deadlines
	entry lateHist                // of requests, from their last byte to the engine
	dead  atomic.Pointer[Failure] // why the engine is, when it is
	done  chan struct{}
}

// order is something another goroutine wants done on the pacer's thread.
type order struct {
	submit *stream
	abort  *stream
	ask    func(Engine)
	stop   bool
}

func newPacer(e Engine) *pacer {
	return &pacer{engine: e, alarm: newAlarm(), done: make(chan struct{})}
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
	p.send(order{ask: func(e Engine) { f(e); p.checkAlive(); close(ok) }})
	select {
	case <-ok:
		return true
	case <-p.done:
		return false
	}
}

// run looks at orders, deadlines and deliveries in turn, and sleeps when there is nothing to do. Late is
// what was known to be due beforehand: requests come when they come, and how long they wait for the
// engine is counted apart.
func (p *pacer) run() {
	lockThread()
	defer close(p.done)
	defer p.dismiss()
	for due := Never; ; {
		seen := p.alarm.count()
		if !p.orders() {
			return
		}
		now := Mono()
		if due <= now {
			p.lag.add(now - due)
		}
		if p.engine.Next() <= now {
			p.advance(now)
		}
		due = p.engine.Next()
		if !p.write() {
			p.alarm.sleep(seen, due)
		}
	}
}

// orders does what other goroutines asked for; false means stop. While a burst is being written only new
// requests are let in: the rest may concern streams that others are writing.
func (p *pacer) orders() bool {
	if p.pending.Load() {
		p.mu.Lock()
		p.pending.Store(false)
		p.todo = append(p.todo, p.inbox...)
		clear(p.inbox)
		p.inbox = p.inbox[:0]
		p.mu.Unlock()
	}
	if len(p.todo) == 0 {
		return true
	}
	now, kept := Mono(), p.todo[:0]
	for _, o := range p.todo {
		switch {
		case o.submit != nil:
			p.entry.add(now - o.submit.req.Arrived)
			p.engine.Submit(now, o.submit.req, o.submit)
		case p.flying:
			kept = append(kept, o)
		case o.abort != nil:
			p.engine.Abort(now, o.abort.req)
			o.abort.dropped()
		case o.ask != nil:
			o.ask(p.engine)
		case o.stop:
			return false
		}
	}
	clear(p.todo[len(kept):])
	p.todo = kept
	p.dropGone(now)
	p.checkAlive()
	return true
}

// checkAlive notes whether the engine is still alive.
func (p *pacer) checkAlive() {
	if m, ok := p.engine.(Mortal); ok {
		if f := m.Dead(); f != p.dead.Load() {
			p.dead.Store(f)
		}
	}
}

// dropGone aborts streams that failed inside Emit, where the engine could not be called. Those of a
// burst wait until it is written.
func (p *pacer) dropGone(now int64) {
	if p.flying {
		return
	}
	p.drop(now, &p.own)
	for _, h := range p.helpers {
		p.drop(now, h)
	}
}

func (p *pacer) drop(now int64, w *outWriter) {
	for i, s := range w.gone {
		p.engine.Abort(now, s.req)
		w.gone[i] = nil
	}
	w.gone = w.gone[:0]
}
