package cli

import "github.com/spf13/cobra"

// newSelftest is `spate selftest`: what spate itself gets wrong, measured where the truth is known.
func newSelftest(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "selftest",
		Short: "Measure how often spate's own judgements are wrong",
		Long: `Measure how often spate's own judgements are wrong, on servers whose true behaviour is known. Each of the
tests takes minutes and wants an idle machine.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
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
