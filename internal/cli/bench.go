package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"spate/internal/settings/flags"
	"spate/internal/trial/series"
)

// newBench is `spate bench [serve]`. Its flags follow argparse's rules, which cobra does not know, so
// internal/settings/flags reads them.
func newBench(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:                "bench [serve] [flags]",
		Short:              "Measure a server as vllm bench serve does, and judge the measurement",
		DisableFlagParsing: true,
		ValidArgsFunction:  completeBench,
		RunE:               func(cmd *cobra.Command, args []string) error { return runBench(cmd.Context(), p, args) },
	}
	cmd.SetHelpFunc(func(*cobra.Command, []string) { _ = flags.WriteHelp(p.Stdout, "") })
	return cmd
}

// runBench makes the runs that arguments of bench ask for.
func runBench(ctx context.Context, p Process, args []string) error {
	c := series.Command{Process: p, Executors: executors{p}, ExitOf: exitOf}
	return c.Run(ctx, args)
}

// completeBench offers flags, their values, or files to a shell.
func completeBench(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	offers, files := flags.Complete(args, word)
	if len(args) == 0 && strings.HasPrefix("serve", word) {
		offers = append(offers, flags.Completion{Text: "serve", Help: "measure a server (the default)"})
	}
	var out []string
	for _, o := range offers {
		if o.Help == "" {
			out = append(out, o.Text)
			continue
		}
		out = append(out, o.Text+"\t"+o.Help)
	}
	if files {
		return out, cobra.ShellCompDirectiveDefault
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
