package trials

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/spf13/pflag"

	"spate/internal/console"
)

// Command is `spate selftest capacity`.
type Command struct {
	options Options
	only    string
	json    bool
}

// tested is what it prints as JSON.
type tested struct {
	Searches int       `json:"searches"`
	Seed     uint64    `json:"seed"`
	Loads    []Outcome `json:"loads"`
	Alarms   []Alarm   `json:"alarms"`
}

// Bind adds the flags to a set.
func (t *Command) Bind(f *pflag.FlagSet) {
	f.IntVar(&t.options.Searches, "searches", 100, "searches of each load")
	f.Uint64Var(&t.options.Seed, "seed", 1, "seed of all of it")
	f.IntVar(&t.options.Parallel, "parallel", runtime.NumCPU(), "searches at a time")
	f.StringVar(&t.only, "load", "", "only the load of this name")
	f.BoolVar(&t.json, "json", false, "print JSON instead of a table")
}

// chosen are the loads to search.
func (t *Command) chosen() ([]Scenario, error) {
	all := Scenarios()
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

// Run makes the searches and prints what came of them.
func (t *Command) Run(ctx context.Context, p console.Process) error {
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
	out := tested{Searches: t.options.Searches, Seed: t.options.Seed}
	w := p.Stdout
	if t.json {
		w = io.Discard
	}
	console.Say(w, "| load | server | objectives | capacity | right | within 5 %% | median probes | median time | median gap |\n| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, sc := range list {
		if ctx.Err() != nil {
			return console.Exit(console.ExitInterrupted)
		}
		p.Say("%s: %d searches\n", sc.Name, t.options.Searches)
		o, err := Run(sc, t.options)
		if err != nil {
			return err
		}
		out.Loads = append(out.Loads, o)
		console.Say(w, "| %s | %s | `%s` | %.4g to %.4g | %d of %d | %d | %.0f | %.0f s | %.0f %% |\n", o.Name, o.Profile, o.SLO, o.Truth.Low, o.Truth.High,
			o.Right, o.Searches, o.Near, o.Probes, o.Seconds, 100*(o.Gap-1))
		if o.Name == Saturating {
			if out.Alarms, err = Alarms(sc, o.Truth, t.options.Searches, t.options.Seed); err != nil {
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
