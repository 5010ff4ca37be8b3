package executor

import (
	"context"
	"encoding/json"
	"fmt"

	"spate/internal/forecast/predict"
	"spate/internal/forecast/profile"
	"spate/internal/result"
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
	recs := predict.Fill(run, own)
	if p.Watch != nil {
		for i := range recs {
			_ = p.Watch.Record(&recs[i]) // a watch only looks
		}
	}
	return &trial.Result{Run: run}, predict.Save(run, recs, cfg.Output.OutputDir)
}

// Close implements trial.Executor: nothing was started.
func (e *Predicted) Close(context.Context) error { return nil }

// run is the run of a point before it has figures.
func (e *Predicted) run(p *trial.Point, load *predict.Load) *result.Run {
	return predict.NewRun(e.Profile, load, p.Config, e.Tool, p.Command)
}
