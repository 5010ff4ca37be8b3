package dialect

import (
	"fmt"
	"math"
	"strings"

	"spate/internal/result"
)

// Side is one of two results to be set beside each other.
type Side struct {
	Name    string
	Dialect Name
	Entry   *result.Entry
	Run     *Run // nil where there are no records
}

// Line is one figure of two results, with what their definitions account for.
type Line struct {
	Key         string   `json:"key"`
	A           float64  `json:"a"`
	B           float64  `json:"b"`
	Definitions *float64 `json:"definitions"` // how much of B - A would be there on the same records; null where there are none
	WhyA        string   `json:"a_is,omitempty"`
	WhyB        string   `json:"b_is,omitempty"`
}

// Of returns the tool whose definitions a result follows: the one that printed it, or the dialect of a run of spate.
func Of(e *result.Entry) Name {
	if e.Run != nil {
		if name, err := Parse(e.Setting("compat")); err == nil {
			return name
		}
		return VLLM
	}
	switch format := e.Format; {
	case strings.HasPrefix(format, "sglang"):
		return SGLang
	case strings.HasPrefix(format, "lmdeploy"):
		return LMDeploy
	case format == result.FormatBackprop:
		return Backprop
	case format == result.FormatVLLMBlock || format == result.FormatVLLMJSON:
		if _, ok := e.Metrics.Get("failed"); !ok { // HEAD prints failures, its ancestors do not
			return VLLM10
		}
	}
	return VLLM
}

// Compare sets the figures both results have side by side. Where one has records, they tell how much of a
// difference the definitions alone make: both tools' formulas on the same requests.
func Compare(a, b Side) []Line {
	records := a.Run
	if records == nil {
		records = b.Run
	}
	var out []Line
	for _, key := range Keys() {
		x, okA := a.figure(key)
		y, okB := b.figure(key)
		if !okA || !okB {
			continue
		}
		l := Line{Key: key, A: x, B: y}
		if why, other := a.Dialect.Why(key), b.Dialect.Why(key); why != other {
			l.WhyA, l.WhyB = why, other
		}
		if records != nil {
			by, okBy := b.Dialect.Figure(records, key)
			of, okOf := a.Dialect.Figure(records, key)
			if okBy && okOf {
				d := by - of
				l.Definitions = &d
			}
		}
		out = append(out, l)
	}
	return out
}

// figure is what a side says: its own records by its own rules, or what was printed.
func (s *Side) figure(key string) (float64, bool) {
	if s.Run != nil {
		return s.Dialect.Figure(s.Run, key)
	}
	return s.Entry.Float(key)
}

// Sentence says what a line means.
func (l *Line) Sentence(a, b string) string {
	gap := l.B - l.A
	text := fmt.Sprintf("%s: %s has %.2f, %s has %.2f", l.Key, a, l.A, b, l.B)
	switch {
	case gap == 0:
		return text + ": the same"
	case l.WhyA == "" && l.WhyB == "":
		return text + ": both define it alike, so the difference is in what was measured"
	}
	text += fmt.Sprintf("; %s takes it %s, %s %s", a, l.WhyA, b, l.WhyB)
	if l.Definitions == nil {
		return text + "; without records it is not known how much that makes"
	}
	return text + fmt.Sprintf("; on the same requests that makes %+.2f of the %+.2f (%s)", *l.Definitions, gap, shareOf(*l.Definitions, gap))
}

func shareOf(part, whole float64) string {
	share := 100 * part / whole
	switch {
	case math.Abs(whole-part) < 0.005*math.Max(1, math.Abs(whole)):
		return "all of it"
	case share < 0 || share > 200:
		return "the measurements differ the other way"
	}
	return fmt.Sprintf("%.0f %%", share)
}
