package predict

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"spate/internal/call"
	"spate/internal/forecast/profile"
	"spate/internal/judge/metrics"
	"spate/internal/result"
	"spate/internal/settings/config"
)

// NewRun is a predicted run as result keeps it, without figures. Its verdict is left out: nothing was measured.
func NewRun(prof *profile.Profile, l *Load, c *config.Bench, tool string, command []string) *result.Run {
	run := &result.Run{
		Started: time.Now(), Tool: tool, Command: command,
		Labels: map[string]string{result.PredictedLabel: "true", "profile": prof.Name},
		Server: result.Server{Backend: "simulated", Model: cmp.Or(prof.Engine.Model, prof.Name), Kind: prof.Engine.Engine, Version: prof.Engine.Version},
		Plan:   result.NewPlan(l.Plan(c.Output.Percentiles), l.Text),
		Notes:  []string{"predicted by the simulator with profile " + prof.Caption() + "; no server was measured"},
	}
	run.Block = result.Block{Percentiles: c.Output.Percentiles, Tokenizer: true}
	for _, m := range c.Output.PercentileMetrics {
		run.Block.Metrics = append(run.Block.Metrics, string(m))
	}
	for i, t := range l.tenants {
		run.Tenants = append(run.Tenants, t.row(&c.Tenants[i], c.Output.Percentiles))
	}
	return run
}

// row is one of several tenants before it has figures.
func (l *Load) row(t *config.Tenant, percentiles []float64) result.Tenant {
	plan := l.Plan(percentiles)
	row := result.Tenant{Name: t.Name, Dataset: t.Dataset.Name}
	for _, o := range t.SLO {
		row.SLO = append(row.SLO, o.Text)
		if o.IsPct && !slices.Contains(plan.Percentiles, o.Pct) {
			plan.Percentiles = append(plan.Percentiles, o.Pct)
		}
	}
	for _, g := range t.Goodput {
		plan.Objectives = append(plan.Objectives, metrics.Objective{Metric: string(g.Metric), Bound: g.MS})
	}
	row.Plan = result.NewPlan(plan, l.Text)
	return row
}

// Fill gives a run the figures of a prediction, and returns its records.
func Fill(run *result.Run, own *Own) []call.Record {
	recs := own.Result.Records()
	for k := range run.Tenants {
		name := run.Tenants[k].Name
		label := map[string]string{result.TenantLabel: name}
		for i := range recs {
			if r := &recs[i]; r.ID%len(run.Tenants) == k {
				r.Name, r.Labels = name+"-"+r.Name, label
			}
		}
	}
	run.Compute(call.List(recs))
	run.State, run.Ended = result.Complete, run.Started.Add(own.Result.Duration)
	return recs
}

// Save keeps a run folder like that of a measured run. The run then knows its folder.
func Save(run *result.Run, recs []call.Record, dir string) error {
	state, ended := run.State, run.Ended
	f, err := result.Create(run, result.Options{Dir: dir})
	if err != nil {
		return err
	}
	for i := range recs {
		if err := f.Log.Record(&recs[i]); err != nil {
			return fmt.Errorf("keeping the records: %w", err)
		}
	}
	run.State, run.Ended = state, ended
	return f.Finish(run)
}
