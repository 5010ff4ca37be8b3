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
	idle  []*opened
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

// pop takes the most recently used live connection and counts it as in use; it counts the caller's
// new connection as in use when there is none.
func (p *pool) pop() *opened {
	now := p.dialer.clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inUse++
	defer p.nudge()
	if !p.keeps && !p.once {
		p.prefer(now)
	}
	for len(p.idle) > 0 {
		o := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		usable := o.usable(now)
		if usable && !(p.once && o.used) {
			return o
		}
		p.once = p.once || !usable && o.answers == 1 && o.young(now)
		o.link.close()
	}
	return nil
}

// prefer looks how the server treats connections that have brought an answer, and as long as that is not known, puts
// those that have brought none before them. A request on one that is about to be closed would have to be sent again.
func (p *pool) prefer(now time.Duration) {
	fresh, used := make([]*opened, 0, len(p.idle)), []*opened(nil)
	for _, o := range p.idle {
		if !o.used {
			fresh = append(fresh, o)
			continue
		}
		used = append(used, o)
		switch open := o.usable(now); {
		case !open:
			p.once = p.once || o.answers == 1 && o.young(now)
		case now-o.idleSince >= p.trialOf(o):
			p.keeps = true
		}
	}
	if p.keeps || p.once {
		return // the order stays: what was used last is taken first
	}
	p.idle = append(used, fresh...)
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
	p.prefer(now)
	return !p.keeps && !p.once && slices.ContainsFunc(p.idle, func(o *opened) bool { return o.used && o.usable(now) })
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
	p.idle = append(p.idle, o)
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
	n -= len(p.idle) + p.inUse
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
	if p.most > 0 && len(p.idle)+p.inUse >= p.most { // a request opened its own meanwhile
		o.link.close()
		return nil
	}
	p.idle = append([]*opened{o}, p.idle...) // used ones first: they are at the end
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
	live := p.idle[:0]
	for _, o := range p.idle {
		if o.young(now) {
			live = append(live, o)
		} else {
			o.link.close()
		}
	}
	p.idle = live
	want := max(4, p.inUse/4)
	if p.most > 0 {
		want = min(want, p.most-p.inUse)
	}
	return len(p.idle) < want
}

func (p *pool) close() {
	p.stop()
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.idle {
		o.link.close()
	}
	p.idle = nil
}
