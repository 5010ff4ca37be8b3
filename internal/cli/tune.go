package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"spate/internal/console"
	"spate/internal/forecast/predict"
	"spate/internal/forecast/profile"
	"spate/internal/host/launch"
	"spate/internal/result"
	"spate/internal/search/tune"
	"spate/internal/settings/config"
	"spate/internal/settings/flags"
	"spate/internal/trial"
	"spate/internal/trial/series"
)

// tuneOptions are the flags of `spate tune`.
type tuneOptions struct {
	predict  predictFlag
	profile  string
	trials   int
	seed     uint64
	strategy string
	atRate   float64
	gpus     string
	usedOK   string
	dir      string
	outputs  []string
	noStore  bool
	dryRun   bool
	json     bool
}

// newTune is `spate tune`.
func newTune(p Process) *cobra.Command {
	o := &tuneOptions{}
	cmd := &cobra.Command{
		Use:   "tune FILE.yaml",
		Short: "Find the server flags that meet an objective, with few starts",
		Long: `Find the server flags that meet an objective, with few starts.

The file says how the server is started, which flags may have which values, what is sent, what is optimized and under which
constraints. Trial 0 is the default. First, spate finds the knee: the load above which the latency of the default rises. All
trials are made around that load. Settings that a rule of the engine forbids are never started, settings that a simulator
predicts to be good are tried early, and spate learns from failed starts which other settings would fail, too. Before and
after each start, the port and the GPU memory must be free; if not, the search stops and says what uses them. The best
settings are repeated in turn with the default, and the winner is checked on a workload that was held out. Where nothing is
better than the default, spate says so.

Everything is kept in a folder with a journal: the same command goes on after a kill, a reboot or Ctrl-C, and no trial is
made twice. --predict only simulates, and prints what to try first; --predict=PROFILE does so with that profile.

Exit codes: 0 done, 1 nothing could be measured, 2 usage, 130 interrupted.`,
		Example: `  spate tune examples/tune/reference.yaml --predict          what to try first, within seconds
  spate tune examples/tune/reference.yaml                    the search with real servers; again to go on
  spate tune my.yaml --trials 40 --at-rate 12 --output tune.html --output tune.md`,
		Args: o.oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := o.file(p, cmd, args[0])
			if err != nil {
				return console.Usage("spate tune", err)
			}
			return runTune(cmd.Context(), p, o, f, args[0])
		},
	}
	f := cmd.Flags()
	f.Var(&o.predict, "predict", "``predict with this profile (default the one of --sim) instead of measuring: a search in virtual time only")
	f.Lookup("predict").NoOptDefVal = predictDefault
	f.StringVar(&o.profile, "sim", "", "simulated engine that suggests what to try first: a `NAME` (see spate predict --list) or a file (default the file's, or model and GPU by datasheet)")
	f.IntVar(&o.trials, "trials", 0, "how many settings to try, instead of the file's number")
	f.Uint64Var(&o.seed, "seed", 0, "seed of the search, instead of the file's")
	f.StringVar(&o.strategy, "strategy", "", "auto, tpe, halving, random or grid, instead of the file's")
	f.Float64Var(&o.atRate, "at-rate", 0, "requests per second of every trial, instead of finding the knee")
	f.StringVar(&o.gpus, "gpus", "", "`list` of the GPUs servers may use, such as 0,1 (CUDA_VISIBLE_DEVICES)")
	f.StringVar(&o.usedOK, "gpu-memory-used-ok", "", "GPU memory that others may use before a start, such as 20GiB or any")
	f.StringVar(&o.dir, "output-dir", "", "folder of the search; a search that is in it already goes on (default spate-runs/tune-NAME)")
	f.StringArrayVarP(&o.outputs, "output", "o", nil, "also write a report to this `file`: .md, .html, .csv or .json (repeatable)")
	f.BoolVar(&o.noStore, "no-store", false, "do not put the runs into the store")
	f.BoolVar(&o.dryRun, "dry-run", false, "print what would be searched, and start nothing")
	f.BoolVar(&o.json, "json", false, "print the outcome as JSON")
	flags.Rename(f, map[string]string{"profile": "sim"})
	return cmd
}

// predictDefault is what --predict alone stands for.
const predictDefault = "PROFILE"

// predictFlag is --predict[=PROFILE]. It was a switch once, so true and false are taken as well.
type predictFlag struct {
	on      bool
	profile string
}

func (v *predictFlag) Set(word string) error {
	switch word {
	case "":
		return errors.New("it names no profile")
	case "false":
		*v = predictFlag{}
	case "true", predictDefault:
		*v = predictFlag{on: true}
	default:
		*v = predictFlag{on: true, profile: word}
	}
	return nil
}

func (v *predictFlag) String() string { return v.profile }
func (*predictFlag) Type() string     { return "profile" }

// oneFile wants one file, and knows why there may be two words.
func (o *tuneOptions) oneFile(cmd *cobra.Command, args []string) error {
	if len(args) == 2 && o.predict.on && o.predict.profile == "" {
		return fmt.Errorf("give one file, not %s and %s: a profile is given as --predict=NAME", args[0], args[1])
	}
	return cobra.ExactArgs(1)(cmd, args)
}

