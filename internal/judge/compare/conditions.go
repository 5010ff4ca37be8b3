package compare

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"spate/internal/judge/verdict"
	"spate/internal/result"
)

// conditions are the reasons not to compare two groups of runs, which are comparable among themselves.
func conditions(a, b []*measured) []string { return differences(a[0], b[0]) }

// differences names what keeps the figures of two runs from meaning the same.
func differences(a, b *measured) []string {
	ea, eb := a.entry, b.entry
	if pa, pb := ea.Predicted(), eb.Predicted(); pa != pb {
		return []string{fmt.Sprintf("%s is %s, %s is %s", ea.Name, origin(pa), eb.Name, origin(pb))}
	}
	if ea.Run == nil || eb.Run == nil {
		return contextDifferences(ea, eb)
	}
	// Copies: names are for people, and settings without what two samples of one workload differ in.
	ra, rb := *ea.Run, *eb.Run
	ra.Config, rb.Config = sampleless(ra.Config), sampleless(rb.Config)
	ra.ID, rb.ID = ea.Name, eb.Name
	if len(ra.Config) == 0 || len(rb.Config) == 0 {
		return append(planDifferences(&ra, &rb), countingDifferences(&ra, &rb)...)
	}
	var out []string
	if err := ra.Comparable(&rb); err != nil {
		out = append(out, err.Error())
	}
	return append(out, countingDifferences(&ra, &rb)...)
}

// planDifferences compares what was meant to be sent where settings were not kept, as with predictions.
func planDifferences(a, b *result.Run) []string {
	limit := func(n *int) string {
		if n == nil {
			return "none"
		}
		return strconv.Itoa(*n)
	}
	var out []string
	for _, c := range []struct{ what, a, b string }{
		{"state", string(a.State), string(b.State)},
		{"requests", strconv.Itoa(a.Plan.Requests), strconv.Itoa(b.Plan.Requests)},
		{"request rate", fmt.Sprint(a.Plan.Rate()), fmt.Sprint(b.Plan.Rate())},
		{"max concurrency", limit(a.Plan.MaxConcurrency), limit(b.Plan.MaxConcurrency)},
		{"model", a.Server.Model, b.Server.Model},
	} {
		if c.a != c.b {
			out = append(out, fmt.Sprintf("%s is %s in %s and %s in %s", c.what, c.a, a.ID, c.b, b.ID))
		}
	}
	in, other := a.Summary.Lengths.Input.Mean, b.Summary.Lengths.Input.Mean
	if math.Abs(in-other) > 0.02*max(in, other) {
		out = append(out, fmt.Sprintf("workload: %.1f input tokens a request in %s and %.1f in %s", in, a.ID, other, b.ID))
	}
	return out
}

func origin(predicted bool) string {
	if predicted {
		return "predicted"
	}
	return "measured"
}

// sampleless drops the settings by which two samples of one workload differ: the seed they were drawn
// with and the text that keeps a prefix cache from remembering the other.
func sampleless(config json.RawMessage) json.RawMessage {
	var tree map[string]any
	if json.Unmarshal(config, &tree) != nil {
		return config
	}
	if load, ok := tree["load"].(map[string]any); ok {
		delete(load, "seed")
	}
	if set, ok := tree["dataset"].(map[string]any); ok {
		if salt, _ := set["salt"].(string); salt != "" {
			set["salt"] = "some"
		}
	}
	out, err := json.Marshal(tree)
	if err != nil {
		return config
	}
	return out
}

// countingDifferences compares who counted the tokens.
func countingDifferences(a, b *result.Run) []string {
	var out []string
	for _, c := range []struct {
		what string
		a, b map[string]int
	}{
		{"input", a.Summary.Lengths.InputFrom, b.Summary.Lengths.InputFrom},
		{"output", a.Summary.Lengths.OutputFrom, b.Summary.Lengths.OutputFrom},
	} {
		if x, y := mostly(c.a), mostly(c.b); x != y && x != "" && y != "" {
			out = append(out, fmt.Sprintf("%s tokens are counted differently: by %s in %s, by %s in %s", c.what, x, a.ID, y, b.ID))
		}
	}
	return out
}

// mostly is the source of most counts.
func mostly(from map[string]int) string {
	best := ""
	for source, n := range from {
		if n > from[best] || n == from[best] && source < best {
			best = source
		}
	}
	return best
}

// told are the settings that results of other tools are compared by, as far as both have them.
var told = []string{"model", "dataset", "num_prompts", "request_rate", "max_concurrency", "input_len", "output_len"}

// contextDifferences compares what is known around figures where at least one result is not spate's own.
func contextDifferences(a, b *result.Entry) []string {
	var out []string
	if x, y := dialect(a), dialect(b); x != y {
		out = append(out, fmt.Sprintf("dialect: %s has figures of %s, %s those of %s, and these tools define and count differently", a.Name, x, b.Name, y))
	}
	for _, name := range told {
		x, y := a.Context.Text(name), b.Context.Text(name)
		if x != "" && y != "" && x != y {
			out = append(out, fmt.Sprintf("workload: %s is %s in %s and %s in %s", name, x, a.Name, y, b.Name))
		}
	}
	x, okX := perRequest(a, "total_input_tokens")
	y, okY := perRequest(b, "total_input_tokens")
	if okX && okY && math.Abs(x-y) > 0.02*max(x, y) {
		out = append(out, fmt.Sprintf("workload: %.1f input tokens a request in %s and %.1f in %s", x, a.Name, y, b.Name))
	}
	return out
}

func perRequest(e *result.Entry, name string) (float64, bool) {
	total, ok := e.Float(name)
	n, okN := e.Float("completed")
	return total / n, ok && okN && n > 0
}

// dialect is whose definitions a result's figures follow. Spate's are vLLM's.
func dialect(e *result.Entry) string {
	switch f := e.Format; f {
	case result.FormatVLLMBlock, result.FormatVLLMJSON, result.FormatPyTorchJSON, result.FormatSpate:
		return "vLLM's"
	case result.FormatGenAIPerfJSON, result.FormatGenAIPerfCSV, result.FormatAIPerfJSON, result.FormatAIPerfCSV:
		return "AIPerf's"
	default:
		tool, _, _ := strings.Cut(f, "-")
		return tool + "'s"
	}
}

// invalid names the runs whose verdict forbids using their figures.
func invalid(groups ...[]*measured) []string {
	var out []string
	for _, g := range groups {
		for _, t := range g {
			if run := t.entry.Run; run != nil && run.Verdict.Grade == verdict.InvalidRun {
				out = append(out, fmt.Sprintf("%s is INVALID: %s", t.entry.Name, strings.TrimSuffix(run.Verdict.Sentence, ".")))
			}
		}
	}
	return out
}

// suspect names the runs whose verdict asks for care.
func suspect(groups ...[]*measured) []string {
	var out []string
	for _, g := range groups {
		for _, t := range g {
			if run := t.entry.Run; run != nil && run.Verdict.Grade == verdict.SuspectRun {
				out = append(out, fmt.Sprintf("%s is SUSPECT: %s", t.entry.Name, strings.TrimSuffix(run.Verdict.Sentence, ".")))
			}
		}
	}
	return out
}
