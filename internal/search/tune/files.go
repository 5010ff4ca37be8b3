package tune

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"spate/internal/host/enginelog"
	"spate/internal/judge/compare"
	"spate/internal/judge/explain"
	"spate/internal/result"
	"spate/internal/view/page"
)

// NewReport makes the report of a search, with why the winner wins. predicted says by which simulator; empty: it was
// measured.
func NewReport(t *Tuner, d *Folder, predicted string) (*Report, error) {
	r := &Report{Outcome: t.Conclude(d.History), Predicted: predicted, history: d.History}
	if r.Winner == nil {
		return nil, fmt.Errorf("nothing could be measured%s", lastFailure(d.History))
	}
	if predicted != "" {
		r.supposed()
	} else {
		r.open()
	}
	r.explain()
	return r, nil
}

// Entries are the results of the search's runs or, of one in virtual time, of its steps.
func (r *Report) Entries() []result.Entry { return r.entries }

func lastFailure(history []Observation) string {
	for i := len(history) - 1; i >= 0; i-- {
		if f := history[i].Failure; f != nil {
			return ": " + f.Error()
		}
		if why := history[i].Trouble(); why != "" {
			return ": the last run is " + why
		}
	}
	return ""
}

// WriteText is the outcome for a terminal.
func (r *Report) WriteText(w io.Writer) error {
	b := &bytes.Buffer{}
	if r.Predicted != "" {
		fmt.Fprintf(b, "predicted, not measured: %s\n", r.Predicted)
	}
	fmt.Fprintf(b, "%s\n", r.Sentence)
	for _, s := range r.Why {
		fmt.Fprintf(b, "  %s\n", s)
	}
	if r.LeftOut != "" {
		fmt.Fprintf(b, "%s\n", r.LeftOut)
	}
	if len(r.Weights) > 0 {
		fmt.Fprintf(b, "What mattered, by %s:", r.Weighed)
		for _, w := range r.Weights[:min(3, len(r.Weights))] {
			fmt.Fprintf(b, " %s %.0f %% (%.0f to %.0f);", w.Name, 100*w.Share, 100*w.Low, 100*w.High)
		}
		b.WriteByte('\n')
	}
	if why := r.WhatMattered(); why != "" {
		fmt.Fprintf(b, "%s\n", why)
	}
	fmt.Fprintf(b, "%s in all phases, %d failed.\n", r.Tried(), r.Failed)
	if r.Predicted != "" && len(r.Trials) > 1 {
		fmt.Fprintf(b, "Try first:\n")
	}
	fmt.Fprintf(b, "\n%s\n", r.Line)
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	return nil
}

// open reads the search's runs.
func (r *Report) open() {
	for i := range r.history {
		for _, m := range r.history[i].Runs {
			if m.Run == "" {
				continue
			}
			if run, err := result.Open(m.Run); err == nil {
				r.entries = append(r.entries, result.FromRun(run))
			}
		}
	}
}

// supposed are the steps of a search in virtual time as results: figures, and the settings they were made with.
func (r *Report) supposed() {
	for i := range r.history {
		o := &r.history[i]
		for _, m := range o.Runs {
			e := result.Entry{ID: o.Key(), Name: o.Name(), Labels: map[string]string{
				result.PredictedLabel: "true", "trial": strconv.Itoa(o.Trial), "phase": string(o.Phase), "workload": m.Workload, "label": o.Name(),
			}}
			if len(o.Runs) > 1 {
				e.ID += "-" + m.Workload
			}
			if o.Rate > 0 && o.Rate != Burst {
				e.Labels["request_rate"] = strconv.FormatFloat(o.Rate, 'g', -1, 64)
			}
			for k, v := range o.Settings {
				e.Labels[k] = v
			}
			e.EngineLog = []enginelog.Sample{}
			for _, name := range slices.Sorted(maps.Keys(m.Figures)) {
				e.Metrics = append(e.Metrics, result.Figure{Name: name, Text: strconv.FormatFloat(m.Figures[name], 'g', -1, 64)})
			}
			r.entries = append(r.entries, e)
		}
	}
}

