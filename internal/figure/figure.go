// Package figure is the catalogue of every figure that spate reports: its name, its unit, which way is better, how
// people and other tools call it, and where a run's summary keeps it. The formulas are those of metrics; the catalogue
// points at them. Whoever prints, bounds, compares, predicts or stores a figure finds it here, so that all of them
// show the same number. A new figure is one entry of catalogue.go.
//
// Read this file first, then catalogue.go, which has the entries, and ref.go, which reads and writes keys such as
// p99_ttft_ms.
package figure

import (
	"fmt"
	"math"
	"slices"

	"spate/internal/call"
	"spate/internal/judge/metrics"
)

// Unit is what a figure is counted in, as short tables write it.
type Unit string

// The units.
const (
	Milliseconds Unit = "ms"
	Seconds      Unit = "s"
	RequestRate  Unit = "req/s"
	InputRate    Unit = "inputs/s"
	TokenRate    Unit = "tok/s"
	Ratio        Unit = "ratio"
	Count        Unit = "" // a whole number
	Factor       Unit = "x"
)

// Long is the unit as pages and charts write it.
func (u Unit) Long() string {
	switch u {
	case RequestRate:
		return "requests/s"
	case TokenRate:
		return "tokens/s"
	case Factor:
		return ""
	}
	return string(u)
}

// Direction is which way a figure is better.
type Direction int

// The directions.
const (
	Neither Direction = iota
	Lower
	Higher
)

// String is the direction for people.
func (d Direction) String() string { return [...]string{"", "lower", "higher"}[d] }

// Tool is a benchmark tool whose name for a figure is known.
type Tool string

// The tools.
const (
	VLLM     Tool = "vllm"     // rows of the result block; the keys of the result file are Ref.Key
	SGLang   Tool = "sglang"   // bench_serving: the part of a key or row that differs from vLLM's
	LMDeploy Tool = "lmdeploy" // profile_restful_api.py, likewise
	AIPerf   Tool = "aiperf"   // AIPerf and GenAI-Perf
	GuideLLM Tool = "guidellm" // names of its metrics
)

// Figure is one entry of the catalogue. A figure either has a distribution, of which a Ref names a statistic, or is one
// number.
type Figure struct {
	Name    string
	Unit    Unit
	Better  Direction
	Label   string   // in a sentence: "TTFT", "output throughput"
	Head    string   // above a narrow column; empty: Label
	Title   string   // above a wide column; empty: made from Label and unit
	Meaning string   // in words, for explanations
	Also    []string // other spellings that users may write
	Spelled map[Tool][]string

	headline bool // of vLLM's result file, and kept with every result
	dist     func(*metrics.Summary) *metrics.Dist
	at       func(*metrics.Summary) any   // the field that holds it: *float64, *int, or **float64 that is nil without one
	value    func(*metrics.Summary) Value // where the field does not tell all
}

// All lists the catalogue in the order in which figures are shown.
func All() []Figure { return slices.Clone(catalogue) }

// HasStats reports whether the figure has statistics: mean, median, percentiles.
func (f *Figure) HasStats() bool { return f.dist != nil }

// Each is the figure's formula for one request, in the figure's unit; nil where requests have none of it.
func (f *Figure) Each(run metrics.Run) func(*call.Record) (float64, bool) { return run.Each(f.Name) }

// Row is the figure's row in vLLM's block, or the title of its section there; empty where it has none.
func (f *Figure) Row() string {
	if names := f.Spelled[VLLM]; len(names) > 0 {
		return names[0]
	}
	return ""
}

// Get finds a figure by its name; nil where there is none.
func Get(name string) *Figure {
	for i := range catalogue {
		if catalogue[i].Name == name {
			return &catalogue[i]
		}
	}
	return nil
}

// By maps the names a tool has for figures to the figures.
func By(tool Tool) map[string]*Figure {
	out := map[string]*Figure{}
	for i := range catalogue {
		for _, name := range catalogue[i].Spelled[tool] {
			out[name] = &catalogue[i]
		}
	}
	return out
}

// Latencies are the four that every tool reports, in vLLM's order.
func Latencies() []string { return names(func(f *Figure) bool { return f.headline && f.dist != nil }) }

// PerRequest are the figures that every request has one of, as --goodput takes them.
func PerRequest() []string { return metrics.ObjectiveMetrics() }

func names(keep func(*Figure) bool) []string {
	var out []string
	for i := range catalogue {
		if keep(&catalogue[i]) {
			out = append(out, catalogue[i].Name)
		}
	}
	return out
}

// Rounded is a figure in about three digits.
func Rounded(v float64) string {
	switch abs := math.Abs(v); {
	case v == 0:
		return "0"
	case abs >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case abs >= 9.995:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
