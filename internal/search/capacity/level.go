package capacity

import (
	"math"
	"slices"

	"spate/internal/figure"
	"spate/internal/judge/stats"
)

// State is what the probes of one load say about its objectives.
type State string

// States. Unclear is a load whose intervals still hold a bound.
const (
	Met     State = "met"
	Missed  State = "missed"
	Unclear State = "unclear"
)

// Half-widths of intervals in standard errors: of the 95 % that a run tells of its figures, and of the 99 %
// by which a load is decided. A search decides about several loads and looks at each several times, so that
// 95 % for each would not be 95 % for the answer.
const (
	z    = 1.96
	sure = 2.576
)

// level is one load with its probes.
type level struct {
	load float64
	obs  []Observation
	left []Observation // INVALID ones, left out
}

// state decides. near are the loads that tell how much probes differ, this one among them.
func (l *level) state(objectives []figure.Objective, near []*level) State {
	if len(l.obs) == 0 {
		return Unclear
	}
	out := l.keepsUp()
	if out == Missed || l.hopeless() {
		return Missed
	}
	for i, o := range objectives {
		switch l.objective(i, o, near) {
		case Missed:
			return Missed
		case Unclear:
			out = Unclear
		}
	}
	return out
}

// hopeless reports whether every long probe of the load was ended because a bound could not be met any more, two at
// least. One may have met a bad moment. Together they are sure: each had several times as many requests beyond the
// bound as its whole length allows. Their figures say less, since they depend on when a probe was ended.
func (l *level) hopeless() bool {
	ended := 0
	for j := range l.obs {
		switch o := &l.obs[j]; {
		case o.Repeat == 1 || l.passing(j):
		case o.Aborted == "" || o.Saturated:
			return false
		default:
			ended++
		}
	}
	return ended >= 2
}

// busy is what the server served in all probes of the load in which it was never idle, if the load is shown to be
// more than it keeps up with.
func (l *level) busy() (sum Service) {
	if l.keepsUp() != Missed {
		return sum
	}
	for i := range l.obs {
		sum = sum.add(l.obs[i].Busy)
	}
	return sum
}

// growth is that of the queue over all probes of the load.
func (l *level) growth() Growth {
	var sum Growth
	for i := range l.obs {
		sum.By += l.obs[i].Growth.By
		sum.Variance += l.obs[i].Growth.Variance
	}
	return sum
}

// keepsUp decides whether the queue grows.
func (l *level) keepsUp() State {
	switch s := l.growth().Significance(); {
	case s >= someGrowth:
		return Missed
	case s >= anyGrowth:
		return Unclear
	}
	return Met
}

// objective decides about one objective.
func (l *level) objective(i int, o figure.Objective, near []*level) State {
	if o.Unit == "ratio" {
		return l.share(i, o)
	}
	m, n := l.margin(i, o, near)
	switch {
	case n == 0:
		return Unclear
	case m.mean-m.half > 0:
		return Met
	case m.mean+m.half < 0:
		return Missed
	}
	return Unclear
}

// estimate is a mean margin and the half-width of its interval.
type estimate struct{ mean, half float64 }

// margin is what the probes of a load say about an objective together, and how many of them do.
func (l *level) margin(i int, o figure.Objective, near []*level) (e estimate, n int) {
	var sum, own, weight float64
	for j := range l.obs {
		m, sd := margin(o, l.obs[j].Readings[i])
		if !l.decides(j, m) {
			continue
		}
		w := l.obs[j].weight()
		sum += w * m
		own += w * w * sd * sd
		weight += w
		n++
	}
	if n == 0 || math.IsInf(sum, -1) { // no request succeeded, or none finished
		return estimate{mean: sum}, n
	}
	differ := spreadOf(i, o, near).wide()
	return estimate{sum / weight, max(sure*math.Sqrt(own)/weight, differ/math.Sqrt(weight))}, n
}

