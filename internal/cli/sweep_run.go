package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"spate/internal/bench"
	"spate/internal/call"
	"spate/internal/forecast/profile"
	"spate/internal/host/launch"
	"spate/internal/result"
	"spate/internal/result/runs"
	"spate/internal/safe/secret"
	"spate/internal/search/sweep"
	"spate/internal/settings/config"
	"spate/internal/sim/serve"
	"spate/internal/view/report"
	"spate/internal/view/table"
)

// measuring is how commands that make many runs make one of them.
type measuring struct {
	p       Process
	command string
	profile *profile.Profile // nil: measured, not predicted
	stop    <-chan struct{}
	hooks   func(*bench.Job)
	settle  time.Duration // how long what an earlier sitting left behind may take to be gone
	usedOK  string        // GPU memory that others may use when a server is started, as typed
	said    bool          // what sayGuarded says
}

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
	m := &measuring{p: p, command: "spate sweep", usedOK: o.usedOK}
	if plan.Predict != "" {
		if m.profile, err = namedProfile(p, plan.Predict); err != nil {
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
	m.stop = stop
	if len(folder.Journal) > 0 {
		m.settle = settleFor
	}
	left, all := folder.Left()
	say(p.Stderr, "sweep in %s: %d of %d measurements to make\n", dir, left, all)
	out, err := sweep.Run(ctx, folder, m.options(plan))
	if err != nil {
		return fmt.Errorf("%w\nwhat was measured is kept; go on with: spate sweep --resume %s", err, dir)
	}
	m.keep(ctx, o.noStore, plan.Args(&plan.Points[0]), out.Entries)
	return m.conclude(o, folder, out, interrupted())
}

// options are how the sweep's points are measured and shown.
func (m *measuring) options(plan *sweep.Plan) sweep.Options {
	view := sweep.NewOverview(m.p.Stdout, plan)
	o := sweep.Options{
		Stop: m.stop, Start: m.start,
		Measure: func(ctx context.Context, t *sweep.Task) (*result.Run, error) { return m.measure(ctx, t) },
		Row: func(r sweep.Row) {
			_ = view.Row(r) // nobody left to tell
			if r.Err != nil {
				complain(m.p.Stderr, m.command, fmt.Errorf("%s: %w", r.Point, r.Err))
			}
		},
	}
	if m.profile != nil || m.simulated(plan) {
		o.Start = nil
	}
	return o
}

// simulated reports whether every point brings its own embedded server.
func (m *measuring) simulated(plan *sweep.Plan) bool {
	for i := range plan.Points {
		cfg, err := m.p.resolve(plan.Args(&plan.Points[i]))
		if err != nil || !cfg.Sim.Enabled {
			return false
		}
	}
	return true
}

// start starts a server, and says so: it may take minutes.
func (m *measuring) start(ctx context.Context, l *sweep.Launch, log string) (sweep.Running, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	spec := l.Spec(log)
	spec.Guard, spec.Patience = []string{self, guardName}, m.settle
	if simulated(spec.Command) {
		spec.GPU.Skip = noGPU
	}
	if err := spec.Choose("--launch-", l.GPUs, m.usedOK); err != nil {
		return nil, err
	}
	say(m.p.Stderr, "starting a server: %s (its output is in %s)\n", launch.Words(secret.Refer(spec.Command)), log)
	r, err := sweep.Start(ctx, spec)
	if err != nil {
		return nil, err
	}
	say(m.p.Stderr, "the server is ready at %s\n", r.URL())
	if !m.said {
		m.said = true
		sayGuarded(m.p, r.Server)
	}
	return r, nil
}

// measure makes one run in the folder it is given.
func (m *measuring) measure(ctx context.Context, t *sweep.Task) (*result.Run, error) {
	cfg, err := m.p.resolve(t.Args)
	if err != nil {
		return nil, err
	}
	cfg.Output.OutputDir = t.Dir
	cfg.Output.Metadata = append(cfg.Output.Metadata, t.Labels...)
	if cfg.Output.Label == "" {
		cfg.Output.Label = t.Point.Server
	}
	if t.Salt != "" {
		sweep.Salted(cfg, string(sweep.Salt), t.Salt)
	}
	command := append([]string{"spate", "bench"}, secret.Args(t.Args)...)
	if m.profile != nil {
		run, _, err := m.predicted(cfg, command)
		return run, err
	}
	if t.URL != "" && !cfg.Sim.Enabled {
		cfg.Target.BaseURLs = []string{t.URL}
		if cfg.Observe.ServerLog == "" {
			cfg.Observe.ServerLog = t.ServerLog
		}
	}
	if t.Reset && !cfg.Sim.Enabled { // an embedded server is new for every run
		if err := bench.ResetCache(ctx, cfg, m.p.getenv); err != nil {
			return nil, errors.New(cfg.Scrub(err.Error()))
		}
	}
	return m.bench(ctx, cfg, command)
}

// bench makes one run as `spate bench` does, and keeps in its folder what that would have printed.
func (m *measuring) bench(ctx context.Context, cfg *config.Bench, command []string) (*result.Run, error) {
	p := m.p
	p.chat = p.Stderr
	cfg.Output.Details = true // nobody reads this on a screen
	if cfg.Sim.Enabled {
		srv, err := m.embedded(ctx, cfg)
		if err != nil {
			return nil, err
		}
		defer func() { _ = srv.Stop() }() // the run is over: nothing depends on how it ends
	}
	raiseFiles(p, cfg)
	view := p.view(cfg.Output.UI)
	if !view.TTY {
		cfg.Output.UI = config.UINone // lines of progress would drown the overview
	}
	var printed bytes.Buffer
	job := bench.Job{
		Config: cfg, Command: command, Version: Version, Getenv: p.getenv, Home: p.home(),
		Stdout: &printed, Stderr: p.Stderr, View: view, Stop: m.stop,
	}
	if m.hooks != nil {
		m.hooks(&job)
	}
	out, err := bench.Run(ctx, job)
	if out == nil {
		if err == nil {
			err = errors.New("the run has no result")
		}
		return nil, errors.New(cfg.Scrub(err.Error()))
	}
	defer func() { _ = out.Close() }() // nothing of it is needed any more
	p.Stdout = &printed
	err = errors.Join(err, printOutcome(p, cfg, out))
	err = errors.Join(err, os.WriteFile(filepath.Join(cfg.Output.OutputDir, "output.txt"), printed.Bytes(), 0o600))
	if err == nil && out.Run.State == result.Aborted {
		err = fmt.Errorf("the run was ended early: %s", out.Run.Aborted)
	}
	if err == nil && out.Run.Summary.Completed == 0 && out.Run.State == result.Complete {
		err = fmt.Errorf("no request succeeded%s", firstOf(out.Run.Errors))
	}
	if err != nil {
		return out.Run, errors.New(cfg.Scrub(err.Error()))
	}
	return out.Run, nil
}

func firstOf(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return ": " + list[0]
}

// embedded starts the embedded server without a word about each.
func (m *measuring) embedded(ctx context.Context, cfg *config.Bench) (*serve.Server, error) {
	silent := m.p
	silent.chat = io.Discard
	return startEmbedded(ctx, silent, cfg)
}

// predicted makes one run in virtual time.
func (m *measuring) predicted(cfg *config.Bench, command []string) (*result.Run, []call.Record, error) {
	silent := m.p
	silent.Stderr = io.Discard // notes would come again for every point
	l, err := newLoad(silent, "sweep", cfg)
	if err != nil {
		return nil, nil, err
	}
	own, err := l.Run(m.profile, uint64(cfg.Load.Seed), false)
	if err != nil {
		return nil, nil, err
	}
	run := predictedRun(m.p, l, cfg, m.profile)
	run.Command = command
	run.Plan.Percentiles = append(run.Plan.Percentiles, objectivePercentiles(cfg)...)
	for _, kv := range cfg.Output.Metadata {
		run.Labels[kv.Key] = kv.Value
	}
	if cfg.Output.Label != "" {
		run.Labels["label"] = cfg.Output.Label
	}
	if run.Config, err = json.Marshal(cfg.Redacted()); err != nil {
		return nil, nil, fmt.Errorf("encode settings: %w", err)
	}
	recs := own.Result.Records()
	run.Compute(call.List(recs))
	run.State, run.Ended = result.Complete, run.Started.Add(own.Result.Duration)
	quiet := m.p
	quiet.Stderr = &bytes.Buffer{}
	return run, recs, savePrediction(quiet, run, recs, cfg)
}

// objectivePercentiles are those that objectives stand on.
func objectivePercentiles(cfg *config.Bench) []float64 {
	var out []float64
	for _, o := range cfg.Check.SLO {
		if o.IsPct {
			out = append(out, o.Pct)
		}
	}
	return out
}

// namedProfile finds a profile by name or file.
func namedProfile(p Process, name string) (*profile.Profile, error) {
	shipped, err := profile.Shipped()
	if err != nil {
		return nil, err
	}
	return findProfile(p, shipped, name)
}

// keep puts runs into the store, unless they were predicted or the user wants none. Those that are
// there already stay as they are.
func (m *measuring) keep(ctx context.Context, no bool, args []string, entries []runs.Entry) {
	cfg, err := m.p.resolve(args)
	if no || err != nil || cfg.Output.NoStore || m.profile != nil {
		return
	}
	if kept := keep(ctx, m.p, cfg.Output.Store, entries); len(kept) > 0 {
		say(m.p.Stderr, "%d %s in the store\n", len(kept), map[bool]string{true: "run is", false: "runs are"}[len(kept) == 1])
	}
}

// conclude shows what the sweep has so far, and how to go on.
func (m *measuring) conclude(o *sweepOptions, f *sweep.Folder, out *sweep.Outcome, interrupted bool) error {
	p := m.p
	if len(out.Entries) > 0 {
		if err := m.tables(o, f, out); err != nil {
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

// sideBySide is the results as a table: on a terminal of this width one that fits it, elsewhere (0) in Markdown
// with everything. What it says in sentences is for reports.
func sideBySide(b *bytes.Buffer, f *sweep.Folder, out *sweep.Outcome, width int) error {
	b.WriteByte('\n')
	var err error
	switch repeats := f.Plan.Repeat > 1; {
	case width == 0:
		if repeats {
			b.WriteString("Medians of each point\n\n")
			err = sweep.Table(b, f.Plan, out.Entries)
			b.WriteByte('\n')
		}
		return errors.Join(err, table.Markdown(b, out.Entries, table.Options{}))
	case repeats: // every run was told as it ended
		b.WriteString("Medians of each point\n\n")
		head, rows := sweep.Medians(f.Plan, out.Entries)
		err = table.Fit(b, head, rows, slices.Index(head, "verdict")+1, width)
	default:
		err = table.Text(b, out.Entries, width)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "latencies are in ms; everything in one table: spate report %s -o table.md\n", filepath.Join(f.Dir, "runs"))
	return nil
}

// width is that of the terminal on standard output; 0: it is none.
func (p Process) width() int {
	f, ok := p.raw().(*os.File)
	if !ok {
		return 0
	}
	opt := report.Terminal(int(f.Fd()), p.getenv)
	if !opt.TTY {
		return 0
	}
	return opt.Width()
}

// tables prints the results side by side and writes the reports that were asked for.
func (m *measuring) tables(o *sweepOptions, f *sweep.Folder, out *sweep.Outcome) error {
	var b bytes.Buffer
	err := sideBySide(&b, f, out, m.p.width())
	if err != nil {
		return err
	}
	if why := sweep.Reasons(f.Plan, out.Entries); len(why) > 0 {
		fmt.Fprintf(&b, "\nWhy not every run is VALID\n\n- %s\n", strings.Join(why, "\n- "))
	}
	if _, err := m.p.Stdout.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	for _, path := range o.outputs {
		if err := writeReport(path, out.Entries, reportFlags{}); err != nil {
			return err
		}
		say(m.p.Stderr, "wrote %s\n", path)
	}
	return nil
}
