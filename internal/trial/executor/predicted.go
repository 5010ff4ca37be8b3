package executor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"spate/internal/call"
	"spate/internal/forecast/predict"
	"spate/internal/forecast/profile"
	"spate/internal/result"
	"spate/internal/settings/config"
	"spate/internal/trial"
)

// Predicted makes runs in virtual time, with a profile in the server's place. A watch is told of every request; a run
// is never ended early, since it takes no time.
type Predicted struct {
	Profile *profile.Profile
	Tool    string // spate and its version, as the run folder keeps it
	Local   predict.Local
}

var _ trial.Executor = (*Predicted)(nil)

// Try implements trial.Executor.
func (e *Predicted) Try(_ context.Context, p *trial.Point) (*trial.Result, error) {
	cfg := p.Config
	load, err := e.Local.Load(cfg)
	if err != nil {
		return nil, err
	}
	own, err := load.Run(e.Profile, uint64(cfg.Load.Seed), false)
	if err != nil {
		return nil, err
	}
	run := e.run(p, load)
	if run.Config, err = json.Marshal(cfg.Redacted()); err != nil {
		return nil, fmt.Errorf("encode settings: %w", err)
	}
	for _, o := range cfg.Check.SLO {
		if o.IsPct {
			run.Plan.Percentiles = append(run.Plan.Percentiles, o.Pct)
		}
	}
	for _, kv := range cfg.Output.Metadata {
		run.Labels[kv.Key] = kv.Value
	}
	if cfg.Output.Label != "" {
		run.Labels["label"] = cfg.Output.Label
	}
	recs := Fill(run, own)
	if p.Watch != nil {
		for i := range recs {
			_ = p.Watch.Record(&recs[i]) // a watch only looks
		}
	}
	return &trial.Result{Run: run}, Save(run, recs, cfg.Output.OutputDir)
}

// Close implements trial.Executor: nothing was started.
func (e *Predicted) Close(context.Context) error { return nil }

// run is the run of a point before it has figures.
func (e *Predicted) run(p *trial.Point, load *predict.Load) *result.Run {
	return NewRun(e.Profile, load, p.Config, e.Tool, p.Command)
}

// NewRun is a predicted run as result keeps it, without figures. Its verdict is left out: nothing was measured.
func NewRun(prof *profile.Profile, l *predict.Load, c *config.Bench, tool string, command []string) *result.Run {
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
	return run
}

// Fill gives a run the figures of a prediction, and returns its records.
func Fill(run *result.Run, own *predict.Own) []call.Record {
	recs := own.Result.Records()
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
