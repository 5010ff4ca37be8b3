package report

import (
	"fmt"
	"math"
	"strings"

	"spate/internal/figure"
	"spate/internal/judge/verdict"
	"spate/internal/result"
	"spate/internal/safe/escape"
)

// grade is the verdict in a sentence.
func grade(s *sheet, run *result.Run) {
	v := &run.Verdict
	if undone := run.Undone(); undone != "" {
		s.hang("spate: ", "INTERRUPTED: "+undone+".")
	}
	if run.Aborted != "" {
		s.hang("spate: ", "ENDED EARLY: "+escape.Clip(harmless(run.Aborted), 3*maxColumns))
	}
	switch {
	case run.Labels[result.PredictedLabel] == "true":
		s.hang("spate: ", "PREDICTED. The simulator made these figures; no server was measured.")
		return
	case v.Grade == "":
		s.hang("spate: ", "NOT JUDGED. The run ended before its figures could be checked.")
		return
	}
	s.hang("spate: ", string(v.Grade)+". "+v.Sentence)
}

// checkRow is a check that did not pass: its figure beside the bound it broke.
func checkRow(s *sheet, f verdict.Finding) {
	bound := f.Bound
	if f.Level == verdict.Invalid {
		bound = f.Limit
	}
	name := fmt.Sprintf("%-8s %s", strings.ToUpper(string(f.Level)), f.Name)
	if f.Unit == verdict.KilledRun {
		s.row(name, "not known")
		return
	}
	s.row(name, checked(f.Figure, f.Unit), checked(bound, f.Unit), unit(f.Unit))
}

// judgement says whether the figures can be trusted, and why not: it comes first, as nothing below it
// counts for more.
func judgement(s *sheet, run *result.Run) {
	grade(s, run)
	v := &run.Verdict
	bad := v.Bad()
	if len(bad) > 0 {
		s.section("Checks not passed", "figure", "bound")
	}
	for _, f := range bad {
		checkRow(s, f)
		s.hang("    ", f.Sentence)
		if f.Hint != "" {
			s.hang("    hint: ", f.Hint)
		}
	}
	var blind []string
	for _, f := range v.Findings {
		if !f.Measured {
			blind = append(blind, f.Name)
		}
	}
	if len(blind) > 0 && len(bad) > 0 {
		s.fact("checks with nothing to judge", strings.Join(blind, ", "))
	}
}

// checked is a check's number: shares in percent, the rest as it is.
func checked(v float64, unit string) string {
	switch {
	case math.Abs(v) >= 1e15:
		return "no end"
	case unit == "share":
		return percent(v)
	}
	return figure.Rounded(v)
}

func unit(u string) string {
	if u == "share" {
		return ""
	}
	return u
}
