package cluster

import (
	"errors"
	"fmt"
	"time"

	"spate/internal/rng"
	"spate/internal/sim"
)

// Live is a run without a load of its own: a driver injects calls as they come, and steps through the
// events at its own pace (sim/wall does, on the clock). Engines, router, link and order of events are
// those of Run, so the same arrivals give the same batches.
type Live struct {
	// Batch gets every batch that computes when it starts, and its end; nil: nobody does. False stops the
	// engine from going on, for a driver that drops the cluster then. Items are valid during the call only.
	Batch func(engine int, b *sim.Batch, end time.Duration) bool

	batch sim.Batch // what Batch is shown: a copy, so that batches of other runs can stay on the stack
}

// told shows a batch to the driver and reports whether the engine goes on.
func (l *Live) told(engine int, b *sim.Batch, end time.Duration) bool {
	if l.Batch == nil {
		return true
	}
	l.batch = *b
	return l.Batch(engine, &l.batch, end)
}

// Caller follows one call of a live run. Its methods are called at the cluster's Now.
type Caller interface {
	// Opened gives the call its place, by which it can be aborted. False: it is no longer wanted.
	Opened(id int32) bool
	// Started says that the call left a queue for the first time, with tokens found in the prefix cache.
	Started(cached int)
	// Tokens hands over what a step gave. After the last ones the call has no place any more.
	Tokens(n int, first, last bool)
	// Failed ends a call that cannot be served.
	Failed(err error)
}

var (
	errGaveUp   = errors.New("the client gave up")
	errCanceled = errors.New("the run was over")
	errLost     = errors.New("the KV transfer failed")
)

// Begin starts a live run.
func (c *Cluster) Begin(l Live) {
	c.start(Load{Sink: func(*Request) {}})
	c.drive = &l
	c.sampled = true // the driver has its own log
}

// Inject sends a call, whose Caller must be set, at its time or now if that is past.
func (c *Cluster) Inject(call Call) {
	call.At = max(call.At, c.now)
	var id int32
	if n := len(c.inboxFree); n > 0 {
		id, c.inboxFree = c.inboxFree[n-1], c.inboxFree[:n-1]
		c.inbox[id] = call
	} else {
		id = int32(len(c.inbox))
		c.inbox = append(c.inbox, call)
	}
	c.at(call.At, enters, id)
}

// entered opens a call that was injected.
func (c *Cluster) entered(ticket int32) {
	call := c.inbox[ticket]
	c.inbox[ticket] = Call{}
	c.inboxFree = append(c.inboxFree, ticket)
	if id := c.place(); call.Caller.Opened(id) {
		c.open(0, id, call, c.now)
		c.ingest(&c.clients[0], []int32{id}, c.now)
	} else {
		c.vacant = append(c.vacant, id)
	}
}

// Abort withdraws an opened call. Its Caller hears nothing more.
func (c *Cluster) Abort(id int32) {
	c.slots[id].call.Caller = nil
	c.withdraw(id, errGaveUp)
}

// hand gives the tokens of committed steps to their callers.
func (c *Cluster) hand(n *node, out *sim.Outputs) {
	for i := range out.List {
		o := &out.List[i]
		id := int32(o.ID)
		s := &c.slots[id]
		if s.phase == prefills {
			c.prefilled(n, id)
			continue
		}
		s.req.Got += o.Tokens
		caller, last := s.call.Caller, o.Reason != sim.Running
		if last {
			c.close(id, c.now)
		}
		caller.Tokens(o.Tokens, o.First, last)
	}
}

// Now is the time of the last event handled.
func (c *Cluster) Now() time.Duration { return c.now }

// Next is the time of the next event; false when there is none.
func (c *Cluster) Next() (time.Duration, bool) { return c.queue.Next() }

// Step handles the next event; false when there is none.
func (c *Cluster) Step() bool {
	e, ok := c.queue.Pop()
	if ok {
		c.now = e.At
		c.handle(e.Data)
	}
	return ok
}

// Open is the number of calls that have a place.
func (c *Cluster) Open() int { return c.live }

// Engines is the number of engines of either kind.
func (c *Cluster) Engines() int { return len(c.nodes) }

// Stall keeps every engine from starting a step before a time, as hanging GPUs do.
func (c *Cluster) Stall(until time.Duration) {
	for _, n := range c.nodes {
		n.paused = max(n.paused, until)
	}
}

// Lose makes a share of KV transfers fail from now on.
func (c *Cluster) Lose(share float64) error {
	if c.cfg.Disagg == nil {
		return errors.New("there are no transfers to lose: prompts and answers are computed by the same engines")
	}
	if !(share >= 0 && share <= 1) {
		return fmt.Errorf("the share of transfers lost is %v, want 0 to 1", share)
	}
	c.link.cfg.FailureRate = share
	return nil
}

// Transfers counts what crossed the link, and what was lost on it.
func (c *Cluster) Transfers() (moved, lost int64) { return c.link.moved, c.link.lost }

// Digest is a hash of every batch run so far by every engine.
func (c *Cluster) Digest() uint64 {
	var d uint64
	for _, n := range c.nodes {
		d = rng.Mix(d ^ n.engine.Digest())
	}
	return d
}

// States is the state of each engine, in the order of Engine.
func (c *Cluster) States() []sim.State {
	list := make([]sim.State, len(c.nodes))
	for i, n := range c.nodes {
		list[i] = n.engine.State()
	}
	return list
}
