package cluster

import (
	"slices"
	"time"

	"spate/internal/sim"
	"spate/internal/sim/latency"
)

// Disagg separates prompts from decoding: prefill engines compute prompts, a proxy then sends the
// request to a decode engine, which fetches the KV over a link.
type Disagg struct {
	Prefill []Engine
	Link    Link
	ProxyNS float64 `json:"proxy_ns"` // between the end of the prompt and the decode engine's queue

	// Blocking: the decode engine receives the KV of the requests it admits one after the other and
	// computes nothing meanwhile (connectors of the first scheduler). Otherwise requests wait beside
	// the queue, holding blocks, while others run.
	Blocking   bool    `json:"blocking"`
	FirstNS    float64 `json:"first_step_ns"`       // blocking: the step that samples first tokens after receiving
	Between    bool    `json:"serve_between_steps"` // a prefill engine serves a transfer only between its own steps
	WaitOnce   bool    `json:"wait_once,omitempty"` // ... and then all transfers of a batch
	StallShare float64 `json:"stall_share"`         // share of a transfer during which the prefill engine starts no step

	SendTokenNS  float64 `json:"send_token_ns"`       // serialising a prompt's KV, per token ...
	SendSquareNS float64 `json:"send_square_ns"`      // ... and per token squared
	PauseNS      float64 `json:"pause_ns,omitempty"`  // prefill engine's rest after a step, off the request's path
	FailHard     bool    `json:"fail_hard,omitempty"` // a lost transfer fails the request instead of being recomputed
}

// sendTime is what a prefill step spends on handing its KV over.
func (d *Disagg) sendTime(b latency.Batch) time.Duration {
	return ns(d.SendTokenNS*float64(b.Prefill) + d.SendSquareNS*float64(b.Attention2))
}

// prefills reports whether a node only computes prompts.
func (c *Cluster) prefills(n *node) bool { return n.index >= len(c.cfg.Engines) }

// toPrefill submits a request to the engine that computes its prompt.
func (c *Cluster) toPrefill(id int32) {
	s := &c.slots[id]
	n := c.nodes[c.entry.pick(c.nodes[len(c.cfg.Engines):], &s.call)]
	s.node, s.prefill, s.phase = n.index, n.index, prefills
	s.req.Queued = c.now
	err := n.engine.Submit(sim.Request{
		ID: int(id), Arrive: c.now, Prompt: s.call.Prompt, Out: 1, OutStream: s.call.OutStream, Adapter: s.call.Adapter, Group: s.call.Group,
	})
	if err != nil {
		c.fail(id, err)
		return
	}
	c.wake(n)
}

// prefilled sends a request whose prompt is computed on to the proxy.
func (c *Cluster) prefilled(_ *node, id int32) {
	s := &c.slots[id]
	s.phase, s.node = between, -1
	s.next = c.now + ns(c.cfg.Disagg.ProxyNS)
	c.at(s.next, handOver, id)
}

// handedOver submits a request to a decode engine.
func (c *Cluster) handedOver(id int32) {
	if s := &c.slots[id]; s.phase == between && s.next == c.now {
		c.toEngine(id, true)
	}
}

// prefillEnded lets transfers that waited for this engine's step begin, and makes it rest.
func (c *Cluster) prefillEnded(n *node) {
	d := c.cfg.Disagg
	n.paused = max(n.paused, c.now+ns(d.PauseNS))
	for _, r := range c.nodes[:len(c.cfg.Engines)] {
		if r.receive.waitsFor(n.index) {
			c.startReceive(r)
		}
	}
	for _, id := range c.takeWaiting(n) {
		c.startTransfer(id)
	}
}

// reception is a decode engine receiving the prompts of a planned batch.
type reception struct {
	todo    []int32
	from    int  // prefill engine of the transfer under way or waited for
	waiting bool // for that engine to end its step
	served  bool // some transfer of this batch has begun
	active  bool
	started time.Duration
	again   latency.Batch // prompts whose KV was lost, computed here
}

func (r *reception) waitsFor(node int) bool { return r.waiting && r.from == node }

// beginReceive starts receiving the prompts of a batch that was planned.
func (c *Cluster) beginReceive(n *node, b *sim.Batch) {
	r := &n.receive
	r.todo, r.served, r.active, r.started, r.again = r.todo[:0], false, true, c.now, latency.Batch{}
	for _, it := range b.Items {
		if it.Receive {
			r.todo = append(r.todo, int32(it.ID))
		}
	}
	c.nextReceive(n)
}

// nextReceive begins the next transfer, or the step that samples when all are in.
func (c *Cluster) nextReceive(n *node) {
	r := &n.receive
	d := c.cfg.Disagg
	if len(r.todo) == 0 {
		r.active = false
		step := ns(d.FirstNS)
		if r.again.Prompts > 0 {
			step += n.model.Step(r.again)
		}
		end := n.pass(c.now, step)
		n.flights = append(n.flights, flying{ends: []time.Duration{end}, started: r.started})
		c.at(end, stepEnds, int32(n.index))
		return
	}
	r.from = c.slots[r.todo[0]].prefill
	busy := len(c.nodes[r.from].flights) > 0
	if d.Between && busy && !(d.WaitOnce && r.served) {
		r.waiting = true
		return
	}
	c.startReceive(n)
}

