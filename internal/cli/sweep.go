package cli

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"spate/internal/console"
	"spate/internal/host/launch"
	"spate/internal/result"
	"spate/internal/search/sweep"
	"spate/internal/settings/config"
	"spate/internal/settings/flags"
	"spate/internal/trial"
	"spate/internal/trial/series"
)

// sweepOptions are the flags of sweep itself; the rest are those of bench.
type sweepOptions struct {
	file      string
	dir       string
	resume    string
	name      string
	repeat    int
	order     string
	orderSeed uint64
	cooldown  string
	cache     string
	predict   string
	launch    string
	ready     time.Duration
	gpus      string
	usedOK    string
	outputs   []string
	dryRun    bool
	noStore   bool
	help      bool
	bench     []string
}

func (o *sweepOptions) set() *pflag.FlagSet {
	f := pflag.NewFlagSet("sweep", pflag.ContinueOnError)
	f.StringVar(&o.dir, "output-dir", "", "folder of the sweep; a sweep that is in it already goes on (default a dated folder)")
	f.StringVar(&o.resume, "resume", "", "go on with the sweep in this folder")
	f.StringVar(&o.name, "name", "", "name of the sweep, a label of its runs")
	f.IntVar(&o.repeat, "repeat", 1, "measurements of each point")
	f.StringVar(&o.order, "order", string(sweep.Given), "order of the points: given, random")
	f.Uint64Var(&o.orderSeed, "order-seed", 0, "seed of a random order")
	f.StringVar(&o.cooldown, "cooldown", "0s", "pause between measurements")
	f.StringVar(&o.cache, "cache", string(trial.Salt), "prefix cache between measurements: salt (prompts begin differently), reset (the server forgets), keep")
	f.StringVar(&o.predict, "predict", "", "predict with this `PROFILE` (see spate predict --list) instead of measuring")
	f.StringVar(&o.launch, "launch", "", "command that starts the server; {port} in it is a free port")
	f.DurationVar(&o.ready, "launch-timeout", 10*time.Minute, "how long that server may take until it answers")
	f.StringVar(&o.gpus, "launch-gpus", "", "GPUs of launched servers, such as 0,1")
	f.StringVar(&o.usedOK, "launch-gpu-memory-used-ok", "", "GPU memory that others may use when a server is launched, such as 20GiB or any")
	f.StringArrayVarP(&o.outputs, "output", "o", nil, "write the results to this file, in the form its ending says (repeatable)")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the points and the expected time, and measure nothing")
	f.BoolVar(&o.noStore, "no-store", false, "keep the runs out of the store")
	f.BoolVarP(&o.help, "help", "h", false, "help for this command")
	flags.Rename(f, map[string]string{"launch-ready": "launch-timeout", "report": "output"})
	return f
}

const sweepLong = `Measure a server at every combination of some settings, or at a list of points, each several times.

Any flag of bench that takes one value takes several with commas here, and all combinations are measured.
A suite file says the same and more: lists of points, servers that are started for their points, labels.
docs/sweep.md describes it, and examples/suites holds those of published reports.

One line is printed as each measurement ends, and a table at the end. Everything is kept in one folder with
a journal: after an interruption of any kind, --resume goes on without repeating what is finished.`

const sweepExample = `  spate sweep --request-rate 2,4,6,8 --random-input-len 256,1024 --num-prompts 200 --repeat 3
  spate sweep suite.yaml --base-url http://gpu1:8000 -o report.md -o report.html
  spate sweep suite.yaml --dry-run
  spate sweep --resume spate-runs/20261115-120000-sweep-1a2b3c
  spate sweep examples/suites/qps-servers.yaml --sim --num-prompts 20`

// newSweep is `spate sweep`. Beside its own flags it takes those of bench, which follow argparse's
// rules, so cobra does not read them.
func newSweep(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:                "sweep [SUITE.yaml] [flags of bench, with several values]",
		Short:              "Measure a server at many points, and go on after an interruption",
		Long:               sweepLong,
		Example:            sweepExample,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			o := &sweepOptions{}
			own := o.set()
			if err := o.divide(own, args); err != nil {
				return console.Usage("spate sweep", err)
			}
			if o.help {
				return cmd.Help()
			}
			return runSweep(cmd.Context(), p, o, own)
		},
	}
	cmd.SetHelpFunc(func(c *cobra.Command, _ []string) { mixedHelp(p.Stdout, c, new(sweepOptions).set()) })
	return cmd
}

func (o *sweepOptions) divide(own *pflag.FlagSet, args []string) error {
	if n := len(args); n > 0 && isSuite(args[0]) {
		o.file, args = args[0], args[1:]
	} else if n > 1 && isSuite(args[n-1]) && (!strings.HasPrefix(args[n-2], "-") || args[n-2] == "--sim" || own.Lookup(strings.TrimLeft(args[n-2], "-")) != nil && own.Lookup(strings.TrimLeft(args[n-2], "-")).NoOptDefVal != "") {
		o.file, args = args[n-1], args[:n-1]
	}
	line, err := flags.Divide(own, args)
	if err != nil {
		return err
	}
	o.bench = line.Bench
	return nil
}

// isSuite tells a suite file from a flag or its value.
func isSuite(arg string) bool {
	return !strings.HasPrefix(arg, "-") && (strings.HasSuffix(arg, ".yaml") || strings.HasSuffix(arg, ".yml"))
}

