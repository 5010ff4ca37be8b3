package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"spate/internal/console"
	"spate/internal/fleet/coordinator"
	"spate/internal/fleet/link"
	"spate/internal/fleet/wire"
	"spate/internal/view/report"
)

// answerFor is how long workers have to say that they are there.
const answerFor = time.Second

// joined connects to the fleet that a flag names.
func joined(p Process, command, word string) (*link.Link, error) {
	if word == "" {
		return nil, console.Usage(command, errors.New("missing: --fleet URL, the broker's address or join file"))
	}
	j, err := link.ReadJoin(word, p.Getenv(tokenVariable))
	if err != nil {
		return nil, console.Usage(command, fmt.Errorf("--fleet: %w", err))
	}
	return link.Dial(link.Options{Join: j, Name: command})
}

func newFleetStatus(p Process) *cobra.Command {
	var word string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status --fleet URL",
		Short: "Show who is there, and which runs are kept",
		Long: `Show the workers of a fleet: their host, version, cores, round trip to the broker, and what they do. Below stand runs of
which the broker still keeps records: those under way, and those that spate fleet collect can finish.`,
		Example: "  spate fleet status --fleet fleet.join",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := joined(p, "spate fleet status", word)
			if err != nil {
				return err
			}
			defer l.Close()
			return showFleet(cmd.Context(), p, l, asJSON)
		},
	}
	cmd.Flags().StringVar(&word, "fleet", "", "`address` of the broker, or its join file")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// fleetStatus is what `spate fleet status --json` prints.
type fleetStatus struct {
	Workers []wire.Hello `json:"workers"`
	Runs    []string     `json:"runs"`
}

func showFleet(ctx context.Context, p Process, l *link.Link, asJSON bool) error {
	all, err := coordinator.Who(ctx, l, 0, answerFor)
	if err != nil {
		return err
	}
	runs, err := l.Runs(ctx)
	if err != nil {
		return fmt.Errorf("ask for runs: %w", err)
	}
	if asJSON {
		return p.JSON(fleetStatus{all, runs})
	}
	if len(all) == 0 {
		p.Print("no worker is there; start one with: spate worker --join URL\n")
	} else {
		w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(w, "worker\thost\tversion\tcores\truns\tstate") // a lost terminal
		for _, h := range all {
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\n", h.Worker, h.Host, h.Version, h.Cores, h.Runs, workerState(&h)) // as above
		}
		if err := w.Flush(); err != nil {
			return console.Wrote(err)
		}
	}
	for _, r := range runs {
		p.Print("run %s is kept: under way, or to be finished with spate fleet collect\n", r)
	}
	return nil
}

func workerState(h *wire.Hello) string {
	text := "free"
	switch err := h.Fits(Version); {
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

func newFleetDrain(p Process) *cobra.Command {
	var word string
	cmd := &cobra.Command{
		Use:   "drain [WORKER...] --fleet URL",
		Short: "End workers when they have finished what they do",
		Long:  "Tell workers, or those that are named, to take no further run and to end when they have finished the one they work on.",
		Example: `  spate fleet drain --fleet fleet.join            all of them
  spate fleet drain gpu7-4711 --fleet fleet.join`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := joined(p, "spate fleet drain", word)
			if err != nil {
				return err
			}
			defer l.Close()
			return drainFleet(cmd.Context(), p, l, args)
		},
	}
	cmd.Flags().StringVar(&word, "fleet", "", "`address` of the broker, or its join file")
	return cmd
}

func drainFleet(ctx context.Context, p Process, l *link.Link, names []string) error {
	if len(names) == 0 {
		all, err := coordinator.Who(ctx, l, 0, answerFor)
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

func newFleetCollect(p Process) *cobra.Command {
	var word, dir string
	cmd := &cobra.Command{
		Use:   "collect RUN --fleet URL",
		Short: "Finish the folder of a run whose coordinator died",
		Long: `Put the records that the broker keeps of a run into its folder, and compute the result: for a run whose coordinator was
killed, and for one whose lost workers came back later. RUN is the name that spate fleet status shows, or the run's folder.

For a run of workers on one host, which had its broker inside the coordinator, name the folder; --fleet is not needed.`,
		Example: `  spate fleet collect 20261116-101500-1a2b3c4d --fleet fleet.join
  spate fleet collect spate-runs/20261116-101500-model-1a2b3c`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return collectRun(cmd.Context(), p, args[0], word, dir)
		},
	}
	cmd.Flags().StringVar(&word, "fleet", "", "`address` of the broker, or its join file")
	cmd.Flags().StringVar(&dir, "output-dir", "", "`folder` to write (default the one the run began with)")
	return cmd
}

// collectRun finishes a run and shows it.
func collectRun(ctx context.Context, p Process, run, word, dir string) error {
	info, err := os.Stat(run)
	folder := err == nil && info.IsDir()
	var trace coordinator.Trace
	if folder {
		if trace, err = coordinator.ReadTrace(run); err != nil {
			return err
		}
		if dir == "" {
			dir = run
		}
		run = trace.Run
	}
	var l *link.Link
	end := func() { l.Close() }
	if word == "" && trace.Dir != "" {
		l, end, err = coordinator.Home(ctx, trace.Dir)
	} else {
		l, err = joined(p, "spate fleet collect", word)
	}
	if err != nil {
		return err
	}
	finish := sync.OnceFunc(end)
	defer finish()
	c, err := coordinator.Collect(ctx, l, run, dir)
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
	return errors.Join(err, os.Remove(filepath.Join(c.Dir, coordinator.TraceFile)))
}
