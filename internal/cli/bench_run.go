package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"spate/internal/bench"
	"spate/internal/console"
	"spate/internal/host/launch"
	"spate/internal/judge/verdict"
	"spate/internal/result"
	"spate/internal/result/store"
	"spate/internal/safe/secret"
	"spate/internal/settings/config"
	"spate/internal/trial"
	"spate/internal/trial/executor"
	"spate/internal/view/live"
	"spate/internal/view/report"
)

// runBench measures one server with the given settings and returns the exit code.
func runBench(ctx context.Context, p sitting, cfg *config.Bench) (code int) {
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
	m := measured(p.Process, sig.Stop)
	m.View, m.Stdout, m.Stderr = view, vllm, p.chat
	m.Note = func(format string, args ...any) { console.Say(p.chat, format+"\n", args...) }
	m.Show = func(_ io.Writer, cfg *config.Bench, out *bench.Outcome) error { return printOutcome(p, cfg, out) }
	m.Hold = func() (release func()) { sig.Hold(); return func() {} } // until the outcome is printed and stored
	pt := &trial.Point{Config: cfg, Command: append([]string{"spate"}, secret.Args(p.Args)...)}
	if cfg.Output.DryRun {
		m.Stdout = p.Stdout
		return dryRun(ctx, p, m, pt, sig.Was)
	}
	var exec trial.Executor = m
	if cfg.Launch.Command != "" {
		defer sig.Hold()() // a server that is being started is ended, too
		l, end, err := launchFor(p.Process, ctx, m, pt)
		if err != nil {
			console.Complain(p.Stderr, "spate bench", err)
			return ExitFailed
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
			return ExitInterrupted
		case start:
			return ExitFailed
		}
		return exitOf(err)
	}
	store.KeepRun(ctx, p.Process, p.chat, cfg, res.Run)
	return exitCode(p, cfg, res, sig.Was(), err)
}

func dryRun(ctx context.Context, p sitting, m *executor.Measured, pt *trial.Point, interrupted func() bool) int {
	err := m.DryRun(ctx, pt)
	switch {
	case interrupted():
		return ExitInterrupted
	case err != nil:
		console.Complain(p.Stderr, "spate bench --dry-run", err)
		return exitOf(err)
	}
	return ExitDone
}

// printOutcome puts vLLM's block on standard output, or that of the dialect asked for, and spate's findings
// below it.
func printOutcome(p sitting, cfg *config.Bench, out *bench.Outcome) error {
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
func findings(p sitting, cfg *config.Bench, out *bench.Outcome) error {
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
func exitCode(p sitting, cfg *config.Bench, out *trial.Result, interrupted bool, failed error) int {
	for _, u := range out.Unmet {
		p.Say("spate bench: %s\n", u)
	}
	invalid := cfg.Check.Strict && out.Run.Verdict.Grade == verdict.InvalidRun
	if invalid {
		p.Say("spate bench: --strict: %s\n", out.Run.Verdict.Sentence)
	}
	switch {
	case interrupted:
		return ExitInterrupted
	case failed != nil:
		return ExitFailed
	case out.Run.State == result.Aborted:
		console.Complain(p.Stderr, "spate bench", fmt.Errorf("the run was ended early: %s (--abort-on-error %s)", out.Run.Aborted, cfg.Load.AbortOnError))
		return ExitFailed
	case out.Run.Summary.Completed == 0:
		text := ""
		if bad := out.Run.Verdict.Bad(); len(bad) > 0 && bad[0].Hint != "" {
			text = ": " + bad[0].Hint
		}
		console.Complain(p.Stderr, "spate bench", errors.New("no request succeeded"+text))
		return ExitFailed
	case invalid || len(out.Unmet) > 0:
		return ExitUnmet
	}
	return ExitDone
}
