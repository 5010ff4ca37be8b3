package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spate/internal/call"
	"spate/internal/cli"
	"spate/internal/result"
	"spate/internal/send/protocol"
	"spate/internal/settings/flags"
)

// engine is a server of one protocol: how it tells its model, and a good answer of three tokens to a
// prompt of eight.
type engine struct {
	list, models string // where it tells its models; empty: nowhere
	kind, answer string
	out          int       // tokens counted of the answer
	from         call.From // by whom
	finish       string
}

const (
	eventStream = "text/event-stream"
	openList    = `{"object":"list","data":[{"id":"m-1","owned_by":"someone"}]}`
)

// sse is an event stream of messages.
func sse(messages ...string) string {
	var s strings.Builder
	for _, m := range messages {
		s.WriteString("data: " + m + "\n\n")
	}
	return s.String()
}

// engineOf is the server a backend is made for.
func engineOf(name string) engine {
	e := engine{list: "/v1/models", models: openList, kind: eventStream, out: 3, from: call.FromServer, finish: "length"}
	usage := `"usage":{"prompt_tokens":8,"completion_tokens":3}`
	p := protocol.Find(name)
	if p.Family == protocol.Pooling {
		e.kind, e.answer, e.out, e.from, e.finish = "application/json", `{"data":[{"embedding":[0.5]}],"usage":{"prompt_tokens":8,"total_tokens":8}}`, 0, call.FromNone, ""
	}
	switch name {
	case "openai-chat", "vllm-chat", "sglang-oai-chat", "lmdeploy-chat":
		e.answer = sse(`{"choices":[{"delta":{"role":"assistant","content":""}}]}`, `{"choices":[{"delta":{"content":"a"}}]}`, `{"choices":[{"delta":{"content":"b"}}]}`,
			`{"choices":[{"delta":{"content":"c"},"finish_reason":"length"}]}`, `{"choices":[],`+usage+`}`, "[DONE]")
	case "openai-responses":
		e.answer = sse(`{"type":"response.output_text.delta","delta":"a"}`, `{"type":"response.output_text.delta","delta":"bc"}`,
			`{"type":"response.incomplete","response":{"status":"incomplete","usage":{"input_tokens":8,"output_tokens":3}}}`)
	case "anthropic":
		e.answer = sse(`{"type":"message_start","message":{"usage":{"input_tokens":8,"output_tokens":1}}}`, `{"type":"content_block_delta","delta":{"type":"text_delta","text":"abc"}}`,
			`{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":3}}`, `{"type":"message_stop"}`)
		e.finish = "max_tokens"
	case "sglang", "sglang-native":
		e.list, e.models = "/get_model_info", `{"model_path":"m-1","is_generation":true}`
		e.answer = sse(`{"text":"a","meta_info":{"finish_reason":null,"prompt_tokens":8,"completion_tokens":1}}`,
			`{"text":"abc","meta_info":{"finish_reason":{"type":"length"},"prompt_tokens":8,"completion_tokens":3}}`, "[DONE]")
	case "tgi":
		e.list, e.models = "/info", `{"model_id":"m-1","version":"2.0"}`
		e.answer = sse(`{"token":{"text":"a","special":false}}`, `{"token":{"text":"b","special":false}}`,
			`{"token":{"text":"c","special":false},"generated_text":"abc","details":{"finish_reason":"length","generated_tokens":3,"input_length":8}}`)
	case "tensorrt-llm", "trt":
		e.list, e.finish, e.from = "", "end", call.FromChunks
		e.answer = sse(`{"text_output":"a"}`, `{"text_output":"b"}`, `{"text_output":"c"}`)
	case "deepspeed-mii":
		e.list, e.finish, e.from, e.out = "", "end", call.FromChunks, 1
		e.kind, e.answer = "application/json", `{"text":["abc"]}`
	case "llama.cpp-native":
		e.list, e.models = "/props", `{"model_alias":"m-1","build_info":"b1"}`
		e.answer = sse(`{"content":"a","tokens":[1],"stop":false}`, `{"content":"bc","tokens":[2,3],"stop":false}`,
			`{"content":"","tokens":[],"stop":true,"stop_type":"limit","tokens_predicted":3,"tokens_evaluated":8,"timings":{"prompt_ms":1,"predicted_ms":2,"predicted_per_token_ms":1}}`)
	case "ollama", "ollama-chat":
		e.list, e.models, e.kind = "/api/tags", `{"models":[{"name":"m-1"}]}`, "application/x-ndjson"
		e.answer = `{"response":"a","message":{"content":"a"},"done":false}` + "\n" + `{"response":"bc","message":{"content":"bc"},"done":false}` + "\n" +
			`{"response":"","message":{"content":""},"done":true,"done_reason":"length","prompt_eval_count":8,"eval_count":3,"eval_duration":1000}` + "\n"
	default:
		if p.Family == protocol.Completion {
			e.answer = sse(`{"choices":[{"text":"a"}]}`, `{"choices":[{"text":"b"}]}`, `{"choices":[{"text":"c","finish_reason":"length"}]}`, `{"choices":[],`+usage+`}`, "[DONE]")
		}
	}
	return e
}

