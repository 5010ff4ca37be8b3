package view

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"spate/internal/console"
	"spate/internal/figure"
	"spate/internal/judge/compare"
	"spate/internal/nearest"
	"spate/internal/result"
	"spate/internal/result/store"
	"spate/internal/safe/escape"
	"spate/internal/view/table"
)

// Compare is `spate compare A B [C...]`.
type Compare struct {
	baseline   string
	regression string
	thresholds []string
	failUnsure bool
	format     string
	metrics    []string
	margin     string
	force      bool
	noiseFile  string
	noNoise    bool
	learn      bool
	store      string
	by         string

	share float64
	gate  compare.Thresholds
}

// formats of a comparison.
var compareFormats = []string{"text", "json", "markdown", "junit", "github"}

// Bind adds the flags to a set.
func (o *Compare) Bind(f *pflag.FlagSet) {
	f.StringVar(&o.baseline, "baseline", "", "compare all others with this result, and act as a gate (exit code 3 on a regression)")
	f.StringVar(&o.by, "by", "", "compare the values of one `setting` under equal conditions: backend, gpu, version, a label or a server flag; --baseline is then one of its values")
	f.StringVar(&o.regression, "max-regression", "", "how much worse any metric may get, such as 5%")
	f.StringArrayVar(&o.thresholds, "threshold", nil, "how much worse one metric, or one latency, may get: mean_ttft_ms=10%, tpot=5%; may be repeated")
	f.BoolVar(&o.failUnsure, "fail-unsure", false, "the gate also fails where a regression larger than allowed could have been missed")
	f.StringVar(&o.format, "format", "text", "text, json, markdown, junit, or github (annotations and a summary)")
	f.StringSliceVar(&o.metrics, "metrics", nil, "metrics to compare, such as ttft,p90_tpot_ms,output_throughput")
	f.StringVar(&o.margin, "margin", "2%", "differences up to this share count as the same")
	f.BoolVar(&o.force, "force", false, "compare results that are not comparable, with a warning")
	f.StringVar(&o.noiseFile, "noise-file", "", "where the noise of equal runs is kept; by default in the user's state folder")
	f.BoolVar(&o.noNoise, "no-noise-floor", false, "use no learned noise floor")
	f.BoolVar(&o.learn, "learn-noise", false, "treat the given results as equal runs, and store how much they differ as noise")
	f.StringVar(&o.store, "store", "", store.Help)
}

// Check wants results to compare.
func (o *Compare) Check(args []string) error {
	need := 2
	if o.baseline != "" || o.learn || o.by != "" {
		need = 1
	}
	if len(args) < need {
		return fmt.Errorf("%s named, at least %d needed", figure.Counted(len(args), "result"), need)
	}
	return nil
}

// Run compares results, or learns what equal ones differ by.
func (o *Compare) Run(ctx context.Context, p console.Process, refs []string) error {
	if err := o.read(); err != nil {
		return console.Usage("spate compare", err)
	}
	if o.by != "" {
		return o.pivot(ctx, p, refs)
	}
	return o.sides(ctx, p, refs)
}

// read turns texts into numbers.
func (o *Compare) read() error {
	known := false
	for _, f := range compareFormats {
		known = known || f == o.format
	}
	if !known {
		return fmt.Errorf("--format: %q is not one of %s%s", o.format, strings.Join(compareFormats, ", "), nearest.Hint(o.format, compareFormats))
	}
	var err error
	if o.share, err = compare.ParseShare(o.margin); err != nil {
		return fmt.Errorf("--margin: %w", err)
	}
	if o.share == 0 {
		o.share = 1e-9 // an interval is never within nothing
	}
	if o.regression != "" {
		share, err := compare.ParseShare(o.regression)
		if err != nil {
			return fmt.Errorf("--max-regression: %w", err)
		}
		o.gate = append(o.gate, compare.Threshold{Max: share})
	}
	for _, text := range o.thresholds {
		t, err := compare.ParseThreshold(text)
		if err != nil {
			return fmt.Errorf("--threshold: %w", err)
		}
		o.gate = append(o.gate, t)
	}
	return nil
}

