package wall

import (
	"errors"
	"math"
	"time"

	"spate/internal/rng"
	"spate/internal/sim"
	"spate/internal/sim/cluster"
	"spate/internal/sim/kv"
	"spate/internal/sim/serve"
)

// call is a request in flight. It implements cluster.Caller.
type call struct {
	engine *Engine
	req    *serve.Request
	out    serve.Stream
	id     int32 // place in the cluster, -1 while it has none
	gone   bool  // nothing may be emitted any more
	prompt []kv.Segment
	stream uint64 // identity of its answer
	want   int    // tokens to answer with
	finish serve.Finish
	sent   int // tokens emitted
	events int // outputs emitted

	choice int32   // which answer to its prompt it is
	family *family // of a request with several answers, nil for one

	held []serve.Output // by a stall
	mute bool           // stalled for ever
	hold bool           // stalled
}

// family is the calls of a request that asked for several answers: each is a request to the engine.
type family struct {
	members []*call
	left    int // not finished
	started bool
}

// maxChoices is the most answers to one prompt.
const maxChoices = 128

// Choices implements serve.Chooser.
func (e *Engine) Choices() int { return maxChoices }

// Submit implements serve.Engine.
func (e *Engine) Submit(now int64, req *serve.Request, out serve.Stream) {
	t := max(e.sim(min(req.Arrived, now)), e.now)
	c := &call{engine: e, req: req, out: out, id: -1}
	e.calls[req] = c
	if e.dead != nil {
		e.fail(c, e.dead)
		return
	}
	if req.Prepared == nil {
		e.Prepare(req)
	}
	p, _ := req.Prepared.(*prompt)
	c.prompt, c.stream = p.segments, p.answer
	if req.N > 1 {
		c.family = &family{left: req.N}
	}
	e.inject(c, t)
	for i := 1; i < req.N; i++ {
		e.inject(&call{
			engine: e, req: req, out: out, id: -1, prompt: p.segments, stream: rng.Mix(p.answer + uint64(i)), choice: int32(i), family: c.family,
		}, t)
	}
}

// inject sends one answer's call to the engines.
func (e *Engine) inject(c *call, t time.Duration) {
	c.want, c.finish = e.length(c)
	to := cluster.Call{
		At: t, Prompt: c.prompt, Out: c.want, Stops: c.finish == serve.FinishStop, MaxOut: c.req.MaxTokens,
		OutStream: c.stream, Adapter: c.req.Adapter, Caller: c,
	}
	if c.family != nil {
		c.family.members = append(c.family.members, c)
		to.Group = uint64(c.req.Index) + 1
	}
	e.cluster.Inject(to)
}

// length decides how many tokens an answer gets and how it ends.
func (e *Engine) length(c *call) (int, serve.Finish) {
	req := c.req
	if tm := req.Timing; tm != nil && tm.Output > 0 {
		end := tm.Finish
		if end == serve.Running {
			end = serve.FinishStop
		}
		return tm.Output, end
	}
	a := &e.cfg.Answers
	if a.Len == 0 || req.IgnoreEOS {
		return req.MaxTokens, serve.FinishLength
	}
	own := float64(a.Len)
	if a.Vary != 0 {
		own *= 1 + a.Vary*(2*rng.New(e.cfg.Cluster.Seed, "sim/answer", uint64(req.Index)+uint64(c.choice)<<40).Float64()-1)
	}
	if n := max(int(math.Round(own)), 1, req.MinTokens); n < req.MaxTokens {
		return n, serve.FinishStop
	}
	return req.MaxTokens, serve.FinishLength
}

// Prepare implements serve.Preparer: it names the prompt for the prefix cache.
func (e *Engine) Prepare(req *serve.Request) {
	req.Prepared = e.memory.prompt(req, e.core().BlockSize)
}

func ns(x float64) time.Duration { return time.Duration(x + 0.5) }

// Opened implements cluster.Caller.
func (c *call) Opened(id int32) bool {
	if !c.gone {
		c.id = id
	}
	return !c.gone
}

// Started implements cluster.Caller.
func (c *call) Started(cached int) {
	if f := c.family; f != nil {
		if f.started {
			return
		}
		f.started = true
	}
	c.out.Start(c.engine.mono(c.engine.now), cached)
}

// Failed implements cluster.Caller.
func (c *call) Failed(err error) {
	f := &serve.Failure{Message: err.Error()}
	if errors.Is(err, sim.ErrTooLong) {
		f.Status, f.Type = 400, "BadRequestError"
	}
	c.id = -1
	c.engine.fail(c, f)
}

// Abort implements serve.Engine.
func (e *Engine) Abort(_ int64, req *serve.Request) {
	c := e.calls[req]
	if c == nil {
		return
	}
	for _, m := range c.all() {
		e.drop(m)
	}
}

// all are the calls of a request.
func (c *call) all() []*call {
	if c.family == nil {
		return []*call{c}
	}
	return c.family.members
}

// drop takes a call away from the engines. Nothing more is emitted for it.
func (e *Engine) drop(c *call) {
	if c.id >= 0 && e.dead == nil {
		e.cluster.Abort(c.id)
	}
	c.id = -1
	e.close(c)
}

// fail ends a request with an error, with all its answers.
func (e *Engine) fail(c *call, f *serve.Failure) {
	if !c.gone && !c.mute {
		c.out.Emit(serve.Output{Due: e.mono(e.now), Finish: serve.FinishError, Err: f})
	}
	e.close(c)
	for _, m := range c.all() {
		if m != c {
			e.drop(m)
		}
	}
}

// close takes a call out of the books, and its request with the last of them.
func (e *Engine) close(c *call) {
	if c.gone {
		return
	}
	c.gone = true
	if f := c.family; f != nil {
		if f.left--; f.left > 0 {
			return
		}
	}
	delete(e.calls, c.req)
}
