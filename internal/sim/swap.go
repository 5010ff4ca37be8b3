package sim

// The first scheduler can move a request's blocks to the host's memory instead of computing them again: it
// does so for requests of one prompt with several answers, and for all when told to. What was moved comes
// back before any new prompt is admitted.

// swaps reports whether a request that loses its blocks has them moved rather than computed again.
func (l *lane) swaps(s *seq) bool {
	if l.cfg.Policy != V0 && l.cfg.Policy != V0Chunked {
		return false
	}
	return (l.cfg.Swap || s.Group != 0) && !s.prefilling() && len(s.blocks)+len(s.side) <= l.cfg.SwapBlocks-l.parked
}

// swapOut moves the blocks of a request that was taken off the running list to the host.
func (l *lane) swapOut(f *flight, s *seq) {
	s.host = len(s.blocks) + len(s.side)
	computed := s.computed
	l.release(s)
	s.computed = computed
	s.stage = parked
	l.parked += s.host
	l.stats.SwappedOut++
	f.moved += s.host
	l.swapped.push(s)
}

// swapIn brings requests back while there is room, first out first.
func (l *lane) swapIn(f *flight, budget int) {
	for l.swapped.len() > 0 && len(l.running) < l.cfg.MaxSeqs && budget > 0 {
		s := l.swapped.at(0)
		if l.need(s, s.computed+1+l.cfg.Drafts, nil) > l.pool.Free()-l.watermark() {
			return
		}
		l.swapped.drop(0)
		l.unpark(s)
		for want := l.ceil(s.computed); len(s.blocks) < want; {
			l.extend(s)
		}
		s.named = len(s.blocks) // what they hold has its name elsewhere
		f.moved += len(s.blocks) + len(s.side)
		s.stage = active
		l.running = append(l.running, s)
		n := l.share(s, min(budget, 1+l.cfg.Drafts))
		if n == 0 {
			continue
		}
		l.grow(s, s.computed+n)
		budget -= n
		f.add(s, n)
	}
}

// unpark gives back the host's memory.
func (l *lane) unpark(s *seq) {
	l.parked -= s.host
	s.host = 0
}

// between reports whether a decision to decode several steps in a row still holds, so that nobody is
// admitted.
func (l *lane) between() bool {
	return l.cfg.Steps > 1 && l.since%l.cfg.Steps != 0 && len(l.running) > 0
}

// left is the number of steps until the next decision.
func (l *lane) left() int { return l.cfg.Steps - l.since%l.cfg.Steps }
