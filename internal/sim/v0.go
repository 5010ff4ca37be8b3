package sim

import "time"

// planV0 forms a batch as vLLM's first scheduler does: if any whole prompt can be admitted the step
// holds prompts only, otherwise every running request decodes.
func (l *lane) planV0(f *flight, now time.Duration) {
	l.lastPlanned = now
	closed, most := true, 0
	switch {
	case l.waiting.len() == 0 || l.swapped.len() > 0: // what was moved out comes back first
	case l.between():
		most = l.left()
	case l.mayAdmit(now):
		closed = l.admitV0(f, l.cfg.MaxTokens)
	default:
		closed = false
	}
	if len(f.parts) > 0 {
		return
	}
	l.decodeAll(f)
	if len(f.preempted) > 0 {
		return
	}
	l.swapIn(f, 1<<30)
	if closed && f.moved == 0 {
		f.repeat = l.repeats(f)
		if most > 0 {
			f.repeat = min(f.repeat, most)
		}
	}
}

// mayAdmit applies the delay factor: while something runs, prompts wait until the oldest has waited
// that many times the duration of the last prompt step.
func (l *lane) mayAdmit(now time.Duration) bool {
	if l.cfg.DelayFactor <= 0 || len(l.running) == 0 || l.waiting.len() == 0 {
		return true
	}
	earliest := l.waiting.at(0).Arrive
	for _, s := range l.waiting.live() {
		earliest = min(earliest, s.Arrive)
	}
	return float64(now-earliest) > l.cfg.DelayFactor*float64(l.promptTook)
}

// admitV0 admits whole prompts in order and reports whether what stopped it lasts until something
// ends.
func (l *lane) admitV0(f *flight, budget int) bool {
	for l.waiting.len() > 0 && len(l.running) < l.cfg.MaxSeqs {
		s := l.waiting.at(0)
		if l.skipped(f, s) {
			return false
		}
		n, ok := l.fitV0(s, budget)
		if !ok {
			return !l.shared
		}
		l.admit(f, 0)
		budget -= n
		if s.Remote {
			s.Remote = false
			f.addReceived(s)
		} else {
			f.add(s, n)
		}
	}
	return true
}

// fitV0 gives a prompt all its blocks if the budget and the pool allow, leaving the watermark free.
func (l *lane) fitV0(s *seq, budget int) (int, bool) {
	hits := l.lookup(s)
	cached := len(hits) * l.size()
	n := s.known() - cached
	if n > budget || l.need(s, s.known(), hits) > l.pool.Free()-l.watermark() {
		return 0, false
	}
	l.query(s, cached)
	l.adopt(s, hits)
	l.grow(s, s.known())
	return n, true
}

// decodeAll gives every running request its next token, preempting from the end when blocks run out.
func (l *lane) decodeAll(f *flight) {
	for i := 0; ; i++ {
		if i >= len(l.running) { // it shrinks as requests are preempted
			return
		}
		s := l.running[i]
		n := l.share(s, 1+l.cfg.Drafts)
		if n == 0 {
			continue
		}
		if !l.growOrPreempt(f, s, s.computed+n) {
			return
		}
		f.add(s, n)
	}
}

// planV0Chunked forms a batch as the first scheduler does with chunked prefill: decodes, then
// prompts already begun, then new ones, each as far as the budget goes. Blocks for a whole prompt
// are taken when it is admitted.
func (l *lane) planV0Chunked(f *flight, now time.Duration) {
	l.lastPlanned = now
	budget := l.cfg.MaxTokens
	for _, prompts := range []bool{false, true} {
		for i := 0; i < len(l.running) && budget > 0; i++ {
			s := l.running[i]
			if s.prefilling() != prompts {
				continue
			}
			n := l.share(s, budget)
			if n == 0 {
				continue
			}
			if !l.growOrPreempt(f, s, s.computed+n) {
				break
			}
			budget -= n
			f.add(s, n)
		}
	}
	if len(f.preempted) == 0 {
		l.swapIn(f, budget)
	}
	closed := l.admitChunked(f, max(0, l.cfg.MaxTokens-f.tokens()), now)
	if closed && len(f.preempted) == 0 && f.moved == 0 && len(f.parts) == len(l.running) {
		f.repeat = l.repeats(f)
	}
}

func (l *lane) admitChunked(f *flight, budget int, now time.Duration) bool {
	if !l.mayAdmit(now) || l.waiting.len() > 0 && l.between() {
		return false
	}
	for l.waiting.len() > 0 && len(l.running) < l.cfg.MaxSeqs {
		s := l.waiting.at(0)
		if budget <= 0 || l.skipped(f, s) {
			return false
		}
		n, ok := l.fitV0(s, 1<<30)
		if !ok {
			return !l.shared
		}
		l.admit(f, 0)
		if s.Remote {
			s.Remote = false
			f.addReceived(s)
			continue
		}
		n = min(n, budget)
		budget -= n
		f.add(s, n)
	}
	return true
}
