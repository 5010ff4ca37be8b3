package result

import (
	"testing"

	"spate/internal/judge/verdict"
)

// graded is a run of spate with a verdict.
func graded(grade verdict.Grade, state State) Entry {
	run := &Run{State: state}
	run.Verdict.Grade = grade
	return FromRun(run)
}

func predictedEntry() Entry {
	e := graded("", Complete)
	e.Labels = map[string]string{PredictedLabel: "true"}
	return e
}

func TestVerdictOfEntries(t *testing.T) {
	foreign := Named(Entry{Metrics: Figures{NewPrinted("completed", "1", "")}})
	exported := graded(verdict.InvalidRun, Complete)
	exported.Run = nil // a table that was exported has no more than the context
	for _, c := range []struct {
		name    string
		e       Entry
		want    string
		invalid bool
	}{
		{"valid", graded(verdict.Valid, Complete), "VALID", false},
		{"invalid", graded(verdict.InvalidRun, Complete), "INVALID", true},
		{"interrupted", graded(verdict.SuspectRun, Interrupted), "SUSPECT, interrupted", false},
		{"recovered", graded("", Recovered), "recovered", false},
		{"predicted", predictedEntry(), "predicted", false},
		{"exported", exported, "INVALID", true},
		{"another tool's", foreign, "", false},
	} {
		if got := c.e.Verdict(); got != c.want || c.e.Invalid() != c.invalid {
			t.Errorf("%s: %q, invalid %v; want %q, %v", c.name, got, c.e.Invalid(), c.want, c.invalid)
		}
	}
}

func TestBasis(t *testing.T) {
	valid, suspect := graded(verdict.Valid, Complete), graded(verdict.SuspectRun, Complete)
	invalid, predicted := graded(verdict.InvalidRun, Complete), predictedEntry()
	for _, c := range []struct {
		name  string
		set   []Entry
		holds []bool
		want  Basis
		count string
	}{
		{"all measured", []Entry{valid, suspect}, []bool{true, true}, Basis{}, "1 VALID, 1 SUSPECT"},
		{
			"mixed",
			[]Entry{valid, invalid, predicted, predicted},
			[]bool{true, false, false, false},
			Basis{Note: "without 1 INVALID, 2 predicted (of 4)"},
			"1 VALID, 1 INVALID, 2 predicted",
		},
		{"all predicted", []Entry{predicted, predicted}, []bool{true, true}, Basis{Predicted: true}, "2 predicted"},
		{"nothing to rest on", []Entry{invalid}, []bool{false}, Basis{Note: "without 1 INVALID (of 1)"}, "1 INVALID"},
	} {
		all := Pointers(c.set)
		got := BasisOf(all)
		if got != c.want || Count(all) != c.count {
			t.Errorf("%s: %+v, %q; want %+v, %q", c.name, got, Count(all), c.want, c.count)
		}
		for i, e := range all {
			if got.Holds(e) != c.holds[i] {
				t.Errorf("%s: result %d may be used: %v", c.name, i, !c.holds[i])
			}
		}
	}
}
