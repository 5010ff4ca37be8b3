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

	held []serve.Output // by a stall
	mute bool           // stalled for ever
	hold bool           // stalled
}

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
	c.want, c.finish = e.length(req)
	e.cluster.Inject(cluster.Call{
		At: t, Prompt: c.prompt, Out: c.want, Stops: c.finish == serve.FinishStop, MaxOut: req.MaxTokens,
		OutStream: c.stream, Adapter: req.Adapter, Caller: c,
	})
}

// length decides how many tokens a request gets and how it ends.
func (e *Engine) length(req *serve.Request) (int, serve.Finish) {
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
		own *= 1 + a.Vary*(2*rng.New(e.cfg.Cluster.Seed, "sim/answer", uint64(req.Index)).Float64()-1)
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
func (c *call) Started(cached int) { c.out.Start(c.engine.mono(c.engine.now), cached) }

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
	if c.id >= 0 && e.dead == nil {
		e.cluster.Abort(c.id)
	}
	e.close(c)
}

// fail ends a request with an error.
func (e *Engine) fail(c *call, f *serve.Failure) {
	if !c.gone && !c.mute {
		c.out.Emit(serve.Output{Due: e.mono(e.now), Finish: serve.FinishError, Err: f})
	}
	e.close(c)
}

// close takes a request out of the books.
func (e *Engine) close(c *call) {
	if !c.gone {
		c.gone = true
		delete(e.calls, c.req)
	}
}
