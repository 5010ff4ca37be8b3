package harvest

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spate/internal/host/enginelog"
	"spate/internal/result"
)

// expected is one entry of the corpus's own account of what is in its texts.
type expected struct {
	File    string         `json:"file"`
	Line    int            `json:"line"`
	Format  string         `json:"format"`
	Metrics map[string]any `json:"metrics"`
	Samples *int           `json:"engine_log_lines"`
	Launch  *string        `json:"launch"`
	Error   string         `json:"error"`
}

// found is the part of a Result the account speaks of, after a trip through JSON.
type found struct {
	Source  result.Source  `json:"source"`
	Format  string         `json:"format"`
	Metrics map[string]any `json:"metrics"`
	Samples []any          `json:"engine_log"`
	Launch  *string        `json:"launch"`
	Error   string         `json:"error"`
}

// TestReports reads the texts of five published reports: every result, no more, each number as printed.
func TestReports(t *testing.T) {
	data, err := os.ReadFile("testdata/reports/expected.json")
	if err != nil {
		t.Fatal(err)
	}
	var want []expected
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	var got []found
	for _, file := range reportFiles(t) {
		for _, r := range mustRead(t, file).Entries {
			got = append(got, roundTrip(t, r))
		}
	}
	if len(got) != len(want) {
		t.Fatalf("found %d results, want %d", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		if g.Source.File != w.File || g.Source.Line != w.Line || g.Format != w.Format {
			t.Fatalf("result %d is %s at %s:%d, want %s at %s:%d", i, g.Format, g.Source.File, g.Source.Line, w.Format, w.File, w.Line)
		}
		if w.Format == result.FormatBackprop { // the account has what is printed in milliseconds and per second only
			derivedAreRight(t, g.Metrics)
		}
		if diff := cmp.Diff(w.Metrics, g.Metrics); diff != "" {
			t.Errorf("%s:%d: metrics (-want +got)\n%s", w.File, w.Line, diff)
		}
		if w.Samples != nil && *w.Samples != len(g.Samples) {
			t.Errorf("%s:%d: %d engine log lines, want %d", w.File, w.Line, len(g.Samples), *w.Samples)
		}
		if w.Samples == nil { // the account names launches in this report only
			if diff := cmp.Diff(w.Launch, g.Launch); diff != "" {
				t.Errorf("%s:%d: launch (-want +got)\n%s", w.File, w.Line, diff)
			}
		}
		if w.Error != g.Error {
			t.Errorf("%s:%d: error %q, want %q", w.File, w.Line, g.Error, w.Error)
		}
	}
}

// derivedAreRight checks the figures that follow from others, and takes them out.
func derivedAreRight(t *testing.T, m map[string]any) {
	t.Helper()
	value := func(name string) float64 { v, _ := m[name].(float64); return v }
	if got, want := value("output_throughput"), value("total_output_tokens")/value("duration"); !(math.Abs(got-want) < 1e-9*want) {
		t.Errorf("output_throughput %v, want %v tokens / %v s", got, value("total_output_tokens"), value("duration"))
	}
	// Its time per token is the mean of latency / tokens: near the ratio of the means.
	if got, want := value("mean_tpot_ms"), value("mean_e2el_ms")/(value("total_output_tokens")/value("completed")); !(math.Abs(got/want-1) < 0.2) {
		t.Errorf("mean_tpot_ms %v, want about %v", got, want)
	}
	delete(m, "output_throughput")
	delete(m, "mean_tpot_ms")
}

func reportFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/reports/*.txt")
	if err != nil || len(files) != 5 {
		t.Fatalf("reports: %v, %v", files, err)
	}
	slices.Sort(files)
	return files
}

// mustRead reads a file under the name the account gives it.
func mustRead(t *testing.T, path string) *result.Set {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h, err := Read("text/"+filepath.Base(path), bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func roundTrip(t *testing.T, r result.Entry) found {
	t.Helper()
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var g found
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

// TestReportsHoldTheirIdentities: nothing in the reports contradicts itself within its printed digits.
func TestReportsHoldTheirIdentities(t *testing.T) {
	for _, file := range reportFiles(t) {
		for p := range mustRead(t, file).All() {
			if p.Bad() {
				t.Error(p)
			}
		}
	}
}

func TestReportContext(t *testing.T) {
	tests := []struct {
		name, file string
		index      int
		fact       string
		want, from string
		line       int
	}{
		{"command over several lines", "000", 1, "num_prompts", "50", "command line", 36},
		{"length from the command", "000", 1, "output_len", "7168", "command line", 36},
		{"memory from the heading", "000", 3, "kv_cache_memory_gib", "12.02", "heading", 102},
		{"where the log lines stand", "000", 0, "engine_log", "lines below the result", "position", 32},
		{"rate from the Namespace", "001", 6, "request_rate", "8.0", "Namespace", 188},
		{"two headings", "001", 2, "headings", "[Large prefill length with low request rate: input_len=1024, qps = 2 MooncakeTransferEngine with RDMA backend]", "headings above", 64},
		{"shell trace", "001", 0, "command", "", "command line", 4},
		{"first of a list", "002", 0, "num_prompts", "1", "position 1 of 12 in the list above", 4},
		{"a later single value beats the list", "002", 1, "num_prompts", "16", "line above", 28},
		{"length by a line above", "002", 1, "input_len", "80", "line above", 28},
		{"warm-up", "003", 0, "warmup_time_s", "2.96", "client output", 12},
		{"server's own flags", "003", 2, "tensor_parallel_size", "2", "launch command", 81},
		{"launch carried on", "003", 3, "tensor_parallel_size", "2", "launch command, also of results above", 81},
		{"memory of the card", "004", 7, "gpu_memory_mib", "[map[total:46068 used:19344]]", "nvidia-smi", 52},
		{"settings in the object", "004", 7, "max_concurrency", "100", "file: concurrency", 56},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := mustRead(t, "testdata/reports/"+tt.file+".txt")
			f, ok := h.Entries[tt.index].Context.Get(tt.fact)
			if !ok {
				t.Fatalf("no %s in %v", tt.fact, h.Entries[tt.index].Context)
			}
			if got := h.Entries[tt.index].Context.Text(tt.fact); tt.want != "" && got != tt.want {
				t.Errorf("%s = %q, want %q", tt.fact, got, tt.want)
			}
			if f.From != tt.from || f.Line != tt.line {
				t.Errorf("%s from %q line %d, want %q line %d", tt.fact, f.From, f.Line, tt.from, tt.line)
			}
		})
	}
}

// TestReportEngineLog: the time series, number by number, with a line that lost its head.
func TestReportEngineLog(t *testing.T) {
	log := mustRead(t, "testdata/reports/000.txt").Entries[0].EngineLog
	want := []enginelog.Sample{
		{Line: 32, Running: "10", Waiting: "0", KVUsage: "3.5", PrefixHit: "53.7", Cut: true},
		{Line: 33, Time: "09-02 13:08:10", Engine: "000", PromptTPS: "0.0", GenerationTPS: "238.7", Running: "10", Waiting: "0", KVUsage: "4.1", PrefixHit: "53.7"},
		{Line: 34, Time: "09-02 13:08:20", Engine: "000", PromptTPS: "0.0", GenerationTPS: "240.2", Running: "10", Waiting: "0", KVUsage: "4.7", PrefixHit: "53.7"},
	}
	if diff := cmp.Diff(want, log); diff != "" {
		t.Errorf("engine log (-want +got)\n%s", diff)
	}
}

// TestReportTextIsKept: figures keep the digits they were printed with.
func TestReportTextIsKept(t *testing.T) {
	r := mustRead(t, "testdata/reports/000.txt").Entries[1]
	f, _ := r.Metrics.Get("output_throughput")
	if f.Text != "654.00" || f.From != "" {
		t.Errorf("output_throughput is %q from %q, want 654.00 as printed", f.Text, f.From)
	}
	b := mustRead(t, "testdata/reports/004.txt").Entries[0]
	f, _ = b.Metrics.Get("mean_e2el_ms")
	if f.From != "latency.average, seconds × 1000" {
		t.Errorf("provenance %q", f.From)
	}
	if v, _ := f.Float(); math.Abs(v-7129.634637832642) > 1e-12 {
		t.Errorf("value %v", v)
	}
}
