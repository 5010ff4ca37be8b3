package tune

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"spate/internal/host/launch"
	"spate/internal/search/suggest"
)

// Tuner decides what to do next from what was done: the same file and history give the same step.
type Tuner struct {
	File   *File
	Advice *Advice // of a simulator; nil: there is none
}

// Bounds of a search that goes wrong.
const (
	attempts  = 3 // of a step that fails by accident, one that never answers less often: each takes as long as may be
	failFirst = 6 // trials that fail before a single one has gone well
)

// Next is the step to make now; false when the search is over. The error says why nothing more can be done.
func (t *Tuner) Next(history []Observation) (Step, bool, error) {
	if s, ok := retry(history); ok {
		return s, true, nil
	}
	if t.File.AtKnee {
		if s, ok := t.kneeStep(history); ok {
			return s, true, nil
		}
	}
	s, ok, err := t.trialStep(history)
	if ok || err != nil {
		return s, ok, err
	}
	if s, ok := t.finalStep(history); ok {
		return s, true, nil
	}
	s, ok = t.heldStep(history)
	return s, ok, nil
}

// retry makes a step again that failed by accident, some times.
func retry(history []Observation) (Step, bool) {
	if len(history) == 0 {
		return Step{}, false
	}
	last := history[len(history)-1]
	if !last.again() {
		return Step{}, false
	}
	s := last.Step
	s.N, s.Attempt = len(history), last.Attempt+1
	return s, true
}

// again reports whether a step failed by accident and is worth another attempt.
func (o *Observation) again() bool {
	most := attempts
	if o.Failure != nil && o.Failure.Kind == launch.Timeout {
		most--
	}
	return o.Transient() && o.Attempt+1 < most
}

// rate is the load of trials.
func (t *Tuner) rate(history []Observation) float64 {
	if !t.File.AtKnee {
		return t.File.Rate
	}
	knee := KneeOf(history)
	if knee.Rate == 0 {
		return 0
	}
	return round3(knee.Rate * t.File.Around)
}

// settled are the trials whose fate is known: an accident that will be tried again is none.
func settled(history []Observation) []Observation {
	return slices.DeleteFunc(pick(history, Trial), func(o Observation) bool { return o.again() })
}

// trialStep is the next trial, or the default once more.
func (t *Tuner) trialStep(history []Observation) (Step, bool, error) {
	done := settled(history)
	if len(done) >= failFirst && !slices.ContainsFunc(done, func(o Observation) bool { return o.Counts() }) {
		return Step{}, false, fmt.Errorf("%w: none of the first %d trials counts, the last one for: %s", errNothing, len(done), done[len(done)-1].Trouble())
	}
	step := Step{N: len(history), Phase: Trial, Trial: len(done), Share: 1, Rate: t.rate(history)}
	if len(done) == 0 {
		step.Settings = t.File.Defaults()
		return step, true, nil
	}
	if len(done) >= t.File.Trials || t.File.Time > 0 && spent(history) >= t.File.Time {
		return Step{}, false, nil
	}
	if every := t.File.DriftOver; every > 0 && len(done)%every == 0 && history[len(history)-1].Phase == Trial {
		step.Phase, step.Trial, step.Settings = Drift, 0, t.File.Defaults()
		return step, true, nil
	}
	p, ok := t.propose(done)
	if !ok {
		return Step{}, false, nil
	}
	step.Settings, step.Share = p.Settings, p.Share
	for i := range done { // a setting measured longer keeps its number
		if maps.Equal(done[i].Settings, p.Settings) {
			step.Trial = done[i].Trial
			break
		}
	}
	step.Deadline = deadline(done, step.Share)
	return step, true, nil
}

// propose asks the strategy.
func (t *Tuner) propose(done []Observation) (suggest.Proposal, bool) {
	trials := make([]suggest.Trial, len(done))
	gone := map[string]bool{} // accidents that stayed: nothing is learned, and nothing tried again
	space := t.File.Space()
	for i := range done {
		trials[i] = done[i].trial()
		if trials[i].Transient {
			gone[space.Key(done[i].Settings)] = true
		}
	}
	rules := space.Allow
	space.Allow = func(s suggest.Settings) error {
		if gone[space.Key(s)] {
			return errors.New("it failed several times for reasons other than its settings")
		}
		return rules(s)
	}
	return t.strategy(suggest.Learn(space, trials), done).Next(trials)
}

