package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spate/internal/call"
	"spate/internal/cli"
	"spate/internal/host/observe"
	"spate/internal/result"
)

// blockLine is a line of vLLM's block: a label in 40 columns, a blank, a figure in 10 or more.
var blockLine = regexp.MustCompile(`^(.{40}) (\S+ *)$`)

// blockOf takes vLLM's block out of an output: labels in order, and their figures. It checks the
// form of every line to the byte.
func blockOf(t *testing.T, out string) (labels []string, figures map[string]string) {
	t.Helper()
	const title, foot = "============ Serving Benchmark Result ============\n", "==================================================\n"
	_, rest, ok := strings.Cut(out, title)
	body, below, closed := strings.Cut(rest, foot)
	if !ok || !closed || strings.Contains(below, title) {
		t.Fatalf("no block, or two, in:\n%s", out)
	}
	figures = map[string]string{}
	for line := range strings.SplitSeq(strings.TrimSuffix(body, "\n"), "\n") {
		if strings.HasPrefix(line, "-----") {
			if len(line) != 50 {
				t.Errorf("section %q is %d wide", line, len(line))
			}
			labels = append(labels, strings.Trim(line, "-"))
			continue
		}
		m := blockLine.FindStringSubmatch(line)
		if m == nil || len(m[2]) < 10 || len(m[2]) > 10 && strings.HasSuffix(m[2], " ") {
			t.Errorf("line %q is not label and figure in vLLM's columns", line)
			continue
		}
		label := strings.TrimRight(m[1], " ")
		labels = append(labels, label)
		figures[label] = strings.TrimSpace(m[2])
	}
	return labels, figures
}

// headLabels are the lines of the block at vLLM HEAD for a run with the default metrics.
func headLabels(extra ...string) []string {
	all := []string{
		"Successful requests:", "Failed requests:", "Maximum request concurrency:", "Request rate configured (RPS):",
		"Benchmark duration (s):", "Total input tokens:", "Total generated tokens:", "Request throughput (req/s):",
		"Request goodput (req/s):", "Output token throughput (tok/s):", "Peak output token throughput (tok/s):",
		"Peak concurrent requests:", "Total token throughput (tok/s):",
	}
	optional := []string{"Maximum request concurrency:", "Request rate configured (RPS):", "Request goodput (req/s):"}
	all = slices.DeleteFunc(all, func(l string) bool { return slices.Contains(optional, l) && !slices.Contains(extra, l) })
	for _, m := range [][2]string{
		{"Time to First Token", "TTFT"},
		{"Time per Output Token (excl. 1st token)", "TPOT"},
		{"Inter-token Latency", "ITL"},
		{"End-to-end Latency", "E2EL"},
	} {
		if m[1] == "E2EL" && !slices.Contains(extra, "E2EL") {
			continue
		}
		all = append(all, m[0], "Mean "+m[1]+" (ms):", "Median "+m[1]+" (ms):")
		for _, e := range extra {
			if p, ok := strings.CutPrefix(e, "P"); ok && !strings.Contains(e, ":") {
				all = append(all, "P"+p+" "+m[1]+" (ms):")
			}
		}
	}
	return all
}

// number reads a figure of the block.
func number(t *testing.T, figures map[string]string, label string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(figures[label], 64)
	if err != nil {
		t.Errorf("%s is %q", label, figures[label])
	}
	return v
}

