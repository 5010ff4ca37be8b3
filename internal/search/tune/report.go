package tune

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"spate/internal/judge/verdict"
	"spate/internal/result"
	"spate/internal/safe/escape"
)

// Report is what a page about a search says besides its numbers.
type Report struct {
	*Outcome
	Predicted string   // by which simulator; empty: measured
	Why       []string // why the winner wins, and what limited it
	Notes     []string

	history []Observation
	entries []result.Entry
}

// WriteMarkdown writes the report as a page.
func (r *Report) WriteMarkdown(w io.Writer) error {
	b := &strings.Builder{}
	title := r.File.Name
	if title == "" {
		title = "server flags"
	}
	fmt.Fprintf(b, "# Tuning %s\n\n", escape.Markdown(title))
	if r.Predicted != "" {
		fmt.Fprintf(b, "Predicted, not measured: %s.\n\n", r.Predicted)
	}
	fmt.Fprintf(b, "%s\n\n", escape.Sentence(r.Sentence))
	r.winner(b)
	r.facts(b)
	r.trials(b)
	r.frontierTable(b)
	r.importance(b)
	r.failures(b)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

func (r *Report) winner(b *strings.Builder) {
	if r.Winner == nil {
		return
	}
	fmt.Fprintf(b, "```sh\n%s\n```\n\n", r.Line)
	for _, s := range r.Why {
		fmt.Fprintf(b, "- %s\n", escape.Sentence(s))
	}
	if len(r.Why) > 0 {
		b.WriteByte('\n')
	}
}

// Tried says how many servers were started; in a prediction none was.
func (r *Report) Tried() string {
	if r.Predicted != "" {
		return fmt.Sprintf("%d settings simulated", r.Starts)
	}
	return fmt.Sprintf("%d servers started", r.Starts)
}

func (r *Report) facts(b *strings.Builder) {
	f := r.File
	fmt.Fprintf(b, "- Objective: %s %s\n", map[bool]string{true: "the smallest", false: "the largest"}[f.Objective.Smaller], f.Objective.Title())
	for _, c := range f.limits {
		fmt.Fprintf(b, "- Constraint: %s\n", escape.Markdown(c.Text))
	}
	if r.Knee != nil && r.Knee.Rate > 0 {
		fmt.Fprintf(b, "- Knee of the default: %.3g requests per second (above it: %s); trials were made at %.3g\n", r.Knee.Rate, r.Knee.Why, r.Rate)
	}
	in := "in " + duration(r.SpentS)
	if r.Predicted != "" {
		in = "which would take " + duration(r.SpentS) + " with real servers"
	}
	if r.LeftOut != "" {
		fmt.Fprintf(b, "- %s\n", r.LeftOut)
	}
	fmt.Fprintf(b, "- %s %s, %d failed; %d of the settings came from the simulator\n", r.Tried(), in, r.Failed, r.Seeds)
	if r.Doubt != "" {
		fmt.Fprintf(b, "- %s%s\n", strings.ToUpper(r.Doubt[:1]), r.Doubt[1:])
	}
	if r.Drift != nil {
		fmt.Fprintf(b, "- Drift: the default's own measurements lie %.3g %% apart\n", *r.Drift)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(b, "- %s\n", escape.Sentence(n))
	}
	b.WriteByte('\n')
}

func (r *Report) trials(b *strings.Builder) {
	b.WriteString("## Trials\n\n| trial | requests | verdict | " + r.File.Objective.Title() + " | failed | out tok/s | p99 TTFT ms | p99 TPOT ms | meets | settings |\n|---:|---:|---|---:|---:|---:|---:|---:|---|---|\n")
	for i := range r.Trials {
		o := &r.Trials[i]
		if o.Failure != nil {
			continue
		}
		meets := "yes"
		if o.Violation > 0 {
			meets = escape.Markdown(strings.Join(o.Missed, ", "))
		}
		name := strconv.Itoa(o.Trial)
		if r.Winner != nil && o.Trial == r.Winner.Trial {
			name = "**" + name + "**"
		}
		fmt.Fprintf(b, "| %s | %.3g %% | %s | %.4g | %.4g | %.4g | %.4g | %.4g | %s | %s |\n", name, 100*o.Share, r.grade(o), o.Value, failed(o), sumFigures(o, "output_throughput"),
			sumFigures(o, "p99_ttft_ms"), sumFigures(o, "p99_tpot_ms"), meets, escape.Markdown(r.File.Short(o)))
	}
	b.WriteByte('\n')
}

// grade is the verdict of a trial's runs, the worst of them.
func (r *Report) grade(o *Observation) string {
	if r.Predicted != "" {
		return "predicted"
	}
	worst := ""
	for _, g := range []verdict.Grade{verdict.Valid, verdict.SuspectRun, verdict.InvalidRun} {
		if slices.ContainsFunc(o.Runs, func(m Measured) bool { return m.Grade == string(g) }) {
			worst = string(g)
		}
	}
	return cmp.Or(worst, o.Early, "-")
}

// failed is how many requests of a trial's runs failed.
func failed(o *Observation) float64 {
	sum := 0.0
	for _, m := range o.Runs {
		sum += m.Figures["failed"]
	}
	return sum
}

// Short are a trial's settings where they differ from the default.
func (f *File) Short(o *Observation) string {
	if o.Trial == 0 {
		return "default"
	}
	def := f.Defaults()
	var out []string
	for i := range f.Knobs {
		name := f.Knobs[i].Name
		if v, ok := o.Settings[name]; ok && v != def[name] {
			out = append(out, name+"="+v)
		}
	}
	if o.Share < 1 {
		out = append(out, fmt.Sprintf("(%.0f %% of the length)", 100*o.Share))
	}
	if len(out) == 0 {
		return "the default's settings, written out"
	}
	return strings.Join(out, " ")
}

func (r *Report) frontierTable(b *strings.Builder) {
	if len(r.Frontier) == 0 {
		return
	}
	b.WriteString("## Frontier\n\nNo other trial has both more per GPU and a lower p99 TTFT.\n\n| trial | good req/s per GPU | out tok/s per GPU | p99 TTFT ms | GPU memory GiB | GPU power W | USD per million | settings |\n|---:|---:|---:|---:|---:|---:|---:|---|\n")
	for i := range r.Frontier {
		o := &r.Frontier[i]
		gpus := float64(r.File.GPUs(o.Settings))
		fmt.Fprintf(b, "| %d | %s | %.4g | %.4g | %s | %s | %s | %s |\n", o.Trial, orDash(sumFigures(o, "request_goodput")/gpus), sumFigures(o, "output_throughput")/gpus,
			sumFigures(o, frontierLatency), orDash(o.MemoryGiB), orDash(o.PowerW), orDash(r.File.cost(o)), escape.Markdown(r.File.Short(o)))
	}
	b.WriteByte('\n')
}

func orDash(v float64) string {
	if v <= 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return "-"
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// cost is what a million tokens of answers cost; 0 where no price is known.
func (f *File) cost(o *Observation) float64 {
	if f.Price <= 0 {
		return 0
	}
	return f.Price * float64(f.GPUs(o.Settings)) / 3600 / sumFigures(o, "output_throughput") * 1e6
}

// Place describes in words where a trial is on a frontier.
func (f *File) Place(o *Observation) string {
	gpus := float64(f.GPUs(o.Settings))
	text := fmt.Sprintf("%.4g output tokens per second and GPU at a p99 TTFT of %.4g ms", sumFigures(o, "output_throughput")/gpus, sumFigures(o, frontierLatency))
	for _, more := range []struct {
		v    float64
		text string
	}{{sumFigures(o, "request_goodput") / gpus, "good requests per second and GPU"}, {o.MemoryGiB, "GiB of GPU memory"}, {o.PowerW, "W"}, {f.cost(o), "USD per million output tokens"}} {
		if orDash(more.v) != "-" {
			text += ", " + orDash(more.v) + " " + more.text
		}
	}
	return text
}

func (r *Report) importance(b *strings.Builder) {
	if why := r.WhatMattered(); why != "" {
		fmt.Fprintf(b, "## What mattered\n\n%s\n\n", why)
		return
	}
	fmt.Fprintf(b, "## What mattered\n\nHow much of the differences between %s each flag accounts for by itself.\n\n", r.Weighed)
	b.WriteString("| flag | share | 90 % interval | best values |\n|---|---:|---|---|\n")
	for _, w := range r.Weights {
		fmt.Fprintf(b, "| %s | %.0f %% | %.0f to %.0f %% | %s |\n", escape.Markdown(w.Name), 100*w.Share, 100*w.Low, 100*w.High, escape.Markdown(w.Best))
	}
	b.WriteByte('\n')
}

func (r *Report) failures(b *strings.Builder) {
	said := false
	for i := range r.Trials {
		o := &r.Trials[i]
		if o.Failure == nil {
			continue
		}
		if !said {
			b.WriteString("## Failed\n\n")
			said = true
		}
		fmt.Fprintf(b, "- trial %d (%s): %s\n  %s\n", o.Trial, o.Failure.Kind, escape.Code(o.Failure.Line), escape.Code(o.Failure.Command))
	}
	if said {
		b.WriteByte('\n')
	}
}

func duration(s float64) string {
	return time.Duration(math.Round(s) * float64(time.Second)).String()
}

// WriteCSV writes a line for every observation: what it was for, its settings, its figures.
func WriteCSV(w io.Writer, f *File, history []Observation) error {
	head := []string{"n", "phase", "trial", "round", "share", "rate", "workload", "score", "value", "violation", "failure", "error", "ended_early", "verdict", "gpu_memory_gib", "gpu_power_w", "took_s", "start_s"}
	for i := range f.Knobs {
		head = append(head, f.Knobs[i].Name)
	}
	names := map[string]bool{}
	for i := range history {
		for _, r := range history[i].Runs {
			for k := range r.Figures {
				names[k] = true
			}
		}
	}
	figs := slices.Sorted(maps.Keys(names))
	out := escape.NewCSV(w)
	if err := out.Write(append(append(head, figs...), "run", "command")); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	for i := range history {
		o := &history[i]
		list := o.Runs
		if len(list) == 0 {
			list = []Measured{{}}
		}
		for _, m := range list {
			if err := out.Write(csvRow(f, o, &m, figs)); err != nil {
				return fmt.Errorf("write CSV: %w", err)
			}
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return nil
}

func csvRow(f *File, o *Observation, m *Measured, figs []string) []string {
	num := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	kind, line := "", ""
	if o.Failure != nil {
		kind, line = string(o.Failure.Kind), o.Failure.Line
	}
	rate := num(o.Rate)
	if o.Rate == Burst {
		rate = "inf"
	}
	row := []string{
		strconv.Itoa(o.N), string(o.Phase), strconv.Itoa(o.Trial), strconv.Itoa(o.Round), num(o.Share), rate, m.Workload, num(o.Score), num(o.Value),
		num(o.Violation), kind, line, o.Early, m.Grade, num(o.MemoryGiB), num(o.PowerW), num(o.TookS), num(o.StartS),
	}
	for i := range f.Knobs {
		row = append(row, o.Settings[f.Knobs[i].Name])
	}
	for _, name := range figs {
		v, ok := m.Figures[name]
		text := ""
		if ok {
			text = num(v)
		}
		row = append(row, text)
	}
	return append(row, m.Run, o.Command)
}

// shownWhy are the figures that tell why one setting is better than another.
var shownWhy = []struct{ name, text string }{
	{"output_throughput", "output tokens per second"},
	{"request_goodput", "good requests per second"},
	{"p99_ttft_ms", "p99 TTFT in ms"},
	{"mean_tpot_ms", "mean time per output token in ms"},
	{"preemptions", "preemptions"},
	{"running", "requests in a step"},
	{"waiting", "requests waiting"},
	{"kv_usage_pct", "KV cache in use, percent"},
}

// Differences are the figures in which the winner differs from the default, as sentences.
func (r *Report) Differences() []string {
	var out []string
	for _, f := range shownWhy {
		a, b := sumFigures(r.Default, f.name), sumFigures(r.Winner, f.name)
		if a == b || a != 0 && math.Abs(b/a-1) < r.File.Margin {
			continue
		}
		out = append(out, fmt.Sprintf("%s: %.4g instead of %.4g", f.text, b, a))
	}
	return out
}
