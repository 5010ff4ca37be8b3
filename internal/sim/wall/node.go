package wall

import (
	"time"

	"spate/internal/sim"
	"spate/internal/sim/latency"
)

// node is an engine at work.
type node struct {
	index    int
	engine   *sim.Engine
	model    latency.Model
	depth    int             // batches that may be under way
	stages   []time.Duration // when each pipeline stage is free
	flights  []flight
	spare    [][]time.Duration
	planning bool          // a plan event is in the queue
	paused   time.Duration // no step starts before this time
}

// flight is a batch under way: the ends of its step, or of steps decided on together.
type flight struct {
	ends   []time.Duration
	drafts int // tokens drafted beyond one per request
	rounds int // requests that drafted
}

// wake plans the engine's next step once everything of this instant has happened.
func (e *Engine) wake(n *node) {
	if !n.planning && len(n.flights) < n.depth {
		n.planning = true
		e.at(max(e.now, n.paused), plans, int32(n.index), nil)
	}
}

// plan starts as many steps as the engine allows.
func (e *Engine) plan(n *node) {
	n.planning = false
	if e.now < n.paused {
		e.wake(n)
		return
	}
	if e.cfg.Lock {
		e.planTogether()
		return
	}
	for e.dead == nil {
		b, ok := n.engine.Plan(e.now)
		if !ok {
			return
		}
		e.launch(n, &b, n.model.Step(b.Shape))
	}
}

// planTogether starts a step of all replicas at once; it takes as long as the slowest one's.
func (e *Engine) planTogether() {
	for _, n := range e.nodes {
		if len(n.flights) > 0 {
			return
		}
	}
	batches := make([]sim.Batch, len(e.nodes))
	planned := make([]bool, len(e.nodes))
	longest := time.Duration(0)
	for i, n := range e.nodes {
		if batches[i], planned[i] = n.engine.Plan(e.now); planned[i] {
			longest = max(longest, n.model.Step(batches[i].Shape))
		}
	}
	for i, n := range e.nodes {
		if planned[i] && e.dead == nil {
			batches[i].Repeat = 1
			e.launch(n, &batches[i], longest)
		}
	}
}

// launch runs a batch.
func (e *Engine) launch(n *node, b *sim.Batch, d time.Duration) {
	if e.cfg.Exhausts != nil && e.cfg.Exhausts(b.Shape) {
		e.die(outOfMemory)
		return
	}
	for _, a := range b.Admitted {
		if c := e.slots[a.ID]; c != nil && !a.Again {
			c.out.Start(e.mono(e.now), a.Cached)
		}
	}
	e.steps.Add(float64(b.Shape.Tokens()))
	f := flight{drafts: b.Shape.Drafts}
	if f.drafts > 0 {
		f.rounds = b.Shape.Decode
	}
	if k := len(n.spare); k > 0 {
		f.ends, n.spare = n.spare[k-1][:0], n.spare[:k-1]
	}
	end := n.pass(e.now, d)
	f.ends = append(f.ends, end)
	for k, shape := 1, b.Shape; k < min(b.Repeat, e.cfg.Group); k++ {
		shape = shape.After(1)
		end = n.pass(end, n.model.Step(shape))
		f.ends = append(f.ends, end)
	}
	n.flights = append(n.flights, f)
	e.at(end, stepEnds, int32(n.index), nil)
	if e.cfg.Trace != nil {
		e.cfg.Trace(n.index, b, e.now, end)
	}
}

// pass sends a batch through the pipeline's stages and gives the time at which it leaves the last.
func (n *node) pass(t, d time.Duration) time.Duration {
	share := d / time.Duration(len(n.stages))
	rest := d - share*time.Duration(len(n.stages)-1)
	for i := range n.stages {
		t = max(t, n.stages[i])
		if i == 0 {
			t += rest
		} else {
			t += share
		}
		n.stages[i] = t
	}
	return t
}

// stepEnded commits the oldest batch of a node and hands its tokens out, all at once.
func (e *Engine) stepEnded(n *node) {
	if len(n.flights) == 0 {
		return // it died meanwhile
	}
	f := n.flights[0]
	k := copy(n.flights, n.flights[1:])
	n.flights = n.flights[:k]
	out := n.engine.CommitRun(f.ends)
	e.deliver(out, f)
	n.spare = append(n.spare, f.ends)
	e.wake(n)
	if e.cfg.Lock {
		for _, other := range e.nodes {
			e.wake(other)
		}
	}
}
