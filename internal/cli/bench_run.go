package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"spate/internal/bench"
	"spate/internal/host/probe"
	"spate/internal/judge/verdict"
	"spate/internal/result"
	"spate/internal/safe/secret"
	"spate/internal/settings/config"
	"spate/internal/sim/instance"
	"spate/internal/sim/serve"
	"spate/internal/sim/wall"
	"spate/internal/view/report"
)

// spareFiles is how many descriptors a run may need beside its connections.
const spareFiles = 64

// runBench measures one server with the given settings and returns the exit code.
func runBench(ctx context.Context, p Process, cfg *config.Bench) (code int) {
	view := p.view(cfg.Output.UI)
	p.Stderr = report.NewConsole(p.Stderr) // what is said during the run goes above the live view
	p.chat = p.Stderr
	vllm := p.Stdout
	if cfg.Output.Quiet {
		cfg.Output.UI, p.chat, vllm = config.UINone, io.Discard, io.Discard
	}
	sig := newSignals(ctx, p, draining)
	sig.eager = true
	ctx = sig.ctx
	defer sig.done()
	if cfg.Sim.Enabled {
		srv, err := startEmbedded(ctx, p, cfg)
		if err != nil {
			complain(p.Stderr, "spate bench", err)
			return exitOf(err)
		}
		defer func() {
			if st := srv.Stats(); st.Lag.Lagging {
				say(p.chat, "note: the embedded server fell behind its own clock (p99 %v): this machine is too busy for it, and the figures are its lateness too\n", st.Lag.P99.Round(100*time.Microsecond))
			}
			_ = srv.Stop() // the run is over: nothing depends on how it ends
		}()
	}
	if cfg.Launch.Command != "" && !cfg.Output.DryRun {
		defer sig.hold()() // a server that is being started is ended, too
		srv, err := launchFor(ctx, p, cfg)
		if err != nil {
			complain(p.Stderr, "spate bench", err)
			return ExitFailed
		}
		defer func() { endLaunched(ctx, p, cfg, srv, code) }()
	}
	if !cfg.Output.DryRun {
		raiseFiles(p, cfg)
	}
	job := bench.Job{
		Config: cfg, Command: append([]string{"spate"}, secret.Args(p.Args)...), Version: Version,
		Getenv: p.getenv, Home: p.home(), Stdout: vllm, Stderr: p.chat, View: view, Stop: sig.stop,
		Hold: func() (release func()) { sig.hold(); return func() {} }, // until the outcome is printed and stored
	}
	if cfg.Output.DryRun {
		job.Stdout = p.Stdout
		return dryRun(ctx, p, job, sig.was)
	}
	out, err := bench.Run(ctx, job)
	if err != nil {
		complain(p.Stderr, "spate bench", errors.New(cfg.Scrub(err.Error())))
	}
	if out == nil {
		if sig.was() {
			return ExitInterrupted
		}
		return exitOf(err)
	}
	defer func() { _ = out.Close() }() // nothing of it is needed any more
	if err := printOutcome(p, cfg, out); err != nil {
		complain(p.Stderr, "spate bench", err)
		return ExitFailed
	}
	keepRun(ctx, p, cfg, out)
	return exitCode(p, cfg, out, sig.was(), err)
}

func dryRun(ctx context.Context, p Process, job bench.Job, interrupted func() bool) int {
	err := bench.DryRun(ctx, job)
	switch {
	case interrupted():
		return ExitInterrupted
	case err != nil:
		complain(p.Stderr, "spate bench --dry-run", err)
		return exitOf(err)
	}
	return ExitDone
}

// printOutcome puts vLLM's block on standard output, or that of the dialect asked for, and spate's findings
// below it.
func printOutcome(p Process, cfg *config.Bench, out *bench.Outcome) error {
	if p.compat != nil {
		return p.compat.tell(p, cfg, out)
	}
	if err := report.Block(p.Stdout, report.BlockOf(out.Run)); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	if err := findings(p, cfg, out); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	return nil
}

// findings are what fits a screen, or all with --details. With --quiet nothing stands beside the block on standard
// output; that a run is not VALID is said on standard error, where it disturbs no script and nobody misses it.
func findings(p Process, cfg *config.Bench, out *bench.Outcome) error {
	v := &out.Run.Verdict
	switch {
	case cfg.Output.Quiet && v.Grade != verdict.Valid:
		complain(p.Stderr, "spate", fmt.Errorf("%s. %s", cmp.Or(string(v.Grade), "NOT JUDGED"), v.Sentence))
		return nil
	case cfg.Output.Quiet:
		return nil
	}
	show := report.Brief
	if cfg.Output.Details {
		show = report.Findings
	}
	if err := show(p.Stdout, out.Run); err != nil {
		return err
	}
	return report.Objectives(p.Stdout, out.Run, cfg.Check.SLO)
}

