package sweep

import (
	"fmt"
	"slices"
	"strings"

	"spate/internal/figure"
	"spate/internal/judge/verdict"
	"spate/internal/result"
	"spate/internal/safe/escape"
)

// mostNamed is how many points a reason names.
const mostNamed = 4

// reason is a check that runs did not pass.
type reason struct {
	finding verdict.Finding // the worst of all
	points  []string        // where, in the plan's order
	runs    int
}

// worse reports whether a finding lies further beyond its bound than another of the same check.
func worse(a, b verdict.Finding) bool {
	return a.Figure-a.Bound > b.Figure-b.Bound
}

// Reasons say why runs are SUSPECT or INVALID, a line for each check they did not pass: the points, and the sentence
// of the run that is furthest off. They are empty where every run is VALID.
func Reasons(p *Plan, entries []result.Entry) []string {
	var all []*reason
	for i := range p.Points {
		pt := &p.Points[i]
		for _, e := range p.results(pt, entries) {
			for _, f := range e.Run.Verdict.Bad() {
				all = addReason(all, f, pt.String())
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *reason) int {
		return strings.Compare(string(a.finding.Level), string(b.finding.Level)) // invalid before suspect
	})
	out := make([]string, len(all))
	for i, r := range all {
		out[i] = r.text(len(p.Points), p.Repeat)
	}
	return out
}

func addReason(all []*reason, f verdict.Finding, point string) []*reason {
	i := slices.IndexFunc(all, func(r *reason) bool { return r.finding.Name == f.Name && r.finding.Level == f.Level })
	if i < 0 {
		return append(all, &reason{f, []string{point}, 1})
	}
	r := all[i]
	r.runs++
	if !slices.Contains(r.points, point) {
		r.points = append(r.points, point)
	}
	if worse(f, r.finding) {
		r.finding = f
	}
	return all
}

// text is the reason in a line: INVALID at request-rate=200 (send_lag): the sentence.
func (r *reason) text(points, repeat int) string {
	var where string
	switch n := len(r.points); {
	case n == points && n > 1:
		where = "at every point"
	case n > mostNamed:
		where = fmt.Sprintf("at %s and %d more", strings.Join(r.points[:mostNamed], ", "), n-mostNamed)
	case r.points[0] == "": // the only point there is
		where = "as given"
	default:
		where = "at " + strings.Join(r.points, ", ")
	}
	if repeat > 1 {
		where += ", " + figure.Counted(r.runs, "run")
	}
	most := ""
	if r.runs > 1 {
		most = "the worst: "
	}
	return escape.Line(fmt.Sprintf("%s %s (%s): %s%s", strings.ToUpper(string(r.finding.Level)), where, r.finding.Name, most, r.finding.Sentence))
}
