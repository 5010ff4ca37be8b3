package alarms

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"spate/internal/host/probe"
	"spate/internal/judge/stats"
)

// The goals: shares of runs.
const (
	GoalValid = 0.99 // of clean runs
	GoalFound = 0.95 // of bent runs, not VALID
	GoalNamed = 0.90 // of bent runs, with what was bent among the findings
)

// Report is what came of a plan.
type Report struct {
	Schema   int        `json:"schema"`
	Host     probe.Host `json:"host"`
	Seed     uint64     `json:"seed"`
	Parallel int        `json:"parallel"`
	Planned  int        `json:"planned"`
	TookS    float64    `json:"took_s"`
	Runs     []Outcome  `json:"runs"`
}

// Share is how many of how many, with Wilson's 95 % interval.
type Share struct {
	X, N      int
	Low, High float64
}

// share counts the runs that have something.
func share(runs []Outcome, has func(*Outcome) bool) Share {
	s := Share{}
	for i := range runs {
		if runs[i].Error == "" {
			s.N++
			if has(&runs[i]) {
				s.X++
			}
		}
	}
	in := stats.Wilson(s.X, s.N, 0.95)
	s.Low, s.High = in.Low, in.High
	return s
}

// Of is the share itself, 0 of nothing.
func (s Share) Of() float64 {
	if s.N == 0 {
		return 0
	}
	return float64(s.X) / float64(s.N)
}

// String is 198 of 200: 99.0 % (96.4 to 99.7).
func (s Share) String() string {
	if s.N == 0 {
		return "no runs"
	}
	return fmt.Sprintf("%d of %d: %.1f %% (%.1f to %.1f)", s.X, s.N, 100*s.Of(), 100*s.Low, 100*s.High)
}

// Valid is the share of clean runs that are VALID.
func (r *Report) Valid() Share {
	return share(r.of(""), func(o *Outcome) bool { return o.Grade == "VALID" })
}

// Found and Named are the shares of bent runs that are not VALID, and that have what was bent among their findings.
func (r *Report) Found() Share {
	return share(r.bent(), func(o *Outcome) bool { return len(o.Bad) > 0 })
}

// Named is described at Found.
func (r *Report) Named() Share { return share(r.bent(), func(o *Outcome) bool { return o.Named }) }

// Met reports whether every goal that was measured is met.
func (r *Report) Met() bool {
	for _, g := range []struct {
		s    Share
		goal float64
	}{{r.Valid(), GoalValid}, {r.Found(), GoalFound}, {r.Named(), GoalNamed}} {
		if g.s.N > 0 && g.s.Of() < g.goal {
			return false
		}
	}
	return true
}

func (r *Report) bent() []Outcome {
	return slices.DeleteFunc(slices.Clone(r.Runs), func(o Outcome) bool { return o.Check == "" })
}

// of are the runs in which one check was bent, or, with no name, the clean ones.
func (r *Report) of(check string) []Outcome {
	return slices.DeleteFunc(slices.Clone(r.Runs), func(o Outcome) bool { return o.Check != check })
}

// Markdown writes the tables of docs/verdict.md.
func (r *Report) Markdown(w io.Writer) error {
	var b strings.Builder
	if r.Valid().N > 0 {
		r.cleanTable(&b)
	}
	if r.Found().N > 0 {
		r.bentTable(&b)
	}
	r.unfinished(&b)
	fmt.Fprintf(&b, "\n%s, %d cores, %s; %d at a time, seed %d, %.0f s.\n", cmp.Or(r.Host.CPU, "A machine"), r.Host.Cores, cmp.Or(r.Host.OS, "unknown system"), r.Parallel, r.Seed, r.TookS)
	_, err := io.WriteString(w, b.String())
	return err
}

// cleanTable tells false alarms by the check that raised them.
func (r *Report) cleanTable(b *strings.Builder) {
	clean := r.of("")
	fmt.Fprintf(b, "Clean runs that are VALID: **%s**; the goal is %.0f %%.\n\n| check | false alarms | of clean runs | example |\n| --- | --- | --- | --- |\n", r.Valid(), 100*GoalValid)
	type alarm struct {
		name, example string
		n             int
	}
	var alarms []alarm
	for _, o := range clean {
		for _, f := range o.Bad {
			i := slices.IndexFunc(alarms, func(a alarm) bool { return a.name == f.Name })
			if i < 0 {
				i, alarms = len(alarms), append(alarms, alarm{name: f.Name, example: f.Sentence + " (" + o.Name + ")"})
			}
			alarms[i].n++
		}
	}
	slices.SortStableFunc(alarms, func(a, b alarm) int { return b.n - a.n })
	for _, a := range alarms {
		in := stats.Wilson(a.n, r.Valid().N, 0.95)
		fmt.Fprintf(b, "| `%s` | %d | %.1f %% (%.1f to %.1f) | %s |\n", a.name, a.n, 100*float64(a.n)/float64(r.Valid().N), 100*in.Low, 100*in.High, strings.ReplaceAll(a.example, "|", "\\|"))
	}
	if len(alarms) == 0 {
		in := stats.Wilson(0, r.Valid().N, 0.95)
		fmt.Fprintf(b, "| none | 0 | 0.0 %% (0.0 to %.1f) | |\n", 100*in.High)
	}
}

// bentTable tells misses by what was bent.
func (r *Report) bentTable(b *strings.Builder) {
	fmt.Fprintf(b, "\nBent runs that are found: **%s**; the goal is %.0f %%. Named rightly: **%s**; the goal is %.0f %%.\n\n", r.Found(), 100*GoalFound, r.Named(), 100*GoalNamed)
	b.WriteString("| bent | by | size | found | named rightly |\n| --- | --- | --- | --- | --- |\n")
	for _, check := range Checks() {
		for _, size := range []int{1, 3} {
			runs := slices.DeleteFunc(r.of(check), func(o Outcome) bool { return o.Size != size })
			found, named := share(runs, func(o *Outcome) bool { return len(o.Bad) > 0 }), share(runs, func(o *Outcome) bool { return o.Named })
			if found.N == 0 {
				continue
			}
			fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", check, runs[0].How, at(size, "its bound", "three times"), found, named)
		}
	}
}

// unfinished tells of runs without a verdict: they are in no share.
func (r *Report) unfinished(b *strings.Builder) {
	n, example := 0, ""
	for _, o := range r.Runs {
		if o.Error != "" {
			n, example = n+1, o.Name+": "+o.Error
		}
	}
	if n > 0 {
		fmt.Fprintf(b, "\n%d runs had no verdict, such as %s\n", n, example)
	}
	if left := r.Planned - len(r.Runs); left > 0 {
		fmt.Fprintf(b, "\n%d of %d runs were not made: the time was over.\n", left, r.Planned)
	}
}
