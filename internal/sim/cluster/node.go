package cluster

import (
	"time"

	"spate/internal/sim"
	"spate/internal/sim/latency"
)

// flying is a batch under way: the ends of its step, or of a stretch of steps.
type flying struct {
	ends    []time.Duration
	started time.Duration
}

// node is an engine at work.
type node struct {
	index    int
	engine   *sim.Engine
	model    latency.Model
	stages   []time.Duration // when each pipeline stage is free
	flights  []flying
	spare    [][]time.Duration
	planning bool          // a plan event is in the queue
	paused   time.Duration // no step starts before this time
	log      *stepLog
	keep     int // length at which the log is cut
	sampled  sim.Stats
	receive  reception
	swapNS   float64 // moving one block to or from the host's memory
}

func (n *node) begin() {
	n.log = &stepLog{}
	n.keep = 1 << 13
	n.planning, n.paused = false, 0
	n.sampled = n.engine.State().Stats
	clear(n.stages)
}

// wake plans the engine's next step once everything of this instant has happened.
func (c *Cluster) wake(n *node) {
	if !n.planning && len(n.flights) < n.depth() {
		n.planning = true
		c.at(max(c.now, n.paused), plans, int32(n.index))
	}
}

func (n *node) depth() int {
	cfg := n.engine.Config()
	return cfg.Depth()
}

// plan starts as many steps as the engine allows.
func (c *Cluster) plan(n *node) {
	n.planning = false
	if n.receive.active {
		return // it plans again when the prompts are in
	}
	if c.now < n.paused {
		c.wake(n)
		return
	}
	if c.cfg.Lock && n.index < len(c.cfg.Engines) {
		c.planTogether()
		return
	}
	for {
		b, ok := n.engine.Plan(c.now)
		c.fetch(n)
		if !ok {
			return
		}
		c.admitted(&b)
		if b.Receive > 0 {
			c.beginReceive(n, &b)
			return
		}
		if !c.launch(n, &b, c.stepTime(n, b.Shape)+n.move(b.Moved)) {
			return
		}
	}
}

// admitted notes when requests left the queue.
func (c *Cluster) admitted(b *sim.Batch) {
	for _, a := range b.Admitted {
		s := &c.slots[a.ID]
		if s.req.Scheduled != unset {
			continue
		}
		s.req.Scheduled, s.req.Cached = c.now, a.Cached
		if c.drive != nil {
			s.call.Caller.Started(a.Cached)
		}
	}
	for _, id := range b.Preempted {
		c.slots[id].req.Preempted++
	}
}

// move is the time that moving blocks to or from the host's memory takes.
func (n *node) move(blocks int) time.Duration { return ns(n.swapNS * float64(blocks)) }

// stepTime is the duration of a step, with what a prefill engine spends on handing over.
func (c *Cluster) stepTime(n *node, shape latency.Batch) time.Duration {
	d := n.model.Step(shape)
	if c.prefills(n) {
		d += c.cfg.Disagg.sendTime(shape)
	}
	return d
}

// launch runs a batch, and repeats it as long as nothing else happens. It reports whether the engine
// goes on, which only the driver of a live run can deny.
func (c *Cluster) launch(n *node, b *sim.Batch, d time.Duration) bool {
	f := flying{started: c.now}
	if k := len(n.spare); k > 0 {
		f.ends, n.spare = n.spare[k-1][:0], n.spare[:k-1]
	}
	end := n.pass(c.now, d)
	if t := c.clients[0].load.Trace; t != nil {
		seen := *b // a copy, so that batches of other runs can stay on the stack
		t(n.index, &seen, d)
	}
	f.ends = append(f.ends, end)
	if b.Repeat > 1 {
		most, horizon := c.stretch(b.Repeat)
		shape := b.Shape
		for k := 1; k < most && end < horizon; k++ {
			shape = shape.After(1)
			end = n.pass(end, c.stepTime(n, shape))
			f.ends = append(f.ends, end)
		}
	}
	n.flights = append(n.flights, f)
	c.at(end, stepEnds, int32(n.index))
	if !c.sampled {
		c.sampled = true
		c.at((c.now/c.cfg.Log+1)*c.cfg.Log, samples, 0)
	}
	return c.drive == nil || c.drive.told(n.index, b, end)
}

// stretch is how often a batch may be repeated, and the time from which it may not.
func (c *Cluster) stretch(repeat int) (int, time.Duration) {
	const never = time.Duration(1<<63 - 1)
	if c.drive != nil || c.cfg.Single || c.clients[0].load.Trace != nil {
		return 1, never
	}
	if horizon, busy := c.queue.Next(); busy {
		return repeat, horizon
	}
	return repeat, never
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

// planTogether starts a step of all engines at once; it takes as long as the slowest one's.
func (c *Cluster) planTogether() {
	group := c.nodes[:len(c.cfg.Engines)]
	for _, n := range group {
		if len(n.flights) > 0 {
			return
		}
	}
	batches := make([]sim.Batch, len(group))
	planned := make([]bool, len(group))
	longest := time.Duration(0)
	for i, n := range group {
		batches[i], planned[i] = n.engine.Plan(c.now)
		c.fetch(n)
		if planned[i] {
			c.admitted(&batches[i])
			longest = max(longest, c.stepTime(n, batches[i].Shape)+n.move(batches[i].Moved))
		}
	}
	for i, n := range group {
		if planned[i] {
			batches[i].Repeat = 1
			if !c.launch(n, &batches[i], longest) {
				return
			}
		}
	}
}

// stepEnded commits the oldest batch of a node.
func (c *Cluster) stepEnded(n *node) {
	f := n.flights[0]
	k := copy(n.flights, n.flights[1:])
	n.flights = n.flights[:k]
	c.deliver(n, n.engine.CommitRun(f.ends), f.ends)
	n.spare = append(n.spare, f.ends)
	if c.prefills(n) {
		c.prefillEnded(n)
	}
	c.wake(n)
	if c.cfg.Lock {
		for _, other := range c.nodes[:len(c.cfg.Engines)] {
			c.wake(other)
		}
	}
}

// catchUp commits the steps of a stretch that are over, so that the engine's state is that of now.
func (c *Cluster) catchUp(n *node) {
	if c.drive != nil || len(n.flights) == 0 || len(n.flights[0].ends) < 2 {
		return // steps decided on together end together
	}
	f := &n.flights[0]
	over := f.ends[:len(f.ends)-1]
	c.deliver(n, n.engine.Advance(over), over)
	f.ends = append(f.ends[:0], f.ends[len(f.ends)-1])
}

// sample writes a line of every engine's log.
func (c *Cluster) sample() {
	for _, n := range c.nodes {
		c.catchUp(n)
		st := n.engine.State()
		secs := c.cfg.Log.Seconds()
		c.result.Samples = append(c.result.Samples, Sample{
			At: c.now, Engine: n.index, Running: st.Running, Waiting: st.Waiting, KVUsage: st.Usage(), HitRate: st.HitRecent,
			PromptTokenS: float64(st.Stats.PromptTokens-n.sampled.PromptTokens) / secs,
			TokenS:       float64(st.Stats.Tokens-n.sampled.Tokens) / secs,
		})
		n.sampled = st.Stats
	}
	if c.queue.Len() > 0 {
		c.at(c.now+c.cfg.Log, samples, 0)
	} else {
		c.sampled = false
	}
}
