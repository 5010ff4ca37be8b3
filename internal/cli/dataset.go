package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"spate/internal/console"
	"spate/internal/load/dataset"
	"spate/internal/load/trace"
	"spate/internal/load/workload"
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
	own := pflag.NewFlagSet("stats", pflag.ContinueOnError)
	asJSON := own.Bool("json", false, "print a JSON object instead of text")
	block := own.Int("block", 16, "tokens of a cache block, for datasets other than traces")
	help := own.BoolP("help", "h", false, "help for this command")
	cmd := &cobra.Command{
		Use:   "stats [flags of spate bench]",
		Short: "Show lengths, arrival rates and the ideal prefix-hit rate of a workload",
		Long: `Make the very requests spate bench would send for the same flags, send none, and show their lengths, when
they would go, and what share of prompt tokens a prefix cache without bounds would have.`,
		Example: `  spate dataset stats --dataset-name sharegpt --dataset-path chats.json --tokenizer Qwen/Qwen3-8B
  spate dataset stats --dataset-name mooncake --dataset-path trace.jsonl --num-prompts 0 --json`,
		DisableFlagParsing: true,
	}
	cmd.SetHelpFunc(func(c *cobra.Command, _ []string) {
		mixedHelp(p.Stdout, c, own)
	})
	cmd.RunE = func(c *cobra.Command, args []string) error {
		mixed, err := divideFlags(own, args, nil)
		if err != nil {
			return console.Usage("spate dataset stats", err)
		}
		if *help {
			return c.Help()
		}
		r, err := benchSettings(p, "dataset stats", mixed.bench)
		if err != nil {
			return err
		}
		if *block < 1 {
			return console.Usage("spate dataset stats", fmt.Errorf("--block %d: a block has at least one token", *block))
		}
		tok, err := local(p).Tokenizer(&r.Bench.Model)
		if err != nil {
			return err
		}
		st, err := dataset.StatsOf(c.Context(), r.Bench, tok, func(h *workload.HF) { h.Look(p.Getenv, p.Home()) }, *block)
		if err != nil {
			return err
		}
		st.Notes = append(r.Notes, st.Notes...)
		if *asJSON {
			enc := json.NewEncoder(p.Stdout)
			enc.SetIndent("", "  ")
			return enc.Encode(st)
		}
		return st.Write(p.Stdout)
	}
	return cmd
}

// makeFlags are those of `spate dataset make`.
type makeFlags struct {
	dataset.Wish
	chunk         int
	like, to, out string
}

func newDatasetMake(p Process) *cobra.Command {
	var f makeFlags
	cmd := &cobra.Command{
		Use:   "make [flags]",
		Short: "Make a trace from statistics, or one like another",
		Long: `Write a trace with given lengths, arrivals and shared beginnings. With --like, lengths, pauses and shared
blocks are drawn from a trace that exists; a made trace can be longer than it and tells nobody's traffic.`,
		Example: `  spate dataset make --requests 1000 --rate 4 --isl 'lognormal(2000,1500)' --osl 200 --groups 20 --share 0.5 -o made.jsonl
  spate dataset make --like trace.jsonl --requests 100000 -o long.jsonl`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return runDatasetMake(p, &f) },
	}
	fs := cmd.Flags()
	fs.IntVar(&f.Requests, "requests", 1000, "rows to write")
	fs.Float64Var(&f.Rate, "rate", 1, "requests per second; inf sends all at once")
	fs.Float64Var(&f.Burst, "burstiness", 1, "shape of the gaps: 1 is Poisson, below 1 comes in bursts, inf is even")
	fs.StringVar(&f.In, "isl", "1024", "prompt lengths: a number or a law such as normal(480,240)")
	fs.StringVar(&f.Out, "osl", "128", "output lengths, likewise")
	fs.IntVar(&f.Groups, "groups", 1, "groups of prompts that begin alike")
	fs.Float64Var(&f.Share, "share", 0, "share of each prompt its group has in common, 0 to 1")
	fs.IntVar(&f.chunk, "chunk", 0, "tokens of a block; 512 for mooncake and 16 for timed_trace when not given")
	fs.StringVar(&f.like, "like", "", "trace to draw from, in the form of --to")
	fs.StringVar(&f.to, "to", "mooncake", "form: mooncake, timed_trace or burstgpt")
	fs.Uint64Var(&f.Seed, "seed", 0, "seed of everything that is drawn")
	fs.StringVarP(&f.out, "output", "o", "-", "file to write; - is standard output")
	return cmd
}

func runDatasetMake(p Process, f *makeFlags) error {
	bad := func(err error) error { return console.Usage("spate dataset make", err) }
	form, err := dataset.Format(f.to, f.chunk)
	if err != nil {
		return bad(err)
	}
	var rows []trace.Row
	if f.like != "" {
		have, err := dataset.Read(f.like, f.to, form)
		if err != nil {
			return err
		}
		rows, err = dataset.Like(have, f.Requests, form.Chunk, f.Seed)
		if err != nil {
			return bad(err)
		}
	} else if rows, err = f.Rows(form.Chunk); err != nil {
		return bad(err)
	}
	return writeOut(p, f.out, func(w io.Writer) error { return dataset.Write(w, rows, f.to, form) })
}

// writeOut writes to a file, or to standard output.
func writeOut(p Process, name string, write func(io.Writer) error) error {
	if name == "-" || name == "" {
		return write(p.Stdout)
	}
	file, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("write dataset: %w", err)
	}
	return errors.Join(write(file), file.Close())
}
