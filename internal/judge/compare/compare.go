// Package compare says whether two results differ, by how much, and how sure that is: better, same, worse
// or cannot tell for every metric, with an interval and the smallest difference the samples could have
// shown. It takes result.Entry, of which the store or harvest.Find has found some, and gives a Report that the
// files text.go, markdown.go and pipeline.go print; gate.go holds it against thresholds. There is no clock
// and no I/O here besides reading records, so the same results give the same verdict.
//
// Read this file first, then judge.go, which has the rules of the verdict, and within.go and between.go,
// which have the two sources of uncertainty: requests of one run, and runs of one setting.
package compare

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"spate/internal/call"
	"spate/internal/result"
)

// Confidence of every interval, and the chance that a verdict of better or worse is right to be given.
const Confidence = 0.95

// Power is the chance with which a difference of the size of Metric.Detectable would have been seen.
const Power = 0.80

// DefaultMargin is the relative difference below which two figures count as the same.
const DefaultMargin = 0.02

// Verdict is what can be said of one metric of two sides.
type Verdict string

// The verdicts; what is judged is the second side against the first.
const (
	Better     Verdict = "better"
	Same       Verdict = "same"
	Worse      Verdict = "worse"
	CannotTell Verdict = "cannot tell"
	Mixed      Verdict = "mixed" // over all metrics only: better on some, worse on others
)

// Sample is one run of a side. Records may be given where they are at hand; else they are read.
type Sample struct {
	Entry   result.Entry
	Records []call.Record
}

// Side is one or more runs under one name. Several comparable ones are repeats of each other.
type Side struct {
	Name    string
	Samples []Sample
}

// Options of a comparison.
type Options struct {
	Metrics    []string // nil: DefaultMetrics
	Margin     float64  // 0: DefaultMargin
	Force      bool     // compare what is not comparable, and say so
	Noise      *Noise   // nil: none learned
	Thresholds Thresholds
}

// Report is the outcome of comparing one baseline with other sides.
type Report struct {
	Margin      float64      `json:"margin_pct"`
	Comparisons []Comparison `json:"comparisons"`
	Notes       []string     `json:"notes,omitempty"`
	Gate        *Gate        `json:"gate,omitempty"`
}

// Comparison is one side against the baseline.
type Comparison struct {
	Setting  string   `json:"setting,omitempty"` // which of several settings of both sides
	A        Shown    `json:"a"`                 // the baseline
	B        Shown    `json:"b"`
	Method   string   `json:"method"`
	Metrics  []Metric `json:"metrics"`
	Verdict  Verdict  `json:"verdict"`
	Sentence string   `json:"sentence"`
	Notes    []string `json:"notes,omitempty"`
}

// Shown is how a side is named in a report.
type Shown struct {
	Name   string   `json:"name"`
	Runs   []string `json:"runs"`
	Grades string   `json:"verdicts,omitempty"` // of its runs: "2 VALID, 1 SUSPECT"
}

