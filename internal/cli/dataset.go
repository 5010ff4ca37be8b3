package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"spate/internal/load/dataset"
)

// newDataset is `spate dataset stats|make|convert`.
func newDataset(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dataset",
		Short: "Show a workload before it is sent, make one, or convert one",
		Long: `Show what a workload looks like before anything is sent, make a trace from statistics, or turn one form
of dataset into another.`,
		Example: `  spate dataset stats --dataset-name mooncake --dataset-path trace.jsonl --num-prompts 0
  spate dataset make --like trace.jsonl --requests 100000 -o long.jsonl
  spate dataset make --requests 1000 --rate 4 --isl 'lognormal(2000,1500)' --osl 200 --groups 20 --share 0.5 -o made.jsonl
  spate dataset convert --from burstgpt --to mooncake burst.csv -o burst.jsonl
  spate dataset convert --from sharegpt --to mooncake --rate 2 --tokenizer Qwen/Qwen3-8B chats.json -o chats.jsonl`,
		Args: cobra.ArbitraryArgs,
		RunE: runParent,
	}
	cmd.AddCommand(newDatasetStats(p), newDatasetMake(p), newDatasetConvert(p))
	for _, c := range cmd.Commands() {
		c.Args = usageArgs(c.Args)
	}
	return cmd
}

func newDatasetStats(p Process) *cobra.Command {
	return beside(p, &cobra.Command{
		Use:   "stats [flags of spate bench]",
		Short: "Show lengths, arrival rates and the ideal prefix-hit rate of a workload",
		Long: `Make exactly the requests that spate bench would send for the same flags, but do not send them. Show their lengths, when
they would be sent, and what share of prompt tokens an unlimited prefix cache would hold.`,
		Example: `  spate dataset stats --dataset-name sharegpt --dataset-path chats.json --tokenizer Qwen/Qwen3-8B
  spate dataset stats --dataset-name mooncake --dataset-path trace.jsonl --num-prompts 0 --json`,
	}, func() besideBench { return &dataset.StatsCommand{} })
}

func newDatasetMake(p Process) *cobra.Command {
	var f dataset.MakeCommand
	cmd := &cobra.Command{
		Use:   "make [flags]",
		Short: "Make a trace from statistics, or one like another",
		Long: `Write a trace with given lengths, arrivals and shared beginnings. With --like, lengths, pauses and shared
blocks are drawn from an existing trace; the new one can be longer and does not reveal anybody's traffic.`,
		Example: `  spate dataset make --requests 1000 --rate 4 --isl 'lognormal(2000,1500)' --osl 200 --groups 20 --share 0.5 -o made.jsonl
  spate dataset make --like trace.jsonl --requests 100000 -o long.jsonl`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return f.Run(p) },
	}
	f.Bind(cmd.Flags())
	return cmd
}

func newDatasetConvert(p Process) *cobra.Command {
	var f dataset.ConvertCommand
	cmd := &cobra.Command{
		Use:   "convert --from FORM --to FORM [flags] FILE",
		Short: "Turn a dataset into another form",
		Long: `Turn a file of one form into another: sharegpt, custom (JSON lines of prompts), mooncake, timed_trace and
burstgpt.

A trace made from prompts holds their lengths and, as block ids, which beginnings they share; nothing of the
text is in it. Prompts made from a trace are words or random tokens with exactly that structure.`,
		Example: `  spate dataset convert --from sharegpt --to mooncake --rate 2 chats.json -o chats.jsonl
  spate dataset convert --from mooncake --to custom --tokenizer Qwen/Qwen3-8B trace.jsonl -o prompts.jsonl
  spate dataset convert --from burstgpt --to timed_trace burst.csv -o burst.jsonl`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%d files named: one is converted at a time", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.Run(cmd.Context(), p, args[0]) },
	}
	f.Bind(cmd.Flags())
	return cmd
}
