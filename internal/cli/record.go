package cli

import (
	"github.com/spf13/cobra"

	"spate/internal/send/proxy"
)

// newRecord is `spate record`.
func newRecord(p Process) *cobra.Command {
	var o proxy.Command
	cmd := &cobra.Command{
		Use:   "record --upstream URL -o FILE [flags]",
		Short: "Record the traffic between clients and a server as a trace to replay",
		Long: `Pass every request on to a server and every answer back, byte for byte and without delay, and write one line for
each request that has ended: when it came, how long prompt and answer were, ids of the prompt's blocks, model, times and
how it ended. The file is a trace in Mooncake's format, which spate bench can send again with the same arrivals and the
same shared beginnings.

No text is kept, nor keys, headers or queries. Ids are keyed with a salt that is made for the recording and forgotten
with it; requests with the same beginning have the same first ids, and the ids reveal nothing else. --salt-file
keeps a salt for recordings that are to be compared. --keep-text writes prompts and answers, too.

Lengths are the server's own counts where it gives them, else a tokenizer's (--tokenizer), else characters / 4; each line
says which. Lines are written as requests end and put in order of arrival when the recording ends; after a kill,
the file is complete, and --sort puts it in order. Ctrl-C waits for the requests in flight; a second one cuts them off.

docs/record.md describes the file.`,
		Example: `  spate record --upstream http://gpu:8000 --listen :9000 -o trace.jsonl
  spate record --upstream https://api.example.com -o trace.jsonl --tokenizer Qwen/Qwen3-8B --block-size 16
  spate bench --dataset-name mooncake --dataset-path trace.jsonl --num-prompts 0      send it again
  spate record --sort trace.jsonl                                                     after a kill`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.Run(cmd.Context(), p) },
	}
	o.Bind(cmd.Flags())
	return cmd
}
