package capacity

import (
	"math"

	"spate/internal/config"
)

// State is what the probes of one load say about its objectives.
type State string

// States. Unclear is a load whose intervals still hold a bound.
const (
	Met     State = "met"
	Missed  State = "missed"
	Unclear State = "unclear"
)

// z is the half-width of a 95 % interval in standard errors.
const z = 1.96

// level is one load with its probes.
type level struct {
	load float64
	obs  []Observation
}

// state decides. noise is the spread of each objective's margin from probe to probe.
func (l *level) state(objectives []config.Objective, noise []float64) State {
	out := Met
	for i, o := range objectives {
		switch l.objective(i, o, noise[i]) {
		case Missed:
			return Missed
		case Unclear:
			out = Unclear
		}
	}
	saturated := 0
	for i := range l.obs {
		if l.obs[i].Saturated {
			saturated++
		}
	}
	switch {
	case saturated == len(l.obs):
		return Missed
	case saturated > 0:
		return Unclear
	}
	return out
}

// objective decides about one objective.
func (l *level) objective(i int, o config.Objective, noise float64) State {
	if o.Unit == "ratio" {
		return l.share(i, o)
	}
	mean, own, n := 0.0, 0.0, float64(len(l.obs))
	for j := range l.obs {
		m, sd := margin(o, l.obs[j].Readings[i])
		if math.IsInf(m, -1) {
			return Missed // no request succeeded, or none finished
		}
		mean += m / n
		own += sd * sd / n
	}
	half := z * math.Sqrt(max(own, noise*noise)/n)
	switch {
	case mean-half > 0:
		return Met
	case mean+half < 0:
		return Missed
	}
	return Unclear
}

// share decides about a share of requests, counted over all probes. Few requests cannot show that a
// rare failure is rarer still, so a share that keeps its bound is taken as met; the answer tells how
// rare it is known to be.
func (l *level) share(i int, o config.Objective) State {
	count, of := 0, 0
	for j := range l.obs {
		count += l.obs[j].Readings[i].Count
		of += l.obs[j].Readings[i].Of
	}
	if of == 0 {
		return Missed
	}
	low, high := wilson(count, of)
	switch {
	case o.Met(float64(count) / float64(of)):
		return Met
	case !o.Met(low) && !o.Met(high):
		return Missed
	}
	return Unclear
}

// wilson is the 95 % interval of a share.
func wilson(count, of int) (low, high float64) {
	n, p := float64(of), float64(count)/float64(of)
	mid := (p + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	low, high = max(0, mid-half), min(1, mid+half)
	if count == 0 {
		low = 0 // what is left is rounding
	}
	if count == of {
		high = 1
	}
	return low, high
}

// margin is how far a latency stays below its bound, as a logarithm, and how uncertain that is by the
// probe's own interval.
func margin(o config.Objective, r Reading) (m, sd float64) {
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

// spread is how much each objective's margin varies between probes of one load, over all loads that
// were probed more than once. What varies between runs is not in the interval of any one of them.
func spread(objectives []config.Objective, levels []*level) []float64 {
	out := make([]float64, len(objectives))
	for i, o := range objectives {
		if o.Unit == "ratio" {
			continue
		}
		sum, free := 0.0, 0
		for _, l := range levels {
			var ms []float64
			mean := 0.0
			for j := range l.obs {
				if m, _ := margin(o, l.obs[j].Readings[i]); !math.IsInf(m, 0) && l.obs[j].Aborted == "" {
					ms = append(ms, m)
					mean += m
				}
			}
			if len(ms) < 2 {
				continue
			}
			mean /= float64(len(ms))
			for _, m := range ms {
				sum += (m - mean) * (m - mean)
			}
			free += len(ms) - 1
		}
		if free > 0 {
			out[i] = math.Sqrt(sum / float64(free))
		}
	}
	return out
}
