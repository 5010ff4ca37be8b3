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

// call is a request in flight.
type call struct {
	req    *serve.Request
	out    serve.Stream
	id     int32 // place in the engine's books, -1 before it has one
	node   *node // that answers it
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
	c := &call{req: req, out: out, id: -1}
	e.calls[req] = c
	if e.dead != nil {
		e.fail(c, e.dead)
		return
	}
	e.at(t, sends, 0, c)
}

// open takes a request in: it gets its place in the books and passes the front end.
func (e *Engine) open(c *call) {
	if c.gone {
		return
	}
	if n := len(e.vacant); n > 0 {
		c.id, e.vacant = e.vacant[n-1], e.vacant[:n-1]
	} else {
		c.id = int32(len(e.slots))
		e.slots = append(e.slots, nil)
	}
	e.slots[c.id] = c
	c.want, c.finish = e.length(c.req)
	e.at(e.pass(e.now, c.req.PromptTokens), arrives, c.id, c)
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
		own *= 1 + a.Vary*(2*rng.New(e.cfg.Seed, "sim/answer", uint64(req.Index)).Float64()-1)
	}
	if n := max(int(math.Round(own)), 1, req.MinTokens); n < req.MaxTokens {
		return n, serve.FinishStop
	}
	return req.MaxTokens, serve.FinishLength
}

// pass is the time at which a request that comes in at t has passed the front end.
func (e *Engine) pass(t time.Duration, tokens int) time.Duration {
	f := &e.cfg.Front
	w := 0
	for i := range e.front {
		if e.front[i] < e.front[w] {
			w = i
		}
	}
	e.front[w] = max(e.front[w], t) + ns(f.RequestNS+f.TokenNS*float64(tokens))
	return e.front[w] + ns(f.BaseNS)
}

// Prepare implements serve.Preparer: it names the prompt for the prefix cache.
func (e *Engine) Prepare(req *serve.Request) {
	req.Prepared = e.memory.prompt(req, e.cfg.Engines[0].Sim.BlockSize)
}

func ns(x float64) time.Duration { return time.Duration(x + 0.5) }

// enter hands a request to an engine.
func (e *Engine) enter(c *call) {
	if c.gone {
		return
	}
	if c.req.Prepared == nil {
		e.Prepare(c.req)
	}
	p, _ := c.req.Prepared.(*prompt)
	c.prompt, c.stream = p.segments, p.answer
	c.node = e.route(c)
	err := c.node.engine.Submit(sim.Request{
		ID: int(c.id), Arrive: e.now, Prompt: c.prompt, Out: c.want, Stops: c.finish == serve.FinishStop, MaxOut: c.req.MaxTokens,
		OutStream: c.stream, Adapter: c.req.Adapter,
	})
	if err != nil {
		f := &serve.Failure{Message: err.Error()}
		if errors.Is(err, sim.ErrTooLong) {
			f.Status, f.Type = 400, "BadRequestError"
		}
		c.node = nil
		e.fail(c, f)
		return
	}
	e.wake(c.node)
}

// crowded is how many more requests than the emptiest replica one may have before affinity gives
// way.
const crowded = 16

// route picks a replica, by the rules of sim/cluster.
func (e *Engine) route(c *call) *node {
	if len(e.nodes) == 1 {
		return e.nodes[0]
	}
	least := e.nodes[0]
	for _, n := range e.nodes {
		if n.engine.Load() < least.engine.Load() {
			least = n
		}
	}
	switch e.cfg.Router {
	case cluster.LeastLoaded:
		return least
	case cluster.Affinity:
		if len(c.prompt) > 0 {
			n := e.nodes[mix(c.prompt[0].Stream^0x70726566)%uint64(len(e.nodes))]
			if n.engine.Load() <= least.engine.Load()+crowded {
				return n
			}
		}
		return least
	default:
		n := e.nodes[e.turn%len(e.nodes)]
		e.turn++
		return n
	}
}

// Abort implements serve.Engine.
func (e *Engine) Abort(_ int64, req *serve.Request) {
	c := e.calls[req]
	if c == nil {
		return
	}
	if c.node != nil && e.dead == nil {
		c.node.engine.Abort(int(c.id))
		e.wake(c.node)
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
	if c.gone {
		return
	}
	c.gone = true
	delete(e.calls, c.req)
	e.free(c)
}

// free gives a request's place to the next one.
func (e *Engine) free(c *call) {
	if c.id < 0 {
		return
	}
	e.slots[c.id] = nil
	e.vacant = append(e.vacant, c.id)
	c.id = -1
}
