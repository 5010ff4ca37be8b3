package harvest

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"

	"spate/internal/judge/metrics"
	"spate/internal/load/schedule"
	"spate/internal/result"
)

// FromRun is one of spate's own runs as a Result.
func FromRun(run *result.Run) Result {
	r := Result{Source: Source{File: filepath.ToSlash(run.Dir), Line: 1}, Format: FormatSpate, EngineLog: []EngineSample{}}
	s := &run.Summary
	m := &r.Metrics
	count := func(name string, n int) { m.set(Figure{Name: name, Text: strconv.Itoa(n)}) }
	float := func(name string, v float64) { m.set(Figure{Name: name, Text: formatFloat(v)}) }
	float("duration", s.DurationS)
	count("completed", s.Completed)
	count("failed", s.Failed)
	count("total_input_tokens", s.TotalInput)
	count("total_output_tokens", s.TotalOutput)
	float("request_throughput", s.RequestThroughput)
	if s.RequestGoodput != nil {
		float("request_goodput", *s.RequestGoodput)
	}
	float("output_throughput", s.OutputThroughput)
	float("total_token_throughput", s.TotalTokenThroughput)
	float("max_output_tokens_per_s", s.MaxOutputPerS)
	count("max_concurrent_requests", s.MaxConcurrent)
	for _, l := range []struct {
		name string
		dist *metrics.Dist
	}{{"ttft", &s.TTFT}, {"tpot", &s.TPOT}, {"itl", &s.ITL}, {"e2el", &s.E2EL}} {
		if l.dist.N == 0 {
			continue
		}
		float("mean_"+l.name+"_ms", l.dist.Mean)
		float("median_"+l.name+"_ms", l.dist.Median)
		float("std_"+l.name+"_ms", l.dist.Std)
		for _, p := range []float64{90, 95, 99} {
			float("p"+strconv.FormatFloat(p, 'f', -1, 64)+"_"+l.name+"_ms", l.dist.P(p))
		}
	}
	describeRun(&r, run)
	check(&r)
	return r
}

func describeRun(r *Result, run *result.Run) {
	add := func(name string, v any) { r.Context.propose(Fact{Name: name, Value: v, From: "run folder"}) }
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
		r.Problems = append(r.Problems, Problem{File: r.Source.File, Line: 1, Kind: Damaged, Text: result.RecordsFile + ": " + run.Damage.String()})
	}
}

// rateOf is the rate asked for: a number, the lowest and highest of stages, "inf" where nothing held requests back, and
// nil where they were due at set times without one rate.
func rateOf(run *result.Run) any {
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
func describeWorkload(add func(string, any), run *result.Run) {
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
