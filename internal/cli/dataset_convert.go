package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"spate/internal/console"
	"spate/internal/load/dataset"
	"spate/internal/settings/config"
)

// convertFlags are those of `spate dataset convert`.
type convertFlags struct {
	dataset.Conversion
	out, tokenizer string
}

func newDatasetConvert(p Process) *cobra.Command {
	var f convertFlags
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
		RunE: func(cmd *cobra.Command, args []string) error { return runDatasetConvert(cmd.Context(), p, &f, args[0]) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.From, "from", "", "form of the file: sharegpt, custom, mooncake, timed_trace or burstgpt")
	fs.StringVar(&f.To, "to", "", "form to write, one of the same")
	fs.StringVar(&f.tokenizer, "tokenizer", "", "tokenizer that counts and makes tokens; without it, lengths of text are estimates")
	fs.IntVar(&f.Chunk, "chunk", 0, "tokens of a block; 512 for mooncake and 16 for timed_trace when not given")
	fs.Float64Var(&f.Rate, "rate", 0, "requests per second, evenly spaced, where the file has no times")
	fs.StringVarP(&f.out, "output", "o", "-", "file to write; - is standard output")
	return cmd
}

func runDatasetConvert(ctx context.Context, p Process, f *convertFlags, path string) error {
	all := dataset.Forms()
	for flag, form := range map[string]string{"from": f.From, "to": f.To} {
		if !slices.Contains(all, form) {
			return console.Usage("spate dataset convert", fmt.Errorf("--%s %q is none of %s%s", flag, form, strings.Join(all, ", "), config.DidYouMean(form, all)))
		}
	}
	tok, err := local(p).Tokenizer(&config.Model{Tokenizer: f.tokenizer})
	if err != nil {
		return err
	}
	f.Tokenizer = tok
	write, notes, err := f.Read(ctx, path)
	for _, n := range notes {
		p.Say("note: %s\n", n)
	}
	if err != nil {
		return err
	}
	return writeOut(p, f.out, write)
}
