package compare

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"spate/internal/figure"
)

// Threshold is how much worse a metric may get.
type Threshold struct {
	Metric string  // a metric, a latency, or empty for all
	Max    float64 // 0.05 is 5 %; for error_rate, 5 points
}

// Thresholds are looked up from the most to the least particular.
type Thresholds []Threshold

// of is what is allowed for a metric.
func (ts Thresholds) of(d def) (float64, bool) {
	for _, name := range []string{d.name, d.latency, ""} {
		if name == "" && d.latency == "" && d.name == errorRate {
			continue // percent of all others is not points of percent
		}
		for i := len(ts) - 1; i >= 0; i-- { // the last one given wins
			if ts[i].Metric == name {
				return ts[i].Max, true
			}
		}
	}
	return 0, false
}

// ParseShare reads "5%" as 0.05.
func ParseShare(text string) (float64, error) {
	number, ok := strings.CutSuffix(strings.TrimSpace(text), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	switch {
	case err != nil || math.IsNaN(v):
		return 0, fmt.Errorf("%q is not a share such as 5%%", text)
	case !ok:
		return 0, fmt.Errorf("%q has no unit: write %s%%", text, strings.TrimSpace(text))
	case v < 0 || v > 1000:
		return 0, fmt.Errorf("%q is not between 0%% and 1000%%", text)
	}
	return v / 100, nil
}

// ParseThreshold reads "mean_ttft_ms=10%"; the metric may be a latency such as ttft, for all of its figures.
func ParseThreshold(text string) (Threshold, error) {
	name, bound, ok := strings.Cut(text, "=")
	if !ok {
		return Threshold{}, fmt.Errorf("%q is not of the form mean_ttft_ms=10%%", text)
	}
	share, err := ParseShare(bound)
	if err != nil {
		return Threshold{}, err
	}
	name = strings.ToLower(strings.TrimSpace(name))
	defs, err := readMetric(name)
	if err != nil {
		return Threshold{}, err
	}
	if slices.Contains(figure.Latencies(), name) {
		return Threshold{name, share}, nil
	}
	return Threshold{defs[0].name, share}, nil
}

// Outcome is what a gate says of one metric.
type Outcome string

// Outcomes of a gate.
const (
	Pass   Outcome = "pass"
	Fail   Outcome = "fail"
	Unsure Outcome = "unsure" // more than is allowed could have been missed
)

// Gate is the decision of a pipeline.
type Gate struct {
	Passed bool   `json:"passed"`
	Failed int    `json:"failed"`
	Unsure int    `json:"unsure"`
	Why    string `json:"why"` // one line
}

// Hold decides whether each metric passes, and notes it there. Without thresholds no metric may be worse. With strict,
// a metric without a verdict fails, too.
func (r *Report) Hold(ts Thresholds, strict bool) {
	g := &Gate{}
	var failed, unsure []string
	untold := 0 // metrics that cannot be told; those that are unsure are among them
	for i := range r.Comparisons {
		c := &r.Comparisons[i]
		for k := range c.Metrics {
			m := &c.Metrics[k]
			m.hold(ts)
			if m.Verdict == CannotTell {
				untold++
			}
			switch m.Gate {
			case Fail:
				failed = append(failed, c.regression(m))
			case Unsure:
				unsure = append(unsure, m.Name)
			}
		}
	}
	g.Failed, g.Unsure = len(failed), len(unsure)
	g.Passed = len(failed) == 0 && (!strict || len(unsure) == 0)
	switch {
	case len(failed) > 0:
		g.Why = "worse than allowed: " + some(failed)
	case len(unsure) > 0:
		g.Why = fmt.Sprintf("no regression was found, but one larger than allowed could have been missed on %s", some(unsure))
		if untold > len(unsure) {
			g.Why += fmt.Sprintf(" (%d of the %d metrics without a verdict)", len(unsure), untold)
		}
		if g.Passed {
			g.Why += "; with --fail-unsure this fails"
		}
	default:
		g.Why = "nothing is worse than allowed"
	}
	r.Gate = g
}

// hold decides over one metric.
func (m *Metric) hold(ts Thresholds) {
	defs, err := readMetric(m.Name)
	if err != nil || len(defs) != 1 {
		return
	}
	allowed, ok := ts.of(defs[0])
	if !ok {
		if len(ts) > 0 && m.Name != errorRate {
			return // only what was named is held
		}
		allowed = 0
	}
	if ok {
		m.Allowed = finite(100 * allowed)
	}
	m.Gate = m.outcome(100*allowed, ok)
}

func (m *Metric) outcome(allowed float64, given bool) Outcome {
	switch {
	case m.Verdict == Same || m.Verdict == Better:
		return Pass
	case m.Verdict == Worse && m.worsening(*m.Change) > allowed:
		return Fail
	case m.Verdict == Worse:
		return Pass
	case m.Low == nil || m.High == nil:
		return Unsure
	case given && max(m.worsening(*m.Low), m.worsening(*m.High)) <= allowed:
		return Pass
	}
	return Unsure
}

// regression is a failed metric as one of several in a line.
func (c *Comparison) regression(m *Metric) string {
	text := fmt.Sprintf("%s of %s %s", m.Name, c.B.Name, m.ChangeText())
	if m.Allowed != nil {
		text += fmt.Sprintf(" (%.3g %% allowed)", *m.Allowed)
	}
	if c.Setting != "" {
		text += " at " + c.Setting
	}
	return text
}

// complaint is a failed metric in words.
func (c *Comparison) complaint(m *Metric) string {
	text := fmt.Sprintf("%s of %s is worse than %s: %s", m.Name, c.B.Name, c.A.Name, m.ChangeText())
	if m.Low != nil && m.High != nil {
		text += fmt.Sprintf(" (%s)", m.IntervalText())
	}
	if m.Allowed != nil {
		text += fmt.Sprintf(", %.3g %% allowed", *m.Allowed)
	}
	if c.Setting != "" {
		text += " at " + c.Setting
	}
	return text
}
