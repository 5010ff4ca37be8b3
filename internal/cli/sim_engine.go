package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"spate/internal/console"
	"spate/internal/settings/config"
	"spate/internal/sim/catalog"
	"spate/internal/sim/cluster"
	"spate/internal/sim/engineconf"
	"spate/internal/sim/instance"
	"spate/internal/sim/serve"
	"spate/internal/sim/wall"
)

// engineOptions are the flags of `spate sim` that describe a simulated engine.
type engineOptions struct {
	settings  engineconf.Settings
	profile   string
	scale     float64
	timetable bool
	details   bool
	list      bool
	split     instance.Split
	router    string

	unsimulated []string // flags that a real engine would follow
}

func (o *engineOptions) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.profile, "sim", "", "simulated engine by one `NAME`: model@gpu, or a calibrated profile (see --list-profiles)")
	f.BoolVar(&o.list, "list-profiles", false, "list the names --sim takes, and stop")
	f.Float64Var(&o.scale, "time-scale", 1, "run this many times faster than the real server would")
	f.BoolVar(&o.timetable, "timetable", false, "answer by a timetable instead of simulating an engine")
	f.BoolVar(&o.details, "enable-logging-iteration-details", false, "log every step")
	f.IntVar(&o.split.Prefill, "prefill-engines", 0, "engines that only compute prompts; KV then moves to the decode engines")
	f.IntVar(&o.split.Decode, "decode-engines", 0, "engines that answer prompts computed elsewhere")
	f.StringVar(&o.split.Link, "kv-link", "", "link the KV moves over: nvlink, rdma1, rdma2, tcp, rdma-400 ... (default the one of --node-link)")
	f.Float64Var(&o.split.Loss, "kv-loss", 0, "share of KV transfers that are lost")
	f.IntVar(&o.split.Retries, "kv-retries", 0, "times a lost transfer is tried again")
	f.StringVar(&o.split.OnLoss, "kv-load-failure-policy", "", "what becomes of a request whose KV is lost: recompute, fail (default recompute)")
	f.StringVar(&o.router, "router", "", "how requests are spread over engines: round-robin, least-loaded, prefix (default least-loaded)")
	o.settings.Bind(f)
	engineconf.BindIgnored(f)
	f.SetNormalizeFunc(func(f *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "profile" { // what it was called before
			name = "sim"
		}
		return engineconf.Normalize(f, name)
	})
}

// simArgs are the arguments of `spate sim` as its flags take them; those of other commands stay as they are.
// What cannot be rewritten stays too, and is refused as an unknown flag: simFlagError says why.
func simArgs(args []string) []string {
	if len(args) == 0 || args[0] != "sim" {
		return args
	}
	rewritten, err := engineconf.Args(args[1:])
	if err != nil {
		return args
	}
	return append([]string{"sim"}, rewritten...)
}

// simFlagError explains a flag that was not taken.
func simFlagError(p Process) func(*cobra.Command, error) error {
	return func(cmd *cobra.Command, err error) error {
		if _, bad := engineconf.Args(p.Args[1:]); bad != nil {
			return console.Usage(cmd.CommandPath(), bad)
		}
		return unknownFlag(cmd, err)
	}
}

// timetableFlags describe a timetable: any of them asks for one.
var timetableFlags = []string{"timetable", "ttft", "itl", "tokens-per-chunk", "jitter", "ttft-spread", "prefill", "max-running", "prefix-cache"}

// timetabled reports whether the server answers by a timetable.
func (o *engineOptions) timetabled(cmd *cobra.Command) bool {
	for _, name := range timetableFlags {
		if cmd.Flags().Changed(name) {
			return name != "timetable" || o.timetable
		}
	}
	return false
}

// build puts the simulated engine into the server's settings. A refusal to start is printed as the
// engine prints it, alone on its line, so that tools that read a real server's log can read this one.
func (o *engineOptions) build(p Process, cfg *serve.Config, args []string) (*instance.Instance, error) {
	if o.scale <= 0 {
		return nil, console.Usage("spate sim", fmt.Errorf("time-scale is %v: it has to be above 0", o.scale))
	}
	s := &o.settings
	names := append(append([]string{}, args...), cfg.Models...)
	if len(names) > 1 {
		return nil, console.Usage("spate sim", fmt.Errorf("an engine serves one model, not %s: names to answer to are --served-model-name", strings.Join(names, " and ")))
	}
	if len(names) == 1 {
		s.Model = names[0]
		if data, err := p.ReadFile(filepath.Join(s.Model, "config.json")); err == nil {
			s.Config = data
		}
	}
	t := &cfg.Timetable
	opt := instance.Options{
		Settings: *s, Profile: o.profile, Scale: o.scale, Seed: t.Seed, Details: o.details, Split: o.split,
		Answers: wall.Answers{Len: t.OutputLen, Vary: t.OutputVary, Reasoning: t.Reasoning, ToolTokens: t.ToolTokens},
	}
	var err error
	if opt.Router, err = router(o.router); err != nil {
		return nil, console.Usage("spate sim", err)
	}
	in, err := instance.Named(p.ReadFile, opt)
	if err != nil {
		return nil, startRefusal(p, err)
	}
	for _, w := range append(o.unsimulated, in.Conf.Warnings...) {
		p.Say("note: %s\n", w)
	}
	own := *cfg
	*cfg = in.Serve
	cfg.Addr, cfg.APIKey, cfg.TLS, cfg.Script, cfg.TruthFile, cfg.Stamp = own.Addr, own.APIKey, own.TLS, own.Script, own.TruthFile, own.Stamp
	cfg.PromptTokensDetails, cfg.RequestMetrics, cfg.Timetable.Seed = own.PromptTokensDetails, own.RequestMetrics, t.Seed
	return in, nil
}

// router checks the name of a router.
func router(name string) (cluster.Policy, error) {
	known := []string{string(cluster.RoundRobin), string(cluster.LeastLoaded), string(cluster.Affinity)}
	if name != "" && !slices.Contains(known, name) {
		return "", fmt.Errorf("router %q is not one of %s%s", name, strings.Join(known, ", "), config.DidYouMean(name, known))
	}
	return cluster.Policy(name), nil
}

// startRefusal ends the command as the engine would end, or tells the user what was wrong with the
// flags.
func startRefusal(p Process, err error) error {
	var start *catalog.StartError
	if !errors.As(err, &start) {
		return console.Usage("spate sim", err)
	}
	p.Say("%s\n", start)
	if strings.HasSuffix(start.Type, "error") { // the argument parser's own
		return console.Exit(ExitUsage)
	}
	return console.Exit(ExitFailed)
}

// unknownFlag names the nearest flag, and says what the engine's own command line says.
func unknownFlag(cmd *cobra.Command, err error) error {
	name, ok := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !ok {
		return console.Usage(cmd.CommandPath(), err)
	}
	if name == "config" {
		return console.Usage(cmd.CommandPath(), errors.New("a file of settings is not read here: give them as flags instead of --config"))
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	return console.Usage(cmd.CommandPath(), fmt.Errorf("unknown flag --%s%s\n%w", name, config.DidYouMean(name, known), catalog.UnknownFlag([]string{"--" + name})))
}
