package capacity

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"spate/internal/figure"
	"spate/internal/judge/stats"
	"spate/internal/settings/config"
)

// Verdict is the kind of answer of a search.
type Verdict string

// Verdicts.
const (
	Found      Verdict = "found"       // the two ends are as close as asked for
	AtLeast    Verdict = "at least"    // the highest load allowed meets the objectives
	Below      Verdict = "below"       // not even the lowest load does
	CannotTell Verdict = "cannot tell" // between the two ends
)

// Answer is the outcome of a search.
type Answer struct {
	By         By           `json:"by"`
	Objectives []string     `json:"objectives"`
	Verdict    Verdict      `json:"verdict"`
	Capacity   config.Float `json:"capacity"`      // what is promised: Load less the tolerance; 0: nothing
	Load       config.Float `json:"highest_met"`   // 0: none
	Above      config.Float `json:"lowest_missed"` // inf: none
	Confidence float64      `json:"confidence"`    // of each load's decision
	Sentence   string       `json:"answer"`
	Why        []string     `json:"why,omitempty"`
	Notes      []string     `json:"notes,omitempty"`
	Levels     []Level      `json:"loads"`
	Probes     int          `json:"probes"`
}

// Level is one load that was tried.
type Level struct {
	Load   float64       `json:"load"`
	State  State         `json:"state"`
	Probes []Observation `json:"probes"`
	Left   []Observation `json:"left_out,omitempty"` // INVALID ones
}

// Answer is the answer so far.
func (s *Search) Answer() Answer {
	a := Answer{By: s.opt.By, Confidence: 0.99, Probes: s.probes, Above: config.Float(math.Inf(1))}
	for _, o := range s.opt.Objectives {
		a.Objectives = append(a.Objectives, o.Text)
	}
	for _, l := range s.levels {
		a.Levels = append(a.Levels, Level{Load: l.load, State: s.stateOf(l), Probes: l.obs, Left: l.left})
	}
	low, high := s.ends()
	if low != nil {
		a.Load, a.Capacity = config.Float(low.load), config.Float(s.promise(low.load))
	}
	if high != nil {
		a.Above = config.Float(high.load)
	}
	a.Verdict = s.verdict(low, high)
	a.Sentence = s.sentence(&a, low, high)
	for _, l := range s.levels { // the ends, and what stayed open between them
		between := (low == nil || l.load > low.load) && (high == nil || l.load < high.load)
		if l == low || l == high || between && len(l.obs) > 0 {
			a.Why = append(a.Why, s.why(l, s.stateOf(l)))
		}
	}
	a.Notes = s.notes(low, high)
	return a
}

// promise is what is promised where a load met its objectives: of a rate, less the tolerance. A rate that is too high by
// a little looks well for as long as a probe takes. Requests in flight settle within one.
func (s *Search) promise(load float64) float64 {
	if s.opt.By == Concurrency {
		return load
	}
	return load * (1 - s.opt.Tolerance)
}

func (s *Search) verdict(low, high *level) Verdict {
	switch {
	case low == nil && high != nil && high.load <= s.opt.Min:
		return Below
	case high == nil && low != nil && low.load >= s.opt.Max:
		return AtLeast
	case low != nil && high != nil && !s.wide(low.load, high.load):
		return Found
	}
	return CannotTell
}

func (s *Search) sentence(a *Answer, low, high *level) string {
	unit := s.opt.By.Unit()
	switch a.Verdict {
	case Found:
		if a.Capacity == a.Load {
			return fmt.Sprintf("capacity: %s %s; at %s the objectives are missed", num(low.load), unit, num(high.load))
		}
		return fmt.Sprintf("capacity: %s %s; %s still met the objectives, and at %s they are missed", num(float64(a.Capacity)), unit, num(low.load), num(high.load))
	case AtLeast:
		return fmt.Sprintf("capacity: at least %s %s, the highest load that was allowed", num(low.load), unit)
	case Below:
		return fmt.Sprintf("no capacity: the objectives are missed even at %s %s, the lowest load that was allowed", num(high.load), unit)
	}
	switch {
	case low != nil && high != nil && a.Capacity == a.Load:
		return fmt.Sprintf("cannot tell between %s and %s %s", num(low.load), num(high.load), unit)
	case low != nil && high != nil:
		return fmt.Sprintf("cannot tell between %s and %s %s; %s still met the objectives", num(float64(a.Capacity)), num(high.load), unit, num(low.load))
	case low != nil:
		return fmt.Sprintf("cannot tell above %s %s", num(low.load), unit)
	case high != nil:
		return fmt.Sprintf("cannot tell below %s %s", num(high.load), unit)
	}
	return "cannot tell: no probe gave a clear answer"
}

// why says what decided about a load.
func (s *Search) why(l *level, state State) string {
	var parts []string
	if g := l.growth(); g.Significance() >= anyGrowth {
		parts = append(parts, fmt.Sprintf("the queue grew by %.0f requests, %.1f times as much as chance would explain", g.By, g.Significance()))
	}
	for i, o := range s.opt.Objectives {
		parts = append(parts, l.figure(i, o))
	}
	return fmt.Sprintf("%s %s, %s of %s: %s: %s", num(l.load), s.opt.By.Unit(), figure.Counted(len(l.obs), "probe"), l.sizes(), state, strings.Join(parts, "; "))
}

