package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"spate/internal/console"
	"spate/internal/figure"
	"spate/internal/judge/compare"
	"spate/internal/result"
	"spate/internal/result/store"
	"spate/internal/safe/escape"
	"spate/internal/settings/config"
	"spate/internal/view/table"
)

// compareOptions are the flags of `spate compare`.
type compareOptions struct {
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

// newCompare is `spate compare A B [C...]`.
func newCompare(p Process) *cobra.Command {
	o := &compareOptions{}
	cmd := &cobra.Command{
		Use:   "compare [flags] A B [C...]",
		Short: "Compare results: better, same, worse or cannot tell",
		Long: `Compare results with the first one, or with --baseline: run folders, folders of repeated runs, files of any kind
spate import reads, ids and queries of the store. Every metric gets a verdict (better, same, worse or cannot
tell), the change with its 95 % interval, and the smallest difference these samples could have shown.

Two runs with their requests are compared by resampling blocks of them; repeats by how far runs lie apart.
Figures alone support no verdict. Results that do not mean the same (another workload, other token counting,
another tool's definitions, predicted against measured, an INVALID run) are refused, unless --force.

With --baseline or a threshold it is a gate: exit code 3 and one line saying why when something got worse.
A noise floor learned from equal runs (--learn-noise, or bench --interleave with equal arms) is used where
there is one for the host, server and workload: a difference below it is no difference.`,
		Example: `  spate compare spate-runs/before spate-runs/after        two runs, or two folders of repeats
  spate compare label:build=41 label:build=42             all runs with a label against those with another
  spate compare --baseline old --max-regression 5% new    a gate: exit code 3 when anything got 5 % worse
  spate compare --threshold ttft=10% --format junit A B   for a CI server
  spate compare --by backend vllm.md sglang.md            engines side by side, a row for each model and workload
  spate compare --learn-noise spate-runs/a*               what equal runs differ by on this machine`,
		Args: func(_ *cobra.Command, args []string) error {
			need := 2
			if o.baseline != "" || o.learn || o.by != "" {
				need = 1
			}
			if len(args) < need {
				return fmt.Errorf("%s named, at least %d needed", figure.Counted(len(args), "result"), need)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, refs []string) error {
			if err := o.read(); err != nil {
				return console.Usage("spate compare", err)
			}
			if o.by != "" {
				return o.pivot(cmd.Context(), p, refs)
			}
			return runCompareRefs(cmd.Context(), p, o, refs)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.baseline, "baseline", "", "compare everything named with this result, and be a gate")
	f.StringVar(&o.by, "by", "", "compare the values of one `setting` under equal conditions: backend, gpu, version, a label or a server flag; --baseline is then one of its values")
	f.StringVar(&o.regression, "max-regression", "", "how much worse any metric may get, such as 5%")
	f.StringArrayVar(&o.thresholds, "threshold", nil, "how much worse one metric, or one latency, may get: mean_ttft_ms=10%, tpot=5%; may be repeated")
	f.BoolVar(&o.failUnsure, "fail-unsure", false, "the gate also fails where more than is allowed could have been missed")
	f.StringVar(&o.format, "format", "text", "text, json, markdown, junit, or github (annotations and a summary)")
	f.StringSliceVar(&o.metrics, "metrics", nil, "metrics to compare, such as ttft,p90_tpot_ms,output_throughput")
	f.StringVar(&o.margin, "margin", "2%", "differences within it count as the same")
	f.BoolVar(&o.force, "force", false, "compare what is not comparable, and say so")
	f.StringVar(&o.noiseFile, "noise-file", "", "where the noise of equal runs is kept; by default in the user's state folder")
	f.BoolVar(&o.noNoise, "no-noise-floor", false, "use no learned noise floor")
	f.BoolVar(&o.learn, "learn-noise", false, "take the results named as equal runs, and keep what they differ by")
	f.StringVar(&o.store, "store", "", store.Help)
	return cmd
}

// read turns texts into numbers.
func (o *compareOptions) read() error {
	known := false
	for _, f := range compareFormats {
		known = known || f == o.format
	}
	if !known {
		return fmt.Errorf("--format: %q is not one of %s%s", o.format, strings.Join(compareFormats, ", "), config.DidYouMean(o.format, compareFormats))
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
func (o *compareOptions) pivot(ctx context.Context, p Process, refs []string) error {
	if o.format != "text" && o.format != "markdown" {
		return console.Usage("spate compare", fmt.Errorf("--by prints text or markdown, not %s", o.format))
	}
	set, err := store.Find(ctx, p, o.store, refs)
	if err != nil {
		return err
	}
	table, err := table.NewPivot(set, o.by, o.baseline, o.metrics)
	if err != nil {
		return console.Usage("spate compare", err)
	}
	var b bytes.Buffer
	if o.format == "markdown" {
		err = table.WriteMarkdown(&b)
	} else {
		err = table.WriteText(&b)
	}
	for _, s := range table.Says() {
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
func (o *compareOptions) gated() bool { return o.baseline != "" || len(o.gate) > 0 }

func runCompareRefs(ctx context.Context, p Process, o *compareOptions, refs []string) (err error) {
	if o.baseline != "" {
		refs = append([]string{o.baseline}, refs...)
	}
	where, err := store.Locate(o.store, p.Getenv)
	if err != nil {
		return err
	}
	find := &store.Finder{Where: where, Stdin: p.Stdin}
	defer func() { err = errors.Join(err, find.Close()) }()
	sides := make([]compare.Side, len(refs))
	for i, ref := range refs {
		entries, err := find.Resolve(ctx, []string{ref})
		if err != nil {
			return err
		}
		sides[i] = compare.Side{Name: ref, Samples: samples(entries)}
	}
	for _, problem := range find.Problems {
		if problem.Bad() {
			p.Say("%s\n", problem)
		}
	}
	shortNames(sides)
	if o.learn {
		var all []compare.Sample
		for _, s := range sides {
			all = append(all, s.Samples...)
		}
		return noise(p, o.noiseFile).Learn(p.Stdout, all, time.Now())
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
func (o *compareOptions) compare(p Process, sides []compare.Side) error {
	opt := compare.Options{Metrics: o.metrics, Margin: o.share, Force: o.force, Thresholds: o.gate}
	if !o.noNoise {
		noise, err := noise(p, o.noiseFile).Read()
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
		return console.Exit(ExitUnmet)
	}
	return nil
}

func (o *compareOptions) print(p Process, rep *compare.Report) error {
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
func printGitHub(p Process, rep *compare.Report) error {
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

// noise is the file in which the noise of equal runs is kept.
func noise(p Process, said string) *compare.NoiseFile {
	return &compare.NoiseFile{Path: compare.NoisePath(said, p.Getenv), ReadFile: p.ReadFile}
}
