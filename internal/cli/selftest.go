package cli

import (
	"github.com/spf13/cobra"

	"spate/internal/selftest/alarms"
	"spate/internal/selftest/trials"
)

// newSelftest is `spate selftest`: what spate itself gets wrong, measured where the truth is known.
func newSelftest(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "selftest",
		Short: "Measure how often spate's own judgements are wrong",
		Long: `Measure how often spate's own judgements are wrong, on servers whose true behaviour is known. Each of the
tests takes minutes and needs an idle machine.`,
		Example: `  spate selftest verdict                     false alarms on clean runs, misses on runs with one thing wrong
  spate selftest capacity --searches 100     wrong answers of searches on simulated servers`,
		Args: cobra.ArbitraryArgs,
		RunE: runParent,
	}
	cmd.AddCommand(selftests(p)...)
	for _, c := range cmd.Commands() {
		c.Args = usageArgs(c.Args)
	}
	return cmd
}

// selftests are the tests, one line each.
func selftests(p Process) []*cobra.Command {
	return []*cobra.Command{newSelftestVerdict(p), newSelftestCapacity(p)}
}

func newSelftestVerdict(p Process) *cobra.Command {
	var t alarms.Command
	cmd := &cobra.Command{
		Use:   "verdict [flags]",
		Short: "Count false alarms and misses of the verdict",
		Long: `Run spate bench against simulated servers, first with nothing wrong and then with one thing wrong at a time, and
count what the verdict says. Clean runs are drawn at random: closed and open loops, 1 to 1,000 requests in flight, TTFT
5 ms to 2 s, ITL 2 to 50 ms, 30 to 3,000 requests, with and without warm-ups, shared prefixes, kept connections and a
tokenizer. Bent runs have one thing wrong: once at the bound of the check that should find it, once at three times the bound.

Server and client are separate processes on separate cores. Use an idle machine with at least two cores for each
run at a time; otherwise the verdict finds, rightly, that the machine is too busy. Each run takes 1 to 6 seconds; each
result is appended to the file of --output when it is there. Exit code 3 means that a goal was missed.`,
		Example: `  spate selftest verdict                                  200 clean runs and 10 of each bent kind, one at a time
  spate selftest verdict --parallel 6 --output runs.jsonl six at a time, with every verdict kept
  spate selftest verdict --runs 0 --only client_gap       only runs in which the client is stopped`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return t.Run(cmd.Context(), p) },
	}
	t.Bind(cmd.Flags())
	return cmd
}

func newSelftestCapacity(p Process) *cobra.Command {
	var t trials.Command
	cmd := &cobra.Command{
		Use:   "capacity [flags]",
		Short: "Count wrong answers of spate capacity, and what they cost",
		Long: `Search the capacity of simulated servers in virtual time, many times with different arrivals, and compare the answers
with the capacity that long runs have found. For each of ten loads, it prints the share of right answers (the true capacity
lies between the two loads of the answer) and the median number of probes and time. Then it prints how often a probe is
ended because "the queue grows", at loads below, at and above the one where it does.

The same seed gives the same table on every machine, busy or not. docs/capacity.md has one.`,
		Example: `  spate selftest capacity
  spate selftest capacity --searches 5 --load 'p90 of TTFT'
  spate selftest capacity --json > capacity.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return t.Run(cmd.Context(), p) },
	}
	t.Bind(cmd.Flags())
	return cmd
}
