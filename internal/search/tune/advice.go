package tune

import (
	"fmt"
	"math"
	"slices"

	"spate/internal/judge/stats"
	"spate/internal/search/suggest"
)

// What is believed of a simulator.
const (
	leastTau   = 0.3 // rank correlation with what was measured, below which it is not heard any more
	leastPairs = 3   // comparisons of two settings that both tell apart, before that is judged
	mostOff    = 4   // times a figure is taken to be wrong at most
	heardFirst = 3   // settings tried, the default with them, before its figures are put right
	sameToIt   = 1e-3
)

// heard is a setting of which both the simulator's figures and measured ones are known.
type heard struct {
	said *Advised
	seen *Observation
}

// heard are the settings tried that the simulator knows, the default with them.
func (t *Tuner) heard(done []Observation) []heard {
	if t.Advice == nil {
		return nil
	}
	space := t.File.space()
	by := map[string]*Advised{}
	for i := range t.Advice.Pool {
		a := &t.Advice.Pool[i]
		by[space.Key(a.Settings)] = a
	}
	var out []heard
	for i := range done {
		o := &done[i]
		a := by[space.Key(o.Settings)]
		if a == nil || !o.Counts() {
			continue
		}
		if at := slices.IndexFunc(out, func(h heard) bool { return h.said == a }); at >= 0 {
			if o.Share >= out[at].seen.Share {
				out[at].seen = o // measured longer
			}
			continue
		}
		out = append(out, heard{a, o})
	}
	return out
}

// corrections are what to multiply the simulator's figures by, one for each, learned from the settings tried, once
// there are some: how far it is off at the default, under more load than that can take, says little.
func (t *Tuner) corrections(list []heard) map[string]float64 {
	if len(list) < heardFirst {
		return nil
	}
	logs := map[string][]float64{}
	for _, h := range list {
		if h.seen.Early != "" {
			continue // its figures are those of half a run
		}
		for _, name := range t.File.judged() {
			a, b := mean(h.said.Runs, name), sumFigures(h.seen, name)
			if a > 0 && b > 0 {
				logs[name] = append(logs[name], math.Log(b/a))
			}
		}
	}
	out := map[string]float64{}
	for name, xs := range logs {
		slices.Sort(xs)
		out[name] = math.Exp(min(max(stats.SortedPercentile(xs, 50), -math.Log(mostOff)), math.Log(mostOff)))
	}
	return out
}

func mean(list []Measured, name string) float64 {
	return sumFigures(&Observation{Runs: list}, name)
}

// supposed is what a setting is taken to show, by the simulator and what is known of its errors.
func (f *File) supposed(a *Advised, corrections map[string]float64) Observation {
	o := Observation{Step: Step{Settings: a.Settings, Share: 1}, Runs: make([]Measured, len(a.Runs))}
	for i, m := range a.Runs {
		o.Runs[i] = Measured{Workload: m.Workload, Figures: make(map[string]float64, len(m.Figures))}
		for name, v := range m.Figures {
			if c, ok := corrections[name]; ok {
				v *= c
			}
			o.Runs[i].Figures[name] = v
		}
	}
	f.Score(&o)
	return o
}

// agreement is the rank correlation (Kendall's tau over the pairs both tell apart) of what the simulator says and
// what was measured, and the number of such pairs.
func (t *Tuner) agreement(list []heard) (tau float64, pairs int) {
	fix := t.corrections(list)
	said := make([]Observation, len(list))
	for i := range list {
		said[i] = t.File.supposed(list[i].said, fix)
	}
	sum := 0
	for i := range list {
		for k := range i {
			a, b := t.File.clearly(&said[i], &said[k]), t.File.clearly(list[i].seen, list[k].seen)
			if a != 0 && b != 0 {
				pairs++
				sum += a * b
			}
		}
	}
	if pairs == 0 {
		return 1, 0
	}
	return float64(sum) / float64(pairs), pairs
}

// clearly orders two observations that differ by more than the margin: -1 when a is better, 0 when they are alike.
func (f *File) clearly(a, b *Observation) int {
	switch {
	case (a.Violation > 0) != (b.Violation > 0):
	case a.Violation > 0:
		if math.Abs(a.Violation-b.Violation) <= f.Margin {
			return 0
		}
	case a.Value <= 0 || b.Value <= 0 || math.Abs(math.Log(a.Value/b.Value)) <= f.Margin:
		return 0
	}
	return better(*a, *b)
}

// Doubt says why the simulator is not heard any more; empty while it is.
func (t *Tuner) Doubt(history []Observation) string {
	list := t.heard(settled(history))
	if len(list) < 3 { // the default and two more
		return ""
	}
	for n := 3; n <= len(list); n++ { // once lost, trust does not come back
		if tau, pairs := t.agreement(list[:n]); pairs >= leastPairs && tau < leastTau {
			return fmt.Sprintf("the simulator's advice is no longer used after %d trials: its order of settings has a correlation of only %+.2f with the measured one (-1 to 1; below %g it does not help)", n-1, tau, leastTau)
		}
	}
	return ""
}

// advised is what the simulator would try next, with its figures put right by what was measured: the best setting at
// some distance from the constraints, another one each time, that is not much like one tried. There is none when it
// has had its turns, when it is in doubt, and when it promises nothing better than the best so far.
func (t *Tuner) advised(space *suggest.Space, done []Observation) []suggest.Settings {
	list := t.heard(done)
	turn := len(slices.DeleteFunc(slices.Clone(list), func(h heard) bool { return h.seen.Trial == 0 }))
	if t.Advice == nil || turn >= len(margins) || t.Doubt(done) != "" {
		return nil
	}
	fix := t.corrections(list)
	strict := t.File.tightened(margins[turn])
	best, found := Observation{}, false
	for i := range t.Advice.Pool {
		a := &t.Advice.Pool[i]
		if t.File.isDefault(a.Settings) || space.Allowed(a.Settings) != nil ||
			slices.ContainsFunc(list, func(h heard) bool { return sameFigures(h.said.Runs, a.Runs) }) ||
			slices.ContainsFunc(done, func(o Observation) bool { return o.Trial > 0 && t.File.alike(o.Settings, a.Settings) }) {
			continue
		}
		if o := strict.supposed(a, fix); !found || better(o, best) < 0 {
			best, found = o, true
		}
	}
	if !found || t.beaten(&best, done) {
		return nil
	}
	return []suggest.Settings{best.Settings}
}

// sameFigures reports whether two settings are the same to the simulator, whatever flags they differ in.
func sameFigures(a, b []Measured) bool {
	for i := range a {
		for name, v := range a[i].Figures {
			if w := b[i].Figures[name]; math.Abs(v-w) > sameToIt*max(math.Abs(v), math.Abs(w)) {
				return false
			}
		}
	}
	return true
}

// beaten reports whether something measured is already better than what the simulator promises.
func (t *Tuner) beaten(promise *Observation, done []Observation) bool {
	return slices.ContainsFunc(done, func(o Observation) bool {
		return o.Trial > 0 && o.Counts() && o.Violation == 0 && (promise.Violation > 0 || t.File.clearly(&o, promise) < 0)
	})
}
