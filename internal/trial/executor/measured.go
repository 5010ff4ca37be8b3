// Package executor makes the runs of package trial: Measured on a server that runs or the embedded one, Launched on
// servers it starts, Predicted in virtual time. The command line chooses one and hands in where notes and outcomes
// are shown; nothing is printed here. One contract test holds for all three.
//
// Read measured.go first; watch.go follows a run and ends it early, embedded.go starts the server of --sim.
package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"spate/internal/bench"
	"spate/internal/host/probe"
	"spate/internal/result"
	"spate/internal/settings/config"
	"spate/internal/trial"
	"spate/internal/view/live"
)

// OutputFile is where a run of many keeps what `spate bench` would have printed.
const OutputFile = "output.txt"

// spareFiles is how many descriptors a run may need beside its connections.
const spareFiles = 64

// Measured makes runs on the server that their settings name, or on the embedded one.
type Measured struct {
	Version  string // of spate
	Getenv   func(string) string
	Home     string
	ReadFile func(name string) ([]byte, error)

	// Stdout is for vLLM's lines. nil: this is a run of many, and they go to OutputFile in the run's folder.
	Stdout io.Writer
	Stderr io.Writer                        // notes of the run and the live view
	View   func(config.UI) live.Options     // nil: there is no terminal
	Note   func(format string, args ...any) // told of what concerns the run as a whole
	Show   func(w io.Writer, cfg *config.Bench, out *bench.Outcome) error

	// Fleet finds the workers that are to send the load of a run whose settings want some; end lets go of them.
	Fleet func(ctx context.Context, cfg *config.Bench) (drive Drive, end func(), err error)

	Stop <-chan struct{}         // closed to end a run: requests in flight have --grace-period to finish
	Hold func() (release func()) // called when there is something to write; nil: nobody wants to know
}

// Drive has a load sent by others.
type Drive = func(context.Context, bench.DriveInput) (bench.Driven, error)

var _ trial.Executor = (*Measured)(nil)

// Try implements trial.Executor.
func (m *Measured) Try(ctx context.Context, p *trial.Point) (*trial.Result, error) {
	return m.try(ctx, p, nil)
}

// Close implements trial.Executor: nothing outlives a run.
func (m *Measured) Close(context.Context) error { return nil }

// many reports whether this is one run of many, about which little is said.
func (m *Measured) many() bool { return m.Stdout == nil }

// try makes a run; died is closed when its server is gone.
func (m *Measured) try(ctx context.Context, p *trial.Point, died <-chan struct{}) (*trial.Result, error) {
	cfg := p.Config
	end, err := m.prepare(ctx, p)
	if err != nil {
		return nil, err
	}
	defer end()
	var printed bytes.Buffer
	job := m.job(p, &printed)
	if cfg.Fleet.On() {
		drive, let, err := m.Fleet(ctx, cfg)
		if err != nil {
			return nil, clean(cfg, err)
		}
		defer let()
		job.Drive = drive
	}
	f := m.follow(ctx, p.Watch, died, &job)
	out, err := bench.Run(f.ctx, job)
	early := f.end()
	if out == nil {
		if err == nil {
			err = errors.New("the run has no result")
		}
		return nil, clean(cfg, err)
	}
	defer func() { _ = out.Close() }() // nothing of it is needed any more
	res := &trial.Result{Run: out.Run, Early: early, Unmet: out.Unmet}
	err = errors.Join(err, m.Show(job.Stdout, cfg, out))
	if !m.many() {
		return res, clean(cfg, err)
	}
	err = errors.Join(err, os.WriteFile(filepath.Join(cfg.Output.OutputDir, OutputFile), printed.Bytes(), 0o600))
	return res, clean(cfg, errors.Join(err, useless(out.Run)))
}

// prepare makes the server ready: end lets go of it.
func (m *Measured) prepare(ctx context.Context, p *trial.Point) (end func(), err error) {
	end = func() {}
	cfg := p.Config
	if m.many() {
		cfg.Output.Details = true // nobody reads this on a screen
		if !m.view(cfg).TTY {
			cfg.Output.UI = config.UINone // lines of progress would drown the overview
		}
	}
	switch {
	case cfg.Sim.Enabled: // new for every run
		if end, err = m.embed(ctx, cfg); err != nil {
			return nil, err
		}
	case p.Reset:
		if err := bench.ResetCache(ctx, cfg, m.Getenv); err != nil {
			return nil, clean(cfg, err)
		}
	}
	m.raiseFiles(cfg)
	return end, nil
}

func (m *Measured) view(cfg *config.Bench) live.Options {
	if m.View == nil {
		return live.Options{}
	}
	return m.View(cfg.Output.UI)
}

// job is the run for package bench.
func (m *Measured) job(p *trial.Point, printed io.Writer) bench.Job {
	j := bench.Job{
		Config: p.Config, Command: p.Command, Version: m.Version, Getenv: m.Getenv, Home: m.Home,
		Stdout: m.Stdout, Stderr: m.Stderr, View: m.view(p.Config), Stop: m.Stop, Hold: m.Hold,
	}
	if m.many() {
		j.Stdout = printed
	}
	return j
}

// DryRun says what a run would send, and sends nothing.
func (m *Measured) DryRun(ctx context.Context, p *trial.Point) error {
	if p.Config.Sim.Enabled {
		end, err := m.embed(ctx, p.Config)
		if err != nil {
			return err
		}
		defer end()
	}
	return bench.DryRun(ctx, m.job(p, nil))
}

// useless is why a run that came to an end is no measurement; nil where it is one.
func useless(run *result.Run) error {
	switch {
	case run.State == result.Aborted:
		return fmt.Errorf("the run was ended early: %s", run.Aborted)
	case run.Summary.Completed > 0 || run.State != result.Complete:
		return nil
	case len(run.Errors) == 0:
		return errors.New("no request succeeded")
	}
	return fmt.Errorf("no request succeeded: %s", run.Errors[0])
}

// cleaned is an error whose text has no secrets of the settings.
type cleaned struct {
	text string
	err  error
}

func (c *cleaned) Error() string { return c.text }
func (c *cleaned) Unwrap() error { return c.err }

func clean(cfg *config.Bench, err error) error {
	if err == nil {
		return nil
	}
	return &cleaned{cfg.Scrub(err.Error()), err}
}

// raiseFiles asks for enough descriptors and says so when the system refuses: without them connections would fail in
// the middle of the run.
func (m *Measured) raiseFiles(cfg *config.Bench) {
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
		m.Note("note: the system allows %d open files and this run may need %d: raise it with ulimit -n, or set --max-concurrency", got, need)
	}
}

// roundLag is how exactly a server's lateness is told.
const roundLag = 100 * time.Microsecond
