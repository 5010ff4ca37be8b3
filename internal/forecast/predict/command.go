package predict

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"spate/internal/call/recorder"
	"spate/internal/console"
	"spate/internal/forecast/profile"
	"spate/internal/result"
	"spate/internal/settings/flags"
)

// Command is `spate predict`. Beside its own flags it takes those of bench.
type Command struct {
	Block func(w io.Writer, run *result.Run) error // prints a run as a measured one

	validate       string
	compare        string
	profile        string
	profiles       []string
	json           bool
	intervals      bool
	list           bool
	noFolder       bool
	seed           uint64
	override       profile.Override
	noPrefix       bool
	yesPrefix      bool
	log            string
	*flags.Divided // bench and override flags that were given several values are a grid
}

// Flags are those of predict itself.
func (o *Command) Flags() *pflag.FlagSet {
	f := flags.NewSet("predict")
	f.StringVar(&o.profile, "sim", "", "simulated engine to predict with: a `NAME` (see --list), a file, or model@gpu such as Qwen3-8B@H100-SXM, which is not calibrated")
	f.StringVar(&o.validate, "validate", "", "rows file to replay and compare with")
	f.StringVar(&o.compare, "compare", "", "run folder to predict and compare with")
	f.StringArrayVar(&o.profiles, "profile-files", nil, "profile file, or folder of them, instead of those in the binary")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.BoolVar(&o.intervals, "intervals", true, "add what other parameters within noise predict (never with --validate unless asked for)")
	f.BoolVar(&o.list, "list", false, "list the profiles")
	f.BoolVar(&o.noFolder, "no-run-folder", false, "keep no run folder")
	f.StringVar(&o.log, "engine-log", "", "write the log the engine would write to this file: its start, and every step")
	f.Uint64Var(&o.seed, "sim-seed", 0, "seed of the random numbers of the simulation")
	f.IntVar(&o.override.MaxSeqs, "max-num-seqs", 0, "sequences in a step, other than the profile's")
	f.IntVar(&o.override.MaxTokens, "max-num-batched-tokens", 0, "tokens in a step, other than the profile's")
	f.IntVar(&o.override.MaxModelLen, "max-model-len", 0, "longest context, other than the profile's")
	f.IntVar(&o.override.KVTokens, "kv-cache-tokens", 0, "size of the KV cache in tokens, other than the profile's")
	f.IntVar(&o.override.TP, "tensor-parallel-size", 0, "GPUs that share every layer, other than the profile's")
	f.BoolVar(&o.yesPrefix, "enable-prefix-caching", false, "reuse the KV of common prompt beginnings")
	f.BoolVar(&o.noPrefix, "no-enable-prefix-caching", false, "turn prefix caching off")
	flags.Rename(f, map[string]string{"profile": "sim", "profiles": "profile-files"})
	return f
}

// gridFlags are the flags of bench that may be given several values.
var gridFlags = []string{
	"num-prompts", "request-rate", "max-concurrency", "input-len", "output-len", "random-input-len", "random-output-len",
	"random-range-ratio", "random-prefix-len", "burstiness", "seed",
}

// Run does what a command line asks for; own are the flags that Flags made.
func (o *Command) Run(_ context.Context, p console.Process, own *pflag.FlagSet, args []string) (err error) {
	if o.Divided, err = flags.Divide(own, args, gridFlags...); err != nil {
		return console.Usage("spate predict", err)
	}
	profiles, err := profile.Read(p.ReadNamed, o.profiles)
	if err != nil {
		return err
	}
	switch {
	case o.list:
		return console.Wrote(profile.WriteList(p.Stdout, profiles))
	case o.validate != "":
		return o.runValidate(p, own, profiles)
	case o.profile == "":
		return console.Usage("spate predict", errors.New("no server to predict: give --sim NAME (spate predict --list shows them) or --validate ROWS"))
	}
	prof, err := profile.Named(p.ReadNamed, profiles, o.profile)
	if err != nil {
		return err
	}
	switch {
	case o.yesPrefix:
		o.override.PrefixCaching = &o.yesPrefix
	case o.noPrefix:
		off := false
		o.override.PrefixCaching = &off
	}
	if o.compare != "" {
		return o.runCompare(p, prof)
	}
	if len(o.Lists) > 0 {
		return o.runGrid(p, prof)
	}
	return o.runOne(p, prof)
}

