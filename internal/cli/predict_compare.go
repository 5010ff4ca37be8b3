package cli

import (
	"fmt"
	"path/filepath"

	"spate/internal/call/recorder"
	"spate/internal/forecast/predict"
	"spate/internal/forecast/profile"
	"spate/internal/result"
)

// runCompare predicts the workload of a measured run and puts both side by side.
func runCompare(p Process, o *predictOptions, prof *profile.Profile) error {
	run, err := result.Open(o.compare)
	if err != nil {
		return err
	}
	prof, err = prof.With(o.override)
	if err != nil {
		return err
	}
	recs, _, err := recorder.Read(filepath.Join(o.compare, result.RecordsFile))
	if err != nil {
		return fmt.Errorf("reading the records of %s: %w", o.compare, err)
	}
	l, err := predict.Replayed(recs, run.Plan.MaxConcurrency)
	if err != nil {
		return fmt.Errorf("%s: %w", o.compare, err)
	}
	c, err := predict.Compare(l, prof, o.seed, predict.FromSummary(&run.Summary))
	if err != nil {
		return err
	}
	if o.json {
		return p.JSON(c)
	}
	c.Write(p.Stdout, prof.Name)
	return nil
}