// decides reports whether a probe counts for an objective with its margin. One ended because its queue grew has the
// latencies of the requests before it did: they say something only where they have broken the bound already.
func (l *level) decides(j int, margin float64) bool {
	return !l.passing(j) && (!l.obs[j].Saturated || margin < 0)
}

// passing reports whether a probe only showed the way: longer ones have followed.
func (l *level) passing(j int) bool {
	return slices.ContainsFunc(l.obs, func(o Observation) bool { return o.Planned > l.obs[j].Planned })
}

// whole counts the probes that were as long as the longest and came to their end.
func (l *level) whole() int {
	n := 0
	for j := range l.obs {
		if !l.passing(j) && !l.obs[j].Saturated {
			n++
		}
	}
	return n
}

// weight is what a probe counts: as many requests as it had.
func (o *Observation) weight() float64 { return float64(max(1, o.Requests)) }

// counted is how many requests of all probes an objective counts, and of how many.
func (l *level) counted(i int) (count, of int) {
	for j := range l.obs {
		count += l.obs[j].Readings[i].Count
		of += l.obs[j].Readings[i].Of
	}
	return count, of
}

// share decides about a share of requests, counted over all probes. Few requests cannot show that a
// rare failure is rarer still, so a share that keeps its bound is taken as met; the answer tells how
// rare it is known to be.
func (l *level) share(i int, o figure.Objective) State {
	count, of := l.counted(i)
	if of == 0 {
		return Missed
	}
	in := stats.Wilson(count, of, 0.95)
	switch {
	case o.Met(float64(count) / float64(of)):
		return Met
	case !o.Met(in.Low) && !o.Met(in.High):
		return Missed
	}
	return Unclear
}

// margin is how far a latency stays below its bound, as a logarithm, and how uncertain that is by the
// probe's own interval.
func margin(o figure.Objective, r Reading) (m, sd float64) {
	v := float64(r.Value)
	if math.IsNaN(v) || math.IsInf(v, 1) {
		return math.Inf(-1), 0
	}
	const least = 1e-9 // ms; a latency of nothing is met, but not infinitely
	log := func(x float64) float64 { return math.Log(max(x, least)) }
	m = math.Log(o.Bound) - log(v)
	if low, high := float64(r.Low), float64(r.High); low > 0 && high > low && !math.IsInf(high, 1) {
		sd = (log(high) - log(low)) / (2 * z)
	}
	return m, sd
}

// spread is how much an objective's margin varies between probes of one load, had they one request each: the
// variance of a probe's margin is taken to fall with its requests.
type spread struct {
	sd   float64
	free int // degrees of freedom
}

// wide is the half-width of the interval of a margin from one request; wider where few probes tell the spread.
func (s spread) wide() float64 {
	if s.free == 0 {
		return 0
	}
	return s.sd * stats.CriticalT(float64(s.free), 0.99)
}

// spreadOf is how much an objective's margin varies between probes of one load, over loads that were probed
// more than once. What varies between runs is not in the interval of any one of them.
func spreadOf(i int, o figure.Objective, levels []*level) spread {
	sum, free := 0.0, 0
	for _, l := range levels {
		s, n := l.squares(i, o)
		sum += s
		free += n
	}
	if free == 0 {
		return spread{}
	}
	return spread{math.Sqrt(sum / float64(free)), free}
}

// squares are the weighted squares of how far an objective's margins are from their mean, and the degrees of
// freedom in them.
func (l *level) squares(i int, o figure.Objective) (sum float64, free int) {
	var mean, weight float64
	each := func(f func(m, n float64)) {
		for j := range l.obs {
			if m, _ := margin(o, l.obs[j].Readings[i]); !math.IsInf(m, 0) && l.decides(j, m) {
				f(m, l.obs[j].weight())
			}
		}
	}
	each(func(m, n float64) { mean, weight, free = mean+n*m, weight+n, free+1 })
	if free < 2 {
		return 0, 0
	}
	mean /= weight
	each(func(m, n float64) { sum += n * (m - mean) * (m - mean) })
	return sum, free - 1
}