// served is an engine's server and what was asked of it.
type served struct {
	*httptest.Server
	mu     sync.Mutex
	models []string // the model of each request
	heads  []http.Header
}

// start serves an engine; answer, where given, takes the place of the good answer from the first on.
func (e engine) start(t *testing.T, name string, answer http.HandlerFunc) *served {
	t.Helper()
	if _, err := program(); err != nil {
		t.Fatal(err)
	}
	s := &served{}
	mux := http.NewServeMux()
	if e.list != "" {
		mux.HandleFunc("GET "+e.list, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, e.models) })
	}
	mux.HandleFunc("POST "+protocol.Find(name).Path, func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Model string `json:"model"`
		}
		if r.Header.Get("Content-Type") == "application/json" {
			_ = json.NewDecoder(r.Body).Decode(&body) // bodies without a model have none to note
		}
		s.mu.Lock()
		s.models, s.heads = append(s.models, body.Model), append(s.heads, r.Header)
		s.mu.Unlock()
		if answer != nil {
			answer(w, r)
			return
		}
		w.Header().Set("Content-Type", e.kind)
		_, _ = io.WriteString(w, e.answer)
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// args point spate at a server; where it cannot tell its model, that is named.
func (e engine) args(name, url string, more ...string) []string {
	out := append([]string{"--backend", name, "--base-url", url, "--num-prompts", "4", "--random-input-len", "8", "--random-output-len", "3"}, more...)
	if e.list == "" {
		out = append(out, "--model", "m-1")
	}
	return out
}

// TestEveryBackend measures a server of each protocol through the command line: the model found where the
// server tells it, the block, the run folder and the counts.
func TestEveryBackend(t *testing.T) {
	t.Parallel()
	for _, p := range protocol.All() {
		if p.Family == protocol.Audio {
			continue // TestSpeech
		}
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			e := engineOf(p.Name)
			if e.answer == "" {
				t.Fatal("no server speaks it")
			}
			srv := e.start(t, p.Name, nil)
			done := benchCmd(t, e.args(p.Name, srv.URL)...).want(cli.ExitDone)
			run := done.balanced()
			if _, block := blockOf(t, done.out); block["Successful requests:"] != "4" || block["Failed requests:"] != "0" {
				t.Errorf("block: %v", block)
			}
			if run.Server.Backend != p.Name || run.Server.Model != "m-1" || run.State != result.Complete || run.Verdict.Grade == "" {
				t.Errorf("server %+v, state %s, verdict %q", run.Server, run.State, run.Verdict.Grade)
			}
			if run.Summary.TotalOutput != 4*e.out {
				t.Errorf("%d output tokens, want 4 times %d", run.Summary.TotalOutput, e.out)
			}
			for _, r := range done.measured() {
				if r.Out.N != e.out || r.Out.From != e.from || r.Finish != e.finish || (r.Inputs == 1) != (p.Family == protocol.Pooling) {
					t.Errorf("record: out %+v, finish %q, %d inputs", r.Out, r.Finish, r.Inputs)
				}
			}
			familyLaws(t, &done, run, p)
		})
	}
}

// familyLaws checks what the report of each kind of work says.
func familyLaws(t *testing.T, done *ended, run *result.Run, p protocol.Protocol) {
	t.Helper()
	if p.Family != protocol.Pooling {
		has(t, "stdout", done.out, "Mean TTFT (ms):", "Total generated tokens:")
		if run.Summary.TTFT.N != 4 || run.Summary.Pooling != nil {
			t.Errorf("%d TTFTs, pooling %+v", run.Summary.TTFT.N, run.Summary.Pooling)
		}
		return
	}
	for _, unwanted := range []string{"TTFT (ms)", "TPOT (ms)", "ITL (ms)", "Total generated tokens:", "Peak concurrent requests:", "output tokens as requested"} {
		if strings.Contains(done.out, unwanted) {
			t.Errorf("%q where nothing is generated", unwanted)
		}
	}
	has(t, "stdout", done.out, "Input throughput (inputs/s):", "Mean E2EL (ms):", "P99 E2EL (ms):", "Total input tokens:                      32 ")
	for _, f := range run.Verdict.Findings {
		if (f.Name == "output_lengths" || f.Name == "chunk_tokens" || f.Name == "finish_reasons") && f.Measured {
			t.Errorf("the verdict judges %s: %s", f.Name, f.Sentence)
		}
	}
	for _, r := range done.measured() {
		if got := run.Summary.E2EL; float64(r.Headers-r.Sent)/1e6 < got.Min-1e-6 || float64(r.Headers-r.Sent)/1e6 > got.Max+1e-6 {
			t.Errorf("headers after %v are outside E2EL's %v to %v ms", r.Headers-r.Sent, got.Min, got.Max)
		}
	}
}

