package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"spate/internal/view"
)

// newReport is `spate report RUN...`.
func newReport(p Process) *cobra.Command {
	var f view.Report
	cmd := &cobra.Command{
		Use:   "report [flags] RUN...",
		Short: "Print or publish runs: text, tables, pages, pictures",
		Long: `Show results again: spate's run folders, folders of them, files of any kind 'spate import' reads, and what
the store has, by id or query ('spate list').

Without -o a run folder prints its result block and spate's findings, and other results print as a Markdown
table. With -o the file's ending says what is written:

  .md    the wide comparison table, what it says in sentences, and what limited each run
  .html  one page that works without a network: curves, distributions, timelines, tables that sort
  .csv   the same table with every digit
  .json  the same as objects
  .png   curves over load, or distributions of one run's latencies, as a picture; .svg likewise

A run that was killed left no result.json. Its report is computed from the records of the requests that had
finished, and says so.`,
		Example: `  spate report spate-runs/20261115-120000-model-1a2b     one run, as text
  spate report results.md                                a wide table of the blocks in a page
  spate report spate-runs -o table.md -o table.csv       all runs side by side
  spate report spate-runs -o report.html                 everything on one page
  spate report spate-runs -o curves.svg                  throughput against latency, as a picture
  spate report vllm.md sglang.md --by backend            engines side by side, a row for each model and workload
  spate report logs/ --group-by request_rate --split     a table per request rate`,
		Args: atLeastOne("run folder or file"),
		RunE: func(cmd *cobra.Command, refs []string) error {
			return f.Run(cmd.Context(), p, refs)
		},
	}
	f.Bind(cmd.Flags())
	return cmd
}

// newCompare is `spate compare A B [C...]`.
func newCompare(p Process) *cobra.Command {
	var o view.Compare
	cmd := &cobra.Command{
		Use:   "compare [flags] A B [C...]",
		Short: "Compare results: better, same, worse or cannot tell",
		Long: `Compare results with the first one, or with --baseline: run folders, folders of repeated runs, files of any kind
spate import reads, ids and queries of the store. Every metric gets a verdict (better, same, worse or cannot
tell), the change with its 95 % interval, and the smallest difference these samples could have shown.

Two runs are compared by resampling blocks of their requests; repeated runs by how much the runs differ.
Figures alone support no verdict. Results that do not mean the same (another workload, other token counting,
another tool's definitions, predicted against measured, an INVALID run) are refused, unless --force.

With --baseline or a threshold it is a gate: exit code 3 and one line saying why when something got worse.
A noise floor learned from equal runs (--learn-noise, or bench --interleave with equal arms) is used where
there is one for the host, server and workload: a smaller difference counts as none.`,
		Example: `  spate compare spate-runs/before spate-runs/after        two runs, or two folders of repeats
  spate compare label:build=41 label:build=42             all runs with a label against those with another
  spate compare --baseline old --max-regression 5% new    a gate: exit code 3 when anything got 5 % worse
  spate compare --threshold ttft=10% --format junit A B   for a CI server
  spate compare --by backend vllm.md sglang.md            engines side by side, a row for each model and workload
  spate compare --learn-noise spate-runs/a*               what equal runs differ by on this machine`,
		Args: func(_ *cobra.Command, args []string) error { return o.Check(args) },
		RunE: func(cmd *cobra.Command, refs []string) error { return o.Run(cmd.Context(), p, refs) },
	}
	o.Bind(cmd.Flags())
	return cmd
}

// newExplain is `spate explain RUN...`.
func newExplain(p Process) *cobra.Command {
	var o view.Explain
	cmd := &cobra.Command{
		Use:   "explain [flags] RUN...",
		Short: "Explain what limited a run, on what evidence, and what to try next",
		Long: `Explain what limited a run: the client, a queue at --max-num-seqs, a full KV cache, prompts, decoding, the network,
a prefix cache that was warm, or nothing but the load that was asked for. Each cause comes with the figures it
rests on, how sure it is, and the flag or experiment to try next. Where the figures do not show it, spate says so and
names what would be needed.

It takes spate's run folders, folders of them, files of any kind that 'spate import' reads, and ids and queries of
the store ('last' is the newest). A run folder has the most evidence: records of single requests, the server's
counters each second, its log (--server-log). A summary with the engine's stats lines has less; a summary alone has
only Little's law and its latencies.`,
		Example: `  spate explain last
  spate explain spate-runs/20261115-120000-model-1a2b
  spate explain results.md                      every block in a page
  spate explain spate-runs --json | jq '.[].causes[0].cause'`,
		Args: atLeastOne("run folder, file or id of the store"),
		RunE: func(cmd *cobra.Command, refs []string) error { return o.Run(cmd.Context(), p, refs) },
	}
	o.Bind(cmd.Flags())
	return cmd
}

// newExplainDiff is `spate explain-diff A B`.
func newExplainDiff(p Process) *cobra.Command {
	var o view.ExplainDiff
	cmd := &cobra.Command{
		Use:   "explain-diff [flags] A B",
		Short: "Explain which definitions make two tools' numbers differ, and by how much",
		Long: `Set two results of the same workload side by side, figure by figure, and say where the tools define a figure
differently: when a request ends, what the first token is, which tokens are counted.

Where one of the results is a run of spate, both tools' formulas are applied to its records: the difference between
them comes from the definitions, and the rest from the measurements. Without records, only the definitions are shown.

The format of a result shows which tool's definitions it follows; --a and --b set it where that is not enough.`,
		Example: `  spate explain-diff spate-runs/20261115-120000-model-1a2b lmdeploy.log
  spate explain-diff --b sglang run run          one run by the definitions of two tools`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("want two results, got %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, refs []string) error { return o.Run(cmd.Context(), p, refs) },
	}
	o.Bind(cmd.Flags())
	return cmd
}
