package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"spate/internal/console"
	"spate/internal/result"
	"spate/internal/search/capacity"
	"spate/internal/search/sweep"
	"spate/internal/settings/config"
	"spate/internal/settings/flags"
	"spate/internal/trial"
	"spate/internal/trial/series"
)

// capacityOptions are the flags of capacity itself; the rest are those of bench.
type capacityOptions struct {
	slo       string
	by        string
	search    capacity.Options
	probeTime string
	cooldown  string
	cache     string
	predict   string
	dir       string
	resume    string
	atLeast   float64
	json      bool
	noStore   bool
	help      bool
	bench     []string

	time, pause time.Duration
	suite       *sweep.Suite
}

func (o *capacityOptions) set() *pflag.FlagSet {
	f := pflag.NewFlagSet("capacity", pflag.ContinueOnError)
	f.StringVar(&o.slo, "slo", "", "objectives, such as 'p99_ttft<500ms,p99_tpot<50ms,errors<0.1%'")
	f.StringVar(&o.by, "by", string(capacity.Rate), "what is raised: rate (requests per second), concurrency (requests in flight)")
	f.Float64Var(&o.search.Start, "start", 1, "load tried first")
	f.Float64Var(&o.search.Min, "min", 0, "lowest load tried (default a 64th of --start, or 1 in flight)")
	f.Float64Var(&o.search.Max, "max", 10000, "highest load tried")
	f.Float64Var(&o.search.Tolerance, "tolerance", 0.05, "how far apart the highest load that is met and the lowest that is missed may be, as a share; a rate is lowered by this share before it is reported as capacity")
	f.IntVar(&o.search.Repeats, "repeat", 3, "fewest probes of each of these two loads")
	f.IntVar(&o.search.Most, "max-repeat", 0, "most probes of one load (default two more than --repeat)")
	f.IntVar(&o.search.Probes, "max-probes", 60, "most probes in total")
	f.StringVar(&o.probeTime, "probe-time", "30s", "how long the first probe of a load sends; later ones send three times as long; --num-prompts or --duration override it; at least 100 requests")
	f.StringVar(&o.cooldown, "cooldown", "1s", "pause between probes")
	f.StringVar(&o.cache, "cache", string(trial.Salt), "prefix cache between probes: salt (prompts begin differently), reset (the server forgets), keep")
	f.StringVar(&o.predict, "predict", "", "predict with this `PROFILE` (see spate predict --list) instead of measuring")
	f.StringVar(&o.dir, "output-dir", "", "folder of the search; a search that is in it already goes on (default a dated folder)")
	f.StringVar(&o.resume, "resume", "", "go on with the search in this folder")
	f.Float64Var(&o.atLeast, "at-least", 0, "exit code 3 unless this load is shown to meet the objectives")
	f.BoolVar(&o.json, "json", false, "print the answer and every probe as JSON")
	f.BoolVar(&o.noStore, "no-store", false, "keep the probes out of the store")
	f.BoolVarP(&o.help, "help", "h", false, "help for this command")
	return f
}

const capacityLong = `Find the highest load at which a server keeps its objectives.

The load is doubled until the objectives are missed, then the gap is halved until its ends are as close as
--tolerance says. A load is met or missed when the 99 % interval of every objective says so, computed over all
its probes and the differences between them. A load without a clear answer is probed again; if it stays unclear, the
answer is "cannot tell between x and y". A probe whose queue grows is ended early. A probe that is INVALID because of
the client is left out and made again. Every probe is a run of bench with its own folder, and --resume
goes on after an interruption.

The flags of bench say what is sent. docs/capacity.md describes the search.`

const capacityExample = `  spate capacity --slo 'p99_ttft<500ms,p99_tpot<50ms,errors<0.1%' --random-input-len 1024 --random-output-len 128
  spate capacity --slo 'p99_itl<80ms' --by concurrency --max 512 --json
  spate capacity --slo 'p99_ttft<500ms' --at-least 8          as a gate: exit code 3 if 8 requests/s are not shown
  spate capacity --slo 'p99_ttft<1s' --predict=qwen2-7b-2xA100-80GB-vllm0.10 --isl 512 --osl 64`

// newCapacity is `spate capacity`.
func newCapacity(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:                "capacity --slo OBJECTIVES [flags of bench]",
		Short:              "Find the highest load at which a server keeps its objectives",
		Long:               capacityLong,
		Example:            capacityExample,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			o := &capacityOptions{}
			own := o.set()
			if err := o.parse(own, args); err != nil {
				return console.Usage("spate capacity", err)
			}
			if o.help {
				return cmd.Help()
			}
			return runCapacity(cmd.Context(), p, o, args)
		},
	}
	cmd.SetHelpFunc(func(c *cobra.Command, _ []string) { mixedHelp(p.Stdout, c, new(capacityOptions).set()) })
	return cmd
}

