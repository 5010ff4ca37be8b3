// Package series is `spate bench`: it reads its arguments, in spate's words or another tool's (compat.go), and makes one run
// (run.go), or the several of --repeat and --interleave, which it compares (series.go). Runs are shown, kept in the store
// and come to an exit code here; who makes them is handed in, since package executor stands beside it.
//
// Read this file, then run.go.
package series

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"spate/internal/bench"
	"spate/internal/console"
	"spate/internal/nearest"
	"spate/internal/settings/config"
	"spate/internal/settings/flags"
	"spate/internal/trial"
	"spate/internal/view/live"
)

// Executors choose who makes runs.
type Executors interface {
	// Measured makes runs on servers that run, or on the embedded one.
	Measured(s Sitting) Runner
	// Launched makes runs on servers that it starts; ready is called when one answers.
	Launched(s Sitting, ready func()) (trial.Executor, error)
}

// Runner makes runs, and says what it would send.
type Runner interface {
	trial.Executor
	DryRun(ctx context.Context, p *trial.Point) error
}

// Sitting is where a run shows itself, and how it is ended.
type Sitting struct {
	Stdout io.Writer // for vLLM's lines
	Stderr io.Writer // notes of the run and the live view
	View   func(config.UI) live.Options
	Show   func(w io.Writer, cfg *config.Bench, out *bench.Outcome) error
	Stop   <-chan struct{}
	Hold   func() (release func())
}

// Command is `spate bench`.
type Command struct {
	console.Process
	Executors Executors
	ExitOf    func(error) int // the exit code of a run that could not be made

	chat   io.Writer // Stderr, or nothing where only what went wrong is said
	compat *compat   // the dialect a run speaks; nil: vLLM's of today
}

// otherBenches are the siblings of vllm bench serve.
var otherBenches = []string{"throughput", "latency", "startup", "sweep", "mm-processor"}

// Run turns arguments into settings and runs them.
func (p Command) Run(ctx context.Context, args []string) error {
	args, err := dropServe(args)
	if err != nil {
		return console.Usage("spate bench", err)
	}
	if name, rest := takeCompat(args); name != "" {
		return runCompat(ctx, p, name, rest)
	}
	return runParsed(ctx, p, args)
}

// runParsed reads spate's own arguments and runs them.
func runParsed(ctx context.Context, p Command, args []string) error {
	opt := flags.Options{Env: p.Env, ReadFile: p.ReadFile, IDPrefix: "bench-" + trial.NewID() + "-"}
	if p.compat != nil && p.compat.name.Single() {
		opt.Single = "--compat " + string(p.compat.name)
	}
	r, err := flags.Parse(args, opt)
	if err != nil {
		return console.UsageIf(flags.Mistake(err), "spate bench", err)
	}
	if r.Help {
		return flags.WriteHelp(p.Stdout, r.Topic)
	}
	if _, err := launchSpec(r.Bench); r.Bench.Launch.Command != "" && err != nil {
		return console.Usage("spate bench", err)
	}
	if r.Bench.Repeat.Series() {
		return runSeries(ctx, p, args, r.Bench)
	}
	addSalt(r.Bench, func(c *config.Bench) bool { return c.Dataset.Salt == "auto" })
	if err := p.preface(r); err != nil {
		return err
	}
	if code := runBench(ctx, p, r.Bench); code != console.ExitDone {
		return console.Exit(code)
	}
	return nil
}

// preface is what stands ahead of a run: the line of settings with which the tools of --compat begin, and notes.
func (p Command) preface(r *flags.Result) error {
	o := &r.Bench.Output
	if p.compat != nil && !o.Quiet && !o.DryRun {
		if _, err := fmt.Fprintln(p.Stdout, r.Namespace); err != nil {
			return fmt.Errorf("write to standard output: %w", err)
		}
	}
	for _, note := range r.Notes {
		if !o.Quiet {
			p.Say("note: %s\n", note)
		}
	}
	return nil
}

// dropServe takes the optional word away and explains the words beside it.
func dropServe(args []string) ([]string, error) {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return args, nil
	}
	switch {
	case args[0] == "serve":
		return args[1:], nil
	case args[0] == "sweep":
		return nil, errors.New(`spate has its own command for it: "spate sweep"`)
	case slices.Contains(otherBenches, args[0]):
		return nil, fmt.Errorf("vllm bench %s is about an engine in its own process; spate measures servers: spate bench serve", args[0])
	}
	return nil, fmt.Errorf("unknown word %q after bench%s", args[0], nearest.Hint(args[0], append([]string{"serve"}, otherBenches...)))
}

// addSalt gives the prompts a beginning that no other run's have, where it is wanted.
func addSalt(c *config.Bench, wanted func(*config.Bench) bool) {
	word := trial.NewID()
	if wanted(c) {
		c.Dataset.Salt = word
	}
	for i := range c.Tenants {
		if wanted(c.Tenant(i)) {
			c.Tenants[i].Dataset.Salt = word
		}
	}
}
