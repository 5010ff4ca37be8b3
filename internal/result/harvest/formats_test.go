package harvest

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spate/internal/call"
	"spate/internal/host/enginelog"
	"spate/internal/judge/metrics"
	"spate/internal/result"
)

// readFormat reads an example of another tool's output.
func readFormat(t *testing.T, name string) *result.Set {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "formats", name))
	if err != nil {
		t.Fatal(err)
	}
	h, err := Read(name, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestFormats reads one example of each format and looks at figures that show names, units and
// provenance.
func TestFormats(t *testing.T) {
	tests := []struct {
		file, format string
		count        int
		index        int
		figures      map[string]string // in Metrics
		extra        map[string]string
		facts        map[string]string
		from         map[string]string // provenance
	}{
		{
			file: "vllm-head.txt", format: result.FormatVLLMBlock, count: 1,
			figures: map[string]string{
				"failed": "3", "max_concurrency": "16", "request_rate": "4.00", "request_goodput": "2.75", "max_output_tokens_per_s": "512.00",
				"max_concurrent_requests": "16.00", "p99.9_ttft_ms": "150.75", "mean_e2el_ms": "1668.75", "spec_decode_acceptance_rate": "62.50",
			},
			extra: map[string]string{"position_2": "45.00"},
			facts: map[string]string{"burstiness": "1.0", "request_rate": "4.0"},
		},
		{
			file: "vllm-unpadded.txt", format: result.FormatVLLMBlock, count: 1,
			figures: map[string]string{"completed": "8", "input_throughput": "256.00", "p99_ttft_ms": "71.20"},
		},
		{
			file: "sglang-block.txt", format: result.FormatSGLangBlock, count: 1,
			figures: map[string]string{
				"backend": "sglang", "request_rate": "inf", "max_concurrency": "not set", "total_output_tokens_retokenized": "15355",
				"concurrency": "41.50", "accept_length": "2.50", "p90_e2el_ms": "2000.00", "max_itl_ms": "48.50", "total_cached_tokens": "6144",
			},
			extra: map[string]string{"Device": "6144", "Cache hit rate": "10.0%"},
			facts: map[string]string{"announced_input_tokens": "61440"},
		},
		{
			file: "trtllm-block.txt", format: result.FormatTRTBlock, count: 1,
			figures: map[string]string{"num_prompts": "120", "completed": "118", "failed": "2", "user_throughput": "78.10", "std_ttft_ms": "9.50"},
		},
		{
			file: "vllm.json", format: result.FormatVLLMJSON, count: 1,
			figures: map[string]string{"duration": "40.125", "request_rate": "inf", "backend": "vllm", "std_tpot_ms": "1.5", "failed": "3"},
			facts:   map[string]string{"model": "org/tiny-7b", "team": "blue", "per_request_entries": "120", "date": "20260102-030405"},
		},
		{
			file: "vllm.jsonl", format: result.FormatVLLMJSON, count: 2, index: 1,
			figures: map[string]string{"burstiness": "Infinity", "std_itl_ms": "NaN", "request_rate": "4.0"},
		},
		{
			file: "vllm.pytorch.json", format: result.FormatPyTorchJSON, count: 1,
			figures: map[string]string{"median_ttft_ms": "70.5", "mean_ttft_ms": "81.25", "p99_ttft_ms": "140.75", "completed": "120"},
			facts:   map[string]string{"model": "org/tiny-7b"},
		},
		{
			file: "sglang.jsonl", format: result.FormatSGLangJSON, count: 2, index: 0,
			figures: map[string]string{"request_rate": "Infinity", "total_token_throughput": "1920.0", "p95_e2el_ms": "2400.0", "concurrency": "5.00625"},
			extra:   map[string]string{"cache_report.cache_hit_rate_pct": "10.0", "server_info.tp_size": "2"},
			facts:   map[string]string{"label": "night", "input_len": "512"},
			from:    map[string]string{"total_token_throughput": "total_throughput", "p95_e2el_ms": "p95_e2e_latency_ms"},
		},
		{
			file: "lmdeploy.csv", format: result.FormatLMDeployCSV, count: 2, index: 1,
			figures: map[string]string{"backend": "lmdeploy", "request_rate": "8.0", "completed": "100", "mean_e2el_ms": "1500.5"},
			facts:   map[string]string{"dataset": "sharegpt"},
		},
		{
			file: "backprop.json", format: result.FormatBackprop, count: 2, index: 0,
			figures: map[string]string{"completed": "10", "mean_e2el_ms": "750", "median_ttft_ms": "45", "p99_ttft_ms": "90"},
			extra:   map[string]string{"tokens_per_second.p99": "98.0"},
			from: map[string]string{
				"median_ttft_ms": "time_to_first_token.p50, seconds × 1000", "output_throughput": "total_output_tokens / duration",
			},
		},
		{
			file: "trtllm.json", format: result.FormatTRTJSON, count: 1,
			figures: map[string]string{"request_goodput": "2.5", "user_throughput": "78.1", "p99_e2el_ms": "2600.0"},
			extra:   map[string]string{"avg_decoded_tokens_per_iter.mean": "1.5", "energy.total_energy_j": "12000.0"},
			from:    map[string]string{"request_goodput": "request_goodput:"},
		},
		{
			file: "trtllm-bench.json", format: result.FormatTRTBenchJSON, count: 1,
			figures: map[string]string{"completed": "1000", "duration": "50", "mean_e2el_ms": "3125.0", "median_ttft_ms": "190.0", "max_tpot_ms": "44.0"},
			facts:   map[string]string{"model": "org/tiny-7b", "tensor_parallel_size": "2", "gpu": "Example GPU"},
		},
		{
			file: "trtllm-bench.txt", format: result.FormatTRTBench, count: 1,
			figures: map[string]string{"completed": "1000", "duration": "50", "request_throughput": "20.0000", "p99_e2el_ms": "4500.0000"},
			facts:   map[string]string{"model": "org/tiny-7b", "tensor_parallel_size": "2"},
		},
		{
			file: "genai-perf.json", format: result.FormatGenAIPerfJSON, count: 1,
			figures: map[string]string{"completed": "120.0", "median_ttft_ms": "70.5", "mean_tpot_ms": "12.5", "output_throughput": "384.0"},
			extra:   map[string]string{"input_sequence_length.avg": "512.0"},
			facts:   map[string]string{"model": "org/tiny-7b", "max_concurrency": "8"},
			from:    map[string]string{"mean_tpot_ms": "inter_token_latency.avg (one mean per request, which is vLLM's TPOT)"},
		},
		{
			file: "genai-perf.csv", format: result.FormatGenAIPerfCSV, count: 1,
			figures: map[string]string{"mean_e2el_ms": "1668.75", "p99_ttft_ms": "140.75", "request_throughput": "3.00", "completed": "120.00"},
		},
		{
			file: "aiperf.json", format: result.FormatAIPerfJSON, count: 1,
			figures: map[string]string{"duration": "40.0", "failed": "2.0", "total_input_tokens": "61440.0", "p99_e2el_ms": "2650.4"},
			facts:   map[string]string{"model": "org/tiny-7b", "max_concurrency": "8", "was_cancelled": "false"},
		},
		{
			file: "aiperf.csv", format: result.FormatAIPerfCSV, count: 1,
			figures: map[string]string{"duration": "40.00", "std_ttft_ms": "9.00", "median_e2el_ms": "1640.10"},
		},
		{
			file: "guidellm.json", format: result.FormatGuideLLM, count: 2, index: 1,
			figures: map[string]string{"completed": "120", "failed": "2", "request_throughput": "3.0", "mean_e2el_ms": "1668.75", "total_input_tokens": "61440.0", "p99.9_itl_ms": "35.96"},
			extra:   map[string]string{"time_per_output_token_ms.mean": "13.0", "incomplete_requests": "1"},
			facts:   map[string]string{"request_rate": "4.0", "strategy": "constant", "model": "org/tiny-7b"},
		},
		{
			file: "evalscope/benchmark_summary.json", format: result.FormatEvalScope, count: 1,
			figures: map[string]string{"completed": "120", "mean_e2el_ms": "1668.75", "mean_itl_ms": "12.4"},
			extra:   map[string]string{"Avg Input Tokens": "512.0"},
			facts:   map[string]string{"num_prompts": "122", "max_concurrency": "8"},
		},
		{
			file: "evalscope/benchmark_percentile.json", format: result.FormatEvalScopeRank, count: 1,
			figures: map[string]string{"min_ttft_ms": "40.0", "median_ttft_ms": "90.0", "p99_e2el_ms": "2125", "max_itl_ms": "18.0"},
		},
		{
			file: "evalscope-old.json", format: result.FormatEvalScope, count: 1,
			figures: map[string]string{"mean_ttft_ms": "81.25", "mean_tpot_ms": "12.5", "request_throughput": "3.0"},
		},
		{
			file: "llmperf_summary.json", format: result.FormatLLMPerf, count: 1,
			figures: map[string]string{"completed": "120", "request_throughput": "3", "mean_ttft_ms": "81.25", "median_e2el_ms": "1640.1", "output_throughput": "384.0"},
			extra:   map[string]string{"inter_token_latency_s_mean": "0.013", "error_rate": "0.0"},
			facts:   map[string]string{"input_len": "512", "max_concurrency": "8"},
			from:    map[string]string{"request_throughput": "results_num_completed_requests_per_min, per minute / 60"},
		},
		{
			file: "inference-benchmarker.json", format: result.FormatHFBench, count: 2, index: 1,
			figures: map[string]string{"duration": "40", "completed": "120", "failed": "2", "mean_ttft_ms": "73.5", "total_input_tokens": "61440"},
			facts:   map[string]string{"label": "constant@4.00req/s", "request_rate": "4.0", "model": "org/tiny-7b"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			h := readFormat(t, tt.file)
			if len(h.Entries) != tt.count {
				t.Fatalf("%d results, want %d: %v", len(h.Entries), tt.count, h.Problems)
			}
			r := h.Entries[tt.index]
			if r.Format != tt.format {
				t.Errorf("format %s, want %s", r.Format, tt.format)
			}
			wantFigures(t, "metrics", r.Metrics, tt.figures)
			wantFigures(t, "extra", r.Extra, tt.extra)
			for name, want := range tt.facts {
				if got := r.Context.Text(name); got != want {
					t.Errorf("%s = %q, want %q", name, got, want)
				}
			}
			for name, want := range tt.from {
				if f, _ := r.Metrics.Get(name); f.From != want {
					t.Errorf("%s is from %q, want %q", name, f.From, want)
				}
			}
			for p := range h.All() {
				if p.Bad() {
					t.Error(p)
				}
			}
		})
	}
}

func wantFigures(t *testing.T, where string, got result.Figures, want map[string]string) {
	t.Helper()
	for name, text := range want {
		if f, ok := got.Get(name); !ok || f.String() != text {
			t.Errorf("%s: %s = %q, want %q", where, name, f, text)
		}
	}
}

func TestEngineLogAlone(t *testing.T) {
	h := readFormat(t, "v0-engine.log")
	if len(h.Entries) != 1 || h.Entries[0].Format != result.FormatEngineLog {
		t.Fatalf("results %v", h.Entries)
	}
	want := []enginelog.Sample{
		{
			Line: 2, Time: "11-02 10:00:10", PromptTPS: "512.0", GenerationTPS: "128.5", Running: "4", Swapped: "1", Waiting: "2",
			KVUsage: "12.5", CPUKVUsage: "0.5", PrefixHit: "25.50", CPUPrefixHit: "1.00",
		},
		{
			Line: 4, Time: "11-02 10:00:20", Engine: "2 Engines Aggregated", PromptTPS: "0.0", GenerationTPS: "140.0", Running: "4",
			Waiting: "0", Deferred: "1", Preemptions: "3", KVUsage: "14.0", PrefixHit: "20.0", ExternalHit: "5.0", MMHit: "1.5",
		},
	}
	if diff := cmp.Diff(want, h.Entries[0].EngineLog); diff != "" {
		t.Errorf("engine log (-want +got)\n%s", diff)
	}
	if v := h.Entries[0].Context.Text("engine_version"); v != "0.6.2" {
		t.Errorf("version %q", v)
	}
}

func TestCombineEvalScope(t *testing.T) {
	a := readFormat(t, "evalscope/benchmark_summary.json").Entries
	b := readFormat(t, "evalscope/benchmark_percentile.json").Entries
	got := Combine(append(b, a...))
	if len(got) != 1 || got[0].Format != result.FormatEvalScope {
		t.Fatalf("combined into %d results", len(got))
	}
	f, _ := got[0].Metrics.Get("p99_ttft_ms")
	if f.Text != "130.0" || !strings.HasPrefix(f.From, "benchmark_percentile.json: ") {
		t.Errorf("p99_ttft_ms %q from %q", f.Text, f.From)
	}
	twice := Combine(append(append([]result.Entry{}, a...), append(a, b...)...))
	if len(twice) != 3 {
		t.Errorf("two summaries in one folder: %d results, want all 3 apart", len(twice))
	}
}

func TestFromRun(t *testing.T) {
	run := &result.Run{ID: "r1", Dir: "runs/r1", State: result.Complete, Server: result.Server{Model: "m"}}
	run.Plan = result.NewPlan(metrics.Run{Requested: 2, End: 2 * time.Second, RequestRate: 1}, "")
	run.Compute(call.List{})
	r := result.FromRun(run)
	if r.Format != result.FormatSpate || r.Source.File != "runs/r1" || r.Context.Text("model") != "m" || r.Context.Text("request_rate") != "1" {
		t.Errorf("got %+v", r)
	}
	if v, ok := r.Metrics.Float("completed"); !ok || v != 0 {
		t.Errorf("completed %v", v)
	}
}

// TestRateOfRun: a run has the rate it was sent at, and only one that nothing held back has an infinite one.
func TestRateOfRun(t *testing.T) {
	for _, c := range []struct {
		stages string
		open   bool
		want   string
	}{
		{"2s@4,2s@10", true, "4..10"},
		{"2s@2.5-8,1s@6", true, "2.5..8"},
		{"2s@4", true, "4"},
		{"", true, ""}, // a ramp, a trace
		{"nonsense", true, ""},
		{"", false, "inf"},
	} {
		run := &result.Run{Config: []byte(`{"load": {"stages": "` + c.stages + `"}}`)}
		run.Plan.Judge.OpenLoop = c.open
		run.Compute(call.List{})
		r := result.FromRun(run)
		if got := r.Context.Text("request_rate"); got != c.want {
			t.Errorf("stages %q, open loop %v: request rate %q, want %q", c.stages, c.open, got, c.want)
		}
	}
}