// TestPoolingResultFile checks the keys of vLLM's result file for a pooling run.
func TestPoolingResultFile(t *testing.T) {
	t.Parallel()
	e := engineOf("openai-embeddings")
	srv := e.start(t, "openai-embeddings", nil)
	done := benchCmd(t, e.args("openai-embeddings", srv.URL, "--save-result", "--result-filename", "r.json")...).want(cli.ExitDone)
	raw, err := os.ReadFile(filepath.Join(done.dir, "r.json"))
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	d := json.NewDecoder(strings.NewReader(string(raw)))
	var fields map[string]any
	if err := d.Decode(&fields); err != nil {
		t.Fatal(err)
	}
	for k := range fields {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	want := strings.Fields(`backend burstiness completed date duration endpoint_type input_sequence_throughput label max_concurrency mean_e2el_ms median_e2el_ms
		model_id num_prompts p99_e2el_ms request_rate request_throughput std_e2el_ms tokenizer_id total_input_sequences total_input_tokens total_token_throughput`)
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if fields["total_input_sequences"] != 4.0 || fields["total_input_tokens"] != 32.0 || fields["completed"] != 4.0 {
		t.Errorf("%s", raw)
	}
}

// TestSpeech writes down two sound files: the form, the stream and RTFx.
func TestSpeech(t *testing.T) {
	t.Parallel()
	e := engine{list: "/v1/models", models: openList, kind: eventStream, answer: sse(`{"choices":[{"delta":{"content":"to be"},"finish_reason":"stop"}],"usage":{"prompt_tokens":8,"completion_tokens":2}}`,
		`{"choices":[],"usage":{"prompt_tokens":8,"completion_tokens":2}}`, "[DONE]")}
	files := make(chan string, 8)
	srv := e.start(t, "openai-audio", func(w http.ResponseWriter, r *http.Request) {
		f, head, err := r.FormFile("file")
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		raw, err := io.ReadAll(f)
		files <- fmt.Sprintf("%s %s %d %v %s %s", head.Filename, head.Header.Get("Content-Type"), len(raw), err, r.FormValue("stream"), r.FormValue("model"))
		w.Header().Set("Content-Type", e.kind)
		_, _ = io.WriteString(w, e.answer)
	})
	dir := t.TempDir()
	wav := append([]byte("RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x40\x1f\x00\x00\x01\x00\x08\x00data\x40\x1f\x00\x00"), make([]byte, 8000)...)
	rows := fmt.Sprintf("{\"prompt\":\"\",\"audio\":%q}\n", filepath.Join(dir, "a.wav"))
	for name, raw := range map[string][]byte{"a.wav": wav, "rows.jsonl": []byte(strings.Repeat(rows, 2))} {
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	done := benchCmd(t, "--backend", "openai-audio", "--base-url", srv.URL, "--dataset-name", "custom_audio", "--dataset-path", filepath.Join(dir, "rows.jsonl"), "--num-prompts", "2").want(cli.ExitDone)
	run := done.balanced()
	has(t, "stdout", done.out, "RTFx (Inverse Real-Time Factor):", "Total generated tokens:                  4 ")
	if want := 2 / run.Summary.DurationS; run.Summary.RTFx < want*0.999 || run.Summary.RTFx > want*1.001 {
		t.Errorf("RTFx %v for 2 s of speech in %v s", run.Summary.RTFx, run.Summary.DurationS)
	}
	for _, r := range done.measured() {
		if r.Audio.Seconds() != 1 {
			t.Errorf("%v of speech, want 1s", r.Audio)
		}
		if got := <-files; got != fmt.Sprintf("a.wav audio/wav %d <nil> True m-1", len(wav)) {
			t.Errorf("the server got %s", got)
		}
	}
}

// TestInputsOfARequest sends batches to embed and documents to rank, and counts inputs instead of requests.
func TestInputsOfARequest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flags  []string
		inputs int
	}{
		"openai-embeddings": {[]string{"--random-batch-size", "3"}, 3},
		"vllm-rerank":       {[]string{"--dataset-name", "random-rerank", "--random-batch-size", "5", "--random-input-len", "40"}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := engineOf(name)
			srv := e.start(t, name, nil)
			done := benchCmd(t, append([]string{"--backend", name, "--base-url", srv.URL, "--num-prompts", "30", "--random-input-len", "8"}, c.flags...)...).want(cli.ExitDone)
			run := done.balanced()
			total := 0
			for _, r := range done.measured() {
				total += r.Inputs
				if r.Inputs != c.inputs {
					t.Errorf("%d inputs, want %d", r.Inputs, c.inputs)
				}
			}
			if p := run.Summary.Pooling; p == nil || p.Inputs != total || total != 30 {
				t.Errorf("%+v, records have %d inputs, want 30", p, total)
			}
		})
	}
}

