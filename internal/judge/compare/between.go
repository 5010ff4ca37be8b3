package compare

import (
	"fmt"
	"math"
	"slices"

	"spate/internal/judge/stats"
	"spate/internal/rng"
)

// fewRounds is from how many rounds on an interleaved comparison is made in pairs: with fewer, the
// degrees of freedom that pairing costs weigh more than the drift it takes out.
const fewRounds = 3

// RoundLabel is the label of a run that says in which round of an interleaved series it was made.
const RoundLabel = "round"

// between compares repeated runs by how much runs of one side differ. Whatever moves a run as a whole
// (clocks, neighbours, caches, a restarted server) is in it, and nothing is assumed about requests.
type between struct {
	a, b   []*measured
	rounds bool
}

func newBetween(a, b []*measured) *between { return &between{a: a, b: b, rounds: byRounds(a, b)} }

// byRounds sorts both sides by round and reports whether each round has one run of either.
func byRounds(a, b []*measured) bool {
	if len(a) != len(b) || len(a) < fewRounds {
		return false
	}
	byRound := func(x, y *measured) int { return compareRounds(roundOf(x), roundOf(y)) }
	slices.SortStableFunc(a, byRound)
	slices.SortStableFunc(b, byRound)
	for i := range a {
		r := roundOf(a[i])
		if r == "" || r != roundOf(b[i]) || i > 0 && r == roundOf(a[i-1]) {
			return false
		}
	}
	return true
}

func roundOf(t *measured) string { return t.entry.Labels[RoundLabel] }

// compareRounds orders whole numbers by size.
func compareRounds(x, y string) int {
	if len(x) != len(y) {
		return len(x) - len(y)
	}
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

func (w *between) describe() string {
	if w.rounds {
		return fmt.Sprintf("%d rounds of one run each, compared round by round (Student's t)", len(w.a))
	}
	return fmt.Sprintf("%d against %d runs (Welch's t)", len(w.a), len(w.b))
}

func (w *between) metric(d def) contrast {
	a, b := logValues(w.a, d.name), logValues(w.b, d.name)
	if len(a) < len(w.a) || len(b) < len(w.b) {
		return contrast{none: "not every run has a value above zero"}
	}
	switch {
	case w.rounds:
		diffs := make([]float64, len(a))
		for i := range a {
			diffs[i] = b[i] - a[i]
		}
		s := runScatter(diffs)
		return contrast{se: s.se, df: s.df}
	case len(a) == 1:
		return lone(b)
	case len(b) == 1:
		return lone(a)
	}
	return join(runScatter(a), runScatter(b))
}

// lone compares one run with several: the one is taken to scatter as they do.
func lone(many []float64) contrast {
	s := runScatter(many)
	k := float64(len(many))
	return contrast{se: s.se * math.Sqrt(k+1), df: s.df} // s.se is of the mean of k
}

// Rounds judges one figure by what it differed in each round: the logarithm of the second side's value over the first's,
// turned so that positive is better. Change, Low and High of what it returns are gains in percent.
func Rounds(gains []float64, margin float64) Metric {
	mean := stats.Mean(gains)
	t := &test{def: def{higher: true}, m: Metric{Higher: true, A: 1, B: math.Exp(mean)}, margin: math.Log1p(margin), tail: enoughTail}
	t.contrast = contrast{est: mean, none: "one round does not show how much runs differ"}
	if len(gains) > 1 {
		s := runScatter(gains)
		t.contrast = contrast{est: mean, se: s.se, df: s.df}
	}
	adjust([]*test{t})
	t.judge(1)
	return t.m
}

// runScatter is the standard error of the mean of independent values.
func runScatter(xs []float64) scatter {
	k := float64(len(xs))
	return scatter{se: stats.Std(xs) / math.Sqrt(k-1), df: k - 1}
}

func logValues(runs []*measured, name string) []float64 {
	var out []float64
	for _, t := range runs {
		if v, ok := t.values[name]; ok && v > 0 {
			out = append(out, math.Log(v))
		}
	}
	return out
}

// ranks is a permutation test, where there are enough runs for one to say anything.
func (w *between) ranks(d def) *Ranks {
	a, b := logValues(w.a, d.name), logValues(w.b, d.name)
	if len(a) != len(w.a) || len(b) != len(w.b) || len(a)+len(b) < 6 {
		return nil
	}
	r := rng.New(0, "compare/permute/"+d.name)
	if !w.rounds {
		return &Ranks{Test: "permutation of runs", P: stats.Permute(a, b, r)}
	}
	diffs := make([]float64, len(a))
	for i := range a {
		diffs[i] = b[i] - a[i]
	}
	return &Ranks{Test: "sign changes of rounds", P: stats.SignFlip(diffs, r)}
}