// startReceive puts a blocking transfer on the link.
func (c *Cluster) startReceive(n *node) {
	n.receive.waiting, n.receive.served = false, true
	c.startTransfer(n.receive.todo[0])
}

// fetch begins the transfers of requests that were given blocks.
func (c *Cluster) fetch(n *node) {
	if c.cfg.Disagg == nil {
		return
	}
	for _, id := range n.engine.Fetches() {
		p := c.nodes[c.slots[id].prefill]
		if c.cfg.Disagg.Between && len(p.flights) > 0 {
			p.receive.todo = append(p.receive.todo, int32(id)) // a prefill engine receives nothing itself
			continue
		}
		c.startTransfer(int32(id))
	}
}

// takeWaiting lists the transfers that waited for a prefill engine.
func (c *Cluster) takeWaiting(n *node) []int32 {
	ids := append([]int32(nil), n.receive.todo...)
	n.receive.todo = n.receive.todo[:0]
	return ids
}

// startTransfer puts a request's KV on the link.
func (c *Cluster) startTransfer(id int32) {
	s := &c.slots[id]
	if s.phase != answers {
		return
	}
	l, d := &c.link, c.cfg.Disagg
	l.progress(c.now)
	work := l.cfg.work(s.req.In)
	l.active = append(l.active, transfer{id: id, left: work, from: c.now + ns(l.cfg.SetupNS)})
	p := c.nodes[s.prefill]
	p.paused = max(p.paused, c.now+ns(d.StallShare*(l.cfg.SetupNS+work)))
	c.wakeLink()
}

// wakeLink makes sure that the link's next turn is in the queue.
func (c *Cluster) wakeLink() {
	l := &c.link
	if len(l.active) == 0 {
		l.next = unset
		return
	}
	if due := l.due(); due != l.next {
		l.next = due
		c.at(due, linkTurns, 0)
	}
}

// linkTurned ends the transfers that are through.
func (c *Cluster) linkTurned() {
	l := &c.link
	if c.now != l.next {
		return // an older event; a newer one stands for the link
	}
	l.next = unset
	l.progress(c.now)
	var through []int32
	k := 0
	for _, t := range l.active {
		if t.from <= c.now && t.left < 0.5 {
			through = append(through, t.id)
			continue
		}
		l.active[k] = t
		k++
	}
	l.active = l.active[:k]
	for _, id := range through {
		c.transferred(id)
	}
	c.wakeLink()
}

// transferred ends a transfer, well or badly.
func (c *Cluster) transferred(id int32) {
	s := &c.slots[id]
	if s.phase != answers {
		return
	}
	n := c.nodes[s.node]
	l := &c.link.cfg
	if l.FailureRate > 0 && c.link.draw.Float64() < l.FailureRate {
		c.link.lost++
		if s.tries++; s.tries <= l.Retries {
			s.next = c.now + ns(l.RetryNS)
			c.at(s.next, retries, id)
			return
		}
		c.lost(n, id)
		return
	}
	c.link.moved++
	if c.cfg.Disagg.Blocking {
		c.received(n)
		return
	}
	n.engine.Deliver(int(id))
	c.wake(n)
}

// dropTransfer forgets the transfer of a request that is no more.
func (c *Cluster) dropTransfer(id int32) {
	if c.cfg.Disagg == nil {
		return
	}
	c.link.progress(c.now)
	c.link.active = slices.DeleteFunc(c.link.active, func(t transfer) bool { return t.id == id })
	c.wakeLink()
	for _, n := range c.nodes {
		i := slices.Index(n.receive.todo, id)
		if i < 0 {
			continue
		}
		n.receive.todo = slices.Delete(n.receive.todo, i, i+1)
		if i == 0 && !c.prefills(n) {
			n.receive.waiting = false
			c.nextReceive(n)
		}
	}
}

// retried starts a transfer again.
func (c *Cluster) retried(id int32) {
	if c.slots[id].next == c.now {
		c.startTransfer(id)
	}
}

// received goes on to the next transfer of a batch.
func (c *Cluster) received(n *node) {
	n.receive.todo = n.receive.todo[1:]
	c.nextReceive(n)
}

// lost is a transfer that was given up.
func (c *Cluster) lost(n *node, id int32) {
	if c.cfg.Disagg.FailHard {
		c.withdraw(id, errLost)
		return
	}
	if c.cfg.Disagg.Blocking {
		in := c.slots[id].req.In
		b := &n.receive.again
		b.Prompts, b.Prefill, b.Attention2 = b.Prompts+1, b.Prefill+in, b.Attention2+int64(in)*int64(in)
		c.received(n)
		return
	}
	n.engine.Forget(int(id))
	c.wake(n)
}
