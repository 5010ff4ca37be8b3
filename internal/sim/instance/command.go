package instance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"spate/internal/console"
	"spate/internal/forecast/profile"
	"spate/internal/host/probe"
	"spate/internal/nearest"
	"spate/internal/sim/catalog"
	"spate/internal/sim/cluster"
	"spate/internal/sim/engineconf"
	"spate/internal/sim/serve"
	"spate/internal/sim/wall"
)

// Run serves until it is interrupted.
func (o *Command) Run(ctx context.Context, p console.Process, f *pflag.FlagSet, args []string) error {
	if o.list {
		return console.Wrote(profile.WriteChoices(p.Stdout))
	}
	o.cfg.Addr = net.JoinHostPort(o.host, strconv.Itoa(o.port))
	if o.unix != "" {
		o.cfg.Addr = "unix:" + o.unix
	}
	var err error
	if o.cfg.Script, err = serve.ReadScript(p.ReadFile, o.script, o.faults); err != nil {
		return console.Usage("spate sim", err)
	}
	var in *Instance
	if !o.timetabled(f) {
		if in, err = o.build(p, args, engineconf.Unsimulated(f)); err != nil {
			return err
		}
	} else {
		o.cfg.Models = append(o.cfg.Models, args...)
		o.cfg.MaxModelLen = o.settings.MaxModelLen
	}
	return o.serve(ctx, p, in)
}

// serve runs the server, and prints its log when it simulates an engine.
func (o *Command) serve(ctx context.Context, p console.Process, in *Instance) error {
	_, _ = probe.RaiseNoFile(1 << 20) // as many as the system gives; a refused connection says the rest
	sig := p.Signals(ctx, "ending the server (interrupt again to end it at once)")
	defer sig.Done()
	if in != nil {
		p.Say("%s\n", in.Title)
		if err := in.Started(p.Stderr, os.Getpid()); err != nil {
			return err
		}
	}
	select {
	case <-time.After(o.delay):
	case <-ctx.Done():
		return nil
	case <-sig.Stop:
		return nil
	}
	srv, err := serve.Start(ctx, o.cfg)
	if err != nil {
		return err
	}
	if o.caFile != "" {
		if err := srv.WriteCA(o.caFile); err != nil {
			return err
		}
	}
	watching, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	if in != nil {
		wg.Go(func() { in.Watch(watching, srv, p.Stderr, os.Getpid()) })
	}
	p.Print("serving on %s\n", srv.URL())
	select {
	case <-ctx.Done():
	case <-sig.Stop:
	}
	stop()
	wg.Wait()
	if err := srv.Stop(); err != nil {
		return fmt.Errorf("stop the server: %w", err)
	}
	st := srv.Stats()
	p.Say("answered %d requests with %d tokens; events written late by %v at p50, %v at p99\n",
		st.Requests, st.Tokens, st.Lateness.P50.Round(time.Microsecond), st.Lateness.P99.Round(time.Microsecond))
	if st.Lag.Lagging && in != nil {
		p.Say("the simulator was late: p99 %v behind its own deadlines; the figures include delays of this machine\n", st.Lag.P99)
	}
	return nil
}

// timetableFlags describe a timetable: any of them asks for one.
var timetableFlags = []string{"timetable", "ttft", "itl", "tokens-per-chunk", "jitter", "ttft-spread", "prefill", "max-running", "prefix-cache"}

// timetabled reports whether the server answers by a timetable.
func (o *Command) timetabled(f *pflag.FlagSet) bool {
	for _, name := range timetableFlags {
		if f.Changed(name) {
			return name != "timetable" || o.timetable
		}
	}
	return false
}

// build puts the simulated engine into the server's settings. A refusal to start is printed as the
// engine prints it, alone on its line, so that tools that read a real server's log can read this one.
func (o *Command) build(p console.Process, args, unsimulated []string) (*Instance, error) {
	if o.scale <= 0 {
		return nil, console.Usage("spate sim", fmt.Errorf("time-scale is %v: it has to be above 0", o.scale))
	}
	s, cfg := &o.settings, &o.cfg
	names := append(append([]string{}, args...), cfg.Models...)
	if len(names) > 1 {
		return nil, console.Usage("spate sim", fmt.Errorf("an engine serves one model, not %s: give other names with --served-model-name", strings.Join(names, " and ")))
	}
	if len(names) == 1 {
		s.Model = names[0]
		if data, err := p.ReadFile(filepath.Join(s.Model, "config.json")); err == nil {
			s.Config = data
		}
	}
	t := &cfg.Timetable
	opt := Options{
		Settings: *s, Profile: o.profile, Scale: o.scale, Seed: t.Seed, Details: o.details, Split: o.split,
		Answers: wall.Answers{Len: t.OutputLen, Vary: t.OutputVary, Reasoning: t.Reasoning, ToolTokens: t.ToolTokens},
	}
	var err error
	if opt.Router, err = router(o.router); err != nil {
		return nil, console.Usage("spate sim", err)
	}
	in, err := Named(p.ReadFile, opt)
	if err != nil {
		return nil, startRefusal(p, err)
	}
	for _, w := range append(unsimulated, in.Conf.Warnings...) {
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
		return "", fmt.Errorf("router %q is not one of %s%s", name, strings.Join(known, ", "), nearest.Hint(name, known))
	}
	return cluster.Policy(name), nil
}

// startRefusal ends the command as the engine would end, or tells the user what was wrong with the
// flags.
func startRefusal(p console.Process, err error) error {
	var start *catalog.StartError
	if !errors.As(err, &start) {
		return console.Usage("spate sim", err)
	}
	p.Say("%s\n", start)
	if strings.HasSuffix(start.Type, "error") { // the argument parser's own
		return console.Exit(console.ExitUsage)
	}
	return console.Exit(console.ExitFailed)
}