// grades are the verdicts on the runs of both sides; empty where none was judged.
func (c *Comparison) grades() string {
	var parts []string
	for _, s := range []*Shown{&c.A, &c.B} {
		if s.Grades != "" {
			parts = append(parts, s.Name+": "+s.Grades)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "verdicts on the runs: " + strings.Join(parts, "; ")
}

// Metric is one figure of both sides and what its difference means.
type Metric struct {
	Name   string  `json:"metric"`
	Unit   string  `json:"unit"`
	Higher bool    `json:"higher_is_better"`
	A      float64 `json:"a"`
	B      float64 `json:"b"`

	// Change and its bounds are percent of A; for shares such as error_rate, points of percent.
	Change     *float64 `json:"change_pct"`
	Low        *float64 `json:"ci95_low_pct"`
	High       *float64 `json:"ci95_high_pct"`
	Detectable *float64 `json:"smallest_detectable_pct"` // seen with 80 % chance, if it were there
	Floor      *float64 `json:"noise_floor_pct"`         // learned from equal runs

	P        *float64 `json:"p_value"`
	Adjusted *float64 `json:"p_value_adjusted"` // for the number of metrics
	Ranks    *Ranks   `json:"rank_test,omitempty"`

	Verdict Verdict `json:"verdict"`
	Why     string  `json:"why"`
	Primary bool    `json:"primary"` // counts for the verdict "same" of the whole

	Allowed *float64 `json:"allowed_pct,omitempty"` // regression a gate allows
	Gate    Outcome  `json:"gate,omitempty"`
}

// Ranks is a second opinion that does not depend on the size of outliers.
type Ranks struct {
	Test     string   `json:"test"`
	Superior *float64 `json:"p_b_above_a,omitempty"` // chance that a request of B has the larger value
	P        float64  `json:"p_value"`
}

// Points reports whether the metric is a share, whose change is in points of percent.
func (m *Metric) Points() bool { return m.Unit == "%" }

// worsening is by how many percent B is worse: negative where it is better.
func (m *Metric) worsening(change float64) float64 {
	if m.Higher {
		return -change
	}
	return change
}

// NotComparable says that two results must not be set side by side, why, and what helps.
type NotComparable struct {
	Conditions []string
	Cure       string
}

func (e *NotComparable) Error() string {
	return "not comparable: " + strings.Join(e.Conditions, "; ") + " (" + e.Cure + ")"
}

// refuse names what differs and what is INVALID.
func refuse(differ, invalid []string) *NotComparable {
	again := "measure again so that they agree"
	switch {
	case len(differ) == 0:
		again = "measure again what is INVALID"
	case len(invalid) > 0:
		again += " and none is INVALID"
	}
	return &NotComparable{slices.Concat(differ, invalid), again + ", or compare them all the same with --force"}
}

// Compare sets each of the others against the baseline. The error is a *NotComparable where a condition
// of the results forbids it.
func Compare(baseline Side, others []Side, opt Options) (*Report, error) {
	if opt.Margin == 0 {
		opt.Margin = DefaultMargin
	}
	defs, err := readMetrics(opt.Metrics)
	if err != nil {
		return nil, err
	}
	j := &job{opt: opt, defs: defs}
	base, err := j.prepare(baseline)
	if err != nil {
		return nil, err
	}
	rep := &Report{Margin: 100 * opt.Margin}
	for _, other := range others {
		side, err := j.prepare(other)
		if err != nil {
			return nil, err
		}
		pairs, notes, err := j.match(base, side)
		if err != nil {
			return nil, err
		}
		rep.Notes = append(rep.Notes, notes...)
		for _, p := range pairs {
			rep.Comparisons = append(rep.Comparisons, j.compare(p))
			for _, t := range j.tenants(&p) {
				rep.Comparisons = append(rep.Comparisons, j.compare(t))
			}
		}
	}
	if len(rep.Comparisons) == 0 {
		return nil, errors.New("nothing to compare: name at least two results")
	}
	return rep, nil
}

// job is one call of Compare.
type job struct {
	opt  Options
	defs []def
}

// side is a Side whose runs are read and sorted by setting.
type side struct {
	name   string
	groups [][]*measured // each of comparable runs
}

func (j *job) prepare(s Side) (*side, error) {
	out := &side{name: s.Name}
	for i := range s.Samples {
		if !s.Samples[i].Entry.Measured() {
			continue
		}
		out.add(take(&s.Samples[i], j.defs), j.opt.Force)
	}
	if len(out.groups) == 0 {
		return nil, fmt.Errorf("%s holds no result with figures", s.Name)
	}
	return out, nil
}

// add puts a run to its repeats, or makes it the first of a setting.
func (s *side) add(t *measured, force bool) {
	for i, g := range s.groups {
		if force || len(differences(g[0], t)) == 0 {
			s.groups[i] = append(g, t)
			return
		}
	}
	s.groups = append(s.groups, []*measured{t})
}

// pair is what one Comparison is made of.
type pair struct {
	setting  string
	a, b     []*measured
	nameA    string
	nameB    string
	mismatch []string
}

// match finds the settings both sides have. One setting against one is what the user asked for, whatever
// it is; where there are several, only equal ones meet.
func (j *job) match(a, b *side) (pairs []pair, notes []string, err error) {
	if len(a.groups) == 1 && len(b.groups) == 1 {
		p := pair{a: a.groups[0], b: b.groups[0], nameA: a.name, nameB: b.name}
		no := refuse(conditions(p.a, p.b), invalid(p.a, p.b))
		if p.mismatch = no.Conditions; len(p.mismatch) > 0 && !j.opt.Force {
			return nil, nil, no
		}
		return []pair{p}, nil, nil
	}
	met, left := map[int]bool{}, []string(nil)
	for _, ga := range a.groups {
		k := counterpart(ga, b.groups)
		if k < 0 {
			notes = append(notes, fmt.Sprintf("%s: %s has no counterpart in %s", a.name, ga[0].setting(), b.name))
			continue
		}
		met[k] = true
		p := pair{setting: ga[0].setting(), a: ga, b: b.groups[k], nameA: a.name, nameB: b.name}
		if p.mismatch = invalid(p.a, p.b); len(p.mismatch) > 0 && !j.opt.Force {
			left = append(left, p.setting+": left out: "+strings.Join(p.mismatch, "; "))
			continue
		}
		pairs = append(pairs, p)
	}
	for k, gb := range b.groups {
		if !met[k] {
			notes = append(notes, fmt.Sprintf("%s: %s has no counterpart in %s", b.name, gb[0].setting(), a.name))
		}
	}
	switch {
	case len(pairs) > 0:
		return pairs, append(notes, left...), nil
	case len(left) > 0:
		return nil, nil, refuse(nil, append(left, notes...))
	}
	return nil, nil, refuse(append([]string{fmt.Sprintf("%s and %s have no setting in common", a.name, b.name)}, notes...), nil)
}

func counterpart(a []*measured, groups [][]*measured) int {
	for k, g := range groups {
		if len(differences(a[0], g[0])) == 0 {
			return k
		}
	}
	return -1
}
