// Package cluster runs engines (package sim) in virtual time: clients send requests, a front end
// takes them in, a router picks an engine, engines step as long as sim/latency says, and the result
// is what a benchmark client would have seen. With separate prefill and decode engines, KV moves
// between them over a link. Start with Cluster.Run; the order of events is the one of sim/des, so the
// same seed gives the same bytes. A driver with a clock of its own (sim/wall) steps through the same
// events by live.go.
//
// Engines keep their prefix caches from one Run to the next, as a server process does.
package cluster

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"spate/internal/rng"
	"spate/internal/sim"
	"spate/internal/sim/des"
	"spate/internal/sim/latency"
)

// Engine is one engine of the cluster.
type Engine struct {
	Sim    sim.Config
	Model  latency.Model
	Jitter float64 // sigma of log-normal noise on every step
	SwapNS float64 // moving one KV block to or from the host's memory
}

// Front is the way of a request into an engine, and of a token out of it.
type Front struct {
	BaseNS    float64 `json:"base_ns,omitempty"`    // delay of every request
	RequestNS float64 `json:"request_ns,omitempty"` // a worker's time per request ...
	TokenNS   float64 `json:"token_ns,omitempty"`   // ... and per prompt token
	Workers   int     `json:"workers,omitempty"`    // 0: one
	Together  bool    `json:"together,omitempty"`   // requests sent at one instant reach the engine at one instant
	OutNS     float64 `json:"out_ns,omitempty"`     // delay of every token on its way to the client
}

// Config describes a cluster.
type Config struct {
	Engines []Engine
	Front   Front
	Router  Policy        // how requests are spread over Engines
	Disagg  *Disagg       // separate prefill engines; Engines then decode
	Lock    bool          // engines step together (data parallel ranks that share experts)
	Log     time.Duration // interval of Result.Samples; 0: ten seconds
	Seed    uint64
	Single  bool // run every step on its own; the result is the same, only slower
}

// patience is the number of events without a token after which a run is given up: requests take each
// other's blocks away for ever.
const patience = 1 << 20

// ErrStuck means that requests were left over with nothing to wait for, or nothing came of waiting.
var ErrStuck = errors.New("simulation stuck")

// Cluster is a set of engines and the way to them.
type Cluster struct {
	cfg    Config
	queue  des.Queue[event]
	nodes  []*node // decode (or only) engines first, then prefill engines
	router router  // over the engines that answer
	entry  router  // over prefill engines
	link   link
	now    time.Duration

	clients []client
	front   front
	slots   []slot
	vacant  []int32
	live    int // requests sent and not ended
	result  *Result
	sampled bool
	barren  int // events since the last token

	drive     *Live  // of a live run, nil in Run
	inbox     []Call // injected, not yet sent
	inboxFree []int32
}

// New makes a cluster of empty engines.
func New(cfg Config) (*Cluster, error) {
	if len(cfg.Engines) == 0 {
		return nil, errors.New("a cluster needs an engine")
	}
	if cfg.Log == 0 {
		cfg.Log = 10 * time.Second
	}
	c := &Cluster{cfg: cfg}
	for _, e := range cfg.Engines {
		if err := c.addNode(e); err != nil {
			return nil, err
		}
	}
	if d := cfg.Disagg; d != nil {
		for _, e := range d.Prefill {
			if err := c.addNode(e); err != nil {
				return nil, err
			}
		}
		c.link = newLink(d.Link, cfg.Seed)
	}
	c.router, c.entry = router{policy: cfg.Router}, router{policy: cfg.Router}
	return c, nil
}

