package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"spate/internal/judge/compare"
	"spate/internal/judge/explain"
	"spate/internal/result"
	"spate/internal/result/harvest"
	"spate/internal/result/runs"
	"spate/internal/search/tune"
	"spate/internal/view/page"
)

// conclude prints what the search came to, and writes its files into the folder.
func (h *hunted) conclude(ctx context.Context, d *tune.Folder, predicted string) error {
	out := h.tuner.Conclude(d.History)
	r := &tune.Report{Outcome: out, Predicted: predicted}
	if out.Winner == nil {
		return fmt.Errorf("nothing could be measured%s", lastFailure(d.History))
	}
	entries := h.entries(d)
	if predicted != "" {
		entries = h.supposed(d)
	}
	h.why(r, d, entries)
	if h.o.dir != "" || predicted == "" {
		if err := h.files(d, r, entries); err != nil {
			return err
		}
	}
	for _, path := range h.o.outputs {
		if err := h.write(path, d, r, entries); err != nil {
			return err
		}
		say(h.p.Stderr, "wrote %s\n", path)
	}
	if predicted == "" && len(entries) > 0 {
		h.p.keepRuns(ctx, h.o.noStore, h.f.Workloads[0].Args, entries)
	}
	if h.o.json {
		return writeIndented(h.p, out)
	}
	return h.print(r)
}

func lastFailure(history []tune.Observation) string {
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

// print is the outcome for a terminal.
func (h *hunted) print(r *tune.Report) error {
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
		fmt.Fprintf(b, "What mattered:")
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
	if _, err := h.p.Stdout.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	return nil
}

// entries are the results of the search's runs.
func (h *hunted) entries(d *tune.Folder) []runs.Entry {
	var out []runs.Entry
	for i := range d.History {
		for _, m := range d.History[i].Runs {
			if m.Run == "" {
				continue
			}
			if run, err := result.Open(m.Run); err == nil {
				out = append(out, runs.FromRun(run))
			}
		}
	}
	return out
}

// supposed are the steps of a search in virtual time as results: figures, and the settings they were made with.
func (h *hunted) supposed(d *tune.Folder) []runs.Entry {
	var out []runs.Entry
	for i := range d.History {
		o := &d.History[i]
		for _, m := range o.Runs {
			e := runs.Entry{ID: o.Key(), Name: o.Name(), Labels: map[string]string{
				runs.PredictedLabel: "true", "trial": strconv.Itoa(o.Trial), "phase": string(o.Phase), "workload": m.Workload, "label": o.Name(),
			}}
			if len(o.Runs) > 1 {
				e.ID += "-" + m.Workload
			}
			if o.Rate > 0 && o.Rate != tune.Burst {
				e.Labels["request_rate"] = strconv.FormatFloat(o.Rate, 'g', -1, 64)
			}
			for k, v := range o.Settings {
				e.Labels[k] = v
			}
			e.Result.EngineLog = []harvest.EngineSample{}
			for _, name := range slices.Sorted(maps.Keys(m.Figures)) {
				e.Result.Metrics = append(e.Result.Metrics, harvest.Figure{Name: name, Text: strconv.FormatFloat(m.Figures[name], 'g', -1, 64)})
			}
			out = append(out, e)
		}
	}
	return out
}

// why explains the winner beside the default: by what limited each, and by comparing their runs.
func (h *hunted) why(r *tune.Report, d *tune.Folder, entries []runs.Entry) {
	if r.Winner.Trial != 0 && r.Default != nil {
		r.Why = append(r.Why, r.Differences()...)
	}
	side := func(trial int) (s compare.Side) {
		s.Name = map[bool]string{true: "default", false: "winner"}[trial == 0]
		for i := range d.History {
			o := &d.History[i]
			if o.Phase != tune.Final || o.Trial != trial || !o.Counts() {
				continue
			}
			for _, m := range o.Runs {
				at := slices.IndexFunc(entries, func(e runs.Entry) bool { return e.Run != nil && e.Run.Dir == m.Run })
				if at >= 0 && m.Workload == h.f.Workloads[0].Name {
					s.Samples = append(s.Samples, compare.Sample{Entry: entries[at]})
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
		if causes := explain.Brief(&e.Result, e.Run); len(causes) > 0 {
			r.Why = append(r.Why, fmt.Sprintf("the %s was limited so: %s", s.Name, causes[0].Sentence))
		}
	}
	rep, err := compare.Compare(a, []compare.Side{b}, compare.Options{Margin: h.f.Margin, Force: true})
	if err == nil && len(rep.Comparisons) > 0 {
		r.Why = append(r.Why, "as spate compare has it: "+rep.Comparisons[0].Sentence)
	}
}

// files leaves the reports and the winner's files in the folder.
func (h *hunted) files(d *tune.Folder, r *tune.Report, entries []runs.Entry) error {
	for _, name := range []string{"report.md", "report.html", "trials.csv", "outcome.json"} {
		if err := h.write(filepath.Join(d.Dir, name), d, r, entries); err != nil {
			return err
		}
	}
	dir := filepath.Join(d.Dir, "winner")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make a folder for the winner: %w", err)
	}
	list, err := h.f.Deploy(r.Winner.Settings)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(list[name]), 0o600); err != nil {
			return fmt.Errorf("write the winner's files: %w", err)
		}
	}
	say(h.p.Stderr, "reports are in %s; the winner as a command, a systemd unit, a compose file and Helm values in %s\n", d.Dir, dir)
	return nil
}

// write writes one report, by the ending of its name.
func (h *hunted) write(path string, d *tune.Folder, r *tune.Report, entries []runs.Entry) error {
	b := &bytes.Buffer{}
	var err error
	switch filepath.Ext(path) {
	case ".md":
		err = r.WriteMarkdown(b)
	case ".csv":
		err = tune.WriteCSV(b, h.f, d.History)
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
		err = page.Write(b, entries, page.Options{Title: "Tuning " + h.f.Name, Says: says, Explain: h.sections(r), GroupBy: []string{"trial"}})
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
func (h *hunted) sections(r *tune.Report) []page.Section {
	front := page.Section{Title: "Frontier: throughput per GPU against p99 TTFT"}
	for i := range r.Frontier {
		o := &r.Frontier[i]
		front.Sentences = append(front.Sentences, fmt.Sprintf("Trial %d: %s (%s)", o.Trial, h.f.Place(o), h.f.Short(o)))
	}
	weights := page.Section{Title: "What mattered"}
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
