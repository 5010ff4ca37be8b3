package cli

import (
	"github.com/spf13/cobra"

	"spate/internal/console"
	"spate/internal/forecast/profile"
	"spate/internal/sim/instance"
)

// newSim is `spate sim`: the embedded server alone.
func newSim(p Process) *cobra.Command {
	var o instance.Command
	cmd := &cobra.Command{
		Use:   "sim [MODEL]",
		Short: "Serve a simulated engine, or a timetable, over the OpenAI protocol",
		Long: `Serve a model on a GPU that this machine does not have: a simulated engine of the version you name schedules, preempts
and caches as the real one does, and sends every token when the real one would. It takes the flags of vllm serve and
refuses them with the same errors. Without a model or a profile, ` + profile.Default + ` is served.

With --timetable, or any of the flags that describe one (--ttft, --itl, ...), answers follow a timetable instead: when each
token is written is known in advance, so that what a client reports can be compared with what happened.

Faults can be injected by flag, by script, or while the server runs; docs/sim.md describes all of it.`,
		Example: `  spate sim Qwen/Qwen3-8B --gpu H100 --engine-version 0.10.1 --max-num-seqs 128
  spate sim --sim Llama-3.3-70B-Instruct@H100-SXM --time-scale 10
  spate sim Qwen/Qwen3-8B --gpu H100 --prefill-engines 1 --decode-engines 1 --kv-link rdma
  spate sim --ttft 50ms --itl 10ms
  spate sim --port 9000 --fault cut,at=5,p=0.1 --fault status,code=429,p=0.05`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.Run(cmd.Context(), p, cmd.Flags(), args) },
	}
	o.Bind(cmd.Flags())
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return console.Usage(cmd.CommandPath(), o.FlagError(cmd.Flags(), p.Args[1:], err))
	})
	return cmd
}

// simArgs are the arguments of `spate sim` as its flags take them; those of other commands stay as they are.
func simArgs(args []string) []string {
	if len(args) == 0 || args[0] != "sim" {
		return args
	}
	return append([]string{"sim"}, instance.Args(args[1:])...)
}
