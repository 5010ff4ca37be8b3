package cli

import "github.com/spf13/cobra"

// newSelftest is `spate selftest`: what spate itself gets wrong, measured where the truth is known.
func newSelftest(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "selftest",
		Short: "Measure how often spate's own judgements are wrong",
		Long: `Measure how often spate's own judgements are wrong, on servers whose true behaviour is known. Each of the
tests takes minutes and wants an idle machine.`,
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
