package interop

import (
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spate/internal/judge/metrics"
	"spate/internal/result"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func ptr[T any](v T) *T { return &v }

// run is a small run with every part of the result present that the case asks for.
func run() VLLM {
	return VLLM{
		Date: time.Date(2026, 8, 22, 3, 4, 5, 0, time.UTC), Backend: "openai-chat", ModelID: "meta-llama/Llama-3.1-8B",
		TokenizerID: "meta-llama/Llama-3.1-8B", NumPrompts: 4, RequestRate: math.Inf(1), Burstiness: 1,
		Selected: []string{"ttft", "tpot", "itl"}, Percentiles: []float64{50, 99, 99.9},
		Summary: &metrics.Summary{
			DurationS: 2, Completed: 3, Failed: 1, TotalInput: 30, TotalOutput: 12,
			RequestThroughput: 1.5, OutputThroughput: 6, TotalTokenThroughput: 21, MaxOutputPerS: 9, MaxConcurrent: 3,
			TTFT: dist(100.5, 100, 2.25, 100, 104.9, 105), TPOT: dist(10, 10, 0, 10, 10, 10), ITL: dist(10.25, 10, 1e-05, 10, 10.5, 10.75),
		},
	}
}

// dist has its percentiles in another order than they are asked for.
func dist(mean, median, std, p50, p99, p999 float64) metrics.Dist {
	return metrics.Dist{N: 3, Mean: mean, Median: median, Std: std, Percentiles: metrics.Percentiles{{P: 99.9, Value: p999}, {P: 50, Value: p50}, {P: 99, Value: p99}}}
}

func full() VLLM {
	v := run()
	v.Label, v.TokenizerID = "é-label", ""
	v.Metadata = []string{"gpu= H100 ", "note=a=b", "duration=overwritten"}
	v.MaxConcurrency, v.RequestRate, v.Burstiness = ptr(8), 10, math.Inf(1)
	v.Ramp = &VLLMRamp{"linear", 1, 10}
	v.Summary.RequestGoodput = ptr(0.5)
	v.Detail = &metrics.Detail{
		InputLens: []int{10, 10, 10, 10}, OutputLens: []int{4, 4, 4, 0}, TTFTs: []float64{0.1, 0.1, 0.1, 0},
		ITLs: [][]float64{{0.01, 0.01}, {0.01}, nil, nil}, StartTimes: []float64{0, 0.5, 1, 1.5},
		Texts: []string{"a", "漢", "😀", ""}, Errors: []string{"", "", "", "Bad Gateway"},
	}
	v.Summary.Probe = metrics.Probe{Completed: 5, Failed: 1, Median: 12.5, P99: 20, Max: 21}
	v.Changes = []VLLMRateChange{{1, time.Date(2026, 8, 22, 3, 4, 5, 0, time.UTC)}, {2, time.Date(2026, 8, 22, 3, 4, 6, 123456789, time.UTC)}}
	v.Spec = &result.SpecDecode{Rate: 66.5, Length: 2.33, Drafts: 100, DraftTokens: 300, Accepted: 199, PerPosition: []float64{0.9, 0.7, 0.39}}
	return v
}

func TestEncodeGolden(t *testing.T) {
	plain, all := run(), full()
	cases := []struct {
		name   string
		encode func() ([]byte, error)
	}{
		{"plain.json", plain.Encode},
		{"full.json", all.Encode},
		{"full.pytorch.json", func() ([]byte, error) {
			all.Metadata = append(all.Metadata, "tensor_parallel_size=4")
			args := Object{{"model", "m"}, {"request_rate", math.Inf(1)}, {"result_filename", nil}, {"goodput", []any{"ttft:200"}}}
			return all.EncodePyTorch(args, "m")
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.encode()
			if err != nil {
				t.Fatal(err)
			}
			golden(t, c.name, got)
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s (-want +got):\n%s", name, d)
	}
}

// headOrder is the order of keys at vLLM HEAD for a run that has all of them.
var headOrder = strings.Fields(`date endpoint_type backend label model_id tokenizer_id num_prompts gpu note
	request_rate burstiness max_concurrency ramp_up_strategy ramp_up_start_rps ramp_up_end_rps
	completed failed total_input_tokens total_output_tokens request_throughput request_goodput
	output_throughput total_token_throughput input_lens output_lens ttfts itls start_times generated_texts errors
	max_output_tokens_per_s max_concurrent_requests rtfx probe_completed probe_failed probe_median_e2el_ms
	probe_p99_e2el_ms probe_max_e2el_ms rps_change_events spec_decode_acceptance_rate
	spec_decode_acceptance_length spec_decode_num_drafts spec_decode_draft_tokens spec_decode_accepted_tokens
	spec_decode_per_position_acceptance_rates
	mean_ttft_ms median_ttft_ms std_ttft_ms p50_ttft_ms p99_ttft_ms p99.9_ttft_ms
	mean_tpot_ms median_tpot_ms std_tpot_ms p50_tpot_ms p99_tpot_ms p99.9_tpot_ms
	mean_itl_ms median_itl_ms std_itl_ms p50_itl_ms p99_itl_ms p99.9_itl_ms`)

// poolingOrder is the order of keys of a run that generated nothing.
var poolingOrder = strings.Fields(`date endpoint_type backend label model_id tokenizer_id num_prompts request_rate burstiness max_concurrency
	duration completed total_input_tokens total_input_sequences request_throughput input_sequence_throughput total_token_throughput
	input_lens errors mean_e2el_ms median_e2el_ms std_e2el_ms p99_e2el_ms`)

func TestPoolingKeys(t *testing.T) {
	took := metrics.Dist{N: 3, Mean: 20, Median: 20, Percentiles: metrics.Percentiles{{P: 99, Value: 21}}}
	s := metrics.Summary{
		DurationS: 2, Completed: 3, Failed: 1, TotalInput: 60, RequestThroughput: 1.5, TotalTokenThroughput: 30,
		TTFT: took, E2EL: took, Pooling: &metrics.Pooling{Inputs: 6, Throughput: 3},
	}
	v := VLLM{
		Backend: "openai-embeddings", ModelID: "m", NumPrompts: 4, RequestRate: math.Inf(1), Burstiness: 1,
		Summary: &s, Selected: []string{"ttft", "e2el"}, Percentiles: []float64{99},
	}
	v.Detail = &metrics.Detail{InputLens: []int{10, 40, 10, 0}, Errors: []string{"", "", "", "x"}}
	o, err := v.Object()
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, f := range o {
		keys = append(keys, f.Key)
	}
	if d := cmp.Diff(poolingOrder, keys); d != "" {
		t.Error(d)
	}
	raw, err := v.Encode()
	if err != nil || !strings.Contains(string(raw), `"duration": 2.0, "completed": 3, "total_input_tokens": 60, "total_input_sequences": 6, `+
		`"request_throughput": 1.5, "input_sequence_throughput": 3.0, "total_token_throughput": 30.0, "input_lens": [10, 40, 10, 0], "errors": ["", "", "", "x"], "mean_e2el_ms": 20.0`) {
		t.Errorf("%s, %v", raw, err)
	}
}

func TestKeyOrder(t *testing.T) {
	v := full()
	o, err := v.Object()
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, f := range o {
		if f.Key == "duration" { // metadata of the same name holds the place, the result the value
			if f.Value != 2.0 {
				t.Errorf("duration = %v: metadata won over the result", f.Value)
			}
			continue
		}
		keys = append(keys, f.Key)
	}
	if d := cmp.Diff(headOrder, keys); d != "" {
		t.Error(d)
	}
}

func TestArraysOnlyWhenDetailed(t *testing.T) {
	v := run()
	v.Metadata = []string{"errors=none"}
	o, err := v.Object()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range detailKeys {
		if _, ok := o.Get(key); ok {
			t.Errorf("%s without detail", key)
		}
	}
}

func TestMetadataWithoutEquals(t *testing.T) {
	v := run()
	v.Metadata = []string{"gpu"}
	if _, err := v.Encode(); err == nil || !strings.Contains(err.Error(), "KEY=VALUE") {
		t.Errorf("err = %v, want a hint", err)
	}
}

func TestFileName(t *testing.T) {
	cases := []struct {
		name, dir, given, want string
		change                 func(*VLLM)
	}{
		{"all at once", "", "", "openai-chat-infqps-Llama-3.1-8B-20260822-030405.json", nil},
		{"rate and cap", "", "", "openai-chat-10.0qps-concurrency8-Llama-3.1-8B-20260822-030405.json", func(v *VLLM) {
			v.RequestRate, v.MaxConcurrency = 10, ptr(8)
		}},
		{"ramp up", "", "", "x-ramp-up-linear-1qps-10qps-concurrency8-Llama-3.1-8B-20260822-030405.json", func(v *VLLM) {
			v.Ramp, v.MaxConcurrency, v.Label = &VLLMRamp{"linear", 1, 10}, ptr(8), "x"
		}},
		{"model without a slash", "", "", "openai-chat-0.5qps-m-20260822-030405.json", func(v *VLLM) {
			v.RequestRate, v.ModelID = 0.5, "m"
		}},
		{"long model", "", "", "openai-chat-infqps-" + strings.Repeat("é", 60) + "-20260822-030405.json", func(v *VLLM) {
			v.ModelID = "org/" + strings.Repeat("é", 2500)
		}},
		{"model no file can be called after", "", "", "openai-chat-infqps-a-b-c--20260822-030405.json", func(v *VLLM) {
			v.ModelID = "../a\x00b\nc\\"
		}},
		{"in a folder", "out", "", "out/openai-chat-infqps-Llama-3.1-8B-20260822-030405.json", nil},
		{"given name", "out", "r.json", "out/r.json", nil},
		{"given absolute name", "out", "/tmp/r.json", "/tmp/r.json", nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			v := run()
			if c.change != nil {
				c.change(&v)
			}
			if got := v.FileName(c.dir, c.given); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestPyTorch(t *testing.T) {
	if got := PyTorchFileName("d.x/r.json"); got != "d.x/r.pytorch.json" {
		t.Errorf("file name %s", got)
	}
	v := run()
	v.Selected = v.Selected[:1]
	for _, c := range []struct {
		name string
		args Object
		meta string
		want bool
	}{
		{"plain", Object{{"result_filename", "r.json"}}, "a=b", true},
		{"eager in the name", Object{{"result_filename", "r-eager.json"}}, "a=b", false},
		{"mode 0", nil, "compilation_config.mode=0", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			v.Metadata = []string{c.meta}
			out, err := v.EncodePyTorch(c.args, "")
			if err != nil {
				t.Fatal(err)
			}
			want := `"use_compile": ` + map[bool]string{true: "true", false: "false"}[c.want]
			if n := strings.Count(string(out), want); n != 4 { // median, mean, std, p99 of one metric
				t.Errorf("%d records with %s in %s", n, want, out)
			}
		})
	}
}

// TestSelected has the latencies that were asked for, in vLLM's order, and zero for a percentile that the run has not.
func TestSelected(t *testing.T) {
	v := run()
	v.Selected = []string{"e2el", "ttft"}
	v.Summary.E2EL = metrics.Dist{N: 3, Mean: 200, Median: 201, Std: 3, Percentiles: metrics.Percentiles{{P: 99, Value: 220}}}
	o, err := v.Object()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(o, func(f Field) bool { return f.Key == "mean_ttft_ms" })
	want := Object{
		{"mean_ttft_ms", 100.5},
		{"median_ttft_ms", 100.0},
		{"std_ttft_ms", 2.25},
		{"p50_ttft_ms", 100.0},
		{"p99_ttft_ms", 104.9},
		{"p99.9_ttft_ms", 105.0},
		{"mean_e2el_ms", 200.0},
		{"median_e2el_ms", 201.0},
		{"std_e2el_ms", 3.0},
		{"p50_e2el_ms", 0.0},
		{"p99_e2el_ms", 220.0},
		{"p99.9_e2el_ms", 0.0},
	}
	if d := cmp.Diff(want, o[max(i, 0):]); d != "" {
		t.Error(d)
	}
}
