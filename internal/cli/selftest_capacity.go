package cli

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"spate/internal/console"
	"spate/internal/selftest/trials"
)

// capacityTest is what the flags of selftest capacity say.
type capacityTest struct {
	options trials.Options
	only    string
	json    bool
}

// capacityTested is what it prints as JSON.
type capacityTested struct {
	Searches int              `json:"searches"`
	Seed     uint64           `json:"seed"`
	Loads    []trials.Outcome `json:"loads"`
	Alarms   []trials.Alarm   `json:"alarms"`
}

func newSelftestCapacity(p Process) *cobra.Command {
	var t capacityTest
	cmd := &cobra.Command{
		Use:   "capacity [flags]",
		Short: "Count wrong answers of spate capacity, and what they cost",
		Long: `Search the capacity of simulated servers in virtual time, many times with other arrivals, and hold the answers
against a capacity that long runs have found. Ten loads; for each the share of answers whose ends lie on the right
side of the truth, and the median of probes and of time. Then how often a probe is ended because "the queue grows",
at loads below, at and above the one where it does.

The same seed gives the same table on every machine, busy or not. docs/capacity.md has one.`,
		Example: `  spate selftest capacity
  spate selftest capacity --searches 5 --load 'p90 of TTFT'
  spate selftest capacity --json > capacity.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return t.run(cmd.Context(), p) },
	}
	f := cmd.Flags()
	f.IntVar(&t.options.Searches, "searches", 100, "searches of each load")
	f.Uint64Var(&t.options.Seed, "seed", 1, "seed of all of it")
	f.IntVar(&t.options.Parallel, "parallel", runtime.NumCPU(), "searches at a time")
	f.StringVar(&t.only, "load", "", "only the load of this name")
	f.BoolVar(&t.json, "json", false, "print JSON instead of a table")
	return cmd
}

// chosen are the loads to search.
func (t *capacityTest) chosen() ([]trials.Scenario, error) {
	all := trials.Scenarios()
	names := make([]string, len(all))
	for i, s := range all {
		if s.Name == t.only {
			return all[i : i+1], nil
		}
		names[i] = s.Name
	}
	if t.only != "" {
		return nil, fmt.Errorf("--load %q is none of: %s", t.only, strings.Join(names, "; "))
	}
	return all, nil
}

func (t *capacityTest) run(ctx context.Context, p Process) error {
	list, err := t.chosen()
	switch {
	case err != nil:
		return console.Usage("spate selftest capacity", err)
	case t.options.Searches < 1 || t.options.Searches > 10_000:
		return console.Usage("spate selftest capacity", fmt.Errorf("--searches %d is not between 1 and 10000", t.options.Searches))
	case t.options.Parallel < 1:
		return console.Usage("spate selftest capacity", fmt.Errorf("--parallel %d: at least 1 is wanted", t.options.Parallel))
	case t.options.Seed > 1_000_000:
		return console.Usage("spate selftest capacity", fmt.Errorf("--seed %d is above 1000000", t.options.Seed))
	}
	out := capacityTested{Searches: t.options.Searches, Seed: t.options.Seed}
	w := p.Stdout
	if t.json {
		w = io.Discard
	}
	console.Say(w, "| load | server | objectives | capacity | right | within 5 %% | median probes | median time | median gap |\n| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, sc := range list {
		if ctx.Err() != nil {
			return console.Exit(ExitInterrupted)
		}
		p.Say("%s: %d searches\n", sc.Name, t.options.Searches)
		o, err := trials.Run(sc, t.options)
		if err != nil {
			return err
		}
		out.Loads = append(out.Loads, o)
		console.Say(w, "| %s | %s | `%s` | %.4g to %.4g | %d of %d | %d | %.0f | %.0f s | %.0f %% |\n", o.Name, o.Profile, o.SLO, o.Truth.Low, o.Truth.High,
			o.Right, o.Searches, o.Near, o.Probes, o.Seconds, 100*(o.Gap-1))
		if o.Name == trials.Saturating {
			if out.Alarms, err = trials.Alarms(sc, o.Truth, t.options.Searches, t.options.Seed); err != nil {
				return err
			}
		}
	}
	if len(out.Alarms) > 0 {
		console.Say(w, "\n| load over capacity | probes | ended: \"the queue grows\" |\n| ---: | ---: | ---: |\n")
		for _, a := range out.Alarms {
			console.Say(w, "| %.2f | %d | %d |\n", a.Share, a.Probes, a.Ended)
		}
	}
	if t.json {
		return p.JSON(&out)
	}
	return nil
}