// sizes is how many requests the probes of a load had.
func (l *level) sizes() string {
	least, most := math.MaxInt, 0
	for i := range l.obs {
		least, most = min(least, l.obs[i].Requests), max(most, l.obs[i].Requests)
	}
	if least == most {
		return figure.Counted(most, "request")
	}
	return fmt.Sprintf("%d to %d requests", least, most)
}

// lifetimes is how many times as long as a request takes a probe has to send, so that the number in flight settles and
// a queue that grows has the time to show.
const lifetimes = 6

// short says that the probes of a load were too short to show a queue that grows, empty when they were not.
func (s *Search) short(l *level) string {
	if l == nil || s.opt.By != Rate {
		return ""
	}
	for i := range l.obs {
		o := &l.obs[i]
		if sent := float64(o.Requests) / l.load; o.Aborted == "" && sent < lifetimes*o.Life {
			return fmt.Sprintf("a probe of %d requests at %s %s sends for %.2g s, and a request took %.2g s: too short for a growing queue to show, so that the capacity is likely lower; take %.0f requests or more, or leave --num-prompts out",
				o.Requests, num(l.load), s.opt.By.Unit(), sent, o.Life, math.Ceil(lifetimes*o.Life*l.load))
		}
	}
	return ""
}

// figure is an objective beside what its probes showed.
func (l *level) figure(i int, o figure.Objective) string {
	name := o.Key()
	if o.Unit == "ratio" {
		count, of := l.counted(i)
		if of == 0 {
			return name + " of no request"
		}
		in := stats.Wilson(count, of, 0.95)
		return fmt.Sprintf("%s %.3g %% of %d (%.2g to %.2g %%), bound %.3g %%", name, 100*float64(count)/float64(of), of, 100*in.Low, 100*in.High, 100*o.Bound)
	}
	low, high := math.Inf(1), math.Inf(-1)
	for j := range l.obs {
		v := float64(l.obs[j].Readings[i].Value)
		low, high = min(low, v), max(high, v)
	}
	if num(low) == num(high) {
		return fmt.Sprintf("%s %s, bound %s", name, num(low), num(o.Bound))
	}
	return fmt.Sprintf("%s %s to %s, bound %s", name, num(low), num(high), num(o.Bound))
}

// notes are what a reader should know of how the search went.
func (s *Search) notes(low, high *level) []string {
	var out []string
	if text := s.short(low); text != "" {
		out = append(out, text)
	}
	var invalid []Observation
	for _, l := range s.levels {
		if high != nil && l.load > high.load && s.stateOf(l) == Met {
			out = append(out, fmt.Sprintf("%s %s meets the objectives although %s misses them: the server's speed changes over time", num(l.load), s.opt.By.Unit(), num(high.load)))
		}
		if s.own(l) == Met && s.stateOf(l) == Unclear {
			out = append(out, fmt.Sprintf("%s %s met the objectives while it was probed, but the server is only known to serve %s when it is never idle: a queue may still grow", num(l.load), s.opt.By.Unit(), num(s.busy(l).atLeast())))
		}
		invalid = append(invalid, l.left...)
		if l.lost() {
			known := "nothing is known of this load"
			if n := len(l.obs); n > 0 {
				known = "this load rests on " + figure.Counted(n, "probe")
			}
			out = append(out, fmt.Sprintf("%s %s: given up after %d INVALID probes; %s", num(l.load), s.opt.By.Unit(), len(l.left), known))
		}
	}
	if n := len(invalid); n > 0 {
		out = append(out, fmt.Sprintf("%d of %d probes were INVALID and are left out: %s", n, s.probes, reasons(invalid)))
	}
	if s.probes >= s.opt.Probes {
		out = append(out, fmt.Sprintf("the search ended after %d probes, the most allowed", s.probes))
	}
	return out
}

// reasons say for each check how many probes did not pass it, the most frequent first, with the sentence of one.
func reasons(invalid []Observation) string {
	count := map[string]int{}
	var first []Observation
	for _, o := range invalid {
		if count[o.Check]++; count[o.Check] == 1 {
			first = append(first, o)
		}
	}
	slices.SortStableFunc(first, func(a, b Observation) int { return count[b.Check] - count[a.Check] })
	parts := make([]string, len(first))
	for i, o := range first {
		parts[i] = fmt.Sprintf("%d for %s (at %s: %s)", count[o.Check], cmp.Or(o.Check, "a check"), num(o.Load), o.Invalid)
	}
	return strings.Join(parts, "; ")
}

// Enough is how many requests a probe needs for the highest percentile among objectives to be bounded
// at all.
func Enough(objectives []figure.Objective) (n int, of string) {
	for _, o := range objectives {
		if f := floor(o); f > n {
			n, of = f, o.Key()
		}
	}
	return n, of
}

func num(v float64) string {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return "none"
	}
	return fmt.Sprintf("%.4g", v)
}
