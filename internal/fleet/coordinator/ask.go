package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"spate/internal/call"
	"spate/internal/console"
	"spate/internal/fleet/clock"
	"spate/internal/fleet/link"
	"spate/internal/fleet/wire"
	"spate/internal/view/report"
)

// answerFor is how long workers have to say that they are there.
const answerFor = time.Second

// joined connects to the fleet that a flag names.
func joined(p console.Process, command, word string) (*link.Link, error) {
	if word == "" {
		return nil, console.Usage(command, errors.New("missing: --fleet URL, the broker's address or join file"))
	}
	j, err := link.ReadJoin(word, p.Getenv(link.TokenVariable))
	if err != nil {
		return nil, console.Usage(command, fmt.Errorf("--fleet: %w", err))
	}
	return link.Dial(link.Options{Join: j, Name: command})
}

// StatusCommand is `spate fleet status`.
type StatusCommand struct {
	fleet string
	json  bool
}

// Bind adds its flags.
func (o *StatusCommand) Bind(f *pflag.FlagSet) {
	bindFleet(f, &o.fleet)
	f.BoolVar(&o.json, "json", false, "print JSON")
}

func bindFleet(f *pflag.FlagSet, word *string) {
	f.StringVar(word, "fleet", "", "`address` of the broker, or its join file")
}

// Run prints who is there.
func (o *StatusCommand) Run(ctx context.Context, p console.Process) error {
	l, err := joined(p, "spate fleet status", o.fleet)
	if err != nil {
		return err
	}
	defer l.Close()
	return showFleet(ctx, p, l, o.json)
}

// fleetStatus is what `spate fleet status --json` prints.
type fleetStatus struct {
	Workers []workerStatus `json:"workers"`
	Runs    []string       `json:"runs"`
}

// workerStatus is a worker, and its wall clock beside this host's; nil: it did not tell.
type workerStatus struct {
	wire.Hello
	Clock *clock.Estimate `json:"clock,omitempty"`
}

func showFleet(ctx context.Context, p console.Process, l *link.Link, asJSON bool) error {
	all, err := Who(ctx, l, 0, answerFor)
	if err != nil {
		return err
	}
	runs, err := l.Runs(ctx)
	if err != nil {
		return fmt.Errorf("ask for runs: %w", err)
	}
	workers := clocks(ctx, l, all)
	if err := ctx.Err(); err != nil {
		return err
	}
	if asJSON {
		return p.JSON(fleetStatus{workers, runs})
	}
	if len(workers) == 0 {
		p.Print("no worker is there; start one with: spate worker --join URL\n")
	} else if err := writeWorkers(p.Stdout, workers, p.Version); err != nil {
		return console.Wrote(err)
	}
	for _, r := range runs {
		p.Print("run %s is kept: under way, or to be finished with spate fleet collect\n", r)
	}
	return nil
}

// clocksAtOnce is how many workers are asked for the time together: more would wait for each other, and look slower.
const clocksAtOnce = 4

// clocks asks each worker for its wall clock.
func clocks(ctx context.Context, l *link.Link, all []wire.Hello) []workerStatus {
	out := make([]workerStatus, len(all))
	slots := make(chan struct{}, clocksAtOnce)
	var wait sync.WaitGroup
	for i, h := range all {
		out[i].Hello = h
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			if est, err := l.AskWallClock(ctx, h.Worker); err == nil {
				out[i].Clock = &est
			}
		})
	}
	wait.Wait()
	return out
}

// writeWorkers is the table of workers.
func writeWorkers(to io.Writer, all []workerStatus, version string) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "worker\thost\tversion\tcores\tload\tclock offset\tround trip\truns\tstate") // Flush tells
	for i := range all {
		h := &all[i]
		load, offset, trip := "-", "-", "-"
		if h.Load != nil {
			load = fmt.Sprintf("%.2f", *h.Load)
		}
		if c := h.Clock; c != nil {
			offset = fmt.Sprintf("%+.3f ± %.3f ms", call.Millis(c.Offset), call.Millis(c.RoundTrip)/2)
			trip = fmt.Sprintf("%.3f ms", call.Millis(c.RoundTrip))
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%d\t%s\n", h.Worker, h.Host, h.Version, h.Cores, load, offset, trip, h.Runs, workerState(&h.Hello, version)) // as above
	}
	return w.Flush()
}

