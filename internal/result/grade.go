package result

import (
	"fmt"
	"strings"

	"spate/internal/judge/verdict"
)

// Predicted reports whether the result was predicted, not measured.
func (e *Entry) Predicted() bool { return e.Labels[PredictedLabel] == "true" }

// Grade is VALID, SUSPECT, INVALID, or "predicted"; empty where nobody judged the result, as with those of
// other tools.
func (e *Entry) Grade() string {
	switch {
	case e.Predicted():
		return PredictedLabel
	case e.Run != nil:
		return string(e.Run.Verdict.Grade)
	}
	return e.Context.Text("verdict")
}

// State is how a run of spate ended, empty for results of other tools.
func (e *Entry) State() string {
	if e.Run != nil {
		return string(e.Run.State)
	}
	return e.Context.Text("state")
}

// Verdict is the grade as tables show it; a run that did not finish has its state instead.
func (e *Entry) Verdict() string { return VerdictText(e.Grade(), e.State()) }

// VerdictText is a grade and a state in one cell.
func VerdictText(grade, state string) string {
	var parts []string
	for _, text := range []string{grade, state} {
		if text != "" && text != string(Complete) {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, ", ")
}

// Invalid reports whether the result's own verdict forbids the use of its figures.
func (e *Entry) Invalid() bool { return e.Grade() == string(verdict.InvalidRun) }

// Basis says which results of a set a figure over several of them may rest on: the best of all, a sum, a
// median, a frontier, a sentence. INVALID results are never among them, and predicted ones only where
// nothing was measured.
type Basis struct {
	Predicted bool   // what may be used was predicted
	Note      string // what is left out, "without 1 INVALID (of 4)"; empty: nothing
}

// BasisOf finds the basis of a set.
func BasisOf(set []*Entry) Basis {
	var b Basis
	invalid, predicted, all := 0, 0, 0
	for _, e := range set {
		switch {
		case !e.Measured() && e.Run == nil: // a server that did not start
			continue
		case e.Invalid():
			invalid++
		case e.Predicted():
			predicted++
		}
		all++
	}
	b.Predicted = predicted > 0 && predicted+invalid == all
	var parts []string
	if invalid > 0 {
		parts = append(parts, fmt.Sprintf("%d INVALID", invalid))
	}
	if predicted > 0 && !b.Predicted {
		parts = append(parts, fmt.Sprintf("%d predicted", predicted))
	}
	if len(parts) > 0 {
		b.Note = fmt.Sprintf("without %s (of %d)", strings.Join(parts, ", "), all)
	}
	return b
}

// Holds reports whether a result of the set belongs to its basis.
func (b Basis) Holds(e *Entry) bool {
	return !e.Invalid() && e.Predicted() == b.Predicted
}

// Pointers are the entries without copies of them.
func Pointers(set []Entry) []*Entry {
	out := make([]*Entry, len(set))
	for i := range set {
		out[i] = &set[i]
	}
	return out
}

// Count says how many results have which verdict: "3 VALID, 1 INVALID". It is empty where none was judged.
func Count(set []*Entry) string {
	count := map[string]int{}
	for _, e := range set {
		count[e.Grade()]++
	}
	var parts []string
	for _, g := range []string{string(verdict.Valid), string(verdict.SuspectRun), string(verdict.InvalidRun), PredictedLabel} {
		if count[g] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[g], g))
		}
	}
	if n := count[""]; n > 0 && len(parts) > 0 {
		parts = append(parts, fmt.Sprintf("%d not judged", n))
	}
	return strings.Join(parts, ", ")
}
