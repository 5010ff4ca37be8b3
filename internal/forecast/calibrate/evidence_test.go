package calibrate

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spate/internal/forecast/predict"
	"spate/internal/forecast/profile"
	"spate/internal/host/enginelog"
	"spate/internal/result"
	"spate/internal/result/harvest"
	"spate/internal/rng"
	"spate/internal/sim"
	"spate/internal/sim/cluster"
	"spate/internal/sim/engineconf"
	"spate/internal/sim/kv"
	"spate/internal/sim/latency"
)

func TestStartLines(t *testing.T) {
	text := `INFO 09-02 12:00:00 [api_server.py:1] vLLM API server version 0.10.1.1
INFO 09-02 12:00:00 [utils.py:326] non-default args: {'model_tag': 'Qwen/Qwen3-8B', 'max_model_len': 16384, 'tensor_parallel_size': 2, 'enable_prefix_caching': False, 'hf_overrides': {'a': 1}, 'note': "it's"}
INFO 09-02 12:00:09 [core.py:1] Initializing a V1 LLM engine (v0.10.1.1) with config: model='Qwen/Qwen3-8B', speculative_config=None, max_seq_len=16384, tensor_parallel_size=2, kv_cache_dtype=auto, observability_config=X(a=1, b=2), enable_prefix_caching=False
INFO 09-02 12:00:10 [gpu.py:1] Model loading took 7.6391 GiB and 3.2 seconds
INFO 09-02 12:00:11 [kv.py:1] Available KV cache memory: 12.02 GiB
INFO 09-02 12:00:11 [kv.py:1] GPU KV cache size: 450,192 tokens
INFO 09-02 12:00:11 [kv.py:1] Maximum concurrency for 16,384 tokens per request: 27.48x
Iteration(1): 1 context requests, 10 context tokens, 0 generation requests, 0 generation tokens, iteration elapsed time: 9.00 ms
INFO 09-03 12:00:00 [api_server.py:1] vLLM API server version 0.6.3
INFO 09-03 12:00:00 [x.py:1] args: Namespace(host=None, model='a/b', max_num_seqs=64, lora_modules=[('x', 'y')], dtype='auto')
INFO 09-03 12:00:00 [x.py:1] # GPU blocks: 1000, # CPU blocks: 4681
`
	logs, err := ReadLog("x.log", strings.NewReader(text))
	if err != nil || len(logs) != 2 {
		t.Fatalf("%d starts, %v; want 2", len(logs), err)
	}
	want := enginelog.Start{
		Engine: "vllm", Version: "0.10.1.1", KVTokens: 450192, KVGiB: 12.02, Length: 16384, Requests: 27.48, WeightsGiB: 7.6391,
		Flags: map[string]string{
			"model": "Qwen/Qwen3-8B", "max-model-len": "16384", "tensor-parallel-size": "2", "enable-prefix-caching": "False",
			"kv-cache-dtype": "auto", "note": "it's",
		},
	}
	if diff := cmp.Diff(want, logs[0].Server); diff != "" {
		t.Errorf("first start:\n%s", diff)
	}
	if len(logs[0].Steps) != 1 || len(logs[1].Steps) != 0 || logs[1].Line != 9 {
		t.Errorf("steps %d and %d, second start at line %d", len(logs[0].Steps), len(logs[1].Steps), logs[1].Line)
	}
	want = enginelog.Start{Engine: "vllm", Version: "0.6.3", Blocks: 1000, Flags: map[string]string{"model": "a/b", "max-num-seqs": "64", "dtype": "auto"}}
	if diff := cmp.Diff(want, logs[1].Server); diff != "" {
		t.Errorf("second start:\n%s", diff)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(text)) // a buffer takes all
	_ = z.Close()
	if again, err := ReadLog("x.log", &packed); err != nil || cmp.Diff(logs, again) != "" {
		t.Errorf("compressed: %v, %s", err, cmp.Diff(logs, again))
	}
}