// TestBackendFaults lets a server of each form of answer fail in the middle of half its answers and refuse
// the other half.
func TestBackendFaults(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"openai-responses", "sglang", "tgi", "trt", "llama.cpp-native", "ollama", "anthropic", "deepspeed-mii", "openai-embeddings"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := engineOf(name)
			broken := `{"type":"error","error":{"type":"server_error","message":"engine dead"}}`
			if e.kind == eventStream {
				broken = sse(broken)
			}
			var n atomic.Int64
			srv := e.start(t, name, func(w http.ResponseWriter, _ *http.Request) {
				if n.Add(1)%2 == 0 {
					w.Header().Set("Retry-After", "3")
					http.Error(w, "slow down", http.StatusTooManyRequests)
					return
				}
				w.Header().Set("Content-Type", e.kind)
				_, _ = io.WriteString(w, broken)
			})
			done := benchCmd(t, e.args(name, srv.URL)...).want(cli.ExitFailed)
			has(t, "stdout", done.out, "engine dead", "refused for load", "Failed requests:                         4 ")
			run := done.balanced()
			faults := map[call.Fault]int{}
			for _, r := range done.measured() {
				faults[r.Fault]++
			}
			if d := cmp.Diff(map[call.Fault]int{call.FaultEvent: 2, call.FaultShed: 2}, faults); d != "" {
				t.Errorf("faults (-want +got):\n%s", d)
			}
			if shed := &run.Summary.Failures.Shed; shed.Count != 2 || shed.Latency.N != 2 || shed.RetryAfter.Median != 3000 {
				t.Errorf("shed %+v", shed)
			}
		})
	}
}

// TestModelIsNamedOrFound checks servers that cannot tell their model, and names mixed by weight.
func TestModelIsNamedOrFound(t *testing.T) {
	t.Parallel()
	mute := engineOf("trt")
	srv := mute.start(t, "trt", nil)
	done := benchCmd(t, "--backend", "trt", "--base-url", srv.URL, "--num-prompts", "1").want(cli.ExitFailed)
	has(t, "stderr", done.stderr, "name the model with --model")

	e := engineOf("openai")
	srv = e.start(t, "openai", nil)
	benchCmd(t, e.args("openai", srv.URL, "--num-prompts", "60", "--lora-modules", "a", "b", "--lora-weights", "9,1")...).want(cli.ExitDone)
	count := map[string]int{}
	srv.mu.Lock()
	defer srv.mu.Unlock()
	for _, m := range srv.models {
		count[m]++
	}
	if count["a"]+count["b"] != 60 || count["a"] <= 2*count["b"] || count["b"] == 0 {
		t.Errorf("%v requests by model for weights 9 and 1", count)
	}
}

// TestAnthropicKey checks which key goes where.
func TestAnthropicKey(t *testing.T) {
	t.Parallel()
	e := engineOf("anthropic")
	srv := e.start(t, "anthropic", nil)
	c := benchCmd(t, e.args("anthropic", srv.URL)...)
	c.cmd.Env = append(c.cmd.Env, "ANTHROPIC_API_KEY=sk-ant-mine", "OPENAI_API_KEY=sk-other")
	done := c.want(cli.ExitDone)
	srv.mu.Lock()
	defer srv.mu.Unlock()
	for _, h := range srv.heads {
		if h.Get("X-Api-Key") != "sk-ant-mine" || h.Get("Authorization") != "" || h.Get("Anthropic-Version") != "2023-06-01" {
			t.Errorf("headers %v", h)
		}
	}
	if strings.Contains(done.out+done.stderr, "sk-ant-mine") {
		t.Error("the key is printed")
	}
}

// TestWhereServersListen checks that a backend brings its endpoint and port.
func TestWhereServersListen(t *testing.T) {
	for _, p := range protocol.All() {
		r, err := flags.Parse([]string{"--backend", p.Name}, flags.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := r.Bench.Target.URLs()[0] + r.Bench.Target.Endpoint
		if want := fmt.Sprintf("http://127.0.0.1:%d%s", p.Port, p.Path); got != want {
			t.Errorf("%s: %s, want %s", p.Name, got, want)
		}
	}
}
