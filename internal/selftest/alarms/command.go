package alarms

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"spate/internal/console"
	"spate/internal/nearest"
)

// Command is `spate selftest verdict`.
type Command struct {
	plan   Plan
	json   bool
	output string
}

// Bind adds the flags to a set.
func (t *Command) Bind(f *pflag.FlagSet) {
	f.IntVar(&t.plan.Clean, "runs", 200, "clean runs")
	f.IntVar(&t.plan.Bent, "bent", 10, "runs of each bent kind at each of its two sizes")
	f.StringSliceVar(&t.plan.Only, "only", nil, "bend only these `CHECKS`, such as send_lag,client_gap")
	f.IntVar(&t.plan.Parallel, "parallel", 1, "runs at a time, each on cores of its own")
	f.Uint64Var(&t.plan.Seed, "seed", 1, "seed of what is drawn at random")
	f.DurationVar(&t.plan.Budget, "budget", 0, "begin no run after this `TIME`; 0 for no bound")
	f.StringVar(&t.output, "output", "", "append each run to this `FILE` as a line of JSON, as it ends")
	f.BoolVar(&t.json, "json", false, "print everything as JSON instead of tables")
}

// settle refuses what makes no sense.
func (t *Command) settle() error {
	known := Checks()
	for _, name := range t.plan.Only {
		if !slices.Contains(known, name) {
			return fmt.Errorf("--only %s: nothing is bent under that name%s; there are %s", name, nearest.Hint(name, known), strings.Join(known, ", "))
		}
	}
	switch {
	case t.plan.Clean < 0 || t.plan.Bent < 0:
		return errors.New("--runs and --bent cannot be negative")
	case t.plan.Clean == 0 && t.plan.Bent == 0:
		return errors.New("--runs 0 --bent 0: there is nothing to run")
	case t.plan.Parallel < 1 || t.plan.Parallel > runtime.NumCPU():
		return fmt.Errorf("--parallel %d: want 1 to %d, one core for each run at least", t.plan.Parallel, runtime.NumCPU())
	case t.plan.Budget < 0:
		return fmt.Errorf("--budget %v: cannot be negative", t.plan.Budget)
	}
	return nil
}

// Run makes the runs and prints what the verdict said of them.
func (t *Command) Run(ctx context.Context, p console.Process) error {
	if err := t.settle(); err != nil {
		return console.Usage("spate selftest verdict", err)
	}
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find spate's own executable: %w", err)
	}
	dir, err := os.MkdirTemp("", "spate-selftest-")
	if err != nil {
		return fmt.Errorf("make a folder for the runs: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	keep, done, err := t.keeper()
	if err != nil {
		return err
	}
	sig := p.Eager(ctx)
	defer sig.Done()
	ctx = sig.Context
	t.plan.Program, t.plan.Dir, t.plan.Each = exe, dir, keep
	began := time.Now()
	t.plan.Say = func(what string) { p.Say("%5.0f s  %s\n", time.Since(began).Seconds(), what) }
	rep, err := Run(ctx, t.plan)
	if err = errors.Join(err, done()); err != nil {
		return fmt.Errorf("test the verdict: %w", err)
	}
	rep.Host.SpateVersion = p.Version
	if err := t.print(p, rep); err != nil {
		return err
	}
	switch {
	case ctx.Err() != nil:
		p.Say("spate selftest verdict: interrupted\n")
		return console.Exit(console.ExitInterrupted)
	case !rep.Met():
		return console.Exit(console.ExitUnmet)
	}
	return nil
}

// keeper appends outcomes to the file that was asked for.
func (t *Command) keeper() (keep func(Outcome) error, done func() error, err error) {
	if t.output == "" {
		return func(Outcome) error { return nil }, func() error { return nil }, nil
	}
	f, err := os.OpenFile(t.output, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, nil, fmt.Errorf("--output: %w", err)
	}
	enc := json.NewEncoder(f)
	return func(o Outcome) error { return enc.Encode(o) }, f.Close, nil
}

func (t *Command) print(p console.Process, rep *Report) error {
	if !t.json {
		return rep.Markdown(p.Stdout)
	}
	return p.WideJSON(rep)
}
