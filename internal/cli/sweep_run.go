package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"spate/internal/forecast/profile"
	"spate/internal/host/launch"
	"spate/internal/result/runs"
	"spate/internal/safe/secret"
	"spate/internal/search/sweep"
	"spate/internal/trial"
	"spate/internal/view"
	"spate/internal/view/live"
)

// runSweep plans, measures what is left, and shows the results.
func runSweep(ctx context.Context, p Process, o *sweepOptions, own *pflag.FlagSet) error {
	if err := checkReport(reportFlags{outputs: o.outputs}); err != nil {
		return usage{"spate sweep", err}
	}
	plan, dir, err := o.plan(p, own)
	if err != nil {
		return err
	}
	if err := o.choose(plan, own); err != nil {
		return err
	}
	if o.dryRun {
		return plan.WritePlan(p.Stdout, p.resolve)
	}
	var prof *profile.Profile
	if plan.Predict != "" {
		if prof, err = namedProfile(p, plan.Predict); err != nil {
			return usage{"spate sweep", err}
		}
	}
	folder, err := sweep.Open(dir, plan)
	if err != nil {
		var changed *sweep.ChangedError
		if errors.As(err, &changed) {
			return usage{"spate sweep", err}
		}
		return err
	}
	defer func() { _ = folder.Close() }() // everything in it is on disk
	ctx, stop, interrupted, done := interrupts(ctx, p)
	defer done()
	exec, err := sweepExecutor(p, prof, stop, len(folder.Journal) > 0)
	if err != nil {
		return err
	}
	left, all := folder.Left()
	say(p.Stderr, "sweep in %s: %d of %d measurements to make\n", dir, left, all)
	out, err := sweep.Run(ctx, folder, sweep.Options{Executor: exec, Resolve: p.resolve, UsedOK: o.usedOK, Stop: stop, Row: sweepRows(p, plan)})
	if err != nil {
		return fmt.Errorf("%w\nwhat was measured is kept; go on with: spate sweep --resume %s", err, dir)
	}
	if prof == nil {
		p.keepRuns(ctx, o.noStore, plan.Args(&plan.Points[0]), out.Entries)
	}
	return concludeSweep(p, o, folder, out, interrupted())
}

// sweepRows shows each measurement as it ends.
func sweepRows(p Process, plan *sweep.Plan) func(sweep.Row) {
	view := sweep.NewOverview(p.Stdout, plan)
	return func(r sweep.Row) {
		_ = view.Row(r) // nobody left to tell
		if r.Err != nil {
			complain(p.Stderr, "spate sweep", fmt.Errorf("%s: %w", r.Point, r.Err))
		}
	}
}

// sweepExecutor makes the sweep's runs. It says when it starts a server: that may take minutes.
func sweepExecutor(p Process, prof *profile.Profile, stop <-chan struct{}, resumed bool) (trial.Executor, error) {
	if prof != nil {
		return p.predicted(prof), nil
	}
	l, err := p.launched(p.measured(stop))
	if err != nil {
		return nil, err
	}
	if resumed {
		l.Patience = settleFor
	}
	l.Starting = func(spec *launch.Spec) {
		say(p.Stderr, "starting a server: %s (its output is in %s)\n", launch.Words(secret.Refer(spec.Command)), spec.Log)
	}
	protected := l.Ready
	l.Ready = func(srv *launch.Server) {
		say(p.Stderr, "the server is ready at %s\n", srv.URL)
		protected(srv)
	}
	return l, nil
}

// namedProfile finds a profile by name or file.
func namedProfile(p Process, name string) (*profile.Profile, error) {
	shipped, err := profile.Shipped()
	if err != nil {
		return nil, err
	}
	return findProfile(p, shipped, name)
}

// keepRuns puts runs into the store, unless the user wants none. Those that are there already stay as they are.
func (p Process) keepRuns(ctx context.Context, no bool, args []string, entries []runs.Entry) {
	cfg, err := p.resolve(args)
	if no || err != nil || cfg.Output.NoStore {
		return
	}
	if kept := keep(ctx, p, cfg.Output.Store, entries); len(kept) > 0 {
		say(p.Stderr, "%d %s in the store\n", len(kept), map[bool]string{true: "run is", false: "runs are"}[len(kept) == 1])
	}
}

// concludeSweep shows what the sweep has so far, and how to go on.
func concludeSweep(p Process, o *sweepOptions, f *sweep.Folder, out *sweep.Outcome, interrupted bool) error {
	if len(out.Entries) > 0 {
		if err := sweepTables(p, o, f, out); err != nil {
			return err
		}
	}
	left, all := f.Left()
	if left == 0 {
		say(p.Stderr, "all %d measurements are in %s\n", all, f.Dir)
		return nil
	}
	say(p.Stderr, "%d of %d measurements are missing; go on with: spate sweep --resume %s\n", left, all, f.Dir)
	switch {
	case interrupted || out.Stopped:
		return exit{ExitInterrupted}
	case out.GaveUp:
		return fmt.Errorf("gave up after %d failures in a row: %w", len(out.Failed), out.Failed[len(out.Failed)-1].Err)
	}
	return exit{ExitFailed}
}

// width is that of the terminal on standard output; 0: it is none.
func (p Process) width() int {
	f, ok := p.raw().(*os.File)
	if !ok {
		return 0
	}
	opt := live.Terminal(int(f.Fd()), p.getenv)
	if !opt.TTY {
		return 0
	}
	return opt.Width()
}

// sweepTables prints the results side by side and writes the reports that were asked for.
func sweepTables(p Process, o *sweepOptions, f *sweep.Folder, out *sweep.Outcome) error {
	var b bytes.Buffer
	if err := f.WriteTables(&b, out.Entries, p.width()); err != nil {
		return err
	}
	if _, err := p.Stdout.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	for _, path := range o.outputs {
		if err := writeReport(path, out.Entries, view.Options{}); err != nil {
			return err
		}
		say(p.Stderr, "wrote %s\n", path)
	}
	return nil
}
