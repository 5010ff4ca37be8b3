package harvest

import (
	"strings"
	"testing"

	"spate/internal/result"
)

// A block of 13 lines whose figures agree.
const smallBlock = `============ Serving Benchmark Result ============
Successful requests:                     8         
Benchmark duration (s):                  16.00     
Total input tokens:                      4096      
Total generated tokens:                  1024      
Request throughput (req/s):              0.50      
Output token throughput (tok/s):         64.00     
Total Token throughput (tok/s):          320.00    
---------------Time to First Token----------------
Mean TTFT (ms):                          55.10     
Median TTFT (ms):                        54.00     
P99 TTFT (ms):                           71.20     
==================================================
`

const smallJSON = `{"duration": 16.0, "completed": 8, "total_input_tokens": 4096, "total_output_tokens": 1024, "request_throughput": 0.5,
 "output_throughput": 64.0, "mean_ttft_ms": 55.1}
`

func TestDamage(t *testing.T) {
	lines := strings.SplitAfter(smallBlock, "\n")
	tests := []struct {
		name    string
		text    string
		results int
		kind    result.Kind
		line    int
		says    string
	}{
		{"whole", smallBlock, 1, "", 0, ""},
		{"whole object", smallJSON, 1, "", 0, ""},
		{"end missing", "x\n" + strings.Join(lines[:9], ""), 1, result.Truncated, 2, "without its end, 7 rows kept"},
		{"cut by the next", strings.Join(lines[:6], "") + smallBlock, 2, result.Truncated, 1, "without its end, 5 rows kept"},
		{"cut by a command", strings.Join(lines[:6], "") + "vllm bench serve --num-prompts 8\n" + smallBlock, 2, result.Truncated, 1, "without its end"},
		{"cut by a heading", strings.Join(lines[:6], "") + "## next\n" + smallBlock, 2, result.Truncated, 1, "without its end"},
		{"title missing", strings.Join(lines[2:], ""), 1, result.Truncated, 1, "without its title"},
		{"two rows are no block", lines[9] + lines[10] + "\nmore text\n", 0, "", 0, ""},
		{"row without value", strings.Replace(smallBlock, "54.00     ", "", 1), 1, result.Damaged, 11, `row "Median TTFT (ms):" has no value`},
		{"row with rubbish", strings.Replace(smallBlock, "54.00     ", "5#.00", 1), 1, result.Damaged, 11, `"5#.00" where a number belongs`},
		{"row twice", strings.Replace(smallBlock, lines[10], lines[10]+"Median TTFT (ms): 99.00\n", 1), 1, result.Damaged, 12, "comes twice"},
		{"row missing", strings.Replace(smallBlock, lines[2], "", 1), 1, result.Damaged, 1, "no row for duration"},
		{"title alone", lines[0] + lines[12], 1, result.Damaged, 1, "without rows"},
		{"rate wrong in the last digit", strings.Replace(smallBlock, "64.00", "64.03", 1), 1, result.Violated, 1, "output_throughput is 64.03"},
		{"rate of coarse numbers", `{"completed": 1, "duration": 0.3, "request_throughput": 5.5, "mean_ttft_ms": 10}`, 1, result.Violated, 1, "completed / duration is 3.33333"},
		{"rate right within rounding", strings.Replace(smallBlock, "64.00", "64.02", 1), 1, "", 0, ""},
		{"percentiles out of order", strings.Replace(smallBlock, "71.20", "51.20", 1), 1, result.Violated, 1, "p99_ttft_ms (51.20) is below median_ttft_ms (54.00)"},
		{"more than asked for", "vllm bench serve --num-prompts 4\n" + smallBlock, 1, result.Violated, 2, "8 requests completed of 4"},
		{"fewer than asked for", "vllm bench serve --num-prompts 10\n" + smallBlock, 1, result.Note, 2, "8 of 10 requests completed"},
		{"list that does not fit", "num_prompts: 4, 8\n" + smallBlock, 1, result.Note, 2, "position 1 of 2 in the list above on line 1 has 4: the list does not fit"},
		{"other input than announced", "#Input tokens: 4000\n" + smallBlock, 1, result.Violated, 2, "4000 were announced"},
		{"object cut", `{"duration": 16.0, "completed": 8, "request_throughput": 0.5, "mean_ttft_`, 1, result.Truncated, 1, "not whole: it breaks off on line 1"},
		{"object cut early", `{"duration": 16.0, "completed": 8, "mean_`, 0, result.Damaged, 1, "looks like a result"},
		{"object broken", strings.Replace(smallJSON, `4096,`, `4096`, 1) + smallJSON, 1, result.Damaged, 1, "cannot be read"},
		{"object cut by an object", "{\n \"duration\": 16.0,\n \"completed\": 8,\n" + smallJSON, 1, result.Damaged, 1, "breaks off on line 4"},
		{"object cut by a block", "{\n \"duration\": 16.0,\n \"completed\": 8,\n" + smallBlock, 1, result.Damaged, 1, "breaks off on line 4"},
		{"unknown object", `{"duration": 3.5, "completed": 2, "sausages": 7}`, 0, result.Note, 1, "unknown format"},
		{"strange number", strings.Replace(smallJSON, "64.0", "6.4.0", 1), 1, result.Truncated, 1, "breaks off on line 2"},
		{"short CSV row", lmdeployHeader + "completed\nvllm,random,,8\nvllm,random,\n", 1, result.Damaged, 3, "row of 3 fields under a header of 4"},
		{"CSV rubbish", lmdeployHeader + "completed\nvllm,random,,many\n", 1, result.Damaged, 2, `column completed has "many"`},
		{"CSV header only", "Metric,avg,min\n\n\n", 0, result.Truncated, 1, "without rows"},
		{"Namespace cut", "Namespace(num_prompts=8, model='m\n" + smallBlock, 1, result.Damaged, 1, "has no end"},
		{"run without result", "Namespace(num_prompts=8)\nValueError: no\nNamespace(num_prompts=8)\n" + smallBlock, 1, result.Note, 1, `it said "ValueError: no" on line 2`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, err := Read("f", strings.NewReader(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if len(h.Entries) != tt.results {
				t.Errorf("%d results, want %d", len(h.Entries), tt.results)
			}
			var all []result.Problem
			for p := range h.All() {
				all = append(all, p)
			}
			if tt.kind == "" {
				if len(all) > 0 {
					t.Errorf("problems %v, want none", all)
				}
				return
			}
			for _, p := range all {
				if p.Kind == tt.kind && p.Line == tt.line && strings.Contains(p.Text, tt.says) && p.File == "f" {
					return
				}
			}
			t.Errorf("no %s on line %d saying %q in %v", tt.kind, tt.line, tt.says, all)
		})
	}
}

// TestLaunches: which text is tied to which server.
func TestLaunches(t *testing.T) {
	serve := "vllm serve org/m --max-num-seqs 8\n"
	tests := []struct {
		name string
		text string
		want []string // format, launch, error of each result
	}{
		{"first result has it", serve + smallJSON + smallJSON, []string{"vllm-json vllm serve org/m --max-num-seqs 8", "vllm-json"}},
		{"failed, then a result", serve + "ValueError: too small\n" + smallJSON, []string{"failed-launch vllm serve org/m --max-num-seqs 8 ValueError: too small", "vllm-json"}},
		{"failed, nothing after", serve + "Traceback (most recent call last):\n  File \"x.py\", line 1\ntorch.OutOfMemoryError: CUDA out of memory. Tried\nRuntimeError: Engine core initialization failed\n", []string{"failed-launch vllm serve org/m --max-num-seqs 8 torch.OutOfMemoryError: CUDA out of memory. Tried"}},
		{"logged error", serve + "(EngineCore_0 pid=3) ERROR 09-02 13:00:00 [core.py:700] ValueError: To serve at least one request\n", []string{"failed-launch vllm serve org/m --max-num-seqs 8 ValueError: To serve at least one request"}},
		{"bad flag", serve + "vllm: error: unrecognized arguments: --frob\n", []string{"failed-launch vllm serve org/m --max-num-seqs 8 vllm: error: unrecognized arguments: --frob"}},
		{"no docker", "docker run --gpus all vllm/vllm-openai:v1 --model m\ndocker: Error response from daemon: no such image.\n", []string{"failed-launch docker run --gpus all vllm/vllm-openai:v1 --model m docker: Error response from daemon: no such image."}},
		{"error after it came up", serve + "INFO: Application startup complete.\nValueError: bad request\n" + smallJSON, []string{"vllm-json vllm serve org/m --max-num-seqs 8"}},
		{"error of the client", serve + "vllm bench serve --num-prompts 8\nValueError: retrying\n" + smallJSON, []string{"vllm-json vllm serve org/m --max-num-seqs 8"}},
		{"several lines", "docker run --gpus all \\\n  --ipc=host \\\n  vllm/vllm-openai:v1 \\\n  --model m\n" + smallJSON, []string{"vllm-json docker run --gpus all --ipc=host vllm/vllm-openai:v1 --model m"}},
		{"another container", "docker run --rm -it -v a:b -p 1:2 ubuntu:24.04 bash -c ls\n" + smallJSON, []string{"vllm-json"}},
		{"a sentence", "vllm serve is a command that starts a server\n" + smallJSON, []string{"vllm-json"}},
		{"prompts and environment", "root@box:~# CUDA_VISIBLE_DEVICES=0 nohup python3 -m vllm.entrypoints.openai.api_server --model m\n" + smallJSON, []string{"vllm-json CUDA_VISIBLE_DEVICES=0 nohup python3 -m vllm.entrypoints.openai.api_server --model m"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, err := Read("f", strings.NewReader(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range h.Entries {
				line := r.Format
				if r.Launch != nil {
					line += " " + *r.Launch
				}
				if r.Error != "" {
					line += " " + r.Error
				}
				got = append(got, line)
			}
			if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

// TestPositions: the n-th result below a list of settings has the n-th.
func TestPositions(t *testing.T) {
	text := "num_prompts: 8, 16, 32\nseq_length: 512\n" + strings.Repeat(smallBlock, 4) + "# other\n" + smallBlock
	h, err := Read("f", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range h.Entries {
		f, _ := r.Context.Get("num_prompts")
		got = append(got, r.Context.Text("num_prompts")+" "+f.From+" "+r.Context.Text("input_len"))
	}
	want := []string{
		"8 position 1 of 3 in the list above 512", "16 position 2 of 3 in the list above 512",
		"32 position 3 of 3 in the list above 512", "  512", "  ",
	}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestEngineLinesFindTheirRun: lines during a run are its own; lines after a result are the result's.
func TestEngineLinesFindTheirRun(t *testing.T) {
	line := "INFO 01-02 03:04:05 [loggers.py:1] Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 2.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%, Prefix cache hit rate: 0.0%\n"
	split := strings.SplitAfter(smallBlock, "\n")
	inside := strings.Join(split[:4], "") + line + strings.Join(split[4:], "")
	text := line + "vllm bench serve --num-prompts 8\n" + line + line + inside + line + "vllm bench serve --num-prompts 8\n" + line + smallBlock
	h, err := Read("f", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(h.Entries) != 2 || len(h.Entries[0].EngineLog) != 5 || len(h.Entries[1].EngineLog) != 1 {
		t.Fatalf("%d results with %d and %d lines", len(h.Entries), len(h.Entries[0].EngineLog), len(h.Entries[1].EngineLog))
	}
	if h.Bad() != 0 {
		t.Errorf("problems %v", h.Entries[0].Problems)
	}
}

func TestRubbishIsBounded(t *testing.T) {
	h, err := Read("f", strings.NewReader(strings.Repeat(`{"duration": 3.5, "completed": 2}`+"\n", 3000)))
	if err != nil {
		t.Fatal(err)
	}
	if len(h.Problems) != maxProblems+1 || h.Bad() != 1 {
		t.Errorf("%d problems, %d bad", len(h.Problems), h.Bad())
	}
}

func TestMultiKeepsItsStart(t *testing.T) {
	text := "Namespace(num_prompts=8, multi=True, model='m')\n" + smallBlock + smallBlock
	h, err := Read("f", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range h.Entries {
		if r.Context.Text("model") != "m" {
			t.Errorf("result %d has no model", i)
		}
	}
}

func TestPrefixedLog(t *testing.T) {
	var text strings.Builder
	for line := range strings.Lines(smallBlock) {
		text.WriteString("2026-01-02T03:04:05.000000000Z stdout F " + line)
	}
	if diff := gist(t, text.String()); len(diff) != 1 || diff[0] != gist(t, smallBlock)[0] {
		t.Errorf("got %v", diff)
	}
	if got := gist(t, "INFO result: "+strings.ReplaceAll(smallJSON, "\n", "")+"\n"); len(got) != 1 || !strings.HasPrefix(got[0], "vllm-json") {
		t.Errorf("object after words: %v", got)
	}
}
