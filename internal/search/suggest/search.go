// Package suggest proposes settings to try: the space of what may be set, and strategies that look at what
// was tried and say what to try next. It is pure: the same space, seed and history give the same proposal,
// so a search goes on after any interruption where it was. tune starts servers with what it proposes and
// reports back. Read this file first, then space.go, tpe.go and halving.go; learn.go is what failures
// teach, importance.go what a finished search shows.
package suggest

import (
	"cmp"
	"math"
	"slices"

	"spate/internal/rng"
)

// Trial is one setting that was tried, and what came of it.
type Trial struct {
	Settings  Settings
	Share     float64 // of the full length of a run it was measured for; 0 and 1 are the whole
	Score     float64 // larger is better
	Violation float64 // how far constraints were missed, relative; 0 meets all
	Failed    bool    // it never ran, or died: no score
	Transient bool    // the failure says nothing of the settings
	Memory    bool    // it failed for want of memory
}

// Proposal is what to try next.
type Proposal struct {
	Settings Settings
	Share    float64 // of the full length of a run
}

// Strategy proposes. Next is false when there is nothing left to try.
type Strategy interface {
	Next(history []Trial) (Proposal, bool)
}

// full reports whether a trial was measured for the whole length.
func (t *Trial) full() bool { return t.Share == 0 || t.Share >= 1 }

// Better orders trials: those that ran before those that failed, those that meet the constraints before
// those that miss them, then by score. It is negative when a is better.
func Better(a, b *Trial) int {
	rank := func(t *Trial) int {
		switch {
		case t.Failed:
			return 2
		case t.Violation > 0:
			return 1
		}
		return 0
	}
	if c := cmp.Compare(rank(a), rank(b)); c != 0 || a.Failed {
		return c
	}
	if c := cmp.Compare(a.Violation, b.Violation); c != 0 {
		return c
	}
	return cmp.Compare(b.Score, a.Score)
}

// Grid tries every combination, with this many values of each number.
func Grid(space *Space, places int) Strategy { return &grid{space: space, points: space.grid(places)} }

type grid struct {
	space  *Space
	points []Settings
}

// Next implements Strategy.
func (g *grid) Next(history []Trial) (Proposal, bool) {
	tried := keys(g.space, history)
	for _, s := range g.points {
		if !tried[g.space.Key(s)] && g.space.Allowed(s) == nil {
			return Proposal{Settings: s, Share: 1}, true
		}
	}
	return Proposal{}, false
}

// Random draws settings that are allowed and were not tried.
func Random(space *Space, seed uint64) Strategy { return &random{space, seed} }

type random struct {
	space *Space
	seed  uint64
}

// maxDraws is after how many draws a space is taken for exhausted.
const maxDraws = 5000

// Next implements Strategy.
func (r *random) Next(history []Trial) (Proposal, bool) {
	tried := keys(r.space, history)
	draw := rng.New(r.seed, "search-random", uint64(len(history)))
	for range maxDraws {
		s := r.space.Settings(r.space.draw(draw))
		if !tried[r.space.Key(s)] && r.space.Allowed(s) == nil {
			return Proposal{Settings: s, Share: 1}, true
		}
	}
	return Proposal{}, false
}

// First tries a list of settings before it asks another strategy: the default, then those a simulator predicts to be
// good.
func First(space *Space, list []Settings, then Strategy) Strategy { return &first{space, list, then} }

type first struct {
	space *Space
	list  []Settings
	then  Strategy
}

// Next implements Strategy.
func (f *first) Next(history []Trial) (Proposal, bool) {
	tried := keys(f.space, history)
	for _, s := range f.list {
		if !tried[f.space.Key(s)] && f.space.Allowed(s) == nil {
			return Proposal{Settings: s, Share: 1}, true
		}
	}
	return f.then.Next(history)
}

// keys are the settings that were tried, but for those that failed by accident.
func keys(space *Space, history []Trial) map[string]bool {
	out := map[string]bool{}
	for i := range history {
		if !history[i].Transient {
			out[space.Key(history[i].Settings)] = true
		}
	}
	return out
}

// ranked are the trials a strategy learns from, best first: the longest measurement of each setting.
func ranked(space *Space, history []Trial) []*Trial {
	longest := map[string]*Trial{}
	var order []string
	for i := range history {
		t := &history[i]
		if t.Transient || math.IsNaN(t.Score) && !t.Failed {
			continue
		}
		key := space.Key(t.Settings)
		old := longest[key]
		if old == nil {
			order = append(order, key)
		}
		if old == nil || share(t) >= share(old) {
			longest[key] = t
		}
	}
	out := make([]*Trial, len(order))
	for i, key := range order {
		out[i] = longest[key]
	}
	slices.SortStableFunc(out, Better)
	return out
}

func share(t *Trial) float64 {
	if t.full() {
		return 1
	}
	return t.Share
}