// exitCode says how the run went, worst first.
func exitCode(p Process, cfg *config.Bench, out *bench.Outcome, interrupted bool, failed error) int {
	for _, u := range out.Unmet {
		say(p.Stderr, "spate bench: %s\n", u)
	}
	invalid := cfg.Check.Strict && out.Run.Verdict.Grade == verdict.InvalidRun
	if invalid {
		say(p.Stderr, "spate bench: --strict: %s\n", out.Run.Verdict.Sentence)
	}
	switch {
	case interrupted:
		return ExitInterrupted
	case failed != nil:
		return ExitFailed
	case out.Run.State == result.Aborted:
		complain(p.Stderr, "spate bench", fmt.Errorf("the run was ended early: %s (--abort-on-error %s)", out.Run.Aborted, cfg.Load.AbortOnError))
		return ExitFailed
	case out.Run.Summary.Completed == 0:
		text := ""
		if bad := out.Run.Verdict.Bad(); len(bad) > 0 && bad[0].Hint != "" {
			text = ": " + bad[0].Hint
		}
		complain(p.Stderr, "spate bench", errors.New("no request succeeded"+text))
		return ExitFailed
	case invalid || len(out.Unmet) > 0:
		return ExitUnmet
	}
	return ExitDone
}

// raiseFiles asks for enough descriptors and says so when the system refuses: without them
// connections would fail in the middle of the run.
func raiseFiles(p Process, cfg *config.Bench) {
	need := uint64(cfg.Load.NumPrompts)
	if cfg.Load.MaxConcurrency != nil {
		need = uint64(*cfg.Load.MaxConcurrency)
	}
	need += spareFiles
	if cfg.Sim.Enabled {
		need *= 2
	}
	got, err := probe.RaiseNoFile(max(need, 1024))
	if err != nil || got < need {
		say(p.chat, "note: the system allows %d open files and this run may need %d: raise it with ulimit -n, or set --max-concurrency\n", got, need)
	}
}

// startEmbedded starts the embedded server and points the settings at it.
func startEmbedded(ctx context.Context, p Process, cfg *config.Bench) (*serve.Server, error) {
	sc, title, err := embeddedConfig(p, cfg)
	if err != nil {
		return nil, err
	}
	srv, err := serve.Start(ctx, sc)
	if err != nil {
		return nil, fmt.Errorf("start the embedded server: %w", err)
	}
	cfg.Target.BaseURLs = []string{srv.URL()}
	say(p.chat, "measuring an embedded server at %s: %s\n", srv.URL(), title)
	return srv, nil
}

// embeddedConfig is the embedded server's settings, and what it is in words.
func embeddedConfig(p Process, cfg *config.Bench) (sc serve.Config, title string, err error) {
	s := &cfg.Sim
	if cfg.Timetabled() {
		sc = timetableConfig(cfg)
		title = fmt.Sprintf("TTFT %v, ITL %v (a timetable, not a model)", s.TTFT, s.ITL)
	} else {
		in, err := buildInstance(p, instance.Options{
			Profile: s.Profile, Scale: 1, Seed: uint64(cfg.Load.Seed),
			Answers: wall.Answers{Len: s.OutputLen, Vary: s.OutputVary, Reasoning: s.Reasoning, ToolTokens: s.ToolTokens},
		})
		if err != nil {
			return sc, "", err
		}
		sc, title = in.Serve, in.Title
	}
	sc.PromptTokensDetails, sc.APIKey = true, cfg.Target.APIKey.Reveal()
	sc.Models = append(embeddedModels(cfg), sc.Models...)
	sc.Script, err = faultScript(p, s.Script, s.Faults)
	return sc, title, err
}

func timetableConfig(cfg *config.Bench) serve.Config {
	s := &cfg.Sim
	return serve.Config{Timetable: serve.TimetableConfig{
		TTFT: s.TTFT, ITL: s.ITL, ChunkTokens: s.TokensPerChunk, Jitter: s.Jitter, TTFTSpread: s.TTFTSpread,
		Prefill: s.Prefill, OutputLen: s.OutputLen, OutputVary: s.OutputVary, MaxRunning: s.MaxRunning,
		Reasoning: s.Reasoning, ToolTokens: s.ToolTokens, PrefixCache: s.PrefixCache, Seed: uint64(cfg.Load.Seed),
	}}
}

// embeddedModels are the names a user's flags expect the server to answer to.
func embeddedModels(cfg *config.Bench) []string {
	if len(cfg.Tenants) > 0 {
		return tenantModels(cfg)
	}
	names := slices.Clone(cfg.Model.LoRAModules)
	switch {
	case cfg.Model.ServedName != "":
		names = append([]string{cfg.Model.ServedName}, names...)
	case cfg.Model.ID != "":
		names = append([]string{cfg.Model.ID}, names...)
	}
	return names
}

// faultScript joins a script file and faults given as flags.
func faultScript(p Process, file string, faults []string) (*serve.Script, error) {
	script := &serve.Script{}
	if file != "" {
		data, err := p.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read fault script: %w", err)
		}
		if script, err = serve.ParseScript(data); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	for _, f := range faults {
		rule, err := serve.ParseFault(f)
		if err != nil {
			return nil, err
		}
		script.Rules = append(script.Rules, rule)
	}
	return script, nil
}

func (p Process) getenv(name string) string {
	v, _ := p.Env(name)
	return v
}

func (p Process) home() string { return p.getenv("HOME") }

// view says how progress can be shown on standard error.
func (p Process) view(ui config.UI) report.LiveOptions {
	f, ok := p.Stderr.(*os.File)
	if !ok || ui == config.UIPlain {
		return report.LiveOptions{}
	}
	opt := report.Terminal(int(f.Fd()), p.getenv)
	opt.TTY = opt.TTY || ui == config.UILive
	return opt
}
