package wall

import (
	"errors"
	"fmt"
	"slices"

	"spate/internal/sim/serve"
)

// What vLLM tells its clients when the engine process is gone.
const (
	engineDead  = "EngineCore encountered an issue. See stack trace (above) for the root cause."
	outOfMemory = "CUDA out of memory. " + engineDead
)

// Dead implements serve.Mortal.
func (e *Engine) Dead() *serve.Failure { return e.dead }

// Harm implements serve.Mortal.
func (e *Engine) Harm(now int64, h serve.Harm) error {
	t := max(e.now, e.sim(now))
	switch h.Kind {
	case "die":
		text := h.Text
		if text == "" {
			text = engineDead
		}
		e.now = t
		e.die(text)
	case "oom":
		e.now = t
		e.die(outOfMemory)
	case "stall":
		if h.For <= 0 {
			return fmt.Errorf("a stall needs a time: for 2s")
		}
		e.cluster.Stall(t + h.For)
	case "lose":
		if e.dead != nil {
			return errors.New("the engine is dead")
		}
		return e.cluster.Lose(h.Rate)
	case "revive":
		return e.revive()
	}
	return nil
}

// die ends every request with an error, and takes no more.
func (e *Engine) die(message string) {
	if e.dead != nil {
		return
	}
	e.dead = &serve.Failure{Message: message}
	e.queue.Reset()
	e.mail = nil
	all := make([]*call, 0, len(e.calls))
	for _, c := range e.calls {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *call) int { return a.req.Index - b.req.Index })
	for _, c := range all {
		e.fail(c, e.dead)
	}
}

// revive starts the engines anew, with empty caches.
func (e *Engine) revive() error {
	if e.dead == nil {
		return fmt.Errorf("the engine is alive")
	}
	e.dead = nil
	e.memory.reset()
	return e.build()
}
