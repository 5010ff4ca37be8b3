package cli

import (
	"github.com/spf13/cobra"

	"spate/internal/forecast/sizing"
)

// newPlan is spate plan: the smallest deployment for a rate. Like predict, it takes bench's flags
// for what is sent.
func newPlan(p Process) *cobra.Command {
	return beside(p, &cobra.Command{
		Use:   "plan --slo OBJECTIVES --rate RATE --profiles NAME,... [flags of bench that say what is sent]",
		Short: "Find the fewest GPUs that keep objectives at a request rate",
		Long: `Find the replicas, parallelism and flags that meet the objectives at a request rate with the fewest GPUs, or at
the lowest cost when --price gives prices. Every candidate is simulated under the load that bench would send for the same
flags; nothing is measured. docs/plan.md describes the search.`,
		Example: `  spate plan --slo 'p99_ttft<500ms,p99_tpot<50ms' --rate 20 --profiles qwen3-8b-1xA100-80GB-vllm0.10,Qwen3-8B@H100-SXM --isl 1024 --osl 128
  spate plan --slo 'p99_tpot<60ms' --rate 5 --profiles Qwen3-32B@A100-80GB-SXM,Qwen3-32B@H100-SXM \
    --price A100-80GB-SXM=1.5,H100-SXM=3 --isl 2000 --osl 300 --json`,
	}, func() besideBench { return &sizing.Command{} })
}
