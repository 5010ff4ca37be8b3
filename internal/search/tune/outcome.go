package tune

import (
	"fmt"
	"math"
	"slices"

	"spate/internal/figure"
	"spate/internal/judge/compare"
	"spate/internal/search/suggest"
)

// Outcome is the result of a search.
type Outcome struct {
	File     *File            `json:"-"`
	Knee     *KneeFound       `json:"knee,omitempty"`
	Rate     float64          `json:"rate,omitempty"`
	Default  *Observation     `json:"default,omitempty"`
	Winner   *Observation     `json:"winner,omitempty"`
	Verdict  Judgement        `json:"verdict"`
	Held     *Judgement       `json:"holdout,omitempty"`
	Drift    *float64         `json:"drift_pct,omitempty"` // spread of the default over the search
	Trials   []Observation    `json:"trials"`
	Frontier []Observation    `json:"frontier"`
	Weights  []suggest.Weight `json:"importance"`
	Weighed  string           `json:"importance_from,omitempty"` // the trials they are from
	Starts   int              `json:"starts"`
	Failed   int              `json:"failed"`
	Invalid  int              `json:"invalid"` // steps whose runs are INVALID: made again or left out
	LeftOut  string           `json:"invalid_note,omitempty"`
	SpentS   float64          `json:"spent_s"`
	Line     string           `json:"command"`
	Sentence string           `json:"sentence"`
	Seeds    int              `json:"from_simulator"`              // trials a simulator proposed
	Doubt    string           `json:"simulator_dropped,omitempty"` // why it was not heard any more
}

// Judgement is what repeated runs say of the winner against the default.
type Judgement struct {
	Verdict compare.Verdict `json:"verdict"`
	Change  float64         `json:"change_pct"` // of the objective; positive is better
	Low     float64         `json:"low_pct"`
	High    float64         `json:"high_pct"`
	Rounds  int             `json:"rounds"`
	Why     string          `json:"why,omitempty"`

	// meetsAlone: it meets the constraints in every round and the default in none, so it can be better and no faster.
	meetsAlone bool
}

// judge sets the runs of a trial beside those of the default in the same rounds.
func judge(list []Observation, trial int, margin float64) Judgement {
	var diffs []float64
	missed, missedDefault := 0, 0
	for _, o := range list {
		if o.Trial != trial || !o.Counts() {
			continue
		}
		for _, d := range list {
			if d.Trial != 0 || d.Round != o.Round || !d.Counts() || d.Value <= 0 || o.Value <= 0 {
				continue
			}
			diff := min(max(math.Log(o.Value/d.Value), -20), 20)
			if o.Score < 0 {
				diff = -diff
			}
			diffs = append(diffs, diff)
			if o.Violation > 0 {
				missed++
			}
			if d.Violation > 0 {
				missedDefault++
			}
		}
	}
	if len(diffs) == 0 {
		return Judgement{Verdict: compare.CannotTell, Why: "no round in which both have a figure"}
	}
	m := compare.Rounds(diffs, margin)
	j := Judgement{Verdict: m.Verdict, Rounds: len(diffs), Change: *m.Change, Low: *m.Change, High: *m.Change}
	if m.Low != nil && m.High != nil {
		j.Low, j.High = *m.Low, *m.High
	}
	if m.Verdict == compare.CannotTell {
		j.Why = m.Why
	}
	switch {
	case missed == 0 && missedDefault == len(diffs):
		j.Verdict, j.Why, j.meetsAlone = compare.Better, "it meets the constraints, which the default misses", true
	case missed > missedDefault:
		j.Verdict, j.Why = compare.Worse, "it misses constraints that the default meets"
	}
	return j
}

// Winner is the setting to take: a finalist that the finals show to be better, else the default. Before the
// finals it is the best trial. It is nil when nothing was measured.
func (t *Tuner) Winner(history []Observation) *Observation {
	done := settled(history)
	def := defaultOf(done)
	finalists := t.Finalists(history)
	finals := pick(history, Final)
	if len(finals) == 0 || len(finalists) == 0 {
		if len(finalists) > 0 && t.File.Repeats == 0 {
			return &finalists[0]
		}
		return def
	}
	var best *Observation
	top := math.Inf(-1)
	for i := range finalists {
		j := judge(finals, finalists[i].Trial, t.File.Margin)
		gain := j.Change
		if j.meetsAlone {
			gain += 1e9
		}
		if j.Verdict == compare.Better && gain > top {
			best, top = &finalists[i], gain
		}
	}
	if best == nil {
		return def
	}
	return best
}

