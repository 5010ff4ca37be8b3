package cli

import (
	"strings"

	"spate/internal/forecast/profile"

	"github.com/spf13/cobra"
)

// demoArgs are the settings of the demo: a dozen seconds of a server one could meet.
var demoArgs = []string{
	"--sim", profile.Default,
	"--num-prompts", "300", "--request-rate", "25", "--random-input-len", "512", "--random-output-len", "64",
	"--percentile-metrics", "ttft,tpot,itl,e2el", "--goodput", "ttft:100", "tpot:20",
}

// newDemo is `spate demo`: a run anybody can do, on an embedded server.
func newDemo(p Process) *cobra.Command {
	return &cobra.Command{
		Use:   "demo [bench flags]",
		Short: "Measure an embedded server, to see what spate does",
		Long: `Start an embedded server on loopback, a simulated vLLM engine, measure it over real sockets for a dozen seconds,
and print the result.

It is spate bench with these settings; flags of spate bench given to it come after them and win:
  spate bench ` + strings.Join(demoArgs, " "),
		Example:            "  spate demo\n  spate demo --request-rate 100 --num-prompts 1000",
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && (args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
				return cmd.Help()
			}
			return runBench(cmd.Context(), p, append(append([]string{}, demoArgs...), args...))
		},
	}
}
