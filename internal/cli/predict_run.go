package cli

import (
	"fmt"
	"slices"
	"strings"

	"spate/internal/console"
	"spate/internal/forecast/predict"
	"spate/internal/forecast/profile"
	"spate/internal/result"
	"spate/internal/trial/executor"
	"spate/internal/view/report"
)

// runOnePrediction predicts one run, prints it as a measured one and keeps its folder.
func runOnePrediction(p Process, o *predictOptions, prof *profile.Profile) error {
	l, r, err := o.load(p, nil)
	if err != nil {
		return err
	}
	prof, err = prof.With(o.override)
	if err != nil {
		return err
	}
	if o.log != "" {
		if err := writeEngineLog(p, o, prof); err != nil {
			return err
		}
	}
	own, err := l.Run(prof, o.seed, o.intervals)
	if err != nil {
		return err
	}
	command := append([]string{"spate", "predict"}, p.Args[min(1, len(p.Args)):]...)
	run := executor.NewRun(prof, l, r.Bench, versionText(), command)
	recs := executor.Fill(run, own)
	if o.json {
		return p.JSON(predict.NewPrediction(prof, l, own))
	}
	p.Print("predicted, not measured: profile %s, %s\n", prof.Caption(), l.Text)
	if err := report.Block(p.Stdout, report.BlockOf(run)); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	if o.intervals {
		own.WriteIntervals(p.Stdout, len(prof.Set))
	}
	if o.noFolder {
		return nil
	}
	if err := executor.Save(run, recs, r.Bench.Output.OutputDir); err != nil {
		return err
	}
	p.Say("run folder: %s\n", run.Dir)
	return nil
}

// runGrid predicts every combination and prints a table.
func runGrid(p Process, o *predictOptions, base *profile.Profile) error {
	var list []predict.Prediction
	points := predict.Combinations(o.lists)
	for _, at := range points {
		own, l, prof, err := o.predictAt(p, base, at)
		if err != nil {
			return err
		}
		one := predict.NewPrediction(prof, l, own)
		one.Settings = map[string]string{}
		for _, s := range at {
			one.Settings[s.Name] = s.Value
		}
		list = append(list, one)
	}
	if o.json {
		return p.JSON(list)
	}
	p.Print("predicted, not measured: profile %s\n", base.Caption())
	predict.WriteGrid(p.Stdout, points, list)
	return nil
}

// predictAt predicts one combination.
func (o *predictOptions) predictAt(p Process, base *profile.Profile, at predict.At) (*predict.Own, *predict.Load, *profile.Profile, error) {
	over := o.override
	var extra []string
	for _, s := range at {
		if slices.Contains(gridFlags, s.Name) {
			extra = append(extra, "--"+s.Name, s.Value)
			continue
		}
		one := &predictOptions{}
		if err := one.set().Parse([]string{"--" + s.Name + "=" + s.Value}); err != nil {
			return nil, nil, nil, console.Usage("spate predict", err)
		}
		over = over.Merge(one.override)
	}
	l, _, err := o.load(p, extra)
	if err != nil {
		return nil, nil, nil, err
	}
	prof, err := base.With(over)
	if err != nil {
		return nil, nil, nil, err
	}
	own, err := l.Run(prof, o.seed, false)
	return own, l, prof, err
}

// writeEngineLog simulates the load once more, step by step, and writes what the engine would log.
func writeEngineLog(p Process, o *predictOptions, prof *profile.Profile) error {
	l, _, err := o.load(p, nil)
	if err != nil {
		return err
	}
	var text strings.Builder
	if err := l.Log(prof, o.seed, &text); err != nil {
		return err
	}
	if err := result.Save(o.log, []byte(text.String()), false); err != nil {
		return fmt.Errorf("saving %s: %w", o.log, err)
	}
	return nil
}
