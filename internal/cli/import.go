package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"spate/internal/console"
	"spate/internal/result/harvest"
	"spate/internal/result/store"
	"spate/internal/view/listing"
)

// newImport is `spate import FILE|DIR...`.
func newImport(p Process) *cobra.Command {
	var asJSON, strict, noStore bool
	var place string
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
		RunE: func(cmd *cobra.Command, paths []string) error {
			if noStore {
				place = store.None
			}
			return runImport(cmd.Context(), p, paths, asJSON, strict, place)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array with one object per result")
	cmd.Flags().BoolVar(&strict, "strict", false, "exit with code 3 when anything is damaged or contradicts itself")
	cmd.Flags().StringVar(&place, "store", "", storeHelp)
	cmd.Flags().BoolVar(&noStore, "no-store", false, "put nothing into the store")
	return cmd
}

func runImport(ctx context.Context, p Process, paths []string, asJSON, strict bool, place string) error {
	telling := p.Reading(paths)
	set, err := harvest.Find(paths, p.Stdin)
	telling.End()
	if err != nil {
		return err
	}
	if asJSON {
		err = listing.FoundJSON(p.Stdout, set)
		listing.Problems(p.Stderr, set)
	} else {
		err = listing.Found(p.Stdout, set)
	}
	if err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	switch {
	case strict && set.Bad() > 0:
		return console.Exit(ExitUnmet)
	case len(set.Entries) == 0:
		return fmt.Errorf("no result found in %s", strings.Join(paths, ", "))
	}
	if kept := keep(ctx, p, place, set.Entries); len(kept) > 0 && !asJSON {
		p.Print("%s\n", countKept(kept))
	}
	return nil
}

func countKept(kept []store.Kept) string {
	known := 0
	for _, k := range kept {
		if !k.New {
			known++
		}
	}
	switch known {
	case 0:
		return "all in the store now: spate list"
	case len(kept):
		return "all in the store already: spate list"
	}
	return fmt.Sprintf("%d put into the store, %d in it already: spate list", len(kept)-known, known)
}
