package cli

import (
	"github.com/spf13/cobra"

	"spate/internal/view/listing"
)

// newList is `spate list`.
func newList(p Process) *cobra.Command {
	var o listing.List
	cmd := &cobra.Command{
		Use:   "list [flags] [CONDITION...]",
		Short: "List the results in the store",
		Long: `List the results that spate bench, sweep and import have put into the store, newest first: 20 rows,
or as many as --limit says. JSON and CSV have everything.

Flags narrow the list; a result must meet all of them. Conditions can also be arguments: model:Qwen*, label:engine=x,
where:mean_ttft_ms<200. The first column is the id that show, tag, rm, compare and report take; its beginning
is enough.`,
		Example: `  spate list --model qwen --since 7d
  spate list --label team=search --where 'p99_ttft_ms<500' --sort -output_throughput --limit 10
  spate list --columns max_concurrency,output_throughput,p99_itl_ms
  spate list --format csv > results.csv`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.Run(cmd.Context(), p, args) },
	}
	o.Bind(cmd.Flags())
	return cmd
}

// newShow is `spate show ID`.
func newShow(p Process) *cobra.Command {
	var o listing.ShowCommand
	cmd := &cobra.Command{
		Use:   "show ID...",
		Short: "Show a result of the store: figures, settings, where its records lie",
		Long: `Show everything the store knows of a result.

The beginning of an id is enough, or its end after a dash; last is the latest result. A run whose folder was
moved or deleted is shown from its summary, and spate import NEW-FOLDER tells the store where it is now.`,
		Example: `  spate show last
  spate show 20261115-12
  spate show --json 1a2b | jq .result.metrics`,
		Args: atLeastOne("id"),
		RunE: func(cmd *cobra.Command, args []string) error { return o.Run(cmd.Context(), p, args) },
	}
	o.Bind(cmd.Flags())
	return cmd
}

// newTag is `spate tag ID LABEL...`.
func newTag(p Process) *cobra.Command {
	var o listing.Tag
	cmd := &cobra.Command{
		Use:   "tag ID [NAME=VALUE|NAME]... [--remove NAME]",
		Short: "Label a result of the store",
		Long: `Set labels of a result, or remove them. list, compare and report find results by their labels, as in
label:team=search. A name without a value is a label too.

Labels are the store's: the run folder stays as it was written.`,
		Example: `  spate tag last best gpu=H200
  spate tag 20261115-12 team=search --remove best`,
		Args: func(_ *cobra.Command, args []string) error { return o.Check(args) },
		RunE: func(cmd *cobra.Command, args []string) error { return o.Run(cmd.Context(), p, args) },
	}
	o.Bind(cmd.Flags())
	return cmd
}

// newRm is `spate rm ID...`.
func newRm(p Process) *cobra.Command {
	var o listing.Remove
	cmd := &cobra.Command{
		Use:   "rm ID...",
		Short: "Remove results from the store",
		Long: `Remove results from the store. Their files stay, unless --files is given: then the folders of runs go too,
with their records. Files of other tools are never deleted.

It asks for confirmation; --yes skips that.`,
		Example: `  spate rm 20261115-12
  spate rm --files --yes 1a2b 3c4d`,
		Args: atLeastOne("id"),
		RunE: func(cmd *cobra.Command, args []string) error { return o.Run(cmd.Context(), p, args) },
	}
	o.Bind(cmd.Flags())
	return cmd
}

// newExport is `spate export [ID...] -o FILE`.
func newExport(p Process) *cobra.Command {
	var o listing.Export
	cmd := &cobra.Command{
		Use:   "export [flags] [ID|CONDITION...]",
		Short: "Write results of the store to a file that import reads",
		Long: `Write results to a file: those named by id, those that meet the flags and conditions, or all.

JSON and JSON lines hold everything the store has; spate import reads them into another store, labels, settings
and verdicts included. CSV is a table for spreadsheets: a column for each label, setting and figure, as printed.
spate import reads it too, with the same figures.`,
		Example: `  spate export -o all.jsonl
  spate export --model qwen --since 30d -o qwen.csv
  spate export last -o run.json && spate import --store postgres://db/spate run.json`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.Run(cmd.Context(), p, args) },
	}
	o.Bind(cmd.Flags())
	return cmd
}

// newImport is `spate import FILE|DIR...`.
func newImport(p Process) *cobra.Command {
	var o listing.Import
	cmd := &cobra.Command{
		Use:   "import [flags] FILE|DIR...",
		Short: "Read results of any tool out of logs, pages and result files",
		Long: `Find benchmark results in files, in folders and below them, or in standard input (-), and print them.

Known are the result blocks of vLLM, SGLang, LMDeploy and TensorRT-LLM anywhere in a text, and the files of
vLLM, SGLang, LMDeploy, TensorRT-LLM, GenAI-Perf, AIPerf, GuideLLM, EvalScope, llmperf, inference-benchmarker,
vllm_benchmark.py and spate itself. Logs may be compressed with gzip. Each result comes with what the text
around it tells: headings, command lines, server launches, engine stats lines.

What is damaged, cut short or contradicts itself is listed below the results, by file and line.

The results go into the store, where spate list, show, compare and report find them; importing the same
result again changes nothing. Files of spate export are read too.`,
		Example: `  spate import results.md                     a table of what is in a page
  spate import --json logs/ > results.json    everything in a folder, for programs
  kubectl logs bench | spate import -         what a pod printed
  spate import --strict results/              fail when anything is damaged
  spate import --no-store results.md          only look`,
		Args: atLeastOne("file or folder"),
		RunE: func(cmd *cobra.Command, args []string) error { return o.Run(cmd.Context(), p, args) },
	}
	o.Bind(cmd.Flags())
	return cmd
}

// newStoreCommand is `spate store`: the commands of the store under one name. Their short forms stay.
func newStoreCommand(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Find, show, label, remove and export the results that are kept",
		Long: `Keep every result in one place and find it again: list, show, tag, rm, export and import work on the store.
Each of them is also a command of spate itself: spate list is spate store list.

Every run of bench, sweep, capacity and tune goes into the store by itself. docs/store.md describes it.`,
		Example: `  spate store list --model qwen --since 7d
  spate store show last
  spate store export -o all.jsonl`,
		Args: cobra.ArbitraryArgs,
		RunE: runParent,
	}
	cmd.AddCommand(storeCommands(p)...)
	for _, c := range cmd.Commands() {
		c.Args = usageArgs(c.Args)
	}
	return cmd
}

// storeCommands are what can be done with the store.
func storeCommands(p Process) []*cobra.Command {
	return []*cobra.Command{newList(p), newShow(p), newTag(p), newRm(p), newExport(p), newImport(p)}
}