// suite reads what is asked for: the file, then the flags over it.
func (o *sweepOptions) suite(p Process, own *pflag.FlagSet) (*sweep.Suite, error) {
	s := sweep.New()
	if o.file != "" {
		data, err := p.ReadFile(o.file)
		if err != nil {
			return nil, fmt.Errorf("read the suite: %w", err)
		}
		if s, err = sweep.Parse(o.file, data); err != nil {
			return nil, console.Usage("spate sweep", err)
		}
		if s.Name == "" {
			s.Name = strings.TrimSuffix(filepath.Base(o.file), filepath.Ext(o.file))
		}
	}
	if err := s.Args(o.bench); err != nil {
		return nil, console.Usage("spate sweep", err)
	}
	if err := o.over(s, own); err != nil {
		return nil, console.Usage("spate sweep", err)
	}
	return s, nil
}

// over puts sweep's own flags over the suite.
func (o *sweepOptions) over(s *sweep.Suite, own *pflag.FlagSet) error {
	if own.Changed("repeat") {
		s.Repeat = o.repeat
	}
	if own.Changed("name") {
		s.Name = o.name
	}
	if own.Changed("order-seed") {
		s.Seed = o.orderSeed
	}
	if own.Changed("predict") {
		s.Predict = o.predict
	}
	var err error
	if own.Changed("order") {
		s.Order = sweep.Order(o.order)
		err = flags.Choice("order", s.Order, sweep.Given, sweep.Random)
	}
	if err == nil && own.Changed("cache") {
		s.Cache = trial.Cache(o.cache)
		err = flags.Choice("cache", s.Cache, trial.Salt, trial.Reset, trial.Keep)
	}
	if err == nil && own.Changed("cooldown") {
		s.Cooldown, err = config.ParseDuration(o.cooldown)
	}
	if err == nil && own.Changed("launch") {
		if len(s.Servers) > 0 {
			return errors.New("--launch is for sweeps without servers of their own: the suite has some")
		}
		s.Servers = []sweep.Server{{Name: "server", Launch: &sweep.Launch{Command: []string{o.launch}, Ready: o.ready, Grace: 20 * time.Second}}}
	}
	return err
}

// plan is what is to be measured, and in which folder.
func (o *sweepOptions) plan(p Process, own *pflag.FlagSet) (*sweep.Plan, string, error) {
	if o.resume != "" && o.dir != "" {
		return nil, "", console.Usage("spate sweep", errors.New("--resume names the folder already: leave --output-dir out"))
	}
	dir := cmp.Or(o.resume, o.dir)
	if o.resume != "" && o.file == "" {
		pl, err := o.resumed(p, own)
		return pl, dir, err
	}
	s, err := o.suite(p, own)
	if err != nil {
		return nil, "", err
	}
	id := trial.NewID()[:6]
	pl, err := sweep.NewPlan(s, id, series.Resolver(p))
	if err != nil {
		return nil, "", console.Usage("spate sweep", err)
	}
	if dir == "" {
		dir = filepath.Join(result.DefaultRoot, time.Now().Format("20060102-150405")+"-sweep-"+id)
	}
	return pl, dir, nil
}

// choose puts the flags about GPUs over what the plan says of its servers.
func (o *sweepOptions) choose(pl *sweep.Plan, own *pflag.FlagSet) error {
	if err := new(launch.Spec).Choose("--launch-", o.gpus, o.usedOK); err != nil {
		return console.Usage("spate sweep", err)
	}
	launched := false
	for i := range pl.Servers {
		if l := pl.Servers[i].Launch; l != nil {
			launched = true
			if own.Changed("launch-gpus") {
				l.GPUs = o.gpus
			}
		}
	}
	for _, flag := range []string{"launch-gpus", "launch-gpu-memory-used-ok"} {
		if own.Changed(flag) && !launched {
			return console.Usage("spate sweep", fmt.Errorf("--%s is for servers that the sweep launches: it launches none", flag))
		}
	}
	return nil
}

// resumed is the plan of a folder. Flags given beside --resume are taken for secrets, which a folder
// does not keep; any other would change the plan, and is refused as that.
func (o *sweepOptions) resumed(p Process, own *pflag.FlagSet) (*sweep.Plan, error) {
	pl, err := sweep.Load(o.resume)
	if err != nil {
		return nil, err
	}
	if pl == nil {
		return nil, console.Usage("spate sweep", fmt.Errorf("--resume: %s holds no sweep", o.resume))
	}
	s := sweep.New()
	s.Repeat, s.Order, s.Seed, s.Cache, s.Predict, s.Cooldown, s.Name = pl.Repeat, pl.Order, pl.Seed, pl.Cache, pl.Predict, pl.Cooldown, pl.Name
	if err := s.Args(o.bench); err != nil {
		return nil, console.Usage("spate sweep", err)
	}
	if err := o.over(s, own); err != nil {
		return nil, console.Usage("spate sweep", err)
	}
	if len(s.Grid) > 0 || len(s.Servers) > 0 {
		return nil, console.Usage("spate sweep", errors.New("--resume goes on with the plan of its folder: other points are another sweep"))
	}
	pl.Repeat, pl.Order, pl.Seed, pl.Cache, pl.Predict, pl.Cooldown = s.Repeat, s.Order, s.Seed, s.Cache, s.Predict, s.Cooldown
	pl.Supply(s.Bench)
	if hidden := pl.Secret(); len(hidden) > 0 {
		return nil, console.Usage("spate sweep", fmt.Errorf("the folder does not keep secrets: give --%s again", strings.Join(hidden, ", --")))
	}
	if unset := pl.Unset(p.Env); len(unset) > 0 {
		return nil, console.Usage("spate sweep", fmt.Errorf("the folder does not keep secrets of the servers it starts: set %s in the environment, or name the suite file beside --resume", strings.Join(unset, ", ")))
	}
	if err := pl.Check(series.Resolver(p)); err != nil {
		return nil, console.Usage("spate sweep", err)
	}
	return pl, nil
}
