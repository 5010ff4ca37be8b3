package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"spate/internal/console"
	"spate/internal/selftest/alarms"
	"spate/internal/settings/config"
)

// verdictTest is what the flags of selftest verdict say.
type verdictTest struct {
	plan   alarms.Plan
	json   bool
	output string
}

func newSelftestVerdict(p Process) *cobra.Command {
	var t verdictTest
	cmd := &cobra.Command{
		Use:   "verdict [flags]",
		Short: "Count false alarms and misses of the verdict",
		Long: `Run spate bench against simulated servers, first with nothing wrong and then with one thing wrong at a time, and
count what the verdict says. Clean runs are drawn at random: closed and open loops, 1 to 1,000 requests in flight, TTFT
5 ms to 2 s, ITL 2 to 50 ms, 30 to 3,000 requests, with and without warm-ups, shared prefixes, kept connections and a
tokenizer. Bent runs have one thing wrong, at the bound of the check that should find it and at three times it.

Server and client are processes of their own, on cores of their own. Use an idle machine with at least two cores for each
run at a time, else the verdict rightly finds what the machine does. Each run takes 1 to 6 seconds; each result is
appended to the file of --output as it comes. Exit code 3 means that a goal was missed.`,
		Example: `  spate selftest verdict                                  200 clean runs and 10 of each bent kind, one at a time
  spate selftest verdict --parallel 6 --output runs.jsonl six at a time, with every verdict kept
  spate selftest verdict --runs 0 --only client_gap       only runs in which the client is stopped`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runSelftestVerdict(cmd, p, &t) },
	}
	f := cmd.Flags()
	f.IntVar(&t.plan.Clean, "runs", 200, "clean runs")
	f.IntVar(&t.plan.Bent, "bent", 10, "runs of each bent kind at each of its two sizes")
	f.StringSliceVar(&t.plan.Only, "only", nil, "bend only these `CHECKS`, such as send_lag,client_gap")
	f.IntVar(&t.plan.Parallel, "parallel", 1, "runs at a time, each on cores of its own")
	f.Uint64Var(&t.plan.Seed, "seed", 1, "seed of what is drawn at random")
	f.DurationVar(&t.plan.Budget, "budget", 0, "begin no run after this `TIME`; 0 for no bound")
	f.StringVar(&t.output, "output", "", "append each run to this `FILE` as a line of JSON, as it ends")
	f.BoolVar(&t.json, "json", false, "print everything as JSON instead of tables")
	return cmd
}

// settle refuses what makes no sense.
func (t *verdictTest) settle() error {
	known := alarms.Checks()
	for _, name := range t.plan.Only {
		if !slices.Contains(known, name) {
			return fmt.Errorf("--only %s: nothing is bent under that name%s; there are %s", name, config.DidYouMean(name, known), strings.Join(known, ", "))
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

func runSelftestVerdict(cmd *cobra.Command, p Process, t *verdictTest) error {
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
	sig := p.Eager(cmd.Context())
	defer sig.Done()
	ctx := sig.Context
	t.plan.Program, t.plan.Dir, t.plan.Each = exe, dir, keep
	began := time.Now()
	t.plan.Say = func(what string) { p.Say("%5.0f s  %s\n", time.Since(began).Seconds(), what) }
	rep, err := alarms.Run(ctx, t.plan)
	if err = errors.Join(err, done()); err != nil {
		return fmt.Errorf("test the verdict: %w", err)
	}
	rep.Host.SpateVersion = Version
	if err := t.print(p, rep); err != nil {
		return err
	}
	switch {
	case ctx.Err() != nil:
		p.Say("spate selftest verdict: interrupted\n")
		return console.Exit(ExitInterrupted)
	case !rep.Met():
		return console.Exit(ExitUnmet)
	}
	return nil
}

// keeper appends outcomes to the file that was asked for.
func (t *verdictTest) keeper() (keep func(alarms.Outcome) error, done func() error, err error) {
	if t.output == "" {
		return func(alarms.Outcome) error { return nil }, func() error { return nil }, nil
	}
	f, err := os.OpenFile(t.output, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, nil, fmt.Errorf("--output: %w", err)
	}
	enc := json.NewEncoder(f)
	return func(o alarms.Outcome) error { return enc.Encode(o) }, f.Close, nil
}

func (t *verdictTest) print(p Process, rep *alarms.Report) error {
	if !t.json {
		return rep.Markdown(p.Stdout)
	}
	enc := json.NewEncoder(p.Stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(rep)
}