// Conclude computes the outcome of a history.
func (t *Tuner) Conclude(history []Observation) *Outcome {
	out := &Outcome{File: t.File, Trials: trialsOf(history), Rate: t.rate(history), SpentS: spent(history)}
	if t.File.AtKnee {
		k := KneeOf(history)
		out.Knee = &k
	}
	out.Starts, out.Failed = starts(history)
	out.leaveOut(history)
	space := t.File.space()
	out.Default = defaultOf(out.Trials)
	out.Winner = t.Winner(history)
	out.Drift = drift(history)
	out.Frontier = t.frontier(out.Trials)
	for _, h := range t.heard(settled(history)) {
		if h.seen.Trial > 0 {
			out.Seeds++
		}
	}
	out.Doubt = t.Doubt(history)
	out.weigh(space, settled(history), t.File.Seed)
	out.verdicts(t, history)
	return out
}

// starts counts the servers that were started, in every phase, and those that failed. Steps of a journal that does
// not say which of them started one count one for each.
func starts(history []Observation) (all, failed int) {
	for i := range history {
		if history[i].Started {
			all++
		}
		if history[i].Failure != nil {
			failed++
		}
	}
	if all == 0 {
		all = len(history)
	}
	return all, failed
}

// weigh tells how much each flag mattered, and by which trials.
func (out *Outcome) weigh(space *suggest.Space, trials []Observation, seed uint64) {
	var list []suggest.Trial
	for i := range trials {
		list = append(list, trials[i].trial())
	}
	out.Weights = suggest.Importance(space, list, seed)
	alike, share := suggest.Alike(list)
	out.Weighed = figure.Counted(len(alike), "trial") + " of full length"
	if len(alike) > 0 && share < 1 {
		out.Weighed = fmt.Sprintf("%s with %.3g %% of the requests", figure.Counted(len(alike), "trial"), 100*share)
	}
}

// WhatMattered says why it is not reported how much each flag mattered; empty when it is.
func (out *Outcome) WhatMattered() string {
	if len(out.Weights) > 0 {
		return ""
	}
	return fmt.Sprintf("How much each flag mattered cannot be told from %s: at least %d are needed (budget: trials).", out.Weighed, suggest.EnoughToWeigh)
}

// leaveOut counts the steps that nothing was decided from because their runs are INVALID.
func (out *Outcome) leaveOut(history []Observation) {
	last := ""
	for i := range history {
		if o := &history[i]; o.Invalid() != nil {
			out.Invalid++
			last = o.Invalid().Why
		}
	}
	if out.Invalid > 0 {
		out.LeftOut = fmt.Sprintf("%d of %d measurements are INVALID by their own verdict and decided nothing: each was made again, %d times at most. The last one: %s",
			out.Invalid, len(history), attempts-1, last)
	}
}

// verdicts say how the winner stands beside the default, in numbers and in a sentence.
func (out *Outcome) verdicts(t *Tuner, history []Observation) {
	if out.Winner == nil {
		out.Sentence = "Nothing could be measured."
		return
	}
	out.Line = t.File.Line(out.Winner.Settings)
	finals, finalists := pick(history, Final), t.Finalists(history)
	if out.Winner.Trial == 0 {
		out.Verdict = Judgement{Verdict: compare.Same}
		if len(finalists) > 0 && len(finals) > 0 {
			out.Verdict = judge(finals, finalists[0].Trial, t.File.Margin)
		}
		out.Sentence = out.keepDefault(len(finalists))
		return
	}
	out.Verdict = judge(finals, out.Winner.Trial, t.File.Margin)
	out.Sentence = fmt.Sprintf("Trial %d is better than the default: %s %s", out.Winner.Trial, t.File.Objective.Title(), out.Verdict.text())
	if out.Verdict.Rounds == 0 {
		out.Sentence = fmt.Sprintf("Trial %d did best: %s %.4g; it was not repeated, so noise may have chosen it.", out.Winner.Trial, t.File.Objective.Title(), out.Winner.Value)
	}
	if held := pick(history, Holdout); len(held) > 0 {
		j := judge(held, out.Winner.Trial, t.File.Margin)
		out.Held = &j
		switch j.Verdict {
		case compare.Better, compare.Same:
			out.Sentence += fmt.Sprintf(" On the held-out workload it is %s (%+.3g %%).", j.Verdict, j.Change)
		default:
			out.Sentence += fmt.Sprintf(" On the held-out workload the verdict is %s, %s It may be tuned to its workload alone.", j.Verdict, j.text())
		}
	}
}

