package dialect

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spate/internal/call"
	"spate/internal/judge/metrics"
	"spate/internal/result"
	"spate/internal/result/harvest"
)

const ms = time.Millisecond

// twoRequests is a run worked out by hand: chat answers whose first message is a role.
//
//	request 0: sent 0, role 80, texts 100, 120, 140 (2 tokens), end 150; asked for 5 tokens, 4 came
//	request 1: sent 500, role 590, texts 600, 640, end 650; asked for 2 tokens, 2 came
func twoRequests() *Run {
	rec := func(id int, sent time.Duration, out, asked int, end time.Duration, chunks ...call.Chunk) call.Record {
		r := call.NewRecord(&call.Request{ID: id, Phase: call.Measure, In: call.Count{N: 10}, MaxOut: asked})
		r.Due, r.Dispatched, r.Started, r.Sent, r.FirstByte, r.Headers = sent, sent, sent, sent, sent+1, sent+1
		r.Chunks, r.Out, r.In, r.End, r.LastEvent = chunks, call.Count{N: out, From: call.FromServer}, call.Count{N: 10}, end, end-1
		r.FirstToken, r.FirstText, r.LastToken = chunks[1].At, chunks[1].At, chunks[len(chunks)-1].At
		r.Outcome, r.Status = call.OK, 200
		return r
	}
	recs := []call.Record{
		rec(0, 0, 4, 5, 150*ms, call.Chunk{At: 80 * ms}, call.Chunk{At: 100 * ms, Kind: call.Visible, Tokens: 1}, call.Chunk{At: 120 * ms, Kind: call.Visible, Tokens: 1}, call.Chunk{At: 140 * ms, Kind: call.Visible, Tokens: 2}),
		rec(1, 500*ms, 2, 2, 650*ms, call.Chunk{At: 590 * ms}, call.Chunk{At: 600 * ms, Kind: call.Visible, Tokens: 1}, call.Chunk{At: 640 * ms, Kind: call.Visible, Tokens: 1}),
	}
	plan := metrics.Run{Start: 0, End: time.Second, Tokenizer: true, EndRule: metrics.LastEvent}
	run := &result.Run{Plan: result.NewPlan(plan, "")}
	run.Summary = metrics.Summarize(recs, plan)
	in, out, slots := 10, 5, 7
	return &Run{Run: run, Records: recs, Now: time.Date(2026, 11, 5, 0, 0, 0, 0, time.UTC), Asked: Asked{
		Backend: "lmdeploy", Dataset: "random", Rate: math.Inf(1), Prompts: 2, Input: &in, Output: &out, RangeRatio: 1, Slots: &slots, Timeout: 30,
	}}
}