// explain explains the winner beside the default: by what limited each, and by comparing their runs.
func (r *Report) explain() {
	if r.Winner.Trial != 0 && r.Default != nil {
		r.Why = append(r.Why, r.Differences()...)
	}
	side := func(trial int) (s compare.Side) {
		s.Name = map[bool]string{true: "default", false: "winner"}[trial == 0]
		for i := range r.history {
			o := &r.history[i]
			if o.Phase != Final || o.Trial != trial || !o.Counts() {
				continue
			}
			for _, m := range o.Runs {
				at := slices.IndexFunc(r.entries, func(e result.Entry) bool { return e.Run != nil && e.Run.Dir == m.Run })
				if at >= 0 && m.Workload == r.File.Workloads[0].Name {
					s.Samples = append(s.Samples, compare.Sample{Entry: r.entries[at]})
				}
			}
		}
		return s
	}
	a, b := side(0), side(r.Winner.Trial)
	if r.Winner.Trial == 0 || len(a.Samples) == 0 || len(b.Samples) == 0 {
		return
	}
	for _, s := range []compare.Side{a, b} {
		e := &s.Samples[0].Entry
		if causes := explain.Brief(e); len(causes) > 0 {
			r.Why = append(r.Why, fmt.Sprintf("what limited the %s: %s", s.Name, causes[0].Sentence))
		}
	}
	rep, err := compare.Compare(a, []compare.Side{b}, compare.Options{Margin: r.File.Margin, Force: true})
	if err == nil && len(rep.Comparisons) > 0 {
		r.Why = append(r.Why, "by spate compare: "+rep.Comparisons[0].Sentence)
	}
}

// SaveAll leaves the reports in a folder, and the winner's files in one below it, which it returns.
func (r *Report) SaveAll(dir string) (winner string, err error) {
	for _, name := range []string{"report.md", "report.html", "trials.csv", "outcome.json"} {
		if err := r.Save(filepath.Join(dir, name)); err != nil {
			return "", err
		}
	}
	winner = filepath.Join(dir, "winner")
	if err := os.MkdirAll(winner, 0o700); err != nil {
		return "", fmt.Errorf("make a folder for the winner: %w", err)
	}
	list, err := r.File.Deploy(r.Winner.Settings)
	if err != nil {
		return "", err
	}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if err := os.WriteFile(filepath.Join(winner, name), []byte(list[name]), 0o600); err != nil {
			return "", fmt.Errorf("write the winner's files: %w", err)
		}
	}
	return winner, nil
}

// ReportName reports whether a report can be written to a file of this name.
func ReportName(path string) bool {
	return slices.Contains([]string{".md", ".html", ".csv", ".json"}, filepath.Ext(path))
}

// Save writes one report, in the form that the ending of its name says.
func (r *Report) Save(path string) error {
	b := &bytes.Buffer{}
	var err error
	switch filepath.Ext(path) {
	case ".md":
		err = r.WriteMarkdown(b)
	case ".csv":
		err = WriteCSV(b, r.File, r.history)
	case ".json":
		enc := json.NewEncoder(b)
		enc.SetIndent("", " ")
		err = enc.Encode(r.Outcome)
	default:
		says := append([]string{r.Sentence, "Command: " + r.Line}, r.Why...)
		if r.LeftOut != "" {
			says = append(says, r.LeftOut)
		}
		if r.Predicted != "" {
			says = append([]string{"Predicted, not measured: " + r.Predicted + "."}, says...)
		}
		err = page.Write(b, r.entries, page.Options{Title: "Tuning " + r.File.Name, Says: says, Explain: r.sections(), GroupBy: []string{"trial"}})
	}
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write a report: %w", err)
	}
	return nil
}

// sections are the tables of the report as sentences.
func (r *Report) sections() []page.Section {
	front := page.Section{Title: "Frontier: throughput per GPU against p99 TTFT"}
	for i := range r.Frontier {
		o := &r.Frontier[i]
		front.Sentences = append(front.Sentences, fmt.Sprintf("Trial %d: %s (%s)", o.Trial, r.File.Place(o), r.File.Short(o)))
	}
	weights := page.Section{Title: "What mattered"}
	if len(r.Weights) > 0 {
		weights.Sentences = append(weights.Sentences, "By "+r.Weighed+".")
	}
	for _, w := range r.Weights {
		weights.Sentences = append(weights.Sentences, fmt.Sprintf("%s: %.0f %% of the differences (%.0f to %.0f), best at %s", w.Name, 100*w.Share, 100*w.Low, 100*w.High, w.Best))
	}
	if why := r.WhatMattered(); why != "" {
		weights.Sentences = append(weights.Sentences, why)
	}
	failed := page.Section{Title: "Failed starts"}
	for i := range r.Trials {
		if f := r.Trials[i].Failure; f != nil {
			failed.Sentences = append(failed.Sentences, fmt.Sprintf("Trial %d (%s): %s", r.Trials[i].Trial, f.Kind, strings.TrimSpace(f.Line)))
		}
	}
	out := []page.Section{front, weights}
	if len(failed.Sentences) > 0 {
		out = append(out, failed)
	}
	return out
}
