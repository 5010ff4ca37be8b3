package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"spate/internal/result/harvest"
	"spate/internal/result/runs"
	"spate/internal/result/store"
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
	telling := p.wait("reading %s", sources(paths))
	set, err := runs.Read(paths, p.Stdin)
	telling.end()
	if err != nil {
		return err
	}
	found := set.Harvest()
	if asJSON {
		err = importJSON(p.Stdout, found.Results)
		importProblems(p.Stderr, found)
	} else {
		err = importTable(p.Stdout, found)
	}
	if err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	switch {
	case strict && found.Bad() > 0:
		return exit{ExitUnmet}
	case len(found.Results) == 0:
		return fmt.Errorf("no result found in %s", strings.Join(paths, ", "))
	}
	if kept := keep(ctx, p, place, set.Entries); len(kept) > 0 && !asJSON {
		say(p.Stdout, "%s\n", countKept(kept))
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

// importJSON prints an array, one result per line.
func importJSON(w io.Writer, results []harvest.Result) error {
	if _, err := io.WriteString(w, "["); err != nil {
		return err
	}
	for i := range results {
		var line bytes.Buffer
		if i > 0 {
			line.WriteByte(',')
		}
		line.WriteByte('\n')
		enc := json.NewEncoder(&line)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(&results[i]); err != nil {
			return err
		}
		if _, err := w.Write(bytes.TrimSuffix(line.Bytes(), []byte("\n"))); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, "\n]\n")
	return err
}

// importTable prints one row per result and the problems below.
func importTable(w io.Writer, found *harvest.Harvest) error {
	if len(found.Results) > 0 {
		t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
		say(t, "SOURCE\tFORMAT\tCOMPLETED\tREQ/S\tOUTPUT TOK/S\tMEAN TTFT ms\tMEAN TPOT ms\tCONTEXT\n")
		for i := range found.Results {
			r := &found.Results[i]
			row := []string{fmt.Sprintf("%s:%d", r.Source.File, r.Source.Line), r.Format}
			for _, name := range []string{"completed", "request_throughput", "output_throughput", "mean_ttft_ms", "mean_tpot_ms"} {
				row = append(row, cell(r.Metrics, name))
			}
			say(t, "%s\t%s\n", strings.Join(row, "\t"), harvest.Label(r))
		}
		if err := t.Flush(); err != nil {
			return err
		}
		say(w, "\n%s\n", countResults(found))
	}
	importProblems(w, found)
	return nil
}

// cell is a figure as printed; long ones, from files with every digit, get two decimals.
func cell(fs harvest.Figures, name string) string { // figures of one column have one form, whoever printed them
	f, ok := fs.Get(name)
	if !ok {
		return "-"
	}
	v, isNumber := f.Float()
	if !isNumber || slices.Contains(wholeFigures, name) {
		return f.Text
	}
	return fmt.Sprintf("%.2f", v)
}

// wholeFigures are counts, which have no decimals.
var wholeFigures = []string{"completed", "failed", "total_input_tokens", "total_output_tokens", "max_concurrent_requests", "num_prompts"}

// count is a number of things.
func count(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

func countResults(found *harvest.Harvest) string {
	failed := 0
	for i := range found.Results {
		if found.Results[i].Format == harvest.FormatFailedLaunch {
			failed++
		}
	}
	text := count(len(found.Results)-failed, "result")
	if failed > 0 {
		text += ", " + count(failed, "failed start")
	}
	if bad := found.Bad(); bad > 0 {
		text += ", " + count(bad, "problem")
	}
	return text
}

// importProblems lists what is wrong first and what is only worth knowing after it. What is said of many
// results of a file is said once.
func importProblems(w io.Writer, found *harvest.Harvest) {
	type text struct {
		file, text string
		kind       harvest.Kind
	}
	var list []harvest.Problem
	lines := map[text][]string{}
	for p := range found.All() {
		key := text{p.File, p.Text, p.Kind}
		if lines[key] == nil {
			list = append(list, p)
		}
		lines[key] = append(lines[key], strconv.Itoa(p.Line))
	}
	slices.SortStableFunc(list, func(a, b harvest.Problem) int {
		switch {
		case a.Bad() && !b.Bad():
			return -1
		case b.Bad() && !a.Bad():
			return 1
		case a.File != b.File:
			return strings.Compare(a.File, b.File)
		}
		return a.Line - b.Line
	})
	for _, p := range list {
		also := lines[text{p.File, p.Text, p.Kind}][1:]
		if len(also) == 0 {
			say(w, "%s\n", p)
			continue
		}
		say(w, "%s (also on line %s)\n", p, strings.Join(also, ", "))
	}
}
