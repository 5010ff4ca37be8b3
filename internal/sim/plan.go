package sim

import (
	"time"

	"spate/internal/rng"
)

// Plan forms the next batch. It reports false when there is nothing to compute now, or when as many
// batches as the engine allows are under way.
func (e *Engine) Plan(now time.Duration) (Batch, bool) {
	if len(e.flights) >= e.cfg.Depth() {
		return Batch{}, false
	}
	for range e.lanes {
		l := e.lanes[e.turn]
		e.turn = (e.turn + 1) % len(e.lanes)
		if len(e.lanes) > 1 && l.busy > 0 {
			continue
		}
		if f := e.planLane(l, now); f != nil {
			return e.launch(f), true
		}
	}
	return Batch{}, false
}

// planLane asks one scheduler for a batch. A plan that only preempted is made again, since what it
// freed can now be used.
func (e *Engine) planLane(l *lane, now time.Duration) *flight {
	f := e.newFlight()
	moved := 0
	for {
		f.reset(l)
		switch e.cfg.Policy {
		case V0:
			l.planV0(f, now)
		case V0Chunked:
			l.planV0Chunked(f, now)
		case SGLang:
			l.planSGLang(f, now)
		default:
			l.planV1(f, now)
		}
		switch {
		case len(f.parts) > 0:
			f.moved += moved
			return f
		case len(f.preempted) == 0:
			e.spare = append(e.spare, f)
			return nil
		}
		moved += f.moved
	}
}

func (e *Engine) newFlight() *flight {
	if n := len(e.spare); n > 0 {
		f := e.spare[n-1]
		e.spare = e.spare[:n-1]
		return f
	}
	return &flight{}
}

// launch puts a batch under way.
func (e *Engine) launch(f *flight) Batch {
	f.lane.busy++
	e.flights = append(e.flights, f)
	b := Batch{
		Index: e.count, Lane: f.lane.index, Shape: f.shape, Items: f.items, Receive: f.receive, Moved: f.moved,
		Admitted: f.admitted, Preempted: f.preempted, Repeat: f.repeat,
	}
	e.count++
	return b
}

// Commit ends the oldest batch under way at the given time and gives what it sampled.
func (e *Engine) Commit(end time.Duration) *Outputs {
	e.out.List = e.out.List[:0]
	e.out.Steps = 0
	if len(e.flights) == 0 {
		return &e.out
	}
	f := e.flights[0]
	n := copy(e.flights, e.flights[1:])
	e.flights = e.flights[:n]
	e.settle(f, end)
	e.spare = append(e.spare, f)
	return &e.out
}

// settle ends one step of a batch.
func (e *Engine) settle(f *flight, end time.Duration) {
	f.lane.busy--
	e.out.Steps++
	e.note(f, 1)
	finished := false
	for i := range f.parts {
		p := &f.parts[i]
		s := p.s
		s.flying--
		if s.stage == gone {
			if s.flying == 0 {
				e.recycle(s)
			}
			continue
		}
		if p.sample && e.sample(s, int(p.tokens), f.items[i].Decode) {
			finished = true
		}
	}
	f.lane.stepped(f, end)
	if finished {
		f.lane.sweep()
		e.recycleEnded()
	}
}

// recycleEnded keeps the memory of requests that ended with this batch and are in no other.
func (e *Engine) recycleEnded() {
	for _, s := range e.ended {
		if s.flying == 0 {
			e.recycle(s)
		}
	}
	e.ended = e.ended[:0]
}

// sample gives a request its new tokens and reports whether it ended.
func (e *Engine) sample(s *seq, tokens int, decode bool) bool {
	n := 1
	if decode && tokens > 1 {
		n = min(1+e.accepted(tokens-1), s.Out-s.gen)
	}
	first := s.gen == 0
	s.gen += n
	s.pending = max(0, s.pending-n)
	if s.stage == active {
		s.computed += n - 1
	}
	e.stats.Tokens += int64(n)
	o := Output{ID: s.ID, Tokens: n, First: first}
	if s.gen >= s.Out {
		o.Reason = Length
		if s.Stops {
			o.Reason = Stop
		}
		e.stats.Finished++
		e.leave(s)
		e.ended = append(e.ended, s)
	}
	e.out.List = append(e.out.List, o)
	return o.Reason != Running
}

// accepted draws how many of the drafted tokens hold.
func (e *Engine) accepted(drafts int) int {
	n := 0
	for n < drafts && e.draw.Float64() < e.cfg.Acceptance {
		n++
	}
	return n
}

// note counts committed steps of a batch and adds them to the digest.
func (e *Engine) note(f *flight, steps int) {
	sh := f.shape
	for range steps {
		e.digest = rng.Mix(e.digest ^ f.stamp ^ uint64(sh.KV)<<20 ^ uint64(sh.Prefill))
		sh.KV += int64(sh.Decode)
	}
	e.stats.recent.step(steps)
	e.stats.Steps += int64(steps)
	e.stats.PromptTokens += int64(sh.Prefill) * int64(steps)
}

// stepped tells the lane that its batch ended.
func (l *lane) stepped(f *flight, end time.Duration) {
	l.since++
	if f.shape.Prefill > 0 || f.receive > 0 {
		l.promptTook = end - l.lastPlanned
		l.since = 0
	}
}