func (c *Cluster) addNode(e Engine) error {
	index := len(c.nodes)
	engine, err := sim.New(e.Sim)
	if err != nil {
		return fmt.Errorf("making engine %d: %w", index, err)
	}
	model := e.Model
	if e.Jitter > 0 {
		draw := rng.New(c.cfg.Seed, "sim.jitter", uint64(index))
		model = &latency.Jittered{Model: model, Sigma: e.Jitter, Draw: draw}
	}
	c.nodes = append(c.nodes, &node{index: index, engine: engine, model: model, stages: make([]time.Duration, max(1, e.Sim.Pipeline)), swapNS: e.SwapNS})
	return nil
}

// Engine gives access to an engine: decode (or only) engines first, then prefill engines.
func (c *Cluster) Engine(i int) *sim.Engine { return c.nodes[i].engine }

// ResetPrefixCache empties the prefix caches of all engines. It cannot while any has requests.
func (c *Cluster) ResetPrefixCache() bool {
	for _, n := range c.nodes {
		if n.engine.Pending() {
			return false
		}
	}
	done := true
	for _, n := range c.nodes {
		done = n.engine.ResetPrefixCache() && done
	}
	return done
}

// kind is what happens at an event. Its order is the order of events of one instant: steps end
// before requests arrive, and batches are planned when all of that is known.
type kind uint8

const (
	stepEnds kind = iota
	linkTurns
	retries
	handOver // a request has crossed the proxy
	releases
	sends
	enters // a call of a live run is sent
	arrives
	aborts
	samples
	plans
)

type event struct {
	kind kind
	id   int32 // node, slot or client
}

func (c *Cluster) at(t time.Duration, k kind, id int32) {
	c.queue.Push(t, int(k), event{k, id})
}

// Run sends a load and waits for its end. Times in the result start at zero.
func (c *Cluster) Run(l Load) (*Result, error) {
	c.start(l)
	for {
		before := c.now
		if !c.Step() {
			break
		}
		if c.now < before {
			return nil, fmt.Errorf("%w: event at %v after %v", ErrStuck, c.now, before)
		}
		if c.barren++; c.barren > patience {
			return nil, fmt.Errorf("%w: no token in %d events, at %v", ErrStuck, patience, c.now)
		}
	}
	if c.live > 0 || slices.ContainsFunc(c.clients, func(cl client) bool { return !cl.done() }) {
		return nil, fmt.Errorf("%w: %d requests left at %v", ErrStuck, c.live, c.now)
	}
	return c.finish(), nil
}

func (c *Cluster) start(l Load) {
	c.queue.Reset()
	c.now, c.live, c.barren, c.sampled = 0, 0, 0, false
	c.result = &Result{clients: 1 + len(l.Beside)}
	c.drive, c.inbox, c.inboxFree = nil, nil, nil
	c.slots, c.vacant = c.slots[:0], c.vacant[:0]
	for _, n := range c.nodes {
		n.begin()
	}
	c.front = newFront(c.cfg.Front)
	c.clients = []client{newClient(l)}
	for _, other := range l.Beside {
		c.clients = append(c.clients, newClient(other))
	}
	c.link.begin()
	c.router.begin()
	c.entry.begin()
	for k := range c.clients {
		c.dispatch(int32(k))
	}
}

func (c *Cluster) handle(e event) {
	switch e.kind {
	case stepEnds:
		c.stepEnded(c.nodes[e.id])
	case linkTurns:
		c.linkTurned()
	case retries:
		c.retried(e.id)
	case handOver:
		c.handedOver(e.id)
	case releases:
		c.released(e.id)
	case sends:
		c.dispatch(e.id)
	case enters:
		c.entered(e.id)
	case arrives:
		c.arrived(e.id)
	case aborts:
		c.aborted(e.id)
	case samples:
		c.sample()
	case plans:
		c.plan(c.nodes[e.id])
	}
}

func (c *Cluster) finish() *Result {
	r := c.result
	for i := range c.clients {
		c.clients[i].stop()
	}
	for _, n := range c.nodes {
		st := n.engine.State()
		r.Engines = append(r.Engines, st.Stats)
	}
	r.Digest = c.Digest()
	c.result = nil
	return r
}
