// Package wall runs engines (package sim) on the wall clock: it is the Engine that the HTTP server
// of sim/serve asks which tokens are due. It keeps simulated time, in which every step ends exactly
// when sim/latency says, and maps it to the clock; being woken late therefore moves nothing but the
// moment of writing, and the same arrivals give the same batches as in sim/cluster.
//
// Start with Engine.Advance. Requests come in through arrive.go, steps run in node.go, tokens go out
// through emit.go; prompt.go turns token ids into what the prefix cache compares.
package wall

import (
	"errors"
	"fmt"
	"time"

	"spate/internal/rng"
	"spate/internal/sim"
	"spate/internal/sim/cluster"
	"spate/internal/sim/des"
	"spate/internal/sim/latency"
	"spate/internal/sim/serve"
)

// Config describes what runs behind one server.
type Config struct {
	Engines []cluster.Engine // replicas
	Front   cluster.Front    // the way in and out; Together has no meaning here
	Router  cluster.Policy
	Lock    bool    // replicas step together
	Scale   float64 // simulated seconds per second of the clock; 0: one
	Group   int     // decode steps per scheduling decision (the old engine's multi-step); 0: one
	Seed    uint64
	Answers Answers

	// Exhausts reports that a step needs more memory than there is; nil: none does. The engine dies of
	// it.
	Exhausts func(b latency.Batch) bool
	// Trace gets every batch when it starts, with its start and end in simulated time; nil: nobody
	// does. Items are valid during the call only.
	Trace func(engine int, b *sim.Batch, start, end time.Duration)
}

// Answers says how long answers are and what they are made of.
type Answers struct {
	Len        int     // tokens after which an answer ends by itself; 0: at its limit; ignore_eos overrides it
	Vary       float64 // makes Len uniform in [1-Vary, 1+Vary] times itself
	Reasoning  int     // first tokens of chat answers that are reasoning
	ToolTokens int     // last tokens of chat answers that are a tool call
}

// Engine implements serve.Engine, serve.Mortal and serve.Preparer. But for Prepare, it is used from
// one thread.
type Engine struct {
	cfg   Config
	queue des.Queue[event]
	nodes []*node
	now   time.Duration // of the event being handled, in simulated time
	base  int64         // clock time that is simulated time base
	begun bool
	turn  int // of the round-robin router

	front  []time.Duration // when each front-end worker is free
	calls  map[*serve.Request]*call
	slots  []*call // by id
	vacant []int32
	memory memory // of answers, for the prompts that continue them

	mail  []mail // outputs on their way to the client
	dead  *serve.Failure
	steps serve.Buckets
	spec  struct{ drafts, drafted, accepted int64 }
}

var _ interface {
	serve.Engine
	serve.Mortal
	serve.Preparer
	serve.Burster
} = (*Engine)(nil)

// New makes a set of engines with nothing to do.
func New(cfg Config) (*Engine, error) {
	if len(cfg.Engines) == 0 {
		return nil, errors.New("a server needs an engine")
	}
	if cfg.Scale <= 0 {
		cfg.Scale = 1
	}
	cfg.Group = max(cfg.Group, 1)
	bounds := []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
	e := &Engine{
		cfg: cfg, calls: make(map[*serve.Request]*call), front: make([]time.Duration, max(1, cfg.Front.Workers)),
		steps: serve.Buckets{Bounds: bounds, Counts: make([]int64, len(bounds)+1)},
	}
	return e, e.build()
}

// build makes the nodes, or makes them anew after a death.
func (e *Engine) build() error {
	e.nodes = nil
	for i, c := range e.cfg.Engines {
		engine, err := sim.New(c.Sim)
		if err != nil {
			return fmt.Errorf("making engine %d: %w", i, err)
		}
		model := c.Model
		if c.Jitter > 0 {
			model = &latency.Jittered{Model: model, Sigma: c.Jitter, Draw: rng.New(e.cfg.Seed, "sim.jitter", uint64(i))}
		}
		e.nodes = append(e.nodes, &node{
			index: i, engine: engine, model: model, depth: c.Sim.Depth(),
			stages: make([]time.Duration, max(1, c.Sim.Pipeline)),
		})
	}
	return nil
}

