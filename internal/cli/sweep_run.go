package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"spate/internal/console"
	"spate/internal/forecast/profile"
	"spate/internal/host/launch"
	"spate/internal/search/sweep"
	"spate/internal/trial"
	"spate/internal/trial/series"
	"spate/internal/view"
)

// runSweep plans, measures what is left, and shows the results.
func runSweep(ctx context.Context, p Process, o *sweepOptions, own *pflag.FlagSet) error {
	if err := view.CheckOutputs("", o.outputs); err != nil {
		return console.Usage("spate sweep", err)
	}
	plan, dir, err := o.plan(p, own)
	if err != nil {
		return err
	}
	if err := o.choose(plan, own); err != nil {
		return err
	}
	if o.dryRun {
		return plan.WritePlan(p.Stdout, series.Resolver(p))
	}
	var prof *profile.Profile
	if plan.Predict != "" {
		if prof, err = namedProfile(p, plan.Predict); err != nil {
			return console.Usage("spate sweep", err)
		}
	}
	folder, err := sweep.Open(dir, plan)
	if err != nil {
		if _, changed := errors.AsType[*trial.ChangedError](err); changed {
			return console.Usage("spate sweep", err)
		}
		return err
	}
	defer func() { _ = folder.Close() }() // everything in it is on disk
	sig := p.Draining(ctx)
	defer sig.Done()
	ctx, stop := sig.Context, sig.Stop
	exec, err := sweepExecutor(p, prof, stop, len(folder.Journal) > 0)
	if err != nil {
		return err
	}
	left, all := folder.Left()
	p.Say("sweep in %s: %d of %d measurements to make\n", dir, left, all)
	out, err := sweep.Run(ctx, folder, sweep.Options{Executor: exec, Resolve: series.Resolver(p), UsedOK: o.usedOK, Stop: stop, Row: sweepRows(p, plan)})
	if err != nil {
		return fmt.Errorf("%w\nwhat was measured is kept; go on with: spate sweep --resume %s", err, dir)
	}
	if prof == nil {
		series.KeepRuns(ctx, p, o.noStore, plan.Args(&plan.Points[0]), out.Entries)
	}
	return concludeSweep(p, o, folder, out, sig.Was())
}

// sweepRows shows each measurement as it ends.
func sweepRows(p Process, plan *sweep.Plan) func(sweep.Row) {
	view := sweep.NewOverview(p.Stdout, plan)
	return func(r sweep.Row) {
		_ = view.Row(r) // nobody left to tell
		if r.Err != nil {
			console.Complain(p.Stderr, "spate sweep", fmt.Errorf("%s: %w", r.Point, r.Err))
		}
	}
}

// sweepExecutor makes the sweep's runs. It says when it starts a server: that may take minutes.
func sweepExecutor(p Process, prof *profile.Profile, stop <-chan struct{}, resumed bool) (trial.Executor, error) {
	if prof != nil {
		return predicted(p, prof), nil
	}
	l, err := launched(p, measured(p, stop))
	if err != nil {
		return nil, err
	}
	if resumed {
		l.Patience = settleFor
	}
	l.Starting = func(spec *launch.Spec) {
		p.Say("starting a server: %s (its output is in %s)\n", spec.Line(), spec.Log)
	}
	protected := l.Ready
	l.Ready = func(srv *launch.Server) {
		p.Say("the server is ready at %s\n", srv.URL)
		protected(srv)
	}
	return l, nil
}

// namedProfile finds a profile by name or file.
func namedProfile(p Process, name string) (*profile.Profile, error) {
	return profile.NamedShipped(p.ReadNamed, name)
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
		p.Say("all %d measurements are in %s\n", all, f.Dir)
		return nil
	}
	p.Say("%d of %d measurements are missing; go on with: spate sweep --resume %s\n", left, all, f.Dir)
	switch {
	case interrupted || out.Stopped:
		return console.Exit(ExitInterrupted)
	case out.GaveUp:
		return fmt.Errorf("gave up after %d failures in a row: %w", len(out.Failed), out.Failed[len(out.Failed)-1].Err)
	}
	return console.Exit(ExitFailed)
}

// sweepTables prints the results side by side and writes the reports that were asked for.
func sweepTables(p Process, o *sweepOptions, f *sweep.Folder, out *sweep.Outcome) error {
	var b bytes.Buffer
	if err := f.WriteTables(&b, out.Entries, p.Width()); err != nil {
		return err
	}
	if _, err := p.Stdout.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	for _, path := range o.outputs {
		if err := view.Save(path, out.Entries, view.Options{}); err != nil {
			return err
		}
		p.Say("wrote %s\n", path)
	}
	return nil
}
