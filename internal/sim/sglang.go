package sim

import "time"

// ratioDecay and ratioFloor are how SGLang lowers, decode step by decode step, the share of the
// allowed output for which admission keeps room, until a retraction shows that it went too far.
const (
	ratioDecay = 0.001
	ratioFloor = 0.1
)

// planSGLang forms a batch as SGLang does: prompts first, the last one cut to the budget, admitted
// only if the room they and all running requests are expected to need is there; then decodes.
func (l *lane) planSGLang(f *flight, now time.Duration) {
	l.lastPlanned = now
	budget := l.cfg.MaxTokens
	for _, s := range l.running { // a prompt that was cut goes on first
		if n := min(s.known()-s.computed, budget); n > 0 && s.prefilling() && l.tryGrow(s, s.computed+n) {
			budget -= n
			f.add(s, n)
		}
	}
	for budget > 0 && l.waiting.len() > 0 && len(l.running) < l.cfg.MaxSeqs {
		n, ok := l.fitSGLang(l.waiting.at(0), budget)
		if !ok {
			break
		}
		s := l.admit(f, 0)
		budget -= n
		f.add(s, n)
	}
	if len(f.parts) > 0 {
		return
	}
	l.decodeAll(f)
	if len(f.preempted) > 0 {
		l.ratio = l.cfg.ReserveRatio
		return
	}
	l.ratio = max(min(ratioFloor, l.cfg.ReserveRatio), l.ratio-ratioDecay)
	if l.waiting.len() == 0 && l.ratio <= ratioFloor {
		f.repeat = l.repeats(f)
	}
}

func (l *lane) fitSGLang(s *seq, budget int) (int, bool) {
	hits := l.lookup(s)
	cached := len(hits) * l.size()
	n := min(s.known()-cached, budget)
	room := l.ceil(int(l.ratio * float64(l.allowed(s))))
	for _, r := range l.running {
		room += l.ceil(int(l.ratio * float64(l.allowed(r))))
	}
	if len(l.running) == 0 {
		room = 0
	}
	if l.need(s, s.known(), hits)+room > l.pool.Free() {
		return 0, false
	}
	l.query(s, cached)
	l.adopt(s, hits)
	l.grow(s, cached+n)
	return n, true
}

// allowed is the number of tokens a request may still generate.
func (l *lane) allowed(s *seq) int { return max(0, max(s.MaxOut, s.Out)-s.gen) }
