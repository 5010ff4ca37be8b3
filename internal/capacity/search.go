package capacity

import (
	"math"
	"slices"
	"strconv"
)

// Search is the state of a search. It doubles the load until the objectives are missed (or halves it
// until they are met), then halves the gap between the highest load that meets them and the lowest
// that misses them. A load whose probes leave it open is probed again, and if it stays open the search
// goes on on both sides of it.
type Search struct {
	opt    Options
	levels []*level // by load
	probes int
}

// New starts a search; options have to be valid.
func New(opt Options) *Search { return &Search{opt: opt} }

// Next is the probe to make now; false when the search is over.
func (s *Search) Next() (Probe, bool) {
	if s.probes >= s.opt.Probes {
		return Probe{}, false
	}
	if len(s.levels) == 0 {
		return Probe{Load: s.opt.Start, Repeat: 1}, true
	}
	noise := s.noise()
	low, high := s.ends(noise)
	for _, l := range s.levels {
		beside := low != nil && l.load < low.load || high != nil && l.load > high.load // the ends say more
		if !beside && s.stateOf(l, noise) == Unclear && len(l.obs) < s.opt.Most {
			return l.again(), true
		}
	}
	load, ok := s.between(low, high)
	if ok {
		return Probe{Load: load, Repeat: 1}, true
	}
	for _, end := range []*level{low, high} { // nothing hangs on one probe
		if end != nil && len(end.obs) < s.opt.Repeats {
			return end.again(), true
		}
	}
	return Probe{}, false
}

func (l *level) again() Probe { return Probe{Load: l.load, Repeat: len(l.obs) + 1} }

// Observe takes the result of a probe.
func (s *Search) Observe(o Observation) {
	s.probes++
	at, found := slices.BinarySearchFunc(s.levels, o.Load, func(l *level, load float64) int {
		switch {
		case l.load < load:
			return -1
		case l.load > load:
			return 1
		}
		return 0
	})
	if !found {
		s.levels = slices.Insert(s.levels, at, &level{load: o.Load})
	}
	s.levels[at].obs = append(s.levels[at].obs, o)
}

// State is what the probes of a load say so far.
func (s *Search) State(load float64) State {
	for _, l := range s.levels {
		if l.load == load {
			return s.stateOf(l, s.noise())
		}
	}
	return Unclear
}

// Probes counts the probes made.
func (s *Search) Probes() int { return s.probes }

func (s *Search) noise() []float64 { return spread(s.opt.Objectives, s.levels) }

func (s *Search) stateOf(l *level, noise []float64) State { return l.state(s.opt.Objectives, noise) }

// ends are the highest load that meets the objectives below any that misses them, and the lowest that
// misses them; nil where there is none.
func (s *Search) ends(noise []float64) (low, high *level) {
	for _, l := range s.levels {
		switch s.stateOf(l, noise) {
		case Met:
			low = l
		case Missed:
			return low, l
		}
	}
	return low, nil
}

// between is the next load to try, if the gap is still too wide anywhere.
func (s *Search) between(low, high *level) (float64, bool) {
	first, last := s.levels[0], s.levels[len(s.levels)-1]
	switch {
	case high == nil && last.load < s.opt.Max:
		return s.round(min(s.opt.Max, 2*last.load), last.load, math.Inf(1)), true
	case low == nil && first.load > s.opt.Min:
		return s.round(max(s.opt.Min, first.load/2), 0, first.load), true
	}
	gaps := s.gaps(low, high)
	for i := range len(gaps) - 1 {
		a, b := gaps[i], gaps[i+1]
		// Between two loads that stayed open nothing is to be learned.
		if (i == 0 && low != nil || i == len(gaps)-2 && high != nil) && s.wide(a, b) {
			return s.middle(a, b), true
		}
	}
	return 0, false
}

// gaps are the loads from one end to the other, with those between that stayed open.
func (s *Search) gaps(low, high *level) []float64 {
	var out []float64
	for _, l := range s.levels {
		if (low == nil || l.load >= low.load) && (high == nil || l.load <= high.load) {
			out = append(out, l.load)
		}
	}
	return out
}

// wide reports whether two loads are further apart than an answer may be.
func (s *Search) wide(a, b float64) bool {
	if s.opt.By == Concurrency {
		return b-a > max(1, s.opt.Tolerance*a)
	}
	return b/a > 1+s.opt.Tolerance
}

// middle is a load between two others, as round as it can be.
func (s *Search) middle(a, b float64) float64 { return s.round(math.Sqrt(a*b), a, b) }

// round shortens a load without leaving the gap it is to fill.
func (s *Search) round(v, above, below float64) float64 {
	if s.opt.By == Concurrency {
		return max(above+1, min(math.Round(v), below-1))
	}
	for digits := 3; digits < 6; digits++ {
		r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
		if err == nil && r > above && r < below && r >= s.opt.Min && r <= s.opt.Max {
			return r
		}
	}
	return v
}