func (out *Outcome) keepDefault(finalists int) string {
	switch {
	case finalists == 0:
		return fmt.Sprintf("The default is as good as anything: none of %d trials did better. Keep it.", len(out.Trials)-1)
	case out.Verdict.Verdict == compare.CannotTell:
		return "Keep the default: the best trial is not shown to be better: " + out.Verdict.text()
	}
	return fmt.Sprintf("The default is as good as anything: the best trial is %s when repeated beside it (%+.3g %%). Keep it.", out.Verdict.Verdict, out.Verdict.Change)
}

func (j *Judgement) text() string {
	s := fmt.Sprintf("%+.3g %% (95 %%: %+.3g to %+.3g) in %d rounds in turns.", j.Change, j.Low, j.High, j.Rounds)
	if j.Rounds <= 1 {
		s = fmt.Sprintf("%+.3g %%.", j.Change)
	}
	if j.Why != "" {
		s += " " + j.Why + "."
	}
	return s
}

// trialsOf are the trials by number, each with its longest measurement.
func trialsOf(history []Observation) []Observation {
	var out []Observation
	for _, o := range settled(history) {
		i := slices.IndexFunc(out, func(x Observation) bool { return x.Trial == o.Trial })
		switch {
		case i < 0:
			out = append(out, o)
		case o.Counts() && (o.Share >= out[i].Share || !out[i].Counts()):
			out[i] = o
		}
	}
	slices.SortStableFunc(out, func(a, b Observation) int { return a.Trial - b.Trial })
	return out
}

// drift is how far the default's measurements lie apart over the search, in percent; nil with one.
func drift(history []Observation) *float64 {
	low, high, n := math.Inf(1), 0.0, 0
	for _, o := range pick(history, Trial, Drift) {
		if o.Trial == 0 && o.Counts() && o.Share >= 1 && o.Value > 0 {
			low, high, n = min(low, o.Value), max(high, o.Value), n+1
		}
	}
	if n < 2 {
		return nil
	}
	d := round3(100 * (high/low - 1))
	return &d
}

// Axes of a frontier: what is gained, and what is paid.
const frontierLatency = "p99_ttft_ms"

// frontier are the trials no other beats on both throughput per GPU and a latency.
func (t *Tuner) frontier(trials []Observation) []Observation {
	type at struct{ gain, pay float64 }
	place := func(o *Observation) (at, bool) {
		if !o.Counts() || len(o.Runs) == 0 || o.Share < 1 {
			return at{}, false
		}
		gpus := float64(t.File.GPUs(o.Settings))
		gain := sumFigures(o, "request_goodput")
		if gain == 0 {
			gain = sumFigures(o, "output_throughput")
		}
		return at{gain / gpus, sumFigures(o, frontierLatency)}, true
	}
	var out []Observation
	for i := range trials {
		a, ok := place(&trials[i])
		for k := range trials {
			b, other := place(&trials[k])
			if ok && other && b.gain >= a.gain && b.pay <= a.pay && (b.gain > a.gain || b.pay < a.pay) {
				ok = false
			}
		}
		if ok {
			out = append(out, trials[i])
		}
	}
	slices.SortStableFunc(out, func(a, b Observation) int {
		x, _ := place(&a)
		y, _ := place(&b)
		switch {
		case x.pay < y.pay:
			return -1
		case x.pay > y.pay:
			return 1
		}
		return 0
	})
	return out
}