// pivot sets the values of one setting side by side, a row for each condition that the results share.
func (o *Compare) pivot(ctx context.Context, p console.Process, refs []string) error {
	if o.format != "text" && o.format != "markdown" {
		return console.Usage("spate compare", fmt.Errorf("--by prints text or markdown, not %s", o.format))
	}
	set, err := store.Find(ctx, p, o.store, refs)
	if err != nil {
		return err
	}
	pivot, err := table.NewPivot(set, o.by, o.baseline, o.metrics)
	if err != nil {
		return console.Usage("spate compare", err)
	}
	var b bytes.Buffer
	if o.format == "markdown" {
		err = pivot.WriteMarkdown(&b)
	} else {
		err = pivot.WriteText(&b)
	}
	for _, s := range pivot.Says() {
		if o.format == "markdown" {
			b.WriteString("- ")
		}
		b.WriteString(escape.Sentence(s) + "\n")
	}
	if err == nil {
		_, err = p.Stdout.Write(b.Bytes())
	}
	if err != nil {
		return fmt.Errorf("write the comparison: %w", err)
	}
	return nil
}

// gated reports whether the exit code depends on the outcome.
func (o *Compare) gated() bool { return o.baseline != "" || len(o.gate) > 0 }

// sides finds what is compared.
func (o *Compare) sides(ctx context.Context, p console.Process, refs []string) (err error) {
	if o.baseline != "" {
		refs = append([]string{o.baseline}, refs...)
	}
	find, err := store.NewFinder(p, o.store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, find.Close()) }()
	sides := make([]compare.Side, len(refs))
	for i, ref := range refs {
		entries, err := find.Resolve(ctx, []string{ref})
		if err != nil {
			return err
		}
		sides[i] = compare.Side{Name: ref, Samples: samples(entries)}
	}
	find.Tell(p)
	shortNames(sides)
	if o.learn {
		var all []compare.Sample
		for _, s := range sides {
			all = append(all, s.Samples...)
		}
		return compare.NoiseOf(o.noiseFile, p.Getenv, p.ReadFile).Learn(p.Stdout, all, time.Now())
	}
	return o.compare(p, sides)
}

func samples(entries []result.Entry) []compare.Sample {
	out := make([]compare.Sample, len(entries))
	for i := range entries {
		out[i].Entry = entries[i]
	}
	return out
}

// shortNames calls sides by the last part of their path, where that tells them apart.
func shortNames(sides []compare.Side) {
	count := map[string]int{}
	for _, s := range sides {
		count[filepath.Base(s.Name)]++
	}
	for i := range sides {
		if base := filepath.Base(sides[i].Name); count[base] == 1 && base != "." && base != string(filepath.Separator) {
			sides[i].Name = base
		}
	}
}

// compare compares, prints and decides.
func (o *Compare) compare(p console.Process, sides []compare.Side) error {
	opt := compare.Options{Metrics: o.metrics, Margin: o.share, Force: o.force, Thresholds: o.gate}
	if !o.noNoise {
		noise, err := compare.NoiseOf(o.noiseFile, p.Getenv, p.ReadFile).Read()
		if err != nil {
			return err
		}
		opt.Noise = noise
	}
	rep, err := compare.Compare(sides[0], sides[1:], opt)
	if err != nil {
		return err
	}
	if o.gated() {
		rep.Hold(o.gate, o.failUnsure)
	}
	if err := o.print(p, rep); err != nil {
		return fmt.Errorf("write the comparison: %w", err)
	}
	if rep.Gate != nil && !rep.Gate.Passed {
		p.Say("spate compare: %s\n", rep.Gate.Why)
		return console.Exit(console.ExitUnmet)
	}
	return nil
}

func (o *Compare) print(p console.Process, rep *compare.Report) error {
	switch o.format {
	case "json":
		return rep.WriteJSON(p.Stdout)
	case "markdown":
		return rep.WriteMarkdown(p.Stdout)
	case "junit":
		return rep.WriteJUnit(p.Stdout)
	case "github":
		return printGitHub(p, rep)
	}
	return rep.WriteText(p.Stdout)
}

// printGitHub prints annotations, and the page to where a workflow shows it; outside of one, below them.
func printGitHub(p console.Process, rep *compare.Report) error {
	if err := rep.WriteAnnotations(p.Stdout); err != nil {
		return err
	}
	file := p.Getenv("GITHUB_STEP_SUMMARY")
	if file == "" {
		return rep.WriteMarkdown(p.Stdout)
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open the step summary: %w", err)
	}
	return errors.Join(rep.WriteMarkdown(f), f.Close())
}
