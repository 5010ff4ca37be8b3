package result

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"

	"spate/internal/figure"
	"spate/internal/host/enginelog"
	"spate/internal/load/schedule"
)

// FromRun is one of spate's own runs.
func FromRun(run *Run) Entry {
	e := Entry{
		ID: run.ID, Name: run.ID, Labels: maps.Clone(run.Labels), Run: run,
		Source: Source{File: filepath.ToSlash(run.Dir), Line: 1}, Format: FormatSpate, EngineLog: []enginelog.Sample{}, Metrics: run.figures(),
	}
	describeRun(&e, run)
	e.Check()
	return e
}

// figures are those that are kept with every result.
func (r *Run) figures() Figures {
	var out Figures
	for _, f := range figure.Headlines("mean", "median", "std", "p90", "p95", "p99") {
		if v := f.Of(&r.Summary); v.OK {
			out = append(out, Figure{Name: f.Key(), Value: v.V})
		}
	}
	return out
}

func describeRun(r *Entry, run *Run) {
	add := func(name string, v any) { r.Context.Propose(Fact{Name: name, Value: v, From: "run folder"}) }
	add("run", run.ID)
	add("state", string(run.State))
	if run.Server.Model != "" {
		add("model", run.Server.Model)
	}
	if run.Server.Backend != "" {
		add("backend", run.Server.Backend)
	}
	describeWorkload(add, run)
	if run.Plan.Requests > 0 {
		add("num_prompts", run.Plan.Requests)
	}
	if rate := rateOf(run); rate != nil {
		add("request_rate", rate)
	}
	if run.Plan.MaxConcurrency != nil {
		add("max_concurrency", *run.Plan.MaxConcurrency)
	}
	if len(run.Command) > 0 {
		add("command", run.Command)
	}
	if len(run.Labels) > 0 {
		add("labels", run.Labels)
	}
	if run.Verdict.Grade != "" {
		add("verdict", string(run.Verdict.Grade))
	}
	for _, note := range run.Notes {
		r.Problems = append(r.Problems, Problem{File: r.Source.File, Line: 1, Kind: Note, Text: note})
	}
	if run.Damage != nil {
		r.Problems = append(r.Problems, Problem{File: r.Source.File, Line: 1, Kind: Damaged, Text: RecordsFile + ": " + run.Damage.String()})
	}
}

// rateOf is the rate asked for: a number, the lowest and highest of stages, "inf" where nothing held requests back, and
// nil where they were due at set times without one rate.
func rateOf(run *Run) any {
	switch {
	case run.Plan.RequestRate != nil:
		return *run.Plan.RequestRate
	case !run.Plan.Judge.OpenLoop:
		return "inf"
	}
	var c struct {
		Load struct {
			Stages string `json:"stages"`
		} `json:"load"`
	}
	if json.Unmarshal(run.Config, &c) != nil {
		return nil
	}
	stages, err := schedule.ParseStages(c.Load.Stages)
	if err != nil {
		return nil
	}
	low, high := stages[0].From, stages[0].From
	for _, s := range stages {
		low, high = min(low, s.From, s.To), max(high, s.From, s.To)
	}
	if low == high {
		return low
	}
	return fmt.Sprintf("%g..%g", low, high)
}

// describeWorkload adds what was sent, from the settings kept with the run. Runs of other versions may
// keep none, or others.
func describeWorkload(add func(string, any), run *Run) {
	var c struct {
		Dataset map[string]json.RawMessage `json:"dataset"`
		Output  struct {
			Label  string `json:"label"`
			Compat string `json:"compat"`
		} `json:"output"`
	}
	if json.Unmarshal(run.Config, &c) != nil {
		return
	}
	if c.Output.Label != "" {
		add("label", c.Output.Label)
	}
	if c.Output.Compat != "" {
		add("compat", c.Output.Compat)
	}
	var name string
	if json.Unmarshal(c.Dataset["name"], &name) != nil || name == "" {
		return
	}
	add("dataset", name)
	var lens struct {
		Input  *int `json:"input_len"`
		Output *int `json:"output_len"`
	}
	if json.Unmarshal(c.Dataset[name], &lens) != nil {
		return
	}
	if lens.Input != nil {
		add("input_len", *lens.Input)
	}
	if lens.Output != nil {
		add("output_len", *lens.Output)
	}
}
