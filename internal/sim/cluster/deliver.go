package cluster

import (
	"time"

	"spate/internal/sim"
)

// slot is a request in flight.
type slot struct {
	req      Request
	call     Call
	due      time.Duration
	runs     []Run
	node     int   // engine that has it, -1 before
	prefill  int   // engine that computed its prompt
	lastStep int32 // step of its latest chunk
	phase    phase
	next     time.Duration // when what it waits for outside an engine happens
	aborts   bool
	tries    int
}

type phase uint8

const (
	inFront  phase = iota // on its way into an engine
	prefills              // in an engine that only computes prompts
	between               // on its way to the engine that answers
	answers
	closed
)

// arrived hands a request to an engine.
func (c *Cluster) arrived(id int32) {
	s := &c.slots[id]
	c.barren = 0
	if s.phase != inFront || s.next != c.now {
		return // of a request that is no more
	}
	if c.cfg.Disagg != nil {
		c.toPrefill(id)
		return
	}
	c.toEngine(id, false)
}

// toEngine submits a request to the engine that will answer it.
func (c *Cluster) toEngine(id int32, remote bool) {
	s := &c.slots[id]
	n := c.nodes[c.router.pick(c.nodes[:len(c.cfg.Engines)], &s.call)]
	s.node, s.phase = n.index, answers
	s.req.Engine = n.index
	if s.req.Queued == unset {
		s.req.Queued = c.now
	}
	err := n.engine.Submit(sim.Request{
		ID: int(id), Arrive: c.now, Prompt: s.call.Prompt, Out: s.call.Out, Stops: s.call.Stops, MaxOut: s.call.MaxOut,
		OutStream: s.call.OutStream, Adapter: s.call.Adapter, Group: s.call.Group, Remote: remote,
	})
	if err != nil {
		c.fail(id, err)
		return
	}
	c.wake(n)
}

// deliver hands the tokens of committed steps to their requests.
func (c *Cluster) deliver(n *node, out *sim.Outputs, ends []time.Duration) {
	if len(ends) == 0 {
		return
	}
	if len(out.List) > 0 {
		c.barren = 0
	}
	if c.drive != nil {
		c.hand(n, out)
		return
	}
	base := n.log.base + int32(len(n.log.ends))
	n.log.ends = append(n.log.ends, ends...)
	inRow := 0
	for i := range out.List {
		o := &out.List[i]
		s := &c.slots[o.ID]
		if s.phase == prefills {
			c.prefilled(n, int32(o.ID))
			continue
		}
		inRow += c.extendRun(n, s, o, base, int32(len(ends)))
		if o.Reason != sim.Running {
			c.complete(n, int32(o.ID))
		}
	}
	c.gaps(n, ends, base, inRow, len(out.List))
	c.trim(n)
}

// extendRun gives a request its chunks. It returns one if they follow directly on those of the step
// before, so that their gap is that of the steps.
func (c *Cluster) extendRun(n *node, s *slot, o *sim.Output, base, steps int32) int {
	last := s.lastStep
	s.lastStep = base + steps - 1
	s.req.Got += o.Tokens
	if int32(o.Tokens) != steps {
		s.req.multi = true
	}
	switch {
	case len(s.runs) == 0:
		s.req.First = n.log.at(base) + ns(c.cfg.Front.OutNS)
	case last == base-1:
		s.runs[len(s.runs)-1].Steps += steps
		return 1
	default:
		c.gap(n.log.at(base)-n.log.at(last), 1)
	}
	s.runs = append(s.runs, Run{base, steps})
	return 0
}

// gaps records the inter-token latencies of steps whose requests all go on from the step before.
func (c *Cluster) gaps(n *node, ends []time.Duration, base int32, inRow, all int) {
	if inRow > 0 {
		c.gap(ends[0]-n.log.at(base-1), inRow)
	}
	for j := 1; j < len(ends); j++ {
		c.gap(ends[j]-ends[j-1], all)
	}
}

// gap records an inter-token latency, unless a sink does its own arithmetic.
func (c *Cluster) gap(d time.Duration, n int) {
	if c.clients[0].load.Sink == nil {
		c.result.Gaps = append(c.result.Gaps, Gap{d, n})
	}
}

// complete ends a request that got all its tokens.
func (c *Cluster) complete(n *node, id int32) {
	s := &c.slots[id]
	s.req.Last = n.log.at(s.lastStep) + ns(c.cfg.Front.OutNS)
	c.result.OK++
	c.result.Tokens += s.req.Got
	c.result.Prompt += s.req.In
	c.close(id, s.req.Last)
}

// fail ends a request that cannot be served.
func (c *Cluster) fail(id int32, why error) {
	s := &c.slots[id]
	s.req.Failed, s.req.Err = true, why.Error()
	c.result.Failed++
	caller := s.call.Caller
	c.close(id, c.now)
	if caller != nil {
		caller.Failed(why)
	}
}

// close hands a request to the sink and lets the client send the next one.
func (c *Cluster) close(id int32, at time.Duration) {
	s := &c.slots[id]
	s.phase, s.aborts = closed, false
	s.req.delay = ns(c.cfg.Front.OutNS)
	if s.node >= 0 {
		s.req.log = c.nodes[s.node].log
	}
	c.result.Duration = max(c.result.Duration, at)
	if sink := c.clients[0].load.Sink; sink != nil {
		s.req.runs = s.runs
		sink(&s.req)
	} else {
		s.req.runs = append([]Run(nil), s.runs...)
		c.result.Requests = append(c.result.Requests, s.req)
	}
	s.call = Call{}
	c.vacant = append(c.vacant, id)
	k := int32(s.req.Client)
	if at == c.now {
		c.released(k)
		return
	}
	c.at(at, releases, k)
}

// released frees a place among a client's requests in flight.
func (c *Cluster) released(k int32) {
	c.live--
	c.clients[k].live--
	c.wakeClient(k, c.now)
}

// aborted is the client giving up on a request.
func (c *Cluster) aborted(id int32) {
	s := &c.slots[id]
	if !s.aborts || c.now != s.req.Sent+s.call.GiveUp {
		return
	}
	why := errGaveUp
	if end := c.clients[s.req.Client].load.Cancel; end > 0 && c.now >= end {
		why = errCanceled
	}
	c.withdraw(id, why)
}

// withdraw ends a request before its time, wherever it is.
func (c *Cluster) withdraw(id int32, why error) {
	if s := &c.slots[id]; s.node >= 0 {
		n := c.nodes[s.node]
		c.catchUp(n)
		n.engine.Abort(int(id))
		c.wake(n)
	}
	c.fail(id, why)
	c.dropTransfer(id)
}

// trim drops the ends of steps that no request in flight refers to, when results go to a sink.
func (c *Cluster) trim(n *node) {
	l := n.log
	if c.clients[0].load.Sink == nil || len(l.ends) < n.keep {
		return
	}
	first := l.base + int32(len(l.ends)) - 1
	for i := range c.slots {
		if s := &c.slots[i]; s.phase == answers && s.node == n.index && len(s.runs) > 0 {
			first = min(first, s.runs[0].First)
		}
	}
	k := copy(l.ends, l.ends[first-l.base:])
	l.ends, l.base = l.ends[:k], first
	n.keep = 2*k + 1<<13
}