// kind is what happens at an event; its order is the order of events of one instant, as in
// sim/cluster.
type kind uint8

const (
	stepEnds kind = iota
	sends         // a request reaches the server
	arrives       // it reaches an engine
	posts         // outputs reach the client
	resumes       // a stalled stream goes on
	plans
)

type event struct {
	kind kind
	id   int32
	call *call
}

func (e *Engine) at(t time.Duration, k kind, id int32, c *call) {
	e.queue.Push(t, int(k), event{kind: k, id: id, call: c})
}

// sim maps a clock time to simulated time.
func (e *Engine) sim(mono int64) time.Duration {
	if !e.begun {
		e.begun, e.base = true, mono
	}
	if e.cfg.Scale == 1 {
		return time.Duration(mono)
	}
	return time.Duration(e.base + int64(float64(mono-e.base)*e.cfg.Scale))
}

// mono maps simulated time to the clock, rounding up so that an event is never early.
func (e *Engine) mono(t time.Duration) int64 {
	if e.cfg.Scale == 1 {
		return int64(t)
	}
	return e.base + int64(float64(int64(t)-e.base)/e.cfg.Scale) + 1
}

// Next implements serve.Engine.
func (e *Engine) Next() int64 {
	t, ok := e.queue.Next()
	if !ok {
		return serve.Never
	}
	return e.mono(t)
}

// Advance implements serve.Engine: it handles everything due, in the order of simulated time.
func (e *Engine) Advance(now int64) {
	limit := e.sim(now)
	for {
		t, ok := e.queue.Next()
		if !ok || t > limit {
			return
		}
		ev, _ := e.queue.Pop()
		e.now = ev.At
		e.handle(ev.Data)
	}
}

func (e *Engine) handle(ev event) {
	switch ev.kind {
	case stepEnds:
		e.stepEnded(e.nodes[ev.id])
	case sends:
		e.open(ev.call)
	case arrives:
		e.enter(ev.call)
	case posts:
		e.post()
	case resumes:
		e.resume(ev.call)
	case plans:
		e.plan(e.nodes[ev.id])
	}
}

// ResetPrefixCache implements serve.Engine. It cannot be done while any block is held.
func (e *Engine) ResetPrefixCache() bool {
	for _, n := range e.nodes {
		if n.engine.Pending() {
			return false
		}
	}
	for _, n := range e.nodes {
		if !n.engine.ResetPrefixCache() {
			return false
		}
	}
	e.memory.reset()
	return true
}

// Burst implements serve.Burster: every request that has started may get a token at the end of a
// step.
func (e *Engine) Burst() int { return len(e.slots) - len(e.vacant) }

// States returns the state of each replica.
func (e *Engine) States() []sim.State {
	out := make([]sim.State, len(e.nodes))
	for i, n := range e.nodes {
		out[i] = n.engine.State()
	}
	return out
}

// State implements serve.Engine.
func (e *Engine) State() serve.EngineState {
	c := &e.cfg.Engines[0].Sim
	out := serve.EngineState{
		BlockSize: c.BlockSize, PrefixCache: c.PrefixCaching, Drafts: e.spec.drafts, Drafted: e.spec.drafted, Accepted: e.spec.accepted,
	}
	steps := e.steps
	steps.Counts = append([]int64(nil), e.steps.Counts...)
	out.StepTokens = &steps
	for _, s := range e.States() {
		out.Running += s.Running
		out.Waiting += s.Waiting
		out.Deferred += s.Deferred
		out.CacheQueries += s.Stats.Queries
		out.CacheHits += s.Stats.Hits
		out.CacheBlocks += s.Total - s.Free
		out.CacheCapacity += s.Total
		out.Preemptions += s.Stats.Preemptions
		out.Computed += s.Stats.PromptTokens
		out.Steps += s.Stats.Steps
	}
	return out
}

// Digest is a hash of every batch run so far by every engine.
func (e *Engine) Digest() uint64 {
	var d uint64
	for _, n := range e.nodes {
		d = mix(d ^ n.engine.Digest())
	}
	return d
}

// mix is a bijection that spreads every input bit over the word.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
