package dialect

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spate/internal/call"
	"spate/internal/load/schedule"
	"spate/internal/settings/flags"
)

// parse reads a tool's line down to spate's settings, as the command does when there is no ShareGPT file.
func parse(t *testing.T, tool Name, words []string) (*flags.Result, *Translated) {
	t.Helper()
	got, err := tool.Arguments(words)
	if err != nil {
		t.Fatal(err)
	}
	if got.WantsShareGPT {
		got.ShareGPT("")
	}
	r, err := flags.Parse(got.Args, flags.Options{})
	if err != nil {
		t.Fatalf("%v\nof %q", err, got.Args)
	}
	return r, got
}

// sglangFlags is every argument of SGLang's bench_serving with a value for it; needs is what must stand beside it.
var sglangFlags = []struct{ flag, needs string }{
	{"--backend sglang", ""},
	{"--backend sglang-native", ""},
	{"--backend sglang-oai", ""},
	{"--backend sglang-oai-chat", ""},
	{"--backend vllm", ""},
	{"--backend vllm-chat", ""},
	{"--backend lmdeploy", ""},
	{"--backend lmdeploy-chat", ""},
	{"--backend sglang-embedding", ""},
	{"--backend vllm-embedding", ""},
	{"--backend trt", ""},
	{"--base-url http://h:1", ""},
	{"--host 0.0.0.0", ""},
	{"--port 30001", ""},
	{"--ready-check-timeout-sec 5", ""},
	{"--model m", ""},
	{"--served-model-name m", ""},
	{"--tokenizer m", ""},
	{"--header A=b C=d", ""},
	{"--tag t", ""},
	{"--num-prompts 5", ""},
	{"--request-rate 2", ""},
	{"--max-concurrency 3", ""},
	{"--warmup-requests 2", ""},
	{"--flush-cache", ""},
	{"--flush-cache-timeout 60.0", ""},
	{"--seed 7", ""},
	{"--use-trace-timestamps", ""},
	{"--disable-stream", ""},
	{"--disable-ignore-eos", ""},
	{"--temperature 0.5", ""},
	{"--top-p 0.9", ""},
	{`--extra-request-body {"a":1}`, ""},
	{"--apply-chat-template", ""},
	{"--prompt-suffix x", ""},
	{"--tokenize-prompt", ""},
	{"--return-logprob", ""},
	{"--top-logprobs-num 2", ""},
	{"--token-ids-logprob 1 2", ""},
	{"--logprob-start-len -1", ""},
	{"--return-routed-experts", ""},
	{"--dataset-name sharegpt", ""},
	{"--dataset-name random", ""},
	{"--dataset-name random-ids", ""},
	{"--dataset-name custom", "--dataset-path x.jsonl"},
	{"--dataset-name openai", "--dataset-path x.jsonl"},
	{"--dataset-name generated-shared-prefix", ""},
	{"--dataset-name mooncake", "--dataset-path x.jsonl"},
	{"--dataset-name agentic-trace", "--dataset-path x.jsonl"},
	{"--dataset-name speed-bench", "--dataset-path x"},
	{"--dataset-name image", "--backend sglang-oai-chat"},
	{"--dataset-path x.json", ""},
	{"--sharegpt-output-len 9", ""},
	{"--sharegpt-context-len 900", ""},
	{"--random-input-len 8", ""},
	{"--random-output-len 8", ""},
	{"--random-range-ratio 0.5", ""},
	{"--image-count 2", ""},
	{"--image-resolution 4k", ""},
	{"--image-resolution 100x200", ""},
	{"--image-format png", ""},
	{"--image-content blank", ""},
	{"--random-image-count", ""},
	{"--dataset-offset 3", ""},
	{"--agentic-max-turns 3", ""},
	{"--speed-bench-category qa", ""},
	{"--speed-bench-output-len 7", ""},
	{"--gsp-num-groups 2", ""},
	{"--gsp-prompts-per-group 2", ""},
	{"--gsp-system-prompt-len 8", ""},
	{"--gsp-question-len 4", ""},
	{"--gsp-output-len 4", ""},
	{"--gsp-range-ratio 0.5", ""},
	{"--gsp-fast-prepare", ""},
	{"--gsp-send-routing-key", ""},
	{"--gsp-num-turns 2", ""},
	{"--gsp-ordered", ""},
	{"--gsp-group-distribution zipf", ""},
	{"--gsp-zipf-alpha 1.2", ""},
	{"--mooncake-workload conversation", ""},
	{"--mooncake-slowdown-factor 1.0", "--dataset-name mooncake --dataset-path x.jsonl"},
	{"--mooncake-num-rounds 1", ""},
	{"--mooncake-num-rounds 2", ""},
	{"--lora-name a b", ""},
	{"--lora-request-distribution uniform", "--lora-name a b"},
	{"--lora-request-distribution distinct", "--lora-name a b"},
	{"--lora-request-distribution skewed", "--lora-name a b --lora-zipf-alpha 2"},
	{"--profile", ""},
	{"--profile-activities CPU GPU", ""},
	{"--profile-start-step 1", ""},
	{"--profile-steps 1", ""},
	{"--profile-num-steps 1", ""},
	{"--profile-by-stage", ""},
	{"--profile-stages a", ""},
	{"--profile-output-dir d", ""},
	{"--profile-prefix p", ""},
	{"--output-file f", ""},
	{"--output-details", ""},
	{"--print-requests", ""},
	{"--plot-throughput", ""},
	{"--cache-report", ""},
	{"--disable-tqdm", ""},
}