func workerState(h *wire.Hello, version string) string {
	text := "free"
	switch err := h.Fits(version); {
	case err != nil:
		text = "another version"
	case h.Run != "":
		text = "works on " + h.Run
	case h.Draining:
		text = "draining"
	}
	if h.Waiting > 0 {
		text += fmt.Sprintf(", %d runs to deliver", h.Waiting)
	}
	return text
}

// DrainCommand is `spate fleet drain`.
type DrainCommand struct{ fleet string }

// Bind adds its flags.
func (o *DrainCommand) Bind(f *pflag.FlagSet) { bindFleet(f, &o.fleet) }

// Run ends the workers of these names, or all.
func (o *DrainCommand) Run(ctx context.Context, p console.Process, names []string) error {
	l, err := joined(p, "spate fleet drain", o.fleet)
	if err != nil {
		return err
	}
	defer l.Close()
	return drainFleet(ctx, p, l, names)
}

func drainFleet(ctx context.Context, p console.Process, l *link.Link, names []string) error {
	if len(names) == 0 {
		all, err := Who(ctx, l, 0, answerFor)
		if err != nil {
			return err
		}
		for _, h := range all {
			names = append(names, h.Worker)
		}
	}
	var errs error
	for _, name := range names {
		if err := wire.Name("worker", name); err != nil {
			return console.Usage("spate fleet drain", err)
		}
		ask, cancel := context.WithTimeout(ctx, 2*answerFor)
		var h wire.Hello
		err := link.Ask(ask, l, wire.WorkerDrain(name), &wire.Answer{OK: true}, &h)
		cancel()
		switch {
		case err != nil:
			errs = errors.Join(errs, fmt.Errorf("worker %s does not answer: %w", name, err))
		case h.Run != "":
			p.Print("%s ends after run %s\n", name, h.Run)
		default:
			p.Print("%s ends\n", name)
		}
	}
	if len(names) == 0 {
		p.Print("no worker is there\n")
	}
	return errs
}

// CollectCommand is `spate fleet collect`.
type CollectCommand struct{ fleet, dir string }

// Bind adds its flags.
func (o *CollectCommand) Bind(f *pflag.FlagSet) {
	bindFleet(f, &o.fleet)
	f.StringVar(&o.dir, "output-dir", "", "`folder` to write (default the one the run began with)")
}

// Run finishes a run and shows it.
func (o *CollectCommand) Run(ctx context.Context, p console.Process, run string) error {
	dir := o.dir
	info, err := os.Stat(run)
	folder := err == nil && info.IsDir()
	var trace Trace
	if folder {
		if trace, err = ReadTrace(run); err != nil {
			return err
		}
		if dir == "" {
			dir = run
		}
		run = trace.Run
	}
	var l *link.Link
	end := func() { l.Close() }
	if o.fleet == "" && trace.Dir != "" {
		l, end, err = Home(ctx, trace.Dir)
	} else {
		l, err = joined(p, "spate fleet collect", o.fleet)
	}
	if err != nil {
		return err
	}
	finish := sync.OnceFunc(end)
	defer finish()
	c, err := Collect(ctx, l, run, dir)
	if err != nil {
		return err
	}
	p.Note("%s: %d records were added", c.Dir, c.Added)
	if c.Refused > 0 {
		p.Note("%d messages were no records, and were left out", c.Refused)
	}
	if err := report.Run(p.Stdout, c.Run); err != nil {
		return console.Wrote(err)
	}
	if err := report.Brief(p.Stdout, c.Run); err != nil {
		return console.Wrote(err)
	}
	if len(c.Open) > 0 {
		p.Note("of worker %s the end is not known: its records may still come, and collecting again adds them", strings.Join(c.Open, ", "))
		return nil
	}
	if err := l.DropRun(ctx, run); err != nil {
		return err
	}
	finish()
	if trace.Dir != "" {
		err = os.RemoveAll(trace.Dir) // everything of it is in the folder now
	}
	return errors.Join(err, os.Remove(filepath.Join(c.Dir, TraceFile)))
}
