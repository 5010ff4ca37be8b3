package series

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"spate/internal/bench"
	"spate/internal/console"
	"spate/internal/host/launch"
	"spate/internal/judge/verdict"
	"spate/internal/result"
	"spate/internal/result/store"
	"spate/internal/safe/secret"
	"spate/internal/settings/config"
	"spate/internal/trial"
	"spate/internal/view/live"
	"spate/internal/view/report"
)

// runBench measures one server with the given settings and returns the exit code.
func runBench(ctx context.Context, p Command, cfg *config.Bench) (code int) {
	view := p.View
	p.Stderr = live.NewConsole(p.Stderr) // what is said during the run goes above the live view
	p.chat = p.Stderr
	vllm := p.Stdout
	if cfg.Output.Quiet {
		cfg.Output.UI, p.chat, vllm = config.UINone, io.Discard, io.Discard
	}
	sig := p.Eager(ctx)
	ctx = sig.Context
	defer sig.Done()
	how := Sitting{
		Stdout: vllm, Stderr: p.chat, View: view, Stop: sig.Stop,
		Show: func(_ io.Writer, cfg *config.Bench, out *bench.Outcome) error { return p.show(cfg, out) },
		Hold: func() (release func()) { sig.Hold(); return func() {} }, // until the outcome is printed and stored
	}
	pt := &trial.Point{Config: cfg, Command: append([]string{"spate"}, secret.Args(p.Args)...)}
	if cfg.Output.DryRun {
		how.Stdout = p.Stdout
		return dryRun(ctx, p, p.Executors.Measured(how), pt, sig.Was)
	}
	var exec trial.Executor = p.Executors.Measured(how)
	if cfg.Launch.Command != "" {
		defer sig.Hold()() // a server that is being started is ended, too
		l, end, err := p.launch(ctx, how, pt)
		if err != nil {
			console.Complain(p.Stderr, "spate bench", err)
			return console.ExitFailed
		}
		exec = l
		defer func() { end(code) }()
	}
	res, err := exec.Try(ctx, pt)
	_, start := errors.AsType[*trial.StartError](err)
	if f, ok := errors.AsType[*launch.Failure](err); ok && start && sig.Was() {
		err = fmt.Errorf("the server was ended before it was ready; its log is %s", f.Log)
	}
	if err != nil {
		console.Complain(p.Stderr, "spate bench", err)
	}
	if res == nil {
		switch {
		case sig.Was():
			return console.ExitInterrupted
		case start:
			return console.ExitFailed
		}
		return p.ExitOf(err)
	}
	store.KeepRun(ctx, p.Process, p.chat, cfg, res.Run)
	return exitCode(p, cfg, res, sig.Was(), err)
}

func dryRun(ctx context.Context, p Command, m Runner, pt *trial.Point, interrupted func() bool) int {
	err := m.DryRun(ctx, pt)
	switch {
	case interrupted():
		return console.ExitInterrupted
	case err != nil:
		console.Complain(p.Stderr, "spate bench --dry-run", err)
		return p.ExitOf(err)
	}
	return console.ExitDone
}

// Printer puts a finished run on an output as `spate bench` does, for runs of many.
func Printer(p console.Process) func(w io.Writer, cfg *config.Bench, out *bench.Outcome) error {
	return func(w io.Writer, cfg *config.Bench, out *bench.Outcome) error {
		p.Stdout = w
		return Command{Process: p}.show(cfg, out)
	}
}

// show puts vLLM's block on standard output, or that of the dialect asked for, and spate's findings
// below it.
func (p Command) show(cfg *config.Bench, out *bench.Outcome) error {
	if p.compat != nil {
		return p.compat.tell(p, cfg, out)
	}
	if err := report.Run(p.Stdout, out.Run); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	if err := findings(p, cfg, out); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	return nil
}

// findings are what fits a screen, or all with --details. With --quiet nothing stands beside the block on standard
// output; that a run is not VALID is said on standard error, where it disturbs no script and nobody misses it.
func findings(p Command, cfg *config.Bench, out *bench.Outcome) error {
	v := &out.Run.Verdict
	switch {
	case cfg.Output.Quiet && v.Grade != verdict.Valid:
		console.Complain(p.Stderr, "spate", fmt.Errorf("%s. %s", cmp.Or(string(v.Grade), "NOT JUDGED"), v.Sentence))
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
func exitCode(p Command, cfg *config.Bench, out *trial.Result, interrupted bool, failed error) int {
	for _, u := range out.Unmet {
		p.Say("spate bench: %s\n", u)
	}
	invalid := cfg.Check.Strict && out.Run.Verdict.Grade == verdict.InvalidRun
	if invalid {
		p.Say("spate bench: --strict: %s\n", out.Run.Verdict.Sentence)
	}
	switch {
	case interrupted:
		return console.ExitInterrupted
	case failed != nil:
		return console.ExitFailed
	case out.Run.State == result.Aborted:
		console.Complain(p.Stderr, "spate bench", fmt.Errorf("the run was ended early: %s (--abort-on-error %s)", out.Run.Aborted, cfg.Load.AbortOnError))
		return console.ExitFailed
	case out.Run.Summary.Completed == 0:
		text := ""
		if bad := out.Run.Verdict.Bad(); len(bad) > 0 && bad[0].Hint != "" {
			text = ": " + bad[0].Hint
		}
		console.Complain(p.Stderr, "spate bench", errors.New("no request succeeded"+text))
		return console.ExitFailed
	case invalid || len(out.Unmet) > 0:
		return console.ExitUnmet
	}
	return console.ExitDone
}

// launchSpec is the server a run asks for. The error is the user's mistake.
func launchSpec(cfg *config.Bench) (launch.Spec, error) {
	l := &cfg.Launch
	words, err := launch.Split(l.Command)
	if err != nil {
		return launch.Spec{}, fmt.Errorf("--launch %s: %w", l.Command, err)
	}
	if len(words) == 0 {
		return launch.Spec{}, errors.New("--launch: there is no command in it")
	}
	spec := launch.Spec{Command: words, Ready: l.Ready, Log: l.Log}
	err = spec.Choose("--launch-", l.GPUs, l.UsedOK)
	return spec, err
}

// launch prepares the start of the server that a run asks for. end ends it; a log that nobody asked for is kept
// only where something went wrong.
func (p Command) launch(ctx context.Context, how Sitting, pt *trial.Point) (_ trial.Executor, end func(code int), err error) {
	cfg := pt.Config
	spec, err := launchSpec(cfg)
	if err != nil {
		return nil, nil, err
	}
	if len(cfg.Target.BaseURLs) > 0 {
		spec.URL = cfg.Target.BaseURLs[0]
	}
	if spec.Log == "" { // in a folder of its own that nobody else can enter or foresee
		dir, err := os.MkdirTemp("", "spate-server-")
		if err != nil {
			return nil, nil, fmt.Errorf("make a folder for the server's log: %w", err)
		}
		spec.Log = filepath.Join(dir, "server.log")
	}
	started := false
	l, err := p.Executors.Launched(how, func() { started = true })
	if err != nil {
		return nil, nil, err
	}
	pt.Server = &trial.Server{Spec: spec}
	return l, func(code int) {
		err := l.Close(ctx)
		if err != nil {
			console.Complain(p.Stderr, "spate bench", err)
		}
		switch {
		case cfg.Launch.Log != "" || !started: // why it did not start is told with its log
		case err == nil && code == console.ExitDone:
			_ = os.RemoveAll(filepath.Dir(spec.Log)) // only litter
		default:
			p.Say("the server's log is %s\n", spec.Log)
		}
	}, nil
}