// lmdeployFlags is every argument of LMDeploy's profile_restful_api.py.
var lmdeployFlags = []struct{ flag, needs string }{
	{"--backend sglang", ""},
	{"--backend vllm", ""},
	{"--backend vllm-chat", ""},
	{"--backend lmdeploy", ""},
	{"--backend lmdeploy-chat", ""},
	{"--backend trt", ""},
	{"--base-url http://h:1", ""},
	{"--host 0.0.0.0", ""},
	{"--port 23333", ""},
	{"--dataset-name sharegpt", ""},
	{"--dataset-name random", ""},
	{"--dataset-name image", "--backend lmdeploy-chat"},
	{"--dataset-path x.json", ""},
	{"--model m", ""},
	{"--model-path m", ""},
	{"--tokenizer m", ""},
	{"--num-prompts 5", ""},
	{"--sharegpt-output-len 8", ""},
	{"--random-input-len 8", ""},
	{"--random-output-len 8", ""},
	{"--random-range-ratio 1.0", ""},
	{"--image-count 1", ""},
	{"--image-resolution 1080p", ""},
	{"--image-format jpeg", ""},
	{"--image-content random", ""},
	{"--request-rate 2", ""},
	{"--seed 3", ""},
	{"--multi", ""},
	{"--multi --request-rate-range 2,8,2", ""},
	{"--output-file f", ""},
	{"--disable-tqdm", ""},
	{"--disable-stream", ""},
	{"--disable-ignore-eos", ""},
	{"--disable-warmup", ""},
	{"--trust-remote-code", ""},
	{`--extra-request-body {"a":1}`, ""},
}

func TestEveryArgumentOfTheTools(t *testing.T) {
	for tool, list := range map[Name][]struct{ flag, needs string }{SGLang: sglangFlags, LMDeploy: lmdeployFlags} {
		for _, c := range list {
			t.Run(string(tool)+" "+c.flag, func(t *testing.T) {
				parse(t, tool, strings.Fields(c.flag+" "+c.needs))
				parse(t, tool, strings.Fields(c.needs+" "+strings.ReplaceAll(c.flag, "-prompts", "_prompts")))
			})
		}
	}
}