func TestLMDeployBlock(t *testing.T) {
	var b strings.Builder
	if err := LMDeploy.Print(&b, twoRequests()); err != nil {
		t.Fatal(err)
	}
	// TPOT over the tokens asked for: (150-100)/4 = 12.5 and (150-100)/1 = 50.
	want := `
============ Serving Benchmark Result ============
Backend:                                 lmdeploy  
Traffic request rate:                    inf       
Successful requests:                     2         
Benchmark duration (s):                  1.00      
Total input tokens:                      20        
Total generated tokens:                  7         
Total generated tokens (retokenized):    6         
Request throughput (req/s):              2.00      
Input token throughput (tok/s):          20.00     
Output token throughput (tok/s):         7.00      
----------------End-to-End Latency----------------
Mean E2E Latency (ms):                   150.00    
Median E2E Latency (ms):                 150.00    
---------------Time to First Token----------------
Mean TTFT (ms):                          100.00    
Median TTFT (ms):                        100.00    
P99 TTFT (ms):                           100.00    
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          31.25     
Median TPOT (ms):                        31.25     
P99 TPOT (ms):                           49.62     
---------------Inter-token Latency----------------
Mean ITL (ms):                           26.67     
Median ITL (ms):                         20.00     
P99 ITL (ms):                            39.60     
==================================================
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestSGLangBlock(t *testing.T) {
	run := twoRequests()
	run.Asked.Backend = "sglang-oai-chat"
	var b strings.Builder
	if err := SGLang.Print(&b, run); err != nil {
		t.Fatal(err)
	}
	// Gaps by token: 20, 10, 10 and 40. TPOT: 50/3 and 50.
	want := `
============ Serving Benchmark Result ============
Backend:                                 sglang-oai-chat
Traffic request rate:                    inf       
Max request concurrency:                 7         
Successful requests:                     2         
Benchmark duration (s):                  1.00      
Total input tokens:                      20        
Total input text tokens:                 20        
Total generated tokens:                  6         
Total generated tokens (retokenized):    6         
Request throughput (req/s):              2.00      
Input token throughput (tok/s):          20.00     
Output token throughput (tok/s):         6.00      
Peak output token throughput (tok/s):    5.00      
Peak concurrent requests:                2         
Total token throughput (tok/s):          26.00     
Concurrency:                             0.30      
----------------End-to-End Latency----------------
Mean E2E Latency (ms):                   150.00    
Median E2E Latency (ms):                 150.00    
P90 E2E Latency (ms):                    150.00    
P95 E2E Latency (ms):                    150.00    
P99 E2E Latency (ms):                    150.00    
---------------Time to First Token----------------
Mean TTFT (ms):                          100.00    
Median TTFT (ms):                        100.00    
P90 TTFT (ms):                           100.00    
P95 TTFT (ms):                           100.00    
P99 TTFT (ms):                           100.00    
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          33.33     
Median TPOT (ms):                        33.33     
P90 TPOT (ms):                           46.67     
P95 TPOT (ms):                           48.33     
P99 TPOT (ms):                           49.67     
---------------Inter-Token Latency----------------
Mean ITL (ms):                           20.00     
Median ITL (ms):                         15.00     
P90 ITL (ms):                            34.00     
P95 ITL (ms):                            37.00     
P99 ITL (ms):                            39.40     
Max ITL (ms):                            40.00     
==================================================
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestBackpropJSON(t *testing.T) {
	var b strings.Builder
	if err := Backprop.Print(&b, twoRequests()); err != nil {
		t.Fatal(err)
	}
	// Messages with a text: 3 and 2. Latency over them: 0.05 and 0.075. Speeds: 20 and 13.33.
	want := `{
  "total_requests": 2,
  "successful_requests": 2,
  "concurrency": 7,
  "request_timeout": 30,
  "max_output_tokens": 5,
  "use_long_context": false,
  "total_time": 1.0,
  "requests_per_second": 2.0,
  "total_output_tokens": 5,
  "latency": {
    "average": 0.15,
    "p50": 0.15,
    "p95": 0.15,
    "p99": 0.15
  },
`
	if !strings.HasPrefix(b.String(), want) {
		t.Errorf("got\n%s", b.String())
	}
	var v struct {
		TTFT  map[string]float64 `json:"time_to_first_token(ttft)"`
		TPOT  map[string]float64 `json:"time-per-output-token(tpot)"`
		Speed map[string]float64 `json:"tokens_per_second"`
	}
	if err := json.Unmarshal([]byte(b.String()), &v); err != nil {
		t.Fatal(err)
	}
	near := func(got, want float64) bool { return math.Abs(got-want) < 1e-9 }
	if !near(v.TTFT["average"], 0.085) || !near(v.TPOT["average"], 0.0625) || v.TPOT["p99"] != v.TPOT["average"] || !near(v.Speed["p99"], 20-0.99*(20-40.0/3)) {
		t.Errorf("%+v", v)
	}
}

// What a dialect prints, the importer reads back.
func TestImportersReadWhatIsPrinted(t *testing.T) {
	for name, format := range map[Name]string{LMDeploy: result.FormatLMDeployBlock, SGLang: result.FormatSGLangBlock, Backprop: result.FormatBackprop} {
		var b strings.Builder
		if err := name.Print(&b, twoRequests()); err != nil {
			t.Fatal(err)
		}
		h, err := harvest.Read("x", strings.NewReader(b.String()))
		if err != nil || len(h.Entries) != 1 || h.Entries[0].Format != format || h.Bad() > 0 {
			t.Errorf("%s: %+v, %v", name, h, err)
			continue
		}
		if v, ok := h.Entries[0].Metrics.Float("mean_ttft_ms"); !ok || math.Abs(v-map[Name]float64{LMDeploy: 100, SGLang: 100, Backprop: 85}[name]) > 1e-9 {
			t.Errorf("%s: mean TTFT %v", name, v)
		}
	}
	for _, name := range []Name{LMDeploy, SGLang} {
		file, header, line := name.File(twoRequests())
		h, err := harvest.Read(file, strings.NewReader(header+line))
		if err != nil || len(h.Entries) != 1 {
			t.Errorf("%s: %s: %+v, %v", name, file, h, err)
		}
		if file != "lmdeploy_1105_2_10_5.jsonl" {
			t.Errorf("file %s", file)
		}
	}
}

func TestDiffersTellsTheHonestFigure(t *testing.T) {
	for name, want := range map[Name][]string{
		LMDeploy: {"asked for, 7; 6 came", "6.00 tok/s", "its mean is 140.00 ms, not 150.00"},
		SGLang:   {"Peak concurrent requests counts a request in every second it touches, 2; at most 1"},
		Backprop: {"its mean is 0.1000 s, not 0.0850", "counts messages with a text, 5; 6 tokens came", "served at 6.00 tok/s"},
		VLLM6:    {"not 150.00"},
	} {
		got := strings.Join(name.Differs(twoRequests()), "\n")
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s does not say %q:\n%s", name, w, got)
			}
		}
	}
	// Two requests 500 ms apart where 4 a second were asked for, the second 3 ms late.
	run := twoRequests()
	run.Asked.Rate, run.Asked.Slept = 4, true
	run.Records[1].Due -= 3 * ms
	for _, n := range []Name{LMDeploy, SGLang, VLLM6} {
		got := strings.Join(n.Differs(run), "\n")
		for _, w := range []string{"2 requests left within 0.50 s, 2.00 a second where 4 were asked for", "today ends at 0.50 s", "3.00 ms in all"} {
			if !strings.Contains(got, w) {
				t.Errorf("%s does not say %q:\n%s", n, w, got)
			}
		}
	}
	run.Asked.Slept = false
	if got := strings.Join(SGLang.Differs(run), "\n"); strings.Contains(got, "slept") {
		t.Errorf("a schedule was followed: %s", got)
	}
	if got := VLLM.Differs(twoRequests()); got != nil {
		t.Errorf("vLLM of today differs from itself: %v", got)
	}
}