// near checks two figures that were rounded to two decimals.
func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if d := got - want; d > 0.006+1e-9*want || d < -0.006-1e-9*want {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

const (
	shareGPT = "testdata/data/sharegpt.json"
	verses   = "testdata/data/verses.txt"
	rows     = "testdata/data/rows.jsonl"
)

func abs(t *testing.T, path string) string {
	t.Helper()
	p, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestBackendsAndDatasets sends every dataset through every backend and checks the block against the
// records, the files, and what the server saw.
func TestBackendsAndDatasets(t *testing.T) {
	t.Parallel()
	datasets := map[string][]string{
		"random":   {"--random-input-len", "40", "--random-output-len", "6"},
		"sharegpt": {"--dataset-path", abs(t, shareGPT), "--sharegpt-output-len", "6"},
		"sonnet":   {"--dataset-path", abs(t, verses), "--sonnet-input-len", "60", "--sonnet-prefix-len", "20", "--sonnet-output-len", "6"},
		"custom":   {"--dataset-path", abs(t, rows), "--custom-output-len", "6"},
	}
	const n = 7
	for _, backend := range []string{"vllm", "openai", "openai-chat"} {
		for name, flags := range datasets {
			t.Run(backend+"/"+name, func(t *testing.T) {
				t.Parallel()
				srv := quick(t)
				args := append([]string{
					"--backend", backend, "--base-url", srv.URL(), "--dataset-name", name,
					"--num-prompts", strconv.Itoa(n), "--ignore-eos",
				}, flags...)
				if backend == "openai-chat" {
					args = append(args, "--endpoint", "/v1/chat/completions")
				}
				e := benchCmd(t, args...)
				done := e.want(cli.ExitDone)
				run := done.balanced()
				labels, figures := blockOf(t, done.out)
				if d := cmp.Diff(headLabels("P99"), labels); d != "" {
					t.Errorf("block (-HEAD +got):\n%s", d)
				}
				if figures["Successful requests:"] != strconv.Itoa(n) || figures["Failed requests:"] != "0" || run.Tally.OK != n {
					t.Errorf("block says %v, tally %+v", figures, run.Tally)
				}
				blockLaws(t, figures, done.measured())
				serverLaws(t, srv.Stats().Tokens, n*6, figures)
				_, below, _ := strings.Cut(done.out, strings.Repeat("=", 50)+"\n")
				has(t, "findings", below, "spate: ", "Latency (ms)", "Load ", "Throughput", "Files", done.folder)
				has(t, "lines ahead", done.out, "Starting initial single prompt test run...\nSkipping endpoint ready check.\n"+
					"Starting main benchmark run...\nTraffic request rate: inf\nBurstiness factor: 1.0 (Poisson process)\nMaximum request concurrency: None\n")
				folderLaws(t, done, backend)
			})
		}
	}
}

// blockLaws ties the figures of the block to each other and to the records.
func blockLaws(t *testing.T, f map[string]string, recs []call.Record) {
	t.Helper()
	in, out, ok := 0, 0, 0
	for i := range recs {
		if recs[i].Outcome == call.OK {
			ok, in, out = ok+1, in+recs[i].In.N, out+recs[i].Out.N
		}
	}
	near(t, "input tokens", number(t, f, "Total input tokens:"), float64(in))
	near(t, "output tokens", number(t, f, "Total generated tokens:"), float64(out))
	if number(t, f, "Peak concurrent requests:") < 1 || ok == 0 {
		t.Errorf("peak concurrency %s with %d successes", f["Peak concurrent requests:"], ok)
	}
	for _, m := range []string{"TTFT", "TPOT", "ITL"} {
		if number(t, f, "Median "+m+" (ms):") > number(t, f, "P99 "+m+" (ms):") || number(t, f, "Mean "+m+" (ms):") < 0 {
			t.Errorf("%s: %s mean, %s median, %s p99", m, f["Mean "+m+" (ms):"], f["Median "+m+" (ms):"], f["P99 "+m+" (ms):"])
		}
	}
}

func serverLaws(t *testing.T, wrote int64, want int, f map[string]string) {
	t.Helper()
	if wrote != int64(want) || f["Total generated tokens:"] != strconv.Itoa(want) {
		t.Errorf("server wrote %d tokens, block says %s, want %d", wrote, f["Total generated tokens:"], want)
	}
}

// folderLaws checks what a run leaves behind.
func folderLaws(t *testing.T, e ended, backend string) {
	t.Helper()
	for _, name := range []string{result.RunFile, result.RecordsFile, result.ResultFile, result.CommandFile, result.EnvironmentFile, observe.File} {
		if info, err := os.Stat(filepath.Join(e.folder, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	entries, err := os.ReadDir(e.folder)
	if err != nil || len(entries) != 6 {
		t.Errorf("the folder holds %d files, want 6 (%v)", len(entries), err)
	}
	line, err := os.ReadFile(filepath.Join(e.folder, result.CommandFile))
	if err != nil || !strings.HasPrefix(string(line), "spate bench serve --output-dir ") || strings.Count(string(line), "\n") != 1 {
		t.Errorf("saved command %q (%v)", line, err)
	}
	run := e.result()
	if run.State != result.Complete || run.Server.Backend != backend || run.Server.Model != "spate-sim" || run.Started.IsZero() ||
		!run.Ended.After(run.Started) || run.ID != filepath.Base(e.folder) || run.Verdict.Grade == "" {
		t.Errorf("result: state %s, backend %s, model %s, %v to %v, id %s, verdict %q", run.State, run.Server.Backend, run.Server.Model,
			run.Started, run.Ended, run.ID, run.Verdict.Grade)
	}
	// The report of a finished run is the run's own output again.
	_, block, _ := strings.Cut(e.out, "============ Serving")
	again := prepare(t, nil, "report", e.folder).want(cli.ExitDone)
	if !strings.HasSuffix(again.out, "============ Serving"+block) {
		t.Errorf("spate report differs from the run's output:\n%s", cmp.Diff(block, again.out))
	}
}

// keys reads the keys of a JSON object in the order they stand.
func keys(t *testing.T, line []byte) []string {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(string(line)))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		t.Fatalf("not an object: %.80q (%v)", line, err)
	}
	var names []string
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, fmt.Sprint(tok))
		var skip json.RawMessage
		if err := dec.Decode(&skip); err != nil {
			t.Fatal(err)
		}
	}
	return names
}

var (
	vllmHead = strings.Fields("date endpoint_type backend label model_id tokenizer_id num_prompts")
	vllmLoad = strings.Fields("request_rate burstiness max_concurrency")
	vllmSums = strings.Fields(`duration completed failed total_input_tokens total_output_tokens request_throughput
		request_goodput output_throughput total_token_throughput`)
	vllmArrays = strings.Fields("input_lens output_lens ttfts itls start_times generated_texts errors")
	vllmPeaks  = strings.Fields("max_output_tokens_per_s max_concurrent_requests rtfx")
)

func vllmMetrics(percentiles []string, names ...string) (out []string) {
	for _, m := range names {
		out = append(out, "mean_"+m+"_ms", "median_"+m+"_ms", "std_"+m+"_ms")
		for _, p := range percentiles {
			out = append(out, "p"+p+"_"+m+"_ms")
		}
	}
	return out
}

// TestSavedResult checks vLLM's result file: name, keys, order, types and the laws between them.
func TestSavedResult(t *testing.T) {
	t.Parallel()
	srv := quick(t)
	e := benchCmd(t, "--backend", "vllm", "--base-url", srv.URL(), "--model", "org/spate-sim", "--served-model-name", "spate-sim",
		"--num-prompts", "6", "--random-input-len", "30", "--random-output-len", "5", "--request-rate", "200",
		"--max-concurrency", "4", "--save-result", "--metadata", "gpu=H100", "note=a=b", "--percentile-metrics", "ttft,tpot,itl,e2el",
		"--metric-percentiles", "50,99,99.9", "--goodput", "ttft:10000", "tpot:10000", "e2el:10000", "--label", "lab").want(cli.ExitDone)
	labels, figures := blockOf(t, e.out)
	if d := cmp.Diff(headLabels("Maximum request concurrency:", "Request rate configured (RPS):", "Request goodput (req/s):", "E2EL", "P50", "P99", "P99.9"), labels); d != "" {
		t.Errorf("block (-HEAD +got):\n%s", d)
	}
	matches, err := filepath.Glob(filepath.Join(e.dir, "lab-200.0qps-concurrency4-spate-sim-*.json"))
	if err != nil || len(matches) != 1 {
		t.Fatalf("result file under vLLM's name: %v %v", matches, err)
	}
	data, err := os.ReadFile(matches[0])
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Concat(vllmHead, []string{"gpu", "note"}, vllmLoad, vllmSums, vllmPeaks,
		vllmMetrics([]string{"50", "99", "99.9"}, "ttft", "tpot", "itl", "e2el"))
	if d := cmp.Diff(want, keys(t, data)); d != "" {
		t.Errorf("keys (-vLLM +got):\n%s", d)
	}
	var v map[string]any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	exact := map[string]any{
		"endpoint_type": "vllm", "backend": "vllm", "label": "lab", "model_id": "org/spate-sim", "tokenizer_id": "org/spate-sim",
		"num_prompts": 6.0, "gpu": "H100", "note": "a=b", "request_rate": 200.0, "burstiness": 1.0, "max_concurrency": 4.0,
		"completed": 6.0, "failed": 0.0, "total_input_tokens": 180.0, "total_output_tokens": 30.0, "rtfx": 0.0,
	}
	for k, w := range exact {
		if v[k] != w {
			t.Errorf("%s is %v (%T), want %v", k, v[k], v[k], w)
		}
	}
	if !regexp.MustCompile(`^\d{8}-\d{6}$`).MatchString(v["date"].(string)) || !strings.Contains(matches[0], v["date"].(string)) {
		t.Errorf("date %v in %s", v["date"], matches[0])
	}
	for label, key := range map[string]string{
		"Benchmark duration (s):": "duration", "Request throughput (req/s):": "request_throughput", "Request goodput (req/s):": "request_goodput",
		"Output token throughput (tok/s):": "output_throughput", "Total token throughput (tok/s):": "total_token_throughput",
		"Mean TTFT (ms):": "mean_ttft_ms", "P99.9 ITL (ms):": "p99.9_itl_ms", "Median E2EL (ms):": "median_e2el_ms", "P50 TPOT (ms):": "p50_tpot_ms",
	} {
		near(t, label, number(t, figures, label), v[key].(float64))
	}
	near(t, "completed/duration", v["completed"].(float64)/v["duration"].(float64), v["request_throughput"].(float64))
	near(t, "goodput", v["request_goodput"].(float64), v["request_throughput"].(float64))
	has(t, "files section", e.out, "lab-200.0qps-concurrency4-spate-sim-")
}

// TestDetailedAndAppended checks the per-request arrays and that appending keeps one JSON a line.
func TestDetailedAndAppended(t *testing.T) {
	t.Parallel()
	srv := quick(t)
	dir := t.TempDir()
	args := []string{
		"--backend", "openai-chat", "--base-url", srv.URL(), "--num-prompts", "5", "--random-input-len", "20", "--random-output-len", "4",
		"--save-result", "--save-detailed", "--append-result", "--result-dir", filepath.Join(dir, "deep", "er"), "--result-filename", "all.json",
	}
	first := benchCmd(t, args...).want(cli.ExitDone)
	benchCmd(t, args...).want(cli.ExitDone)
	data, err := os.ReadFile(filepath.Join(dir, "deep", "er", "all.json"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines after two runs", len(lines))
	}
	want := slices.Concat(vllmHead, vllmLoad, vllmSums, vllmArrays, vllmPeaks, vllmMetrics([]string{"99"}, "ttft", "tpot", "itl"))
	var v struct {
		Rate       any         `json:"request_rate"`
		Cap        any         `json:"max_concurrency"`
		Label      any         `json:"label"`
		Goodput    any         `json:"request_goodput"`
		InputLens  []int       `json:"input_lens"`
		OutputLens []int       `json:"output_lens"`
		TTFTs      []float64   `json:"ttfts"`
		ITLs       [][]float64 `json:"itls"`
		Starts     []float64   `json:"start_times"`
		Texts      []string    `json:"generated_texts"`
		Errors     []string    `json:"errors"`
	}
	for _, line := range lines {
		if d := cmp.Diff(want, keys(t, []byte(line))); d != "" {
			t.Errorf("keys (-vLLM +got):\n%s", d)
		}
	}
	if err := json.Unmarshal([]byte(lines[0]), &v); err != nil {
		t.Fatal(err)
	}
	if v.Rate != "inf" || v.Cap != nil || v.Label != nil || v.Goodput != nil {
		t.Errorf("request_rate %v, max_concurrency %v, label %v, request_goodput %v", v.Rate, v.Cap, v.Label, v.Goodput)
	}
	recs := first.measured()
	if len(v.InputLens) != 5 || len(v.OutputLens) != 5 || len(v.TTFTs) != 5 || len(v.ITLs) != 5 || len(v.Starts) != 5 || len(v.Texts) != 5 || len(v.Errors) != 5 {
		t.Fatalf("arrays of %d %d %d %d %d %d %d, want 5 each", len(v.InputLens), len(v.OutputLens), len(v.TTFTs), len(v.ITLs), len(v.Starts), len(v.Texts), len(v.Errors))
	}
	for i, r := range recs {
		if v.InputLens[i] != r.In.N || v.OutputLens[i] != 4 || v.Errors[i] != "" || v.Texts[i] == "" || v.Texts[i] != r.Text {
			t.Errorf("request %d: %d in, %d out, error %q, text %q (record has %q)", i, v.InputLens[i], v.OutputLens[i], v.Errors[i], v.Texts[i], r.Text)
		}
		if len(v.ITLs[i]) != len(r.Chunks)-1 || v.TTFTs[i] <= 0 {
			t.Errorf("request %d: %d gaps between %d chunks, TTFT %v", i, len(v.ITLs[i]), len(r.Chunks), v.TTFTs[i])
		}
	}
}

// TestPyTorchVariant checks the file the PyTorch benchmark database reads.
func TestPyTorchVariant(t *testing.T) {
	t.Parallel()
	srv := quick(t)
	c := benchCmd(t, "--base-url", srv.URL(), "--num-prompts", "3", "--random-input-len", "20", "--random-output-len", "4", "--save-result",
		"--result-filename", "r.json", "--metadata", "tensor_parallel_size=4")
	c.cmd.Env = append(c.cmd.Env, "SAVE_TO_PYTORCH_BENCHMARK_FORMAT=1")
	e := c.want(cli.ExitDone)
	data, err := os.ReadFile(filepath.Join(e.dir, "r.pytorch.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all []struct {
		Benchmark struct {
			Name  string         `json:"name"`
			Extra map[string]any `json:"extra_info"`
		} `json:"benchmark"`
		Model  map[string]any `json:"model"`
		Metric struct {
			Name   string         `json:"name"`
			Values []float64      `json:"benchmark_values"`
			Extra  map[string]any `json:"extra_info"`
		} `json:"metric"`
	}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range all {
		names = append(names, r.Metric.Name)
		args, ok := r.Benchmark.Extra["args"].(map[string]any)
		if r.Benchmark.Name != "vLLM benchmark" || !ok || args["num_prompts"] != 3.0 || args["tensor_parallel_size"] == nil ||
			len(r.Metric.Values) != 1 || r.Metric.Extra["completed"] != 3.0 {
			t.Errorf("%s: %v, values %v", r.Metric.Name, r.Benchmark, r.Metric.Values)
		}
	}
	slices.Sort(names)
	want := []string{
		"mean_itl_ms", "mean_tpot_ms", "mean_ttft_ms", "median_itl_ms", "median_tpot_ms", "median_ttft_ms",
		"p99_itl_ms", "p99_tpot_ms", "p99_ttft_ms", "std_itl_ms", "std_tpot_ms", "std_ttft_ms",
	}
	if d := cmp.Diff(want, names); d != "" {
		t.Errorf("metrics (-want +got):\n%s", d)
	}
}

// TestNoFolder checks that --no-output writes nothing at all.
func TestNoFolder(t *testing.T) {
	t.Parallel()
	c := prepare(t, nil, "bench", "--no-output", "--base-url", quick(t).URL(), "--num-prompts", "2", "--random-input-len", "9", "--random-output-len", "2")
	c.want(cli.ExitDone)
	entries, err := os.ReadDir(c.cmd.Dir)
	if err != nil || len(entries) > 0 {
		t.Errorf("the working folder holds %v (%v)", entries, err)
	}
}

// TestDefaultFolder checks the dated folder a run gets when none is named.
func TestDefaultFolder(t *testing.T) {
	t.Parallel()
	c := prepare(t, nil, "bench", "--base-url", quick(t).URL(), "--num-prompts", "2", "--random-input-len", "9", "--random-output-len", "2")
	e := c.want(cli.ExitDone)
	found, err := filepath.Glob(filepath.Join(c.cmd.Dir, "spate-runs", "20*-spate-sim-????"))
	if err != nil || len(found) != 1 {
		t.Fatalf("run folders: %v (%v)", found, err)
	}
	has(t, "output", e.out, filepath.Join("spate-runs", filepath.Base(found[0])))
	again := prepare(t, nil, "bench", "--output-dir", found[0], "--base-url", quick(t).URL(), "--num-prompts", "1", "--random-output-len", "2").want(cli.ExitFailed)
	has(t, "refusal to overwrite", again.stderr, "already holds a run")
}
