package sim

import "time"

// planV1 forms a batch as vLLM's V1 scheduler does: running requests first, in order, then waiting
// ones, all from one budget of tokens. A step that had to preempt admits nobody. LMDeploy's
// persistent batch is the same with a budget that only prompts draw on.
func (l *lane) planV1(f *flight, now time.Duration) {
	l.lastPlanned = now
	budget := l.cfg.MaxTokens
	beside := l.cfg.Policy == LMDeploy
	for i := 0; i < len(l.running) && (budget > 0 || beside); i++ {
		s := l.running[i]
		free := beside && !s.prefilling()
		n := l.share(s, budget)
		if free {
			n = l.share(s, 1+l.cfg.Drafts)
		}
		if n == 0 {
			continue // its last token is still being computed
		}
		if !l.growOrPreempt(f, s, s.computed+n) {
			break
		}
		if !free {
			budget -= n
		}
		f.add(s, n)
	}
	if len(f.preempted) > 0 {
		return
	}
	closed := l.admitV1(f, budget)
	if closed && len(f.parts) == len(l.running) {
		f.repeat = l.repeats(f)
	}
}

// share is the number of tokens a running request gets from the budget.
func (l *lane) share(s *seq, budget int) int {
	n := s.known() - s.computed
	if n == 1 && s.gen+s.pending > 0 {
		if s.gen+s.pending >= s.Out && !s.Stops {
			return 0 // asynchronous scheduling: the last token is on its way
		}
		return min(n+l.cfg.Drafts, budget)
	}
	if l.cfg.LongPrefill > 0 {
		n = min(n, l.cfg.LongPrefill)
	}
	return min(n, budget)
}

// admitV1 lets waiting requests in while the budget lasts. It reports whether the door will stay
// shut as long as nobody leaves, arrives or gives back blocks.
func (l *lane) admitV1(f *flight, budget int) bool {
	blocked := false // somebody does not fit; those behind that hold their blocks already may pass
	for i := 0; i < l.waiting.len(); {
		if len(l.running) >= l.cfg.MaxSeqs {
			return true
		}
		if budget <= 0 {
			return false
		}
		s := l.waiting.at(i)
		if l.skipped(f, s) || blocked && s.stage != fetched {
			i++
			continue
		}
		n, fits := l.fitV1(s, budget)
		if !fits && l.fetched == 0 {
			return !l.shared && !l.cfg.CountRetries && i == 0
		}
		if !fits {
			blocked = true
			continue
		}
		if n == 0 { // holds its blocks now and waits for their contents
			i++
			continue
		}
		l.admit(f, i)
		budget -= n
		f.add(s, n)
	}
	return l.waiting.len() == 0 || blocked && l.fetched == 0
}

// skipped reports whether a waiting request cannot start yet while those behind it can.
func (l *lane) skipped(f *flight, s *seq) bool {
	if s.stage == fetched && !s.received {
		return true
	}
	slots := l.cfg.LoRASlots
	return slots > 0 && s.Adapter != 0 && !f.uses(s.Adapter) && len(f.adapters) >= slots
}

// fitV1 gives a waiting request its first blocks. It returns the tokens to compute, zero for a
// request that now waits for KV from elsewhere.
func (l *lane) fitV1(s *seq, budget int) (int, bool) {
	if s.stage == fetched {
		s.computed = s.known() - 1
		s.Remote = false // if it loses its blocks, it computes them here
		l.fetched--
		return 1, true
	}
	hits := l.lookup(s)
	cached := len(hits) * l.size()
	n := s.known() - cached
	if l.cfg.LongPrefill > 0 {
		n = min(n, l.cfg.LongPrefill)
	}
	if n > budget && l.cfg.WholePrompts && !s.Remote {
		return 0, false
	}
	n = min(n, budget)
	upto := cached + n
	if l.cfg.ReserveFull || s.Remote || l.fetched > 0 {
		upto = s.known() // blocks held for KV on its way cannot be taken back, so nobody starts in vain
	}
	short := l.need(s, upto, hits) > l.pool.Free()-l.reserve()
	if !short || l.cfg.CountRetries {
		l.query(s, cached)
	}
	if short {
		return 0, false
	}
	l.adopt(s, hits)
	if s.Remote {
		l.grow(s, s.known())
		s.stage = fetched
		l.fetched++
		l.fetches = append(l.fetches, s.ID)
		return 0, true
	}
	l.grow(s, cached+n)
	return n, true
}

// reserve is the number of blocks admission leaves free, nothing when the engine is empty.
func (l *lane) reserve() int {
	if len(l.running) == 0 {
		return 0
	}
	return l.watermark()
}

// query counts a look into the prefix cache.
func (l *lane) query(s *seq, cached int) {
	if !l.cfg.PrefixCaching {
		return
	}
	if s.preempted == 0 {
		s.hit = cached
	} else if !l.cfg.CountRetries {
		return
	}
	l.stats.Queries += int64(s.known())
	l.stats.Hits += int64(cached)
	l.stats.recent.add(s.known(), cached)
}