func TestVLLM6Summary(t *testing.T) {
	s := VLLM6.Summary(twoRequests())
	if s.TTFT.Mean != 100 || s.E2EL.Mean != 150 {
		t.Errorf("TTFT %v, E2EL %v; want 100 to the first text and 150 to the end mark", s.TTFT.Mean, s.E2EL.Mean)
	}
	if run := twoRequests(); math.Abs(run.Summary.TTFT.Mean-85) > 1e-9 {
		t.Errorf("at HEAD TTFT is to the role: %v, want 85", run.Summary.TTFT.Mean)
	}
}

func TestArguments(t *testing.T) {
	for name, c := range map[string]struct {
		tool Name
		args string
		want []string
		rate []float64
	}{
		"lmdeploy defaults": {LMDeploy, "", []string{"--backend sglang", "--num-prompts 1000", "--seed 1", "--ignore-eos", "--num-warmups 1"}, nil},
		"lmdeploy given":    {LMDeploy, "--backend vllm --dataset-name random --num-prompts 500 --random-input-len 6000 --random-output-len 2000 --random-range-ratio 1.0", []string{"--backend vllm", "--random-range-ratio 1.0", "--range-ratio-meaning v6"}, nil},
		"lmdeploy multi":    {LMDeploy, "--multi --request-rate-range 2,8,2", nil, []float64{2, 4, 6}},
		"lmdeploy list":     {LMDeploy, "--multi --request-rate-range 1,4", nil, []float64{1, 4}},
		"lmdeploy eos":      {LMDeploy, "--disable-ignore-eos --disable-warmup", []string{"--num-warmups 0"}, nil},
		"sglang":            {SGLang, "--flush-cache --warmup-requests 3 --extra-request-body {\"a\":1}", []string{"--seed 42", "--random-input-len 1024", "--reset-prefix-cache", "--num-warmups 3", "--extra-body {\"a\":1}"}, nil},
		"backprop":          {Backprop, "--num_requests 300 --concurrency 100 --request_timeout 30 --output_tokens 200 --vllm_url http://h:8000/v1 --api_key k", []string{"--num-prompts 300", "--max-concurrency 100", "--base-url http://h:8000/v1", "--custom-output-len 200", "--request-timeout 30s", "--backend openai-chat"}, nil},
		"vllm 0.6":          {VLLM6, "--num-prompts 5", []string{"--range-ratio-meaning v6", "--random-range-ratio 1.0", "--num-warmups 1", "--num-prompts 5"}, nil},
		"vllm 0.6 ratio":    {VLLM6, "--random-range-ratio 0.5 --dataset-path x.json", []string{"--random-range-ratio 0.5", "--dataset-name sharegpt"}, nil},
		"vllm 0.10":         {VLLM10, "--backend openai-chat --ignore-eos", []string{"--range-ratio-meaning v10", "--temperature 0", "--backend openai-chat"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.tool.Arguments(strings.Fields(c.args))
			if err != nil {
				t.Fatal(err)
			}
			line := " " + strings.Join(got.Args, " ") + " "
			for _, w := range c.want {
				if !strings.Contains(line, " "+w+" ") {
					t.Errorf("no %q in%s", w, line)
				}
			}
			if !slices.Equal(got.Rates, c.rate) {
				t.Errorf("rates %v", got.Rates)
			}
			if strings.Contains(c.args, "disable-ignore-eos") && strings.Contains(line, "ignore-eos") {
				t.Errorf("ends of sequences are ignored:%s", line)
			}
		})
	}
	for name, c := range map[string]struct {
		tool Name
		args string
		want string
	}{
		"backprop needs": {Backprop, "--num_requests 3", "--concurrency, --vllm_url, --api_key"},
		"backprop other": {Backprop, "--num_request 3", `did you mean "num-requests"`},
		"range":          {LMDeploy, "--multi --request-rate-range 2,x", `"x" is not a whole number`},
		"empty range":    {LMDeploy, "--multi --request-rate-range 8,2,2", "no rate"},
	} {
		if _, err := c.tool.Arguments(strings.Fields(c.args)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if _, err := Parse("lmdeply"); err == nil || !strings.Contains(err.Error(), `did you mean "lmdeploy"`) {
		t.Errorf("%v", err)
	}
}

func FuzzArguments(f *testing.F) {
	f.Add("--multi --request-rate-range 2,34,2 --backend vllm")
	f.Add("--num_requests=3 --concurrency 2 --vllm_url u --api_key k")
	f.Fuzz(func(t *testing.T, line string) {
		for _, n := range Names() {
			got, err := Name(n).Arguments(strings.Fields(line))
			if err == nil && len(got.Rates) > 100_000 {
				t.Skip("a long list of rates")
			}
		}
	})
}
