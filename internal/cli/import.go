package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"spate/internal/config"
	"spate/internal/harvest"
	"spate/internal/result"
)

// newImport is `spate import FILE|DIR...`.
func newImport(p Process) *cobra.Command {
	var asJSON, strict bool
	cmd := &cobra.Command{
		Use:   "import [flags] FILE|DIR...",
		Short: "Read results of any tool out of logs, pages and result files",
		Long: `Find benchmark results in files, in folders and below them, or in standard input (-), and print them.

Known are the result blocks of vLLM, SGLang, LMDeploy and TensorRT-LLM anywhere in a text, and the files of
vLLM, SGLang, LMDeploy, TensorRT-LLM, GenAI-Perf, AIPerf, GuideLLM, EvalScope, llmperf, inference-benchmarker,
vllm_benchmark.py and spate itself. Logs may be compressed with gzip. Each result comes with what the text
around it tells: headings, command lines, server launches, engine stats lines.

What is damaged, cut short or contradicts itself is listed below the results, by file and line.`,
		Example: `  spate import results.md                     a table of what is in a page
  spate import --json logs/ > results.json    everything in a folder, for programs
  kubectl logs bench | spate import -         what a pod printed
  spate import --strict results/              fail when anything is damaged`,
		Args: atLeastOne("file or folder"),
		RunE: func(_ *cobra.Command, paths []string) error {
			return runImport(p, paths, asJSON, strict)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array with one object per result")
	cmd.Flags().BoolVar(&strict, "strict", false, "exit with code 3 when anything is damaged or contradicts itself")
	return cmd
}

func runImport(p Process, paths []string, asJSON, strict bool) error {
	in := &importer{stdin: p.Stdin}
	if err := in.check(paths); err != nil {
		return err
	}
	for _, path := range paths {
		if err := in.path(path); err != nil {
			return err
		}
	}
	found := &harvest.Harvest{Results: harvest.Combine(in.found.Results), Problems: in.found.Problems}
	var err error
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
	return nil
}

// importer goes through files and folders.
type importer struct {
	stdin io.Reader
	found harvest.Harvest
}

// check names every path that cannot be read before any is.
func (in *importer) check(paths []string) error {
	var all []error
	for _, path := range paths {
		if path == "-" {
			continue
		}
		_, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			all = append(all, fmt.Errorf("%s does not exist%s", path, nearestFile(path)))
		case err != nil:
			all = append(all, fmt.Errorf("open: %w", err))
		}
	}
	return errors.Join(all...)
}

// nearestFile is a hint at a file of nearly that name.
func nearestFile(path string) string {
	dir := filepath.Dir(path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return ": there is no folder " + dir
		}
		return ""
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	best := config.Nearest(filepath.Base(path), names)
	if best == "" {
		return ""
	}
	return fmt.Sprintf(": did you mean %q?", filepath.Join(dir, best))
}

func (in *importer) path(path string) error {
	if path == "-" {
		return in.read("standard input", in.stdin)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	if info.IsDir() {
		return in.folder(path)
	}
	if dir := filepath.Dir(path); isRunFile(filepath.Base(path)) && isRunFolder(dir) {
		return in.run(dir)
	}
	return in.file(path)
}

// folder takes a folder of spate's own as one run and goes through any other.
func (in *importer) folder(dir string) error {
	if isRunFolder(dir) {
		return in.run(dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("open folder: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), "."):
		case e.IsDir():
			err = in.folder(path)
		case e.Type().IsRegular() && !isBinary(path):
			err = in.file(path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func isRunFile(name string) bool { return name == result.ResultFile || name == result.RunFile }

// isRunFolder tells spate's run folders from folders that hold a file of such a name.
func isRunFolder(dir string) bool {
	data, err := os.ReadFile(filepath.Join(dir, result.RunFile))
	if err != nil {
		if data, err = os.ReadFile(filepath.Join(dir, result.ResultFile)); err != nil {
			return false
		}
	}
	var head struct {
		Schema int             `json:"schema"`
		Tool   string          `json:"tool"`
		Plan   json.RawMessage `json:"plan"`
	}
	return json.Unmarshal(data, &head) == nil && head.Schema > 0 && head.Plan != nil
}

func (in *importer) run(dir string) error {
	run, err := result.Open(dir)
	if err != nil {
		return err
	}
	in.found.Results = append(in.found.Results, harvest.FromRun(run))
	return nil
}

// isBinary looks for zero bytes, which text has only in UTF-16.
func isBinary(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false // reading it will say so
	}
	defer func() { _ = f.Close() }() // only read from
	head := make([]byte, 4096)
	n, _ := io.ReadFull(f, head)
	head = head[:n]
	for _, mark := range [][]byte{{0xff, 0xfe}, {0xfe, 0xff}, {0x1f, 0x8b}} {
		if bytes.HasPrefix(head, mark) {
			return false
		}
	}
	return bytes.IndexByte(head, 0) >= 0
}

func (in *importer) file(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer func() { _ = f.Close() }() // only read from
	return in.read(path, f)
}

// read takes the results of one stream. One that breaks off, as a cut gzip file does, keeps what came
// before.
func (in *importer) read(name string, r io.Reader) error {
	h, err := harvest.Read(name, r)
	if h != nil {
		in.found.Results = append(in.found.Results, h.Results...)
		in.found.Problems = append(in.found.Problems, h.Problems...)
	}
	if err != nil {
		in.found.Problems = append(in.found.Problems, harvest.Problem{File: name, Line: 1, Kind: harvest.Damaged, Text: err.Error()})
	}
	return nil
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
func cell(fs harvest.Figures, name string) string {
	f, ok := fs.Get(name)
	if !ok {
		return "-"
	}
	if v, isNumber := f.Float(); isNumber && len(f.Text) > 10 {
		return fmt.Sprintf("%.2f", v)
	}
	return f.Text
}

func countResults(found *harvest.Harvest) string {
	failed := 0
	for i := range found.Results {
		if found.Results[i].Format == harvest.FormatFailedLaunch {
			failed++
		}
	}
	text := fmt.Sprintf("%d results", len(found.Results)-failed)
	if failed > 0 {
		text += fmt.Sprintf(", %d failed starts", failed)
	}
	if bad := found.Bad(); bad > 0 {
		text += fmt.Sprintf(", %d problems", bad)
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
