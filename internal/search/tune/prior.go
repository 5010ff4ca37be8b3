package tune

import (
	"cmp"
	"context"
	"math"
	"strconv"
	"strings"

	"spate/internal/search/suggest"
)

// How far a simulator is asked before its advice is taken.
const (
	priorTrials = 160
	priorParts  = 2    // searches these are divided among
	partSeed    = 7919 // between their seeds
	priorShare  = 0.5  // of the length of a run
	apart       = 0.12 // of the range of some number, or another value of a choice, tells settings apart
)

// margins are how far within the constraints the settings lie that a simulator proposes, one after the other:
// where it is a little wrong, what lies on the very edge of them fails.
var margins = []float64{0.15, 0, 0.3, 0.5, 0.05, 0.2, 0.1, 0.4}

// Advice is what a simulator predicts for many settings, computed once. Which of them is tried next depends on what was
// measured since: see Tuner.advised.
type Advice struct {
	Pool  []Advised `json:"pool"`
	Speed float64   `json:"speed"` // of the server, times the simulated one
}

// Advised is what a simulator predicts for one setting: the figures that the file judges by.
type Advised struct {
	Settings suggest.Settings `json:"settings"`
	Runs     []Measured       `json:"runs"`
}

// Prior asks a simulator for advice: the same search in virtual time. Where the default was measured, the simulated
// server is first made as fast as that one.
func Prior(ctx context.Context, f *File, v *Virtual, history []Observation) (*Advice, error) {
	w := *v
	rate, speed := f.Rate, 1.0
	if def := defaultOf(history); def != nil {
		rate = def.Rate
		var err error
		if speed, err = fitSpeed(ctx, f, v, def); err != nil {
			return nil, err
		}
		w.Speed = speed
	}
	out := &Advice{Speed: round3(speed)}
	names, space, seen := f.judged(), f.space(), map[string]bool{}
	asked := cmp.Or(v.Asked, min(priorTrials, 10*max(f.Trials, 4)))
	for part := range priorParts { // one search may end in the wrong valley
		found, err := score(ctx, f, &w, rate, asked/priorParts, f.Seed+uint64(part)*partSeed)
		if err != nil {
			return nil, err
		}
		for i := range found {
			if key := space.Key(found[i].Settings); found[i].Failure == nil && !seen[key] {
				seen[key] = true
				out.Pool = append(out.Pool, Advised{found[i].Settings, only(found[i].Runs, names)})
			}
		}
	}
	return out, nil
}

// judged are the figures that objective and constraints look at.
func (f *File) judged() []string {
	names := []string{"output_throughput", f.Objective.Metric}
	for _, c := range f.limits {
		names = append(names, c.Key())
	}
	return names
}

// only keeps some figures of runs.
func only(list []Measured, names []string) []Measured {
	out := make([]Measured, len(list))
	for i, m := range list {
		out[i] = Measured{Workload: m.Workload, Figures: map[string]float64{}}
		for _, name := range names {
			if v, ok := m.Figures[name]; ok {
				out[i].Figures[name] = v
			}
		}
	}
	return out
}

// fitSpeed finds how much faster than simulated the server is, by what the default showed.
func fitSpeed(ctx context.Context, f *File, v *Virtual, def *Observation) (float64, error) {
	miss := func(logSpeed float64) (float64, error) {
		w := *v
		w.Speed = math.Exp(logSpeed)
		o, err := w.Try(ctx, Step{Settings: f.Defaults(), Share: def.Share, Rate: def.Rate})
		if err != nil || o.Failure != nil {
			return math.Inf(1), err
		}
		sum := 0.0
		for _, name := range []string{"mean_tpot_ms", "mean_e2el_ms", "median_ttft_ms", "output_throughput"} {
			a, b := sumFigures(def, name), sumFigures(&o, name)
			if a > 0 && b > 0 {
				sum += math.Log(a/b) * math.Log(a/b)
			}
		}
		return sum, nil
	}
	at, width := 0.0, math.Log(2.5)
	least, err := miss(at)
	for width > 0.03 && err == nil {
		for _, x := range []float64{at - width, at + width} {
			var m float64
			if m, err = miss(x); err != nil {
				return 1, err
			}
			if m < least {
				at, least = x, m
			}
		}
		width /= 1.7
	}
	return math.Exp(at), err
}

// score searches in virtual time.
func score(ctx context.Context, f *File, v *Virtual, rate float64, trials int, seed uint64) ([]Observation, error) {
	g := *f
	g.AtKnee, g.Rate, g.Strategy, g.Trials, g.DriftOver, g.Time, g.Seed = false, rate, "tpe", trials, 0, 0, seed
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

// tightened is the file with bounds that are stricter by a share.
func (f *File) tightened(by float64) *File {
	g := *f
	g.limits = append(g.limits[:0:0], f.limits...)
	for i := range g.limits {
		if strings.HasPrefix(g.limits[i].Op, "<") {
			g.limits[i].Bound *= 1 - by
		} else {
			g.limits[i].Bound *= 1 + by
		}
	}
	return &g
}

// alike reports whether settings are so near each other that one tells of the other.
func (f *File) alike(a, b suggest.Settings) bool {
	for i := range f.Knobs {
		k := &f.Knobs[i]
		x, y := a[k.Name], b[k.Name]
		if x == y {
			continue
		}
		u, errU := strconv.ParseFloat(x, 64)
		v, errV := strconv.ParseFloat(y, 64)
		if k.Kind != suggest.Int && k.Kind != suggest.Float || errU != nil || errV != nil {
			return false
		}
		d := math.Abs(u-v) / (k.High - k.Low)
		if k.Log {
			d = math.Abs(math.Log(u/v)) / math.Log(k.High/k.Low)
		}
		if d > apart {
			return false
		}
	}
	return true
}