// truth is a server whose step time is known: it differs from what is expected by these factors.
func truth(t testing.TB) (latency.Reference, map[string]float64) {
	t.Helper()
	m, err := NewModel("x", facts())
	if err != nil {
		t.Fatal(err)
	}
	factors := map[string]float64{"step": 1.2, "prefill": 0.85, "decode": 1.3, "kv": 0.8}
	want := map[string]float64{}
	var values []float64
	for _, p := range m.Params() {
		v := p.Prior
		if f, ok := factors[p.Name]; ok {
			v *= f
			want[p.Name] = v
		}
		values = append(values, v)
	}
	return m.Cost(values).Step, want
}

const kvTokens = 380_000

func facts() profile.Facts {
	return profile.Facts{Engine: "vllm", Version: "0.14.0", GPU: "A100-80GB-SXM", Model: "Qwen3-8B", TP: 1, GPUs: 1, KVTokens: kvTokens, MaxModelLen: 32768}
}

// engineLog serves a load in virtual time and gives the log the engine would have written.
func engineLog(t testing.TB, step latency.Reference, jitter float64, n, in, out int, gap time.Duration) string {
	t.Helper()
	f := facts()
	set := f.Settings()
	conf, err := set.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.New(cluster.Config{Engines: []cluster.Engine{{Sim: conf.Sim, Model: &step, Jitter: jitter}}})
	if err != nil {
		t.Fatal(err)
	}
	var calls []cluster.Call
	draw := rng.New(1, "evidence.test")
	at := time.Duration(0)
	for i := range n {
		length, pause := in, gap
		if i >= n/2 { // then few long ones, so that contexts and their number differ
			length, pause = 8*in, 4*gap
		}
		calls = append(calls, cluster.Call{At: at, Prompt: []kv.Segment{{Stream: uint64(i) + 1, Len: 1 + draw.IntN(2*length)}}, Out: 1 + draw.IntN(2*out)})
		at += pause
	}
	lines := conf.StartLines()
	_, err = c.Run(cluster.Load{Calls: cluster.Calls(calls), Trace: func(engine int, b *sim.Batch, took time.Duration) {
		lines = append(lines, engineconf.IterationLine(b, took, c.Engine(engine).State().Usage()))
	}})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// TestRecoversStepTime writes the log of an engine of known step time and finds the step time again.
func TestRecoversStepTime(t *testing.T) {
	step, want := truth(t)
	for _, c := range []struct {
		name   string
		jitter float64
		within float64
	}{
		{"without noise", 0, 0.04},
		{"with 5 % noise", 0.05, 0.06},
	} {
		t.Run(c.name, func(t *testing.T) {
			logs, err := ReadLog("server.log", strings.NewReader(engineLog(t, step, c.jitter, 600, 200, 150, 20*time.Millisecond)))
			if err != nil || len(logs) != 1 {
				t.Fatalf("%d logs, %v", len(logs), err)
			}
			r, err := Regress("x", facts(), logs[0].Steps)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range r.Params {
				if v, ok := want[f.Name]; ok && (math.Abs(f.Value-v) > max(c.within*v, 3*f.SD) || !f.Determined || f.SD > 0.2*v) {
					t.Errorf("%s is %.4g +- %.2g %s (determined %v), want %.4g", f.Name, f.Value, f.SD, f.Unit, f.Determined, v)
				}
			}
			if math.Abs(r.Noise-c.jitter) > 0.02 {
				t.Errorf("noise %.3f, want %.3f", r.Noise, c.jitter)
			}
			p := r.Profile("server.log")
			if _, err := p.With(profile.Override{}); err != nil || !p.Calibrated || len(p.Set) == 0 {
				t.Errorf("profile: %v, calibrated %v, %d vectors", err, p.Calibrated, len(p.Set))
			}
			if len(r.Known()) < 4 {
				t.Errorf("told %+v", r.Known())
			}
		})
	}
}

// TestSaysWhatStepsLeaveOpen: decode steps alone tell nothing about prompts.
func TestSaysWhatStepsLeaveOpen(t *testing.T) {
	var list []enginelog.Step
	for i := range 200 {
		n := 1 + i%64
		list = append(list, enginelog.Step{Decodes: n, DecodeTokens: n, Usage: float64(n) / 100, Elapsed: 10*time.Millisecond + time.Duration(n)*80*time.Microsecond})
	}
	r, err := Regress("x", facts(), list)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range r.Profile("x").Params {
		if q.Name == "prefill" && (q.Free || q.Value != q.Prior || q.Note == "") {
			t.Errorf("prefill of a log without prompts: %+v", q)
		}
	}
	if _, err := Regress("x", facts(), list[:10]); err == nil {
		t.Error("ten steps were enough")
	}
}

func entries(t *testing.T, text string) []result.Entry {
	t.Helper()
	h, err := harvest.Read("bench.log", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var out []result.Entry
	for _, r := range h.Entries {
		out = append(out, result.Named(r))
	}
	return out
}

func block(n, in, out int) string {
	return fmt.Sprintf(`============ Serving Benchmark Result ============
Successful requests:                     %d
Benchmark duration (s):                  10.00
Total input tokens:                      %d
Total generated tokens:                  %d
Request throughput (req/s):              %.2f
Output token throughput (tok/s):         %.2f
Total Token throughput (tok/s):          %.2f
---------------Time to First Token----------------
Mean TTFT (ms):                          100.00
Median TTFT (ms):                        90.00
P99 TTFT (ms):                           200.00
==================================================
`, n, n*in, n*out, float64(n)/10, float64(n*out)/10, float64(n*(in+out))/10)
}

func TestCollect(t *testing.T) {
	serve := "vllm serve Qwen/Qwen3-8B --max-num-seqs 64 --tensor-parallel-size 2 --no-enable-prefix-caching\n"
	bench := "vllm bench serve --model Qwen/Qwen3-8B --dataset-name random --random-input-len 100 --random-output-len 20 --num-prompts 50 --request-rate 5 --seed 7\n"
	full := Given{Server: profile.Facts{GPU: "H100", Version: "0.10.1"}}
	off := false
	seed := uint32(7)
	for _, c := range []struct {
		name  string
		text  string
		given Given
		work  predict.Workload
		facts profile.Facts
		left  []string // parts of the reason it was left out
	}{
		{
			name: "everything said", text: serve + bench + block(50, 100, 20), given: full,
			work: predict.Workload{
				Prompts: 50, Rate: 5, Dataset: "random", Input: 100, Output: 20, IgnoreEOS: true, Client: "vllm-bench", In: 5000, Out: 1000, Completed: 50, Seed: &seed,
			},
			facts: profile.Facts{Engine: "vllm", Version: "0.10.1", GPU: "H100-SXM", GPUs: 2, TP: 2, Nodes: 1, Model: "Qwen/Qwen3-8B", DType: "bf16", MaxSeqs: 64, PrefixCaching: &off},
		},
		{name: "no GPU, no version", text: serve + bench + block(50, 100, 20), left: []string{"--gpu", "--engine-version"}},
		{name: "bare block", text: block(50, 100, 20), given: full, left: []string{"--request-rate", "--engine", "--model"}},
		{name: "bare block of mixed lengths", text: strings.Replace(block(50, 100, 20), "5000", "5003", 1), given: full, left: []string{"--dataset-name", "--request-rate"}},
		{name: "many failures", text: serve + strings.Replace(bench, "--num-prompts 50", "--num-prompts 80", 1) + block(50, 100, 20), given: full, left: []string{"30 of 80 requests failed"}},
		{name: "ramp", text: serve + strings.Replace(bench, "--seed", "--ramp-up-strategy linear --seed", 1) + block(50, 100, 20), given: full, left: []string{"ramped"}},
		{name: "pipeline", text: strings.Replace(serve, "--max", "--pipeline-parallel-size 2 --max", 1) + bench + block(50, 100, 20), given: full, left: []string{"pipeline"}},
		{name: "unknown model", text: strings.ReplaceAll(serve+bench, "Qwen3-8B", "Nobody-1B") + block(50, 100, 20), given: full, left: []string{"--model"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := Collect(entries(t, c.text), nil, c.given)
			if err != nil {
				t.Fatal(err)
			}
			if len(c.left) > 0 {
				if len(f.Left) != 1 {
					t.Fatalf("left out %+v, want one with %v", f.Left, c.left)
				}
				for _, part := range c.left {
					if !strings.Contains(f.Left[0].Reason, part) {
						t.Errorf("reason %q does not say %q", f.Left[0].Reason, part)
					}
				}
				return
			}
			if len(f.File.Rows) != 1 || len(f.Left) != 0 {
				t.Fatalf("%d rows, left out %+v", len(f.File.Rows), f.Left)
			}
			row := f.File.Rows[0]
			if diff := cmp.Diff(c.work, row.Workload); diff != "" {
				t.Errorf("workload:\n%s", diff)
			}
			if diff := cmp.Diff(c.facts, f.File.Engines[row.Group]); diff != "" {
				t.Errorf("server:\n%s", diff)
			}
			if row.Metrics["mean_ttft_ms"] != 100 || row.Process == "" {
				t.Errorf("row %+v", row)
			}
		})
	}
}

// TestLogsSayWhatServersAre: a start-up log gives a bare result its server.
func TestLogsSayWhatServersAre(t *testing.T) {
	step, _ := truth(t)
	logs, err := ReadLog("server.log", strings.NewReader(engineLog(t, step, 0, 60, 100, 40, time.Millisecond)))
	if err != nil {
		t.Fatal(err)
	}
	given := Given{Server: profile.Facts{GPU: "A100-80GB"}, Rate: "inf"}
	f, err := Collect(entries(t, block(50, 100, 20)), logs, given)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.File.Rows) != 1 || len(f.Left) != 0 {
		t.Fatalf("%d rows, left out %+v", len(f.File.Rows), f.Left)
	}
	name := f.File.Rows[0].Group
	if e := f.File.Engines[name]; e.KVTokens != kvTokens || e.Version != "0.14.0" || e.Model != "Qwen/Qwen3-8B" || e.MaxModelLen != 32768 {
		t.Errorf("server %+v", e)
	}
	if len(f.Steps[name]) == 0 || len(f.File.Engines) != 1 {
		t.Errorf("steps went to %d groups of %d", len(f.Steps), len(f.File.Engines))
	}
}

// TestRangeRatios: the flag has meant two things, and the mean length tells which.
func TestRangeRatios(t *testing.T) {
	for _, c := range []struct {
		name string
		mean int
		want float64
	}{{"around the length", 100, 0.5}, {"up to the length", 75, 1.0 / 3}} {
		text := "vllm bench serve --model Qwen/Qwen3-8B --dataset-name random --random-input-len 100 --random-output-len 100 --random-range-ratio 0.5 --num-prompts 50\n"
		f, err := Collect(entries(t, text+block(50, c.mean, c.mean)), nil, Given{Server: profile.Facts{GPU: "H100", Version: "0.10.1", Engine: "vllm"}})
		if err != nil || len(f.File.Rows) != 1 {
			t.Fatalf("%s: %v, %+v", c.name, err, f)
		}
		if w := f.File.Rows[0].Workload; math.Abs(w.Spread-c.want) > 1e-9 || !w.Rate.Burst() {
			t.Errorf("%s: spread %v, want %v; rate %v", c.name, w.Spread, c.want, w.Rate)
		}
	}
}

// TestDoubts: rows of the same workload that are far apart are pointed at.
func TestDoubts(t *testing.T) {
	bench := "vllm bench serve --model Qwen/Qwen3-8B --dataset-name random --random-input-len 100 --random-output-len 20 --num-prompts 50\n"
	slow := strings.Replace(block(50, 100, 20), "Mean TTFT (ms):                          100.00", "Mean TTFT (ms):                          160.00", 1)
	f, err := Collect(entries(t, bench+block(50, 100, 20)+bench+slow), nil, Given{Server: profile.Facts{GPU: "H100", Version: "0.10.1", Engine: "vllm"}})
	if err != nil || len(f.File.Rows) != 2 {
		t.Fatalf("%v, %+v", err, f.Left)
	}
	if !slices.ContainsFunc(f.Notes, func(s string) bool { return strings.Contains(s, "different servers") }) {
		t.Errorf("notes %q", f.Notes)
	}
}

func FuzzReadLog(f *testing.F) {
	f.Add([]byte("vLLM API server version 0.6\nIteration(1): 1 context requests, 10 context tokens, 0 generation requests, 0 generation tokens, iteration elapsed time: 9.00 ms, GPU KV cache usage: 0.1%\n"))
	f.Add([]byte("args: Namespace(a='b', c=[1, (2)], d=None)\nnon-default args: {'x': {'y': 1}, 'z': \"q\"}\n"))
	f.Add([]byte("# GPU blocks: 1,000\nMaximum concurrency for 1,0 tokens per request: 9e9x\nmax_total_num_tokens=12, context_len=9"))
	f.Add([]byte{0x1f, 0x8b, 8, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		logs, _ := ReadLog("x", bytes.NewReader(data))
		for _, l := range logs {
			if s := &l.Server; s.KVTokens < 0 || s.Blocks < 0 || s.Length < 0 || s.Requests < 0 {
				t.Errorf("server %+v", s)
			}
			for _, s := range l.Steps {
				if s.Prompts < 0 || s.PromptTokens < 0 || s.Decodes < 0 || s.DecodeTokens < s.Decodes || s.Elapsed <= 0 || s.Usage > 1 {
					t.Errorf("step %+v", s)
				}
			}
		}
		l := Given{Server: profile.Facts{GPU: "H100", Version: "0.10.1", Engine: "vllm", Model: "Qwen3-8B"}}
		if _, err := Collect(nil, logs, l); err != nil {
			t.Log(err)
		}
	})
}

// FuzzCollect: whatever text results stand in, rows made of them can be replayed.
func FuzzCollect(f *testing.F) {
	f.Add("vllm serve Qwen/Qwen3-8B --max-num-seqs 64\nvllm bench serve --dataset-name random --num-prompts 9 --request-rate 2\n"+block(9, 10, 3), 7, "inf")
	f.Add(block(9, 10, 3), 0, "3")
	f.Fuzz(func(t *testing.T, text string, length int, rate string) {
		h, err := harvest.Read("x", strings.NewReader(text))
		if err != nil {
			return
		}
		var list []result.Entry
		for _, r := range h.Entries {
			list = append(list, result.Named(r))
		}
		given := Given{Server: profile.Facts{GPU: "H100", Version: "0.10.1", Engine: "vllm", Model: "Qwen3-8B"}, Rate: rate, Dataset: "random", Input: length, Output: length}
		found, err := Collect(list, nil, given)
		if err != nil {
			return
		}
		for i := range found.File.Rows {
			w := &found.File.Rows[i].Workload
			if w.Completed > 10_000 {
				continue
			}
			last := time.Duration(0)
			for _, r := range w.Requests(uint64(i)) {
				if kv.Length(r.Prompt) < 1 || r.Out < 1 || r.At < last {
					t.Fatalf("request %+v of %+v", r, w)
				}
				last = r.At
			}
		}
	})
}
