package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Objective is one condition on the whole run, such as p99_ttft<500ms. A run that does not meet it
// exits with 3.
type Objective struct {
	Text   string  `json:"text"`             // as given
	Stat   string  `json:"stat,omitempty"`   // mean, median, std, min, max or pNN; empty for plain figures
	Metric string  `json:"metric"`           // a latency metric or a plain figure, see Figures
	Op     string  `json:"op"`               // <, <=, > or >=
	Bound  float64 `json:"bound"`            // in Unit
	Unit   string  `json:"unit"`             // ms, req/s, tok/s or ratio
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

// Key is the metric's name as vLLM's result JSON spells it, such as p99_ttft_ms.
func (o Objective) Key() string {
	if o.Stat == "" {
		return o.Metric
	}
	return o.Stat + "_" + o.Metric + "_ms"
}

// figure is something an objective can bound that has no distribution.
type figure struct{ name, unit string }

// figures lists them; the second spelling and later ones are accepted for the first.
var figures = []struct {
	figure
	also []string
}{
	{figure{"request_throughput", "req/s"}, []string{"rps", "throughput"}},
	{figure{"output_throughput", "tok/s"}, []string{"output_token_throughput"}},
	{figure{"total_token_throughput", "tok/s"}, nil},
	{figure{"request_goodput", "req/s"}, []string{"goodput"}},
	{figure{"goodput_ratio", "ratio"}, []string{"attainment"}},
	{figure{"error_rate", "ratio"}, []string{"failure_rate"}},
}

var latencies = []string{string(TTFT), string(TPOT), string(ITL), string(E2EL)}

var stats = []string{"mean", "median", "std", "min", "max"}

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

// readName splits stat_metric, or finds a plain figure.
func (o *Objective) readName(name string) error {
	name = strings.ReplaceAll(name, "-", "_")
	for _, f := range figures {
		if name == f.name || contains(f.also, name) {
			o.Metric, o.Unit = f.name, f.unit
			return nil
		}
	}
	stat, metric, ok := strings.Cut(strings.TrimSuffix(name, "_ms"), "_")
	if !ok || !contains(latencies, metric) {
		hint := DidYouMean(name, objectiveNames())
		if hint == "" {
			hint = ": " + objectiveForm
		}
		return fmt.Errorf("objective %q: unknown metric %q%s", o.Text, name, hint)
	}
	o.Stat, o.Metric, o.Unit = stat, metric, "ms"
	if stat == "median" {
		o.Pct, o.IsPct = 50, true
		return nil
	}
	if contains(stats, stat) {
		return nil
	}
	return o.readPercentile(stat)
}

func (o *Objective) readPercentile(stat string) error {
	p, err := strconv.ParseFloat(strings.TrimPrefix(stat, "p"), 64)
	if !strings.HasPrefix(stat, "p") || err != nil || !(p >= 0 && p <= 100) {
		return fmt.Errorf("objective %q: unknown statistic %q: use mean, median, std, min, max or a percentile such as p99",
			o.Text, stat)
	}
	o.Pct, o.IsPct = p, true
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
		return 0, fmt.Errorf("%q is not a bound in %s", text, unit)
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
	case "ratio":
		return []boundUnit{{"%", 0.01}}
	}
	return []boundUnit{{unit, 1}}
}

func objectiveNames() []string {
	var names []string
	for _, m := range latencies {
		for _, s := range append([]string{"p50", "p90", "p95", "p99"}, stats...) {
			names = append(names, s+"_"+m)
		}
	}
	for _, f := range figures {
		names = append(names, f.name)
		names = append(names, f.also...)
	}
	return names
}
