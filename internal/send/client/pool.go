package client

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// idleLimit is how long a used connection may lie idle. Common servers close theirs after 5 s; a
// request written at that very moment would be lost, so spate lets go first.
const idleLimit = 4 * time.Second

// How long a connection must have stayed open after an answer before the server is believed to keep connections.
// llama.cpp closes after 0.1 ms; a round trip and a busy machine come on top.
const (
	probation    = 20 * time.Millisecond
	maxProbation = 100 * time.Millisecond
)

// pool keeps the connections to one target. In the default mode connections are opened ahead of
// need, so that dialing stays out of a request's latency.
type pool struct {
	dialer *dialer
	ahead  bool
	most   int           // never hold more connections than this; 0 means no bound
	trial  time.Duration // see probation

	mu    sync.Mutex
	fresh []*opened // idle, and have carried no request
	used  []*opened // idle after an answer; the longest idle one first
	inUse int
	once  bool // the server closes connections after one answer, without saying so: none is used twice
	keeps bool // the server is believed to keep connections: one stayed open after an answer
	twice bool // the server is known to keep them: one has brought two answers

	wake chan struct{}
	stop context.CancelFunc
	done chan struct{}

	dialed, inBand, resent atomic.Int64
}

func newPool(d *dialer, ahead bool, most int) *pool {
	p := &pool{dialer: d, ahead: ahead, most: most, trial: probation, wake: make(chan struct{}, 1), done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	if ahead {
		go p.keepAhead(ctx)
	} else {
		close(p.done)
	}
	return p
}

// get takes an idle connection, or opens one now; fresh says that it was opened inside this call.
func (p *pool) get(ctx context.Context) (o *opened, fresh bool, err error) {
	if o := p.pop(); o != nil {
		return o, false, nil
	}
	p.dialed.Add(1)
	p.inBand.Add(1)
	o, err = p.dialer.open(ctx)
	if err != nil {
		p.release()
		return nil, true, err
	}
	return o, true, nil
}

// pop takes a live idle connection, the most recently used first, and counts it as in use; it counts the
// caller's new connection as in use when there is none. As long as it is not known whether the server keeps
// connections, those that have carried no request come first: a request on one that is about to be closed
// would have to be sent again.
func (p *pool) pop() *opened {
	now := p.dialer.clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inUse++
	defer p.nudge()
	p.look(now)
	first, then := &p.fresh, &p.used
	if p.keeps {
		first, then = then, first
	}
	if o := p.take(first, now); o != nil {
		return o
	}
	return p.take(then, now)
}

// take takes the last live connection of a list and closes what it passes.
func (p *pool) take(list *[]*opened, now time.Duration) *opened {
	for len(*list) > 0 {
		o := (*list)[len(*list)-1]
		*list = (*list)[:len(*list)-1]
		usable := o.usable(now)
		if usable && !(p.once && o.used) {
			return o
		}
		p.once = p.once || !usable && o.answers == 1 && o.young(now)
		o.link.close()
	}
	return nil
}

// look learns from the connections that have been idle longest after an answer whether the server keeps
// connections. A few are enough, and a thousand would take their time.
func (p *pool) look(now time.Duration) {
	if p.keeps || p.once {
		return
	}
	for _, o := range p.used[:min(4, len(p.used))] {
		switch open := o.usable(now); {
		case !open:
			p.once = p.once || o.answers == 1 && o.young(now)
		case now-o.idleSince >= p.trialOf(o):
			p.keeps = true
		}
	}
}

func (p *pool) trialOf(o *opened) time.Duration {
	return max(p.trial, min(2*o.dial, maxProbation))
}

// learn waits until it is known whether the server keeps connections, where one has brought an answer already: that of
// a readiness check or a warm-up. It takes some milliseconds, before the first measured request.
func (p *pool) learn(ctx context.Context) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for p.undecided() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// undecided reports whether an idle connection will soon tell how the server treats connections.
func (p *pool) undecided() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keeps || p.once {
		return false
	}
	now := p.dialer.clock.Now()
	p.look(now)
	return !p.keeps && !p.once && slices.ContainsFunc(p.used, func(o *opened) bool { return o.usable(now) })
}

func (o *opened) usable(now time.Duration) bool {
	return o.young(now) && o.link.alive(now-o.idleSince)
}

func (o *opened) young(now time.Duration) bool { return !o.used || now-o.idleSince < idleLimit }

func (p *pool) put(o *opened) {
	o.used, o.idleSince = true, p.dialer.clock.Now()
	o.answers++
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inUse--
	if o.answers > 1 {
		p.keeps, p.twice = true, true
	}
	if p.once {
		o.link.close()
		return
	}
	p.used = append(p.used, o)
}

// mute is told of a connection that was closed instead of an answer, and says whether its request may be sent again.
// Some servers promise to keep connections and close each after one answer; llama.cpp's does, after a stream. As long
// as no connection has brought two answers, a close after the first is taken for that: the server never read the
// request. From then on no connection is used twice.
func (p *pool) mute(o *opened) (again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o.answers != 1 {
		return false
	}
	p.once = true
	return !p.twice
}

func (p *pool) discard(o *opened) {
	o.link.close()
	p.release()
}

func (p *pool) release() {
	p.mu.Lock()
	p.inUse--
	p.mu.Unlock()
}

func (p *pool) nudge() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// warm opens connections until n are open, a few dozen at a time so that the server's accept queue
// is not flooded. It stops at the first error, which the caller may ignore: a request will meet it.
func (p *pool) warm(ctx context.Context, n int) error {
	const parallel = 32
	p.mu.Lock()
	n -= p.idle() + p.inUse
	p.mu.Unlock()
	gate := make(chan struct{}, parallel)
	var wg sync.WaitGroup
	var first error
	var once sync.Once
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for range max(0, n) {
		gate <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-gate }()
			if err := p.openIdle(ctx); err != nil {
				once.Do(func() { first = err; cancel() })
			}
		})
	}
	wg.Wait()
	return first
}

func (p *pool) openIdle(ctx context.Context) error {
	p.dialed.Add(1)
	o, err := p.dialer.open(ctx)
	if err != nil {
		return err
	}
	o.idleSince = p.dialer.clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.most > 0 && p.idle()+p.inUse >= p.most { // a request opened its own meanwhile
		o.link.close()
		return nil
	}
	p.fresh = append(p.fresh, o)
	return nil
}

// keepAhead holds a reserve of idle connections while a run goes: a quarter of those in use and at
// least four.
func (p *pool) keepAhead(ctx context.Context) {
	defer close(p.done)
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		}
		for p.short() && ctx.Err() == nil {
			if p.openIdle(ctx) != nil {
				break // the request that needs it will say what is wrong
			}
		}
	}
}

func (p *pool) short() bool {
	now := p.dialer.clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	old := 0
	for old < len(p.used) && !p.used[old].young(now) {
		p.used[old].link.close()
		old++
	}
	p.used = slices.Delete(p.used, 0, old)
	want := max(4, p.inUse/4)
	if p.most > 0 {
		want = min(want, p.most-p.inUse)
	}
	return p.idle() < want
}

// idle is how many connections wait for a request.
func (p *pool) idle() int { return len(p.fresh) + len(p.used) }

func (p *pool) close() {
	p.stop()
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range append(p.fresh, p.used...) {
		o.link.close()
	}
	p.fresh, p.used = nil, nil
}
