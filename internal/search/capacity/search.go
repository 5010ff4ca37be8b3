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
	p, more := s.next()
	p.Number = s.probes + 1
	return p, more
}

func (s *Search) next() (Probe, bool) {
	if len(s.levels) == 0 {
		return Probe{Load: s.opt.Start, Repeat: 1, Times: 1}, true
	}
	low, high := s.ends()
	for _, l := range slices.Backward(s.levels) { // a load tells about those below it
		outside := low != nil && l.load < low.load || high != nil && l.load > high.load // the ends say more
		if !outside && !l.lost() && s.own(l) == Unclear && len(l.obs) < s.opt.Most {
			return l.again(), true
		}
	}
	load, ok := s.between(low, high)
	if ok {
		return Probe{Load: load, Repeat: 1, Times: 1}, true
	}
	switch { // nothing hangs on one probe, and what is promised hangs on those that count
	case high != nil && !high.lost() && len(high.obs) < s.opt.Repeats: // tells about the loads below it, too
		return high.again(), true
	case low != nil && !low.lost() && low.whole() < s.opt.Repeats && len(low.obs) < s.opt.Most:
		return low.again(), true
	}
	return Probe{}, false
}

// again is one more probe of a load. The first shows the way and is short; those that decide are longer, since
// near the capacity a queue takes its time to show.
func (l *level) again() Probe {
	p := Probe{Load: l.load, Repeat: len(l.obs) + len(l.left) + 1, Times: 1}
	if len(l.obs) > 0 {
		p.Times = longer
	}
	return p
}

const (
	longer   = 3 // times as long as the first probe of a load are the others
	mostLeft = 3 // INVALID probes of a load, after which it is given up
)

// lost reports whether a load was given up: its probes keep coming out INVALID.
func (l *level) lost() bool { return len(l.left) >= mostLeft }

// Observe takes the result of a probe. One that is INVALID says nothing about the server: it is left out, and
// made again.
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
	if l := s.levels[at]; o.Invalid != "" {
		l.left = append(l.left, o)
	} else {
		l.obs = append(l.obs, o)
	}
}

// State is what the probes of a load say so far.
func (s *Search) State(load float64) State {
	for _, l := range s.levels {
		if l.load == load {
			return s.stateOf(l)
		}
	}
	return Unclear
}

// Probes counts the probes made.
func (s *Search) Probes() int { return s.probes }

// stateOf decides about a load. None is met above what the server serves when it is never idle, as loads up to a
// fourth higher show that are too much for it.
func (s *Search) stateOf(l *level) State {
	state := s.own(l)
	if state == Met && l.load > s.busy(l).atLeast() {
		return Unclear
	}
	return state
}

// busy is what the server serves when it is never idle, as far as it tells about a load.
func (s *Search) busy(l *level) (sum Service) {
	for _, other := range s.levels {
		if other.load <= l.load*beside {
			sum = sum.add(other.busy())
		}
	}
	return sum
}

// own is what the probes of a load say. How much they differ is told by those of loads up to a fifth lower and of the
// next one above, too: figures vary the more the fuller a server is, and a few may agree by chance.
func (s *Search) own(l *level) State {
	var near []*level
	for _, other := range s.levels {
		if other.load >= l.load/beside && !s.wide(l.load, other.load) {
			near = append(near, other)
		}
	}
	return l.state(s.opt.Objectives, near)
}

// beside is how many times as high a load may be as another to tell something about it.
const beside = 1.25

// ends are the highest load that meets the objectives below any that misses them, and the lowest that
// misses them; nil where there is none.
func (s *Search) ends() (low, high *level) {
	for _, l := range s.levels {
		switch s.stateOf(l) {
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
	case high == nil && last.load < s.opt.Max && !last.lost(): // a client that cannot send this cannot send more
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