func (o *Command) runValidate(p console.Process, own *pflag.FlagSet, profiles []*profile.Profile) error {
	data, err := p.ReadNamed(o.validate)
	if err != nil {
		return err
	}
	f, err := ParseRows(data)
	if err != nil {
		return fmt.Errorf("%s: %w", o.validate, err)
	}
	list, err := Validate(f, profiles, o.seed, o.intervals && own.Changed("intervals"))
	if err != nil {
		return err
	}
	if o.json {
		return WriteJSON(p.Stdout, list)
	}
	return WriteTable(p.Stdout, list)
}

// load reads bench's flags, with one combination of the values given in lists.
func (o *Command) load(p console.Process, extra []string) (*Load, *flags.Result, error) {
	args := append(slices.Clone(o.Bench), extra...)
	r, err := flags.ParseBeside(args, flags.Options{Env: p.Env, ReadFile: p.ReadFile, IDPrefix: "predict-"})
	if err != nil {
		return nil, nil, console.UsageIf(flags.Mistake(err), "spate predict", err)
	}
	l, err := On(p).Load(r.Bench)
	if err != nil {
		return nil, nil, console.Usage("spate predict", err)
	}
	return l, r, nil
}

// runOne predicts one run, prints it as a measured one and keeps its folder.
func (o *Command) runOne(p console.Process, prof *profile.Profile) error {
	l, r, err := o.load(p, nil)
	if err != nil {
		return err
	}
	prof, err = prof.With(o.override)
	if err != nil {
		return err
	}
	if o.log != "" {
		if err := o.writeEngineLog(p, prof); err != nil {
			return err
		}
	}
	own, err := l.Run(prof, o.seed, o.intervals)
	if err != nil {
		return err
	}
	command := append([]string{"spate", "predict"}, p.Args[min(1, len(p.Args)):]...)
	run := NewRun(prof, l, r.Bench, p.Tool, command)
	recs := Fill(run, own)
	if o.json {
		return p.JSON(NewPrediction(prof, l, own).with(run.Tenants))
	}
	p.Print("predicted, not measured: profile %s, %s\n", prof.Caption(), l.Text)
	if err := o.Block(p.Stdout, run); err != nil {
		return console.Wrote(err)
	}
	if o.intervals {
		own.WriteIntervals(p.Stdout, len(prof.Set))
	}
	if o.noFolder {
		return nil
	}
	if err := Save(run, recs, r.Bench.Output.OutputDir); err != nil {
		return err
	}
	p.Say("run folder: %s\n", run.Dir)
	return nil
}

// runGrid predicts every combination and prints a table.
func (o *Command) runGrid(p console.Process, base *profile.Profile) error {
	var list []Prediction
	points := Combinations(o.Lists)
	for _, at := range points {
		own, l, prof, err := o.predictAt(p, base, at)
		if err != nil {
			return err
		}
		one := NewPrediction(prof, l, own)
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
	WriteGrid(p.Stdout, points, list)
	return nil
}

// predictAt predicts one combination.
func (o *Command) predictAt(p console.Process, base *profile.Profile, at At) (*Own, *Load, *profile.Profile, error) {
	over := o.override
	var extra []string
	for _, s := range at {
		if slices.Contains(gridFlags, s.Name) {
			extra = append(extra, "--"+s.Name, s.Value)
			continue
		}
		one := &Command{}
		if err := one.Flags().Parse([]string{"--" + s.Name + "=" + s.Value}); err != nil {
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
func (o *Command) writeEngineLog(p console.Process, prof *profile.Profile) error {
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

// runCompare predicts the workload of a measured run and puts both side by side.
func (o *Command) runCompare(p console.Process, prof *profile.Profile) error {
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
	l, err := Replayed(recs, run.Plan.MaxConcurrency)
	if err != nil {
		return fmt.Errorf("%s: %w", o.compare, err)
	}
	c, err := Compare(l, prof, o.seed, FromSummary(&run.Summary))
	if err != nil {
		return err
	}
	if o.json {
		return p.JSON(c)
	}
	c.Write(p.Stdout, prof.Name)
	return nil
}