// file reads the file, with what flags say otherwise.
func (o *tuneOptions) file(p Process, cmd *cobra.Command, path string) (*tune.File, error) {
	data, err := p.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	f, err := tune.Parse(path, data)
	if err != nil {
		return nil, err
	}
	if f.Name == "" {
		f.Name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	}
	given := cmd.Flags().Changed
	if given("trials") {
		if o.trials < 1 {
			return nil, fmt.Errorf("--trials %d: at least one is needed", o.trials)
		}
		f.Trials = o.trials
	}
	if given("seed") {
		f.Seed = o.seed
	}
	if given("strategy") {
		f.Strategy = o.strategy
	}
	if given("sim") {
		f.Profile = o.profile
	}
	if named := o.predict.profile; named != "" {
		if given("sim") && named != o.profile {
			return nil, fmt.Errorf("--predict=%s and --sim %s name two profiles: give one", named, o.profile)
		}
		f.Profile = named
	}
	if given("at-rate") {
		if o.atRate <= 0 || math.IsInf(o.atRate, 0) || math.IsNaN(o.atRate) {
			return nil, fmt.Errorf("--at-rate %v is not a number of requests per second", o.atRate)
		}
		f.SetRate(o.atRate)
	}
	if err := new(launch.Spec).Choose("--", o.gpus, o.usedOK); err != nil {
		return nil, err
	}
	for _, out := range o.outputs {
		if !tune.ReportName(out) {
			return nil, fmt.Errorf("--output %s: the name ends with .md, .html, .csv or .json", out)
		}
	}
	for _, w := range f.Workloads {
		if _, err := series.Resolver(p)(w.Args); err != nil {
			return nil, fmt.Errorf("%s: workload %s: %w", path, w.Name, err)
		}
	}
	return f, f.Check()
}

// hunted is a search under way.
type hunted struct {
	p     Process
	o     *tuneOptions
	f     *tune.File
	path  string
	tuner *tune.Tuner
	sim   *tune.Virtual // nil: the server cannot be simulated
	prof  *profile.Profile
}

func runTune(ctx context.Context, p Process, o *tuneOptions, f *tune.File, path string) error {
	h := &hunted{p: p, o: o, f: f, path: path, tuner: &tune.Tuner{File: f}}
	if err := h.simulator(); err != nil {
		return err
	}
	if o.dryRun {
		return console.Wrote(f.Describe(p.Stdout))
	}
	if o.predict.on {
		return h.predicted(ctx)
	}
	return h.measured(ctx)
}

// simulator finds what stands for the server in virtual time.
func (h *hunted) simulator() error {
	if h.f.Profile != "" && !strings.Contains(h.f.Profile, "@") {
		prof, err := namedProfile(h.p, h.f.Profile)
		if err != nil {
			return console.Usage("spate tune", err)
		}
		h.prof = prof
	}
	v, err := tune.NewVirtual(h.f, h.prof, series.Resolver(h.p))
	if err != nil {
		if h.o.predict.on {
			return console.Usage("spate tune", fmt.Errorf("--predict: %w", err))
		}
		return nil
	}
	v.Load = h.virtualLoad
	h.sim = v
	return nil
}

// virtualLoad is what bench would send.
func (h *hunted) virtualLoad(c *config.Bench) (*predict.Load, error) {
	l, err := predict.On(h.p).Load(c)
	if err != nil {
		return nil, console.Usage("spate tune", err)
	}
	return l, nil
}

// folder is where the search is kept.
func (h *hunted) folder() string {
	name := strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || r == ' ' || r == os.PathSeparator {
			return '-'
		}
		return r
	}, h.f.Name)
	return cmp.Or(h.o.dir, filepath.Join(result.DefaultRoot, "tune-"+name))
}

// predicted searches in virtual time. A folder is kept only if one is named.
func (h *hunted) predicted(ctx context.Context) error {
	sig := h.p.Draining(ctx)
	defer sig.Done()
	ctx, stop := sig.Context, sig.Stop
	dir := h.o.dir
	if dir == "" {
		tmp, err := os.MkdirTemp("", "spate-tune-")
		if err != nil {
			return fmt.Errorf("make a folder for the search: %w", err)
		}
		defer func() { _ = os.RemoveAll(tmp) }() // only litter
		dir = tmp
	}
	d, err := h.open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }() // everything in it is on disk
	opt := tune.Options{Stop: stop}
	if h.o.dir != "" { // else nothing is said but the outcome
		view := h.view()
		view.Virtual, opt.Show = true, view.Show
	}
	stopped, err := tune.Run(ctx, d, h.tuner, h.sim, opt)
	if err != nil {
		return err
	}
	if stopped || sig.Was() {
		return console.Exit(ExitInterrupted)
	}
	what := "by the simulator, step times computed from the datasheet"
	if h.prof != nil {
		what = "by the simulator with profile " + h.prof.Caption()
	}
	return h.conclude(ctx, d, what)
}

func (h *hunted) open(dir string) (*tune.Folder, error) {
	d, err := tune.Open(dir, h.f)
	if _, changed := errors.AsType[*trial.ChangedError](err); changed {
		return nil, console.Usage("spate tune", err)
	}
	return d, err
}

// prior asks the simulator what to try first, once the default was measured.
func (h *hunted) prior(ctx context.Context) func([]tune.Observation) (*tune.Advice, error) {
	if h.sim == nil || h.f.Strategy != "auto" && h.f.Strategy != "halving" {
		return nil
	}
	return func(history []tune.Observation) (*tune.Advice, error) {
		h.p.Say("asking the simulator what to try first\n")
		return tune.Prior(ctx, h.f, h.sim, history)
	}
}
