package predict

import (
	"cmp"
	"fmt"
	"time"

	"spate/internal/call"
	"spate/internal/forecast/profile"
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
	return run
}

// Fill gives a run the figures of a prediction, and returns its records.
func Fill(run *result.Run, own *Own) []call.Record {
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
