package wall

import (
	"time"

	"spate/internal/sim/serve"
)

// mail is an output on its way to the client.
type mail struct {
	at     time.Duration
	call   *call
	tokens int
	last   bool
}

// Tokens implements cluster.Caller.
func (c *call) Tokens(n int, first, last bool) {
	e := c.engine
	core := e.core()
	if core.Drafts > 0 && !first {
		e.spec.accepted += int64(n - 1)
	}
	if last {
		c.id = -1
		if core.PrefixCaching && c.choice == 0 {
			e.memory.learn(c)
		}
	}
	delay := ns(e.cfg.Cluster.Front.OutNS)
	if delay == 0 {
		e.emit(c, n, last)
		return
	}
	e.mail = append(e.mail, mail{at: e.now + delay, call: c, tokens: n, last: last})
	if len(e.mail) == 1 || e.mail[len(e.mail)-2].at != e.now+delay {
		e.at(e.now+delay, nil)
	}
}

// post hands out the outputs that have reached the client by now.
func (e *Engine) post() {
	k := 0
	for ; k < len(e.mail) && e.mail[k].at <= e.now; k++ {
		m := e.mail[k]
		e.emit(m.call, m.tokens, m.last)
	}
	n := copy(e.mail, e.mail[k:])
	clear(e.mail[n:])
	e.mail = e.mail[:n]
}

// emit gives a request its tokens. An output never mixes kinds, so several may come of them.
func (e *Engine) emit(c *call, tokens int, last bool) {
	for tokens > 0 && !c.gone {
		o := e.output(c, tokens)
		tokens -= int(o.Tokens)
		if last && tokens == 0 {
			o.Finish = c.finish
			if o.Kind == serve.Tool {
				o.Finish = serve.FinishTool
			}
		}
		e.write(c, o)
	}
}

// output makes the next output of a request from at most n tokens.
func (e *Engine) output(c *call, n int) serve.Output {
	a := &e.cfg.Answers
	o := serve.Output{Due: e.mono(e.now), Choice: c.choice}
	think, tool := 0, c.want
	if c.req.Chat {
		think, tool = a.Reasoning, max(c.want-a.ToolTokens, 0)
	}
	switch {
	case c.sent < think:
		o.Kind = serve.Reasoning
		n = min(n, think-c.sent)
	case c.sent >= tool:
		o.Kind = serve.Tool
	default:
		n = min(n, tool-c.sent)
	}
	o.Tokens = int32(n)
	c.sent += n
	return o
}

// write emits an output, unless the request's script has its stream stall here.
func (e *Engine) write(c *call, o serve.Output) {
	if tm := c.req.Timing; tm != nil && c.choice == 0 && tm.Stall != 0 && tm.StallAt == c.events && !c.hold {
		if tm.Stall < 0 {
			c.mute = true
		} else {
			c.hold = true
			e.at(e.now+tm.Stall, c)
		}
	}
	c.events++
	switch {
	case c.mute:
		return
	case c.hold:
		c.held = append(c.held, o)
		return
	}
	e.send(c, o)
}

// send emits an output. With the last one of an answer it is known whether others go on.
func (e *Engine) send(c *call, o serve.Output) {
	if o.Finish != serve.Running {
		o.More = c.family != nil && c.family.left > 1
		e.close(c)
	}
	c.out.Emit(o)
}

// resume lets a stalled stream go on.
func (e *Engine) resume(c *call) {
	c.hold = false
	for _, o := range c.held {
		if c.gone {
			return
		}
		o.Due = e.mono(e.now)
		e.send(c, o)
	}
	c.held = nil
}
