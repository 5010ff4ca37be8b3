package calibrate

import (
	"cmp"
	"slices"

	"spate/internal/forecast/predict"
	"spate/internal/rng"
)

// effort is how hard the search for an open load's valley tries.
type effort struct {
	plain  int // random places to begin at, for the simplest servers
	added  int // and for what disaggregated ones add
	keep   int // ends to go on from
	wander int // rounds of random steps from each of them
}

// For the fit, and for each fit without a row.
var (
	fitEffort   = effort{plain: 10, added: 60, keep: 10, wander: 60}
	crossEffort = effort{plain: 2, added: 8, keep: 3, wander: 20}
)

// starts are the places a search begins at. What is expected is one. Figures of open loads depend on
// queues that form and dissolve, so that the sum of squares has many valleys: for them the search
// begins at several random places. It takes the simplest servers first, then what disaggregated ones
// add, then all together.
func (j *job) starts(by effort) [][]float64 {
	fam := j.fam
	first := [][]float64{make([]float64, len(fam.params))}
	if !j.open() {
		return append(first, j.slowDoor()...)
	}
	draw := rng.New(j.seed, "calibrate.starts")
	random := func(x []float64, free func(i int) bool) []float64 {
		x = slices.Clone(x)
		for i := range x {
			if free(i) {
				x[i] = draw.NormFloat64()
			}
		}
		return x
	}
	for range by.plain {
		first = append(first, random(first[0], func(int) bool { return true }))
	}
	simple := &job{fam: fam, seed: j.seed, use: func(r *predict.Row) bool { return j.use(r) && fam.group(r.Group).facts.Disagg == nil }}
	if !slices.ContainsFunc(fam.rows(), simple.use) || !slices.ContainsFunc(fam.groups, func(g *group) bool { return g.facts.Disagg != nil }) {
		return first
	}
	best := lowest(simple, first, nil, 2)
	var second [][]float64
	for k := range by.added {
		second = append(second, random(best[k%len(best)], fam.onlyDisagg))
	}
	held := func(i int) bool { return !fam.onlyDisagg(i) }
	return lowest(j, second, held, by.keep)
}

// slowDoor is a second place to begin at where bursts were sent: the front end takes its time, not the
// client. Either can explain most of a burst's first tokens, so there is a valley for each.
func (j *job) slowDoor() [][]float64 {
	x := make([]float64, len(j.fam.params))
	found := false
	for i := range j.fam.params {
		switch j.fam.params[i].Name {
		case "request":
			x[i] = 1.5
		case "gap":
			x[i], found = -0.5, true
		}
	}
	if !found {
		return nil
	}
	return [][]float64{x}
}

// open reports whether any row in use sends at a rate rather than all at once.
func (j *job) open() bool {
	return slices.ContainsFunc(j.fam.rows(), func(r *predict.Row) bool { return j.use(r) && !r.Workload.Rate.Burst() })
}

// lowest are the best ends of searches from several places, with some coordinates held.
func lowest(j *job, starts [][]float64, held func(i int) bool, keep int) [][]float64 {
	var ends []point
	for _, x := range starts {
		p := j.problem()
		for i := range p.held {
			p.held[i] = held != nil && held(i)
		}
		ends = append(ends, p.descend(x, fitRounds))
	}
	slices.SortStableFunc(ends, func(a, b point) int { return cmp.Compare(a.loss, b.loss) })
	var out [][]float64
	for _, e := range ends[:min(keep, len(ends))] {
		out = append(out, e.x)
	}
	return out
}

// onlyDisagg reports whether a parameter concerns none of the simple servers.
func (fam *Family) onlyDisagg(i int) bool {
	a := fam.params[i].applies
	return a != nil && !slices.ContainsFunc(fam.groups, func(g *group) bool { return g.facts.Disagg == nil && a(&g.facts) })
}
