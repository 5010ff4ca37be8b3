package figure

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"spate/internal/judge/metrics"
)

// Objective is one condition on the whole run, such as p99_ttft<500ms. A run that does not meet it
// exits with 3.
type Objective struct {
	Text   string  `json:"text"`             // as given
	Stat   string  `json:"stat,omitempty"`   // mean, median, std, min, max or pNN; empty for plain figures
	Metric string  `json:"metric"`           // a figure of the catalogue
	Op     string  `json:"op"`               // <, <=, > or >=
	Bound  float64 `json:"bound"`            // in Unit
	Unit   string  `json:"unit"`             // of the figure: ms, req/s, tok/s, ratio
	Pct    float64 `json:"pct,omitempty"`    // the NN of pNN, median is 50
	IsPct  bool    `json:"is_pct,omitempty"` // Pct is meant
}

// Met reports whether a value, in the objective's unit, satisfies it. NaN never does: a figure that
// could not be computed meets nothing.
func (o Objective) Met(v float64) bool {
	switch o.Op {
	case "<":
		return v < o.Bound
	case "<=":
		return v <= o.Bound
	case ">":
		return v > o.Bound
	case ">=":
		return v >= o.Bound
	}
	return false
}

// Ref is the figure that the objective bounds.
func (o Objective) Ref() Ref {
	key := o.Metric
	if o.Stat != "" {
		key = o.Stat + "_" + o.Metric
	}
	r, _ := Find(key) // ParseObjective found it
	return r
}

// Of is the value that the objective bounds; NaN where the run has none.
func (o Objective) Of(s *metrics.Summary) float64 {
	if v := o.Ref().Of(s); v.OK {
		return v.V
	}
	return math.NaN()
}

// Lack says why a run has no figure for the objective; empty when it has one.
func (o Objective) Lack(s *metrics.Summary) string {
	switch {
	case !math.IsNaN(o.Of(s)):
		return ""
	case o.Metric == "error_rate":
		return "no request came to an end of its own"
	case strings.Contains(o.Metric, "goodput") && s.Goodput == nil:
		return "--goodput gives no bounds to count by"
	case s.Completed == 0:
		return "no request succeeded"
	case o.Metric == "tpot" || o.Metric == "itl":
		return "no answer had a second token"
	}
	return "no answer had what it is made of"
}

// Key is the metric's name as vLLM's result JSON spells it, such as p99_ttft_ms.
func (o Objective) Key() string { return o.Ref().Key() }

// objectiveForm is what an objective looks like, for error texts.
const objectiveForm = "an objective looks like p99_ttft<500ms, mean_tpot<=50 or request_throughput>10"

// ParseObjectives reads a comma-separated list of objectives.
func ParseObjectives(text string) ([]Objective, error) {
	var out []Objective
	for part := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		o, err := ParseObjective(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no objective in %q: %s", text, objectiveForm)
	}
	return out, nil
}

// ParseObjective reads one objective.
func ParseObjective(text string) (Objective, error) {
	at := strings.IndexAny(text, "<>")
	if at < 0 {
		return Objective{}, fmt.Errorf("objective %q has no < or >: %s", text, objectiveForm)
	}
	o := Objective{Text: text, Op: text[at : at+1]}
	bound := text[at+1:]
	if strings.HasPrefix(bound, "=") {
		o.Op += "="
		bound = bound[1:]
	}
	if err := o.readName(strings.ToLower(strings.TrimSpace(text[:at]))); err != nil {
		return Objective{}, err
	}
	var err error
	if o.Bound, err = readBound(strings.ToLower(strings.TrimSpace(bound)), o.Unit); err != nil {
		return Objective{}, fmt.Errorf("objective %q: %w", text, err)
	}
	return o, nil
}

// readName finds the figure.
func (o *Objective) readName(name string) error {
	r, err := Find(name)
	if unknown := (*Unknown)(nil); errors.As(err, &unknown) && unknown.Nearest == "" {
		return fmt.Errorf("objective %q: %w: %s", o.Text, err, objectiveForm)
	}
	if err != nil {
		return fmt.Errorf("objective %q: %w", o.Text, err)
	}
	o.Metric, o.Stat, o.Unit = r.Name, r.Stat, string(r.Unit)
	o.Pct, o.IsPct = r.Percentile()
	return nil
}

// readBound reads a number with an optional unit. Latencies without one are in milliseconds, as in
// vLLM's --goodput.
func readBound(text, unit string) (float64, error) {
	scale := 1.0
	number := text
	for _, u := range boundUnits(unit) {
		if rest, ok := strings.CutSuffix(text, u.suffix); ok {
			number, scale = strings.TrimSpace(rest), u.scale
			break
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(v) || v < 0 {
		return 0, fmt.Errorf("%q is not a bound in %s", text, cmp.Or(unit, "whole numbers"))
	}
	return v * scale, nil
}

type boundUnit struct {
	suffix string
	scale  float64
}

func boundUnits(unit string) []boundUnit {
	switch unit {
	case "ms":
		return []boundUnit{{"us", 1e-3}, {"ms", 1}, {"s", 1e3}}
	case "s":
		return []boundUnit{{"ms", 1e-3}, {"s", 1}}
	case "ratio":
		return []boundUnit{{"%", 0.01}}
	}
	return []boundUnit{{unit, 1}}
}
