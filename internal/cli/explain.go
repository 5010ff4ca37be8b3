package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"spate/internal/judge/explain"
	"spate/internal/result/store"
)

// explanation is one result with what limited it, for programs.
type explanation struct {
	ID     string          `json:"id"`
	Name   string          `json:"name,omitempty"`
	Causes []explain.Cause `json:"causes"`
}

// newExplain is `spate explain RUN...`.
func newExplain(p Process) *cobra.Command {
	var asJSON bool
	var place string
	cmd := &cobra.Command{
		Use:   "explain [flags] RUN...",
		Short: "Explain what limited a run, on what evidence, and what to try next",
		Long: `Explain what limited a run: the client, a queue at --max-num-seqs, a full KV cache, prompts, decoding, the network,
a prefix cache that was warm, or nothing but the load that was asked for. Each cause comes with the figures it
rests on, how sure it is, and the flag or experiment to try next. Where the figures do not tell, it says so and
names what would be needed.

It takes spate's run folders, folders of them, files of any kind 'spate import' reads, and ids and queries of
the store ('last' is the newest). A run folder knows
most: records of single requests, the server's counters each second, its log (--server-log). A summary with the
engine's stats lines beside it knows much; a bare summary tells what Little's law and its latencies tell.`,
		Example: `  spate explain last
  spate explain spate-runs/20261115-120000-model-1a2b
  spate explain results.md                      every block in a page
  spate explain spate-runs --json | jq '.[].causes[0].cause'`,
		Args: atLeastOne("run folder, file or id of the store"),
		RunE: func(cmd *cobra.Command, refs []string) error {
			return runExplain(cmd.Context(), p, place, refs, asJSON)
		},
	}
	cmd.Flags().StringVar(&place, "store", "", store.Help)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print an array, one object per result")
	return cmd
}

func runExplain(ctx context.Context, p Process, place string, refs []string, asJSON bool) error {
	set, err := store.Find(ctx, p, place, refs)
	if err != nil {
		return err
	}
	list := []explanation{}
	for i := range set {
		if e := &set[i]; e.Measured() {
			list = append(list, explanation{ID: e.ID, Name: e.Name, Causes: explain.Of(e)})
		}
	}
	if len(list) == 0 {
		return fmt.Errorf("no result to explain in %s", strings.Join(refs, ", "))
	}
	var out strings.Builder
	if asJSON {
		data, err := json.MarshalIndent(list, "", "  ")
		if err != nil {
			return fmt.Errorf("encode explanations: %w", err)
		}
		out.Write(append(data, '\n'))
	} else if err := writeExplanations(&out, list); err != nil {
		return err
	}
	if _, err := fmt.Fprint(p.Stdout, out.String()); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	return nil
}

func writeExplanations(out *strings.Builder, list []explanation) error {
	for i, e := range list {
		if i > 0 {
			out.WriteByte('\n')
		}
		title := e.ID
		if e.Name != e.ID && e.Name != "" {
			title += "  " + e.Name
		}
		out.WriteString(title + "\n\n")
		if err := explain.Write(out, e.Causes); err != nil {
			return fmt.Errorf("write explanation: %w", err)
		}
	}
	return nil
}