func (o *capacityOptions) parse(own *pflag.FlagSet, args []string) error {
	line, err := flags.Divide(own, args)
	if err != nil {
		return err
	}
	o.bench = line.Bench
	return nil
}

// check reads what is asked for.
func (o *capacityOptions) check() error {
	if o.slo == "" {
		return errors.New("no objectives: give --slo, such as --slo 'p99_ttft<500ms,p99_tpot<50ms'")
	}
	var err error
	if o.search.Objectives, err = capacity.ParseSLO(o.slo); err != nil {
		return err
	}
	o.search.By = capacity.By(o.by)
	o.search.Defaults()
	if err := o.search.Validate(); err != nil {
		return err
	}
	if err := flags.Choice("cache", trial.Cache(o.cache), trial.Salt, trial.Reset, trial.Keep); err != nil {
		return err
	}
	if o.time, err = config.ParseDuration(o.probeTime); err != nil {
		return fmt.Errorf("--probe-time: %w", err)
	}
	if o.pause, err = config.ParseDuration(o.cooldown); err != nil {
		return fmt.Errorf("--cooldown: %w", err)
	}
	o.suite = sweep.New()
	if err := o.suite.Args(o.bench); err != nil {
		return err
	}
	if len(o.suite.Grid) > 0 {
		return fmt.Errorf("--%s has several values: a search is for one workload, spate sweep is for many", o.suite.Grid[0].Flag)
	}
	return nil
}

// plan is the search for its folder.
func (o *capacityOptions) plan(p Process, args []string) (*capacity.Plan, *sweep.Plan, error) {
	one, err := sweep.NewPlan(o.suite, trial.NewID()[:6], series.Resolver(p))
	if err != nil {
		return nil, nil, err
	}
	cfg, err := series.Resolver(p)(one.Args(&one.Points[0]))
	if err != nil {
		return nil, nil, err
	}
	load := &cfg.Load
	switch {
	case !math.IsInf(float64(load.RequestRate), 1) && o.search.By == capacity.Rate, load.RampUp != "", len(load.Stages) > 0:
		return nil, nil, errors.New("the search sets the rate: leave --request-rate, --stages and ramps out (--start is the first rate)")
	case load.MaxConcurrency != nil && o.search.By == capacity.Concurrency:
		return nil, nil, errors.New("the search sets the concurrency: leave --max-concurrency out (--start is the first one)")
	}
	s := &o.search
	return &capacity.Plan{
		Args: capacity.Discreet(args), ID: one.ID, SLO: o.slo, By: o.by, Start: s.Start, Min: s.Min, Max: s.Max, Tolerance: s.Tolerance, Repeat: s.Repeats,
		MaxRepeat: s.Most, MaxProbes: s.Probes, ProbeTime: o.probeTime, Cache: o.cache, Predict: o.predict,
		BenchFlags: strings.Join(capacity.Discreet(o.bench), " "), Digest: one.Points[0].Digest,
	}, one, nil
}

// resumed puts the arguments a folder's search was begun with before those given now.
func (o *capacityOptions) resumed(args []string) (*capacityOptions, error) {
	earlier, err := capacity.Load(o.resume)
	if err != nil {
		return nil, err
	}
	if earlier == nil {
		return nil, fmt.Errorf("--resume: %s holds no search", o.resume)
	}
	full := &capacityOptions{}
	if err := full.parse(full.set(), append(append([]string{}, earlier.Args...), args...)); err != nil {
		return nil, err
	}
	if err := capacity.Lacks(full.bench); err != nil {
		return nil, err
	}
	full.resume, full.dir = "", o.resume
	return full, nil
}

func runCapacity(ctx context.Context, p Process, o *capacityOptions, args []string) error {
	if o.resume != "" {
		full, err := o.resumed(args)
		if err != nil {
			return console.Usage("spate capacity", err)
		}
		o = full
	}
	if err := o.check(); err != nil {
		return console.Usage("spate capacity", err)
	}
	plan, one, err := o.plan(p, args)
	if err != nil {
		return console.Usage("spate capacity", err)
	}
	h := &hunt{p: p, o: o}
	if o.predict != "" {
		if h.profile, err = namedProfile(p, o.predict); err != nil {
			return console.Usage("spate capacity", err)
		}
		o.pause = 0
	}
	if o.dir == "" {
		o.dir = filepath.Join(result.DefaultRoot, time.Now().Format("20060102-150405")+"-capacity-"+plan.ID)
	}
	work, err := plan.Open(o.dir)
	if err != nil {
		if _, changed := errors.AsType[*trial.ChangedError](err); changed {
			return console.Usage("spate capacity", err)
		}
		return err
	}
	defer func() { _ = work.Close() }() // everything in it is on disk
	h.prober = &capacity.Prober{
		Search: capacity.New(o.search), Work: work, ID: plan.ID, Args: one.Args(&one.Points[0]), Resolve: series.Resolver(p), Cache: trial.Cache(o.cache), Length: o.time, Pause: o.pause,
	}
	return h.run(ctx)
}
