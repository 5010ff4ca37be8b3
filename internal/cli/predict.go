package cli

import (
	"github.com/spf13/cobra"

	"spate/internal/forecast/predict"
	"spate/internal/view"
)

// newPredict is spate predict: figures of runs that nobody made. Beside its own flags it takes those
// of bench, which follow argparse's rules, so cobra does not read them.
func newPredict(p Process) *cobra.Command {
	return beside(p, &cobra.Command{
		Use:   "predict [flags of bench] --sim NAME",
		Short: "Predict what a benchmark would show, from a calibrated profile",
		Long: `Predict what a benchmark would show, from a calibrated profile, or from a model's shape and a GPU's datasheet
(model@gpu), in virtual time.

It takes all flags of bench that say what is sent and when, with the same meaning: datasets (those in files need
a tokenizer for exact lengths and shared beginnings), rates, bursts, closed loops, ramps, stages and durations. Several
values separated by commas give a table of all combinations.`,
		Example: `  spate predict --sim qwen2-7b-2xA100-80GB-vllm0.10 --stages 60s@2,60s@8 --random-input-len 1024 --random-output-len 128
  spate predict --sim qwen2-7b-2xA100-80GB-vllm0.10 --num-prompts 200 --random-input-len 1024 --random-output-len 128
  spate predict --sim qwen2-7b-2xA100-80GB-vllm0.10 --max-concurrency 1,8,64 --max-num-seqs 128,256
  spate predict --sim Qwen3-32B@H100-SXM --tensor-parallel-size 2,4 --request-rate 8
  spate predict --validate rows.json --json`,
	}, func() besideBench { return &predict.Command{Block: view.Predicted} })
}
