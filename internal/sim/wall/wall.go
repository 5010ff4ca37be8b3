// Package wall runs a cluster of engines (package sim/cluster) on the wall clock: it is the Engine
// that the HTTP server of sim/serve asks which tokens are due. The cluster keeps simulated time, in
// which every step ends exactly when sim/latency says, and wall maps it to the clock; being woken late
// therefore moves nothing but the moment of writing, and the same arrivals give the same batches as in
// virtual time.
//
// Start with Engine.Advance. Requests come in through arrive.go, tokens go out through emit.go;
// prompt.go turns token ids into what the prefix cache compares.
package wall

import (
	"fmt"
	"time"

	"spate/internal/sim"
	"spate/internal/sim/cluster"
	"spate/internal/sim/des"
	"spate/internal/sim/latency"
	"spate/internal/sim/serve"
)

// Config describes what runs behind one server.
type Config struct {
	Cluster cluster.Config
	Scale   float64 // simulated seconds per second of the clock; 0: one
	Answers Answers

	// Exhausts reports that a step needs more memory than there is; nil: none does. The engine dies of
	// it.
	Exhausts func(b latency.Batch) bool
	// Trace gets every batch that computes when it starts, with its start and end in simulated time;
	// nil: nobody does. Items are valid during the call only.
	Trace func(engine int, b *sim.Batch, start, end time.Duration)
}

// Answers says how long answers are and which tokens they have.
type Answers struct {
	Len        int     // tokens after which an answer ends by itself; 0: at its limit; ignore_eos overrides it
	Vary       float64 // makes Len uniform in [1-Vary, 1+Vary] times itself
	Reasoning  int     // first tokens of chat answers that are reasoning
	ToolTokens int     // last tokens of chat answers that are a tool call
}

// Engine implements serve.Engine, serve.Mortal and serve.Preparer. But for Prepare, it is used from
// one thread.
type Engine struct {
	cfg     Config
	cluster *cluster.Cluster
	queue   des.Queue[*call] // streams that go on after a stall; nil: outputs reach their clients
	now     time.Duration    // of the event being handled, in simulated time
	base    int64            // clock time that is simulated time base
	begun   bool

	calls  map[*serve.Request]*call
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
	if cfg.Scale <= 0 {
		cfg.Scale = 1
	}
	bounds := []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
	e := &Engine{
		cfg: cfg, calls: make(map[*serve.Request]*call),
		steps: serve.Buckets{Bounds: bounds, Counts: make([]int64, len(bounds)+1)},
	}
	return e, e.build()
}

// build makes the engines, or makes them anew after a death.
func (e *Engine) build() error {
	c, err := cluster.New(e.cfg.Cluster)
	if err != nil {
		return fmt.Errorf("making the server: %w", err)
	}
	e.cluster = c
	c.Begin(cluster.Live{Batch: e.batch})
	return nil
}

// core is the first engine's scheduling.
func (e *Engine) core() *sim.Config { return &e.cfg.Cluster.Engines[0].Sim }

// batch takes note of a batch that starts; false when the engine dies of it.
func (e *Engine) batch(engine int, b *sim.Batch, end time.Duration) bool {
	if e.cfg.Exhausts != nil && e.cfg.Exhausts(b.Shape) {
		e.die(outOfMemory)
		return false
	}
	e.steps.Add(float64(b.Shape.Tokens()))
	if b.Shape.Drafts > 0 {
		e.spec.drafts += int64(b.Shape.Decode)
		e.spec.drafted += int64(b.Shape.Drafts)
	}
	if e.cfg.Trace != nil {
		e.cfg.Trace(engine, b, e.now, end)
	}
	return true
}

// at puts something on the way out; a nil call is mail.
func (e *Engine) at(t time.Duration, c *call) {
	rank := 0
	if c != nil {
		rank = 1
	}
	e.queue.Push(t, rank, c)
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
	t, _, ok := e.next()
	if !ok {
		return serve.Never
	}
	return e.mono(t)
}

// next is the time of the next event, and whether it is one of the cluster's. These come first: what
// is on its way out changes nothing there.
func (e *Engine) next() (t time.Duration, inside, ok bool) {
	t, ok = e.queue.Next()
	if e.dead != nil {
		return t, false, ok
	}
	if in, busy := e.cluster.Next(); busy && (!ok || in <= t) {
		return in, true, true
	}
	return t, false, ok
}

// Advance implements serve.Engine: it handles everything due, in the order of simulated time.
func (e *Engine) Advance(now int64) {
	limit := e.sim(now)
	for {
		t, inside, ok := e.next()
		if !ok || t > limit {
			return
		}
		e.now = max(e.now, t)
		if inside {
			e.cluster.Step()
			continue
		}
		if ev, _ := e.queue.Pop(); ev.Data == nil {
			e.post()
		} else {
			e.resume(ev.Data)
		}
	}
}

// ResetPrefixCache implements serve.Engine. It cannot be done while any block is held.
func (e *Engine) ResetPrefixCache() bool {
	if !e.cluster.ResetPrefixCache() {
		return false
	}
	e.memory.reset()
	return true
}

// Burst implements serve.Burster: every request that has started may get a token at the end of a
// step.
func (e *Engine) Burst() int { return e.cluster.Open() }

// States returns the state of each engine: those that decode, then those that only compute prompts.
func (e *Engine) States() []sim.State { return e.cluster.States() }

// State implements serve.Engine.
func (e *Engine) State() serve.EngineState {
	c := e.core()
	out := serve.EngineState{
		BlockSize: c.BlockSize, PrefixCache: c.PrefixCaching, Drafts: e.spec.drafts, Drafted: e.spec.drafted, Accepted: e.spec.accepted,
	}
	out.Transfers, out.LostKV = e.cluster.Transfers()
	steps := e.steps
	steps.Counts = append([]int64(nil), e.steps.Counts...)
	out.StepTokens = &steps
	for _, s := range e.States() {
		out.Running += s.Running
		out.Waiting += s.Waiting
		out.Deferred += s.Deferred
		out.Swapped += s.Swapped
		if s.HostTotal > 0 {
			out.HostUsage = max(out.HostUsage, float64(s.Host)/float64(s.HostTotal))
		}
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
func (e *Engine) Digest() uint64 { return e.cluster.Digest() }