func (t *Tuner) strategy(space *suggest.Space, done []Observation) suggest.Strategy {
	f := t.File
	switch f.Strategy {
	case "grid":
		return suggest.Grid(space, f.Places)
	case "random":
		return suggest.Random(space, f.Seed)
	case "tpe":
		return suggest.TPE(space, f.Seed)
	case "halving":
		return suggest.Halving(space, suggest.First(space, t.advised(space, done), suggest.TPE(space, f.Seed)), f.Shares, 3)
	}
	then := suggest.First(space, t.advised(space, done), suggest.TPE(space, f.Seed))
	if len(f.Shares) > 1 && f.Trials >= halvingFrom {
		return suggest.Halving(space, then, f.Shares, 3)
	}
	return then
}

// halvingFrom is the number of trials from which it pays to look at most of them only briefly.
const halvingFrom = 24

// A run that takes longer than the best by slack and, since short runs are noisy, by some seconds is
// certainly worse.
const (
	slack   = 2
	atLeast = 5
)

// deadline is when a run of the length is certainly worse than the best so far; 0: never.
func deadline(done []Observation, share float64) float64 {
	best := 0.0
	for i := range done {
		o := &done[i]
		if !o.Counts() || o.Share != share || o.Early != "" || o.Violation > 0 {
			continue
		}
		d := 0.0
		for _, r := range o.Runs {
			d = max(d, r.Figures["duration"])
		}
		if best == 0 || d < best {
			best = d
		}
	}
	if best == 0 {
		return 0
	}
	return round3(max(slack*best, best+atLeast))
}

// spent is the time that history took.
func spent(history []Observation) float64 {
	sum := 0.0
	for i := range history {
		sum += history[i].TookS
	}
	return sum
}

// Finalists are the trials that were better than the default, the best first.
func (t *Tuner) Finalists(history []Observation) []Observation {
	done := settled(history)
	var list []Observation
	for _, o := range done {
		if o.Counts() && o.Share >= 1 && o.Trial > 0 && o.Early == "" {
			list = append(list, o)
		}
	}
	slices.SortStableFunc(list, better)
	def := defaultOf(done)
	out := list[:0:0]
	for i := range list {
		if len(out) < t.File.Finalists && (def == nil || better(list[i], *def) < 0) {
			out = append(out, list[i])
		}
	}
	return out
}

func better(a, b Observation) int {
	x, y := a.trial(), b.trial()
	return suggest.Better(&x, &y)
}

// defaultOf is the default's first measurement; nil when it has none.
func defaultOf(done []Observation) *Observation {
	for i := range done {
		if done[i].Trial == 0 && done[i].Counts() {
			return &done[i]
		}
	}
	return nil
}

// finalStep repeats the finalists and the default in turns, A B B A, so that a machine that gets steadily
// faster or slower favours none.
func (t *Tuner) finalStep(history []Observation) (Step, bool) {
	return t.turn(history, Final, t.Finalists(history), t.File.Repeats)
}

// heldStep is finalStep for the winner on the workload nobody tuned for.
func (t *Tuner) heldStep(history []Observation) (Step, bool) {
	if t.File.Held == nil {
		return Step{}, false
	}
	w := t.Winner(history)
	if w == nil || w.Trial == 0 {
		return Step{}, false
	}
	step, ok := t.turn(history, Holdout, []Observation{*w}, max(1, t.File.Repeats))
	if paced(t.File.Held.Args) {
		step.Rate = 0 // it has a load of its own
	}
	return step, ok
}

func (t *Tuner) turn(history []Observation, phase Phase, list []Observation, rounds int) (Step, bool) {
	made := 0
	for _, o := range pick(history, phase) {
		if !o.again() {
			made++
		}
	}
	if len(list) == 0 || made >= rounds*(len(list)+1) {
		return Step{}, false
	}
	round, at := made/(len(list)+1), made%(len(list)+1)
	if round%2 == 1 {
		at = len(list) - at
	}
	step := Step{N: len(history), Phase: phase, Settings: t.File.Defaults(), Share: 1, Rate: t.rate(history), Round: round + 1}
	if at > 0 {
		step.Trial, step.Settings = list[at-1].Trial, list[at-1].Settings
	}
	return step, true
}