func TestServingMeans(t *testing.T) {
	for name, c := range map[string]struct {
		tool Name
		line string
		want []string // in spate's arguments
		note string
	}{
		"ids":          {SGLang, "--dataset-name random-ids --tokenize-prompt", []string{"--dataset-name random", "--prompt-token-ids"}, ""},
		"image":        {SGLang, "--dataset-name image --image-count 2 --image-resolution 360p --backend sglang-oai-chat", []string{"--dataset-name random-mm", "--random-mm-base-items-per-request 2", "--random-mm-bucket-config {(360, 640, 1): 1.0}"}, ""},
		"own number":   {SGLang, "--dataset-name generated-shared-prefix --gsp-num-turns 3 --gsp-send-routing-key", []string{"--dataset-name generated-shared-prefix", "--gsp-num-turns 3", "--gsp-send-routing-key"}, ""},
		"skewed":       {SGLang, "--dataset-name random-ids --lora-name a b c --lora-request-distribution skewed --lora-zipf-alpha 2", []string{"--lora-modules a b c", "--lora-weights 1,0.5,0.25"}, ""},
		"distinct":     {SGLang, "--dataset-name random-ids --lora-name a b --lora-request-distribution distinct", []string{"--lora-assignment round-robin"}, ""},
		"embedding":    {SGLang, "--dataset-name random-ids --backend vllm-embedding", []string{"--backend openai-embeddings"}, ""},
		"chat's port":  {SGLang, "--dataset-name random-ids --backend vllm-chat", []string{"--backend vllm-chat", "--port 30000"}, ""},
		"log prob":     {SGLang, `--dataset-name random-ids --return-logprob --top-logprobs-num 2 --extra-request-body {"a":1}`, []string{`--extra-body {"a":1,"return_logprob":true,"top_logprobs_num":2}`}, ""},
		"eos":          {LMDeploy, "--dataset-name random-ids --backend vllm --disable-ignore-eos", []string{`--extra-body {"ignore_eos":false}`}, ""},
		"speed":        {SGLang, "--dataset-name speed-bench --dataset-path x", []string{"--dataset-name speed_bench", "--speed-bench-output-len 512"}, ""},
		"stands in":    {LMDeploy, "--backend vllm --num-prompts 10000", []string{"--dataset-name random", "--input-len lognormal(226,226)", "--output-len lognormal(199,199)"}, "spate downloads nothing"},
		"fixed output": {LMDeploy, "--backend vllm --sharegpt-output-len 50", []string{"--output-len 50"}, "spate downloads nothing"},
		"no stream":    {SGLang, "--dataset-name random --disable-stream", nil, "--disable-stream is not followed"},
		"rounds":       {SGLang, "--dataset-name random --mooncake-num-rounds 4", nil, "--mooncake-num-rounds is not followed"},
		"model path":   {LMDeploy, "--dataset-name random-ids --model-path /m --model x", []string{"--tokenizer /m", "--model x"}, ""},
		"random":       {LMDeploy, "--dataset-name random --backend vllm --random-input-len 8 --random-output-len 8", []string{"--dataset-name random"}, "random prompts are random tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			_, got := parse(t, c.tool, strings.Fields(c.line))
			line := " " + strings.Join(got.Args, " ") + " "
			for _, w := range c.want {
				if !strings.Contains(line, " "+w+" ") {
					t.Errorf("no %q in%s", w, line)
				}
			}
			if notes := strings.Join(got.Notes, "\n"); !strings.Contains(notes, c.note) || c.note == "" && notes != "" {
				t.Errorf("notes %q", notes)
			}
			if name == "own number" && strings.Contains(line, "--num-prompts") {
				t.Errorf("a number was made up:%s", line)
			}
		})
	}
	for line, want := range map[string]string{
		"--fake-prefill": "--fake-prefill", "--pd-separated": "prefill and decode", "--backend gserver": "not supported", "--dataset-name mmmu": "downloads nothing",
		"--image-resolution 8x": "HEIGHTxWIDTH", "--lora-request-distribution odd": "not uniform", "--extra-request-body 3": "not a JSON object",
		"--lora-request-distribution skewed --lora-zipf-alpha 1": "above 1", "--top-logprobs-num x": "not a whole number",
	} {
		if _, err := SGLang.Arguments(strings.Fields(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
	t.Run("file", func(t *testing.T) {
		got, err := LMDeploy.Arguments(nil)
		if err != nil || !got.WantsShareGPT {
			t.Fatalf("%+v, %v", got, err)
		}
		got.ShareGPT("/tmp/s.json")
		if line := strings.Join(got.Args, " "); !strings.Contains(line, "--dataset-name sharegpt --dataset-path /tmp/s.json") || len(got.Notes) > 0 {
			t.Errorf("%s; %q", line, got.Notes)
		}
	})
}

// TestPacing: tools that sleep between two sends do so here, unless the line asks for what cannot be slept.
func TestPacing(t *testing.T) {
	const random = "--dataset-name random --random-input-len 8 --random-output-len 2 "
	for name, c := range map[string]struct {
		tool Name
		line string
		want schedule.Pacing
	}{
		"sglang":         {SGLang, random + "--request-rate 4", schedule.PacingSlept},
		"sglang at once": {SGLang, random + "--request-rate inf", schedule.PacingSlept},
		"lmdeploy":       {LMDeploy, random + "--request-rate 4", schedule.PacingSlept},
		"lmdeploy multi": {LMDeploy, random + "--multi", schedule.PacingSlept},
		"vllm 0.6":       {VLLM6, random + "--request-rate 4", schedule.PacingSlept},
		"vllm 0.10":      {VLLM10, random + "--request-rate 4", schedule.PacingScheduled},
		"vllm":           {VLLM, random + "--request-rate 4", schedule.PacingScheduled},
		"backprop":       {Backprop, "--num_requests 3 --concurrency 2 --vllm_url http://h:1/v1 --api_key k", schedule.PacingScheduled},
		"asked for":      {SGLang, random + "--request-rate 4 --pacing scheduled", schedule.PacingScheduled},
		"underscored":    {VLLM6, random + "--ramp_up_strategy linear --ramp_up_start_rps 1 --ramp_up_end_rps 3", schedule.PacingScheduled},
		"stages":         {LMDeploy, random + "--stages 2s@3", schedule.PacingScheduled},
		"trace":          {SGLang, "--dataset-name mooncake --dataset-path x.jsonl", schedule.PacingScheduled},
		"trace of vllm":  {VLLM6, "--dataset-name timed_trace --dataset-path x.jsonl", schedule.PacingScheduled},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := parse(t, c.tool, strings.Fields(c.line))
			if got := r.Bench.Load.Pacing; got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestEmbeddingBlock: SGLang leaves out what an embedding server does not generate.
func TestEmbeddingBlock(t *testing.T) {
	run := twoRequests()
	run.Asked.Backend, run.Asked.Pools = "vllm-embedding", true
	for i := range run.Records {
		r := &run.Records[i]
		r.FirstToken, r.Chunks, r.Out = call.Unset, nil, call.Count{}
	}
	var b strings.Builder
	if err := SGLang.Print(&b, run); err != nil {
		t.Fatal(err)
	}
	want := `
============ Serving Benchmark Result ============
Backend:                                 vllm-embedding
Traffic request rate:                    inf       
Max request concurrency:                 7         
Successful requests:                     2         
Benchmark duration (s):                  1.00      
Total input tokens:                      20        
Total input text tokens:                 20        
Request throughput (req/s):              2.00      
Input token throughput (tok/s):          20.00     
Peak concurrent requests:                2         
Total token throughput (tok/s):          20.00     
Concurrency:                             0.30      
----------------End-to-End Latency----------------
Mean E2E Latency (ms):                   150.00    
Median E2E Latency (ms):                 150.00    
P90 E2E Latency (ms):                    150.00    
P95 E2E Latency (ms):                    150.00    
P99 E2E Latency (ms):                    150.00    
==================================================
`
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

// TestVisionTokens: what the server counts beyond the text is the images'.
func TestVisionTokens(t *testing.T) {
	run := twoRequests()
	run.Asked.Pictures = true
	for i := range run.Records {
		run.Records[i].In = call.Count{N: 310, From: call.FromServer}
	}
	for _, tool := range []Name{SGLang, LMDeploy} {
		var b strings.Builder
		if err := tool.Print(&b, run); err != nil {
			t.Fatal(err)
		}
		want := "Total input tokens:                      620       \nTotal input text tokens:                 20        \nTotal input vision tokens:               600       \nTotal generated tokens:"
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s:\n%s", tool, b.String())
		}
	}
}

// TestRandomText: random prompts of these tools are cut from a file, the one named or the one found.
func TestRandomText(t *testing.T) {
	for _, c := range []struct{ line, found, want, not string }{
		{"--dataset-name random --dataset-path x.json", "", "--dataset-path x.json", ""},
		{"--dataset-name random", "/tmp/s.json", "--dataset-path /tmp/s.json", ""},
		{"--dataset-name random", "", "--dataset-name random", "--dataset-path"},
		{"--dataset-name random-ids --dataset-path x.json", "", "--dataset-name random", "--dataset-path"},
	} {
		got, err := SGLang.Arguments(strings.Fields(c.line))
		if err != nil {
			t.Fatal(err)
		}
		if got.WantsShareGPT {
			got.ShareGPT(c.found)
		}
		line := strings.Join(got.Args, " ")
		if !strings.Contains(line, c.want) || c.not != "" && strings.Contains(line, c.not) {
			t.Errorf("%s: %s", c.line, line)
		}
	}
}
