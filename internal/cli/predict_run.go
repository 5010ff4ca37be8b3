package cli

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"spate/internal/figure"
	"spate/internal/forecast/predict"
	"spate/internal/forecast/profile"
	"spate/internal/result"
	"spate/internal/trial/executor"
	"spate/internal/view/report"
)

// shownFigures are the figures of a prediction's interval and of a grid.
var shownFigures = figure.List("output_throughput", "mean_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "mean_itl_ms", "p99_itl_ms")

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
		return printPrediction(p, prof, l, own)
	}
	say(p.Stdout, "predicted, not measured: profile %s, %s\n", prof.Caption(), l.Text)
	if err := report.Block(p.Stdout, report.BlockOf(run)); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	if o.intervals {
		writeIntervals(p, own, len(prof.Set))
	}
	if o.noFolder {
		return nil
	}
	if err := executor.Save(run, recs, r.Bench.Output.OutputDir); err != nil {
		return err
	}
	say(p.Stderr, "run folder: %s\n", run.Dir)
	return nil
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func writeIntervals(p Process, own *predict.Own, others int) {
	if others == 0 {
		return
	}
	say(p.Stdout, "\nrange over %d parameter vectors within noise\n", others+1)
	for _, f := range shownFigures {
		say(p.Stdout, "%-40s %s to %s\n", f.ShortUnit()+":", round3(own.Low[f.Key()]), round3(own.High[f.Key()]))
	}
}

func round3(v float64) string {
	if math.Abs(v) >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// prediction is one predicted run for programs.
type prediction struct {
	Predicted bool              `json:"predicted_not_measured"`
	Profile   string            `json:"profile"`
	Load      string            `json:"load"`
	Settings  map[string]string `json:"settings,omitempty"`
	Figures   predict.Metrics   `json:"predicted"`
	Low       predict.Metrics   `json:"predicted_low,omitempty"`
	High      predict.Metrics   `json:"predicted_high,omitempty"`
}

func newPrediction(prof *profile.Profile, l *predict.Load, own *predict.Own) prediction {
	return prediction{Predicted: true, Profile: prof.Name, Load: l.Text, Figures: own.Metrics, Low: own.Low, High: own.High}
}

func printPrediction(p Process, prof *profile.Profile, l *predict.Load, own *predict.Own) error {
	return writeIndented(p, newPrediction(prof, l, own))
}

func writeIndented(p Process, v any) error {
	enc := json.NewEncoder(p.Stdout)
	enc.SetIndent("", " ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	return nil
}

// point is one combination of the values given in lists.
type gridPoint []struct{ name, value string }

// combinations lists all of them, the last flag changing fastest.
func combinations(grid map[string][]string) []gridPoint {
	var names []string
	for n := range grid {
		names = append(names, n)
	}
	sort.Strings(names)
	out := []gridPoint{nil}
	for _, n := range names {
		var next []gridPoint
		for _, at := range out {
			for _, v := range grid[n] {
				next = append(next, append(slices.Clone(at), struct{ name, value string }{n, strings.TrimSpace(v)}))
			}
		}
		out = next
	}
	return out
}

// runGrid predicts every combination and prints a table.
func runGrid(p Process, o *predictOptions, base *profile.Profile) error {
	var list []prediction
	points := combinations(o.lists)
	for _, at := range points {
		own, l, prof, err := o.predictAt(p, base, at)
		if err != nil {
			return err
		}
		one := newPrediction(prof, l, own)
		one.Settings = map[string]string{}
		for _, s := range at {
			one.Settings[s.name] = s.value
		}
		list = append(list, one)
	}
	if o.json {
		return writeIndented(p, list)
	}
	say(p.Stdout, "predicted, not measured: profile %s\n", base.Caption())
	for _, s := range points[0] {
		say(p.Stdout, "%*s ", max(12, len(s.name)), s.name)
	}
	for _, f := range shownFigures {
		say(p.Stdout, "%13s", f.ShortUnit())
	}
	say(p.Stdout, "\n")
	for i, at := range points {
		for _, s := range at {
			say(p.Stdout, "%*s ", max(12, len(s.name)), s.value)
		}
		for _, f := range shownFigures {
			say(p.Stdout, "%13s", round3(list[i].Figures[f.Key()]))
		}
		say(p.Stdout, "\n")
	}
	return nil
}

// predictAt predicts one combination.
func (o *predictOptions) predictAt(p Process, base *profile.Profile, at gridPoint) (*predict.Own, *predict.Load, *profile.Profile, error) {
	over := o.override
	var extra []string
	for _, s := range at {
		if slices.Contains(gridFlags, s.name) {
			extra = append(extra, "--"+s.name, s.value)
			continue
		}
		one := &predictOptions{}
		if err := one.set().Parse([]string{"--" + s.name + "=" + s.value}); err != nil {
			return nil, nil, nil, usage{"spate predict", err}
		}
		over = merge(over, one.override)
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

// merge adds the settings of one override to another.
func merge(a, b profile.Override) profile.Override {
	for _, f := range []struct {
		to   *int
		from int
	}{
		{&a.MaxSeqs, b.MaxSeqs},
		{&a.MaxTokens, b.MaxTokens},
		{&a.MaxModelLen, b.MaxModelLen},
		{&a.KVTokens, b.KVTokens},
		{&a.TP, b.TP},
	} {
		if f.from != 0 {
			*f.to = f.from
		}
	}
	return a
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
