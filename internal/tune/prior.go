package tune

import (
	"context"
	"slices"

	"spate/internal/search"
)

// How far a simulator is asked before anything is started.
const (
	priorTrials = 160
	priorShare  = 0.5 // of the length of a run
	priorTop    = 3   // taken from the best
	priorOther  = 2   // taken because they are unlike those, and nearly as good
	nearlyAs    = 0.10
)

// Prior asks a simulator which settings to try first: the same search in virtual time. It gives the best of
// them and a few good ones that are unlike these, for the case that the simulator is wrong.
func Prior(ctx context.Context, f *File, v *Virtual) ([]search.Settings, error) {
	rate := f.Rate
	if f.AtKnee { // the simulator's own: it may be off, and what matters is how near the load is to it
		var err error
		if rate, err = kneeRate(ctx, f, v); err != nil {
			return nil, err
		}
	}
	history, err := score(ctx, f, v, rate, priorTrials)
	if err != nil {
		return nil, err
	}
	return Choose(f, history), nil
}

// kneeRate is the load of trials on the simulated server.
func kneeRate(ctx context.Context, f *File, v *Virtual) (float64, error) {
	t := &Tuner{File: f}
	var history []Observation
	for {
		step, ok := t.kneeStep(history)
		if !ok || ctx.Err() != nil {
			return t.rate(history), ctx.Err()
		}
		o, err := v.Try(ctx, step)
		if err != nil {
			return 0, err
		}
		history = append(history, o)
	}
}

// score searches in virtual time.
func score(ctx context.Context, f *File, v *Virtual, rate float64, trials int) ([]Observation, error) {
	g := *f
	g.AtKnee, g.Rate, g.Strategy, g.Trials, g.DriftOver, g.Time = false, rate, "tpe", trials, 0, 0
	w := *v
	w.File = &g
	t := &Tuner{File: &g}
	var history []Observation
	for len(history) < trials && ctx.Err() == nil {
		step, more, err := t.trialStep(history)
		if err != nil || !more {
			break
		}
		step.Share, step.Deadline = priorShare, 0
		o, err := w.Try(ctx, step)
		if err != nil {
			return nil, err
		}
		o.Share = 1
		history = append(history, o)
	}
	return history, ctx.Err()
}

// Choose picks what to try on a real server from what a simulator found.
func Choose(f *File, history []Observation) []search.Settings {
	list := slices.DeleteFunc(slices.Clone(history), func(o Observation) bool { return o.Failure != nil || f.isDefault(o.Settings) })
	slices.SortStableFunc(list, better)
	var out []search.Settings
	for i := range list {
		o := &list[i]
		switch {
		case len(out) < priorTop:
		case len(out) >= priorTop+priorOther:
			return out
		case o.Violation > list[0].Violation || worse(o, &list[0]) > nearlyAs || near(out, o.Settings) < 3:
			continue
		}
		out = append(out, o.Settings)
	}
	return out
}

// worse is how far an observation lies behind another, as a share.
func worse(o, best *Observation) float64 {
	if best.Value == 0 {
		return 0
	}
	d := (best.Value - o.Value) / best.Value
	if best.Score < 0 {
		d = -d
	}
	return d
}

// near is the number of knobs in which settings differ from the nearest of some.
func near(list []search.Settings, s search.Settings) int {
	least := len(s)
	for _, other := range list {
		n := 0
		for name, v := range s {
			if other[name] != v {
				n++
			}
		}
		least = min(least, n)
	}
	return least
}
