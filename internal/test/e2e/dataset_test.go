package e2e

// Every dataset through the command line against a real server: what was asked for is what the server saw.

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
	"testing"
	"time"

	"spate/internal/call"
	"spate/internal/cli"
)

// files writes dataset files into a folder.
func datasetFiles(t *testing.T, contents map[string]string) func(name string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range contents {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return func(name string) string { return filepath.Join(dir, name) }
}

const (
	burstRows = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n" +
		"0,GPT-4,12,3,15,Conversation log\n0.05,ChatGPT,9,9,18,API log\n0.1,GPT-4,15,4,19,API log\n0.2,GPT-4,8,5,13,API log\n"
	traceRows = `{"timestamp": 0, "input_length": 1200, "output_length": 3, "hash_ids": [1, 2, 3]}
{"timestamp": 40, "input_length": 1100, "output_length": 4, "hash_ids": [1, 2, 4]}
{"timestamp": 40, "input_length": 512, "output_length": 5, "hash_ids": [2]}
{"timestamp": 90, "input_length": 1024, "output_length": 6, "hash_ids": [1, 2]}
`
)

func TestDatasetsEndToEnd(t *testing.T) {
	t.Parallel()
	srv := quick(t)
	at := datasetFiles(t, map[string]string{
		"burst.csv":               burstRows,
		"trace.jsonl":             traceRows,
		"question.jsonl":          `{"category": "qa", "turns": ["what is it", "and then"]}` + "\n" + `{"category": "math", "turns": ["one and one"]}`,
		"hub/data/test.jsonl":     `{"question": "how many are there"}` + "\n" + `{"question": "and how few"}`,
		"hub/data/train.csv":      "question\nnot this one\n",
		"images.jsonl":            `{"prompt": "what is it", "image_files": ["one.png"]}`,
		"one.png":                 "\x89PNG\r\n\x1a\nnot really a picture",
		"speed/qualitative.jsonl": `{"category": "qa", "messages": [{"role": "user", "content": "tell me"}]}`,
	})
	cases := []struct {
		name string
		args []string
		want int    // requests
		out  []int  // output tokens of each, where they are known
		note string // somewhere in the findings
	}{
		{name: "prefix_repetition", args: []string{"--num-prompts", "7", "--prefix-repetition-num-prefixes", "2", "--prefix-repetition-prefix-len", "20", "--prefix-repetition-suffix-len", "5", "--prefix-repetition-output-len", "4"}, want: 6, out: []int{4, 4, 4, 4, 4, 4}},
		{name: "generated-shared-prefix", args: []string{"--gsp-num-groups", "3", "--gsp-prompts-per-group", "2", "--gsp-system-prompt-len", "30", "--gsp-question-len", "6", "--gsp-output-len", "3"}, want: 6, out: []int{3, 3, 3, 3, 3, 3}},
		{name: "generated-shared-prefix", args: []string{"--num-prompts", "4", "--gsp-num-groups", "3", "--gsp-prompts-per-group", "2", "--gsp-system-prompt-len", "30", "--gsp-output-len", "3", "--gsp-group-distribution", "zipf"}, want: 4},
		{name: "burstgpt", args: []string{"--dataset-path", at("burst.csv"), "--num-prompts", "3"}, want: 3},
		{name: "burstgpt", args: []string{"--dataset-path", at("burst.csv"), "--num-prompts", "-1", "--self-timed"}, want: 3, out: []int{3, 4, 5}},
		{name: "mooncake", args: []string{"--dataset-path", at("trace.jsonl")}, want: 4, out: []int{3, 4, 5, 6}, note: "53.3"},
		{name: "timed_trace", args: []string{"--dataset-path", at("trace.jsonl"), "--timed-trace-sec-multiplier", "0.01", "--timed-trace-chunk-hash-size", "512", "--trace-max-gap", "100ms", "--num-prompts", "2"}, want: 2, out: []int{3, 4}},
		{name: "timed_trace", args: []string{"--dataset-path", at("trace.jsonl"), "--no-self-timed", "--request-rate", "100", "--timed-trace-chunk-hash-size", "512"}, want: 4, out: []int{3, 4, 5, 6}},
		{name: "spec_bench", args: []string{"--dataset-path", at("question.jsonl"), "--num-prompts", "0", "--spec-bench-category", "qa", "--spec-bench-output-len", "3"}, want: 1, out: []int{3}},
		{name: "hf", args: []string{"--dataset-path", at("hub"), "--hf-split", "test", "--num-prompts", "-1", "--hf-output-len", "3"}, want: 2, out: []int{3, 3}, note: "column \"question\""},
		{name: "random", args: []string{"--num-prompts", "5", "--isl", "normal(40,10)", "--osl", "uniform(3,5)"}, want: 5},
		{name: "random", args: []string{"--num-prompts", "4", "--seq-dist", "30,2:1;20,2:1"}, want: 4, out: []int{2, 2, 2, 2}},
		{name: "random-mm", args: []string{"--backend", "openai-chat", "--num-prompts", "2", "--isl", "20", "--osl", "3", "--random-mm-bucket-config", "{(32, 32, 1): 1.0}"}, want: 2, out: []int{3, 3}},
		{name: "custom_image", args: []string{"--backend", "openai-chat", "--dataset-path", at("images.jsonl"), "--num-prompts", "-1", "--osl", "3", "--custom-ensure-client-side-data"}, want: 1, out: []int{3}},
		{name: "speed_bench", args: []string{"--dataset-path", at("speed"), "--num-prompts", "2", "--speed-bench-output-len", "3"}, want: 2, out: []int{3, 3}},
	}
	for i, c := range cases {
		t.Run(fmt.Sprint(c.name, i), func(t *testing.T) {
			t.Parallel()
			e := benchCmd(t, append([]string{"--base-url", srv.URL(), "--model", "spate-sim", "--no-observe", "--dataset-name", c.name}, c.args...)...).want(cli.ExitDone)
			recs := e.measured()
			if len(recs) != c.want {
				t.Fatalf("%d requests, want %d\n%s", len(recs), c.want, e.stderr)
			}
			for k, r := range recs {
				if r.Outcome != call.OK || k < len(c.out) && r.Out.N != c.out[k] {
					t.Errorf("request %d: %s, %d tokens out, want %v", k, r.Outcome, r.Out.N, c.out)
				}
			}
			if c.note != "" && !strings.Contains(strings.Join(e.result().Notes, "\n"), c.note) {
				t.Errorf("no note with %q: %q", c.note, e.result().Notes)
			}
		})
	}
}

// poolingServer embeds, ranks and writes down speech; it notes what it was sent.
func poolingServer(t *testing.T) (url string, seen func() []string) {
	t.Helper()
	var mu sync.Mutex
	var all []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			http.NotFound(w, r)
			return
		}
		note := r.URL.Path
		if file, head, err := r.FormFile("file"); err == nil {
			data, _ := io.ReadAll(file)
			note += fmt.Sprintf(" %s of %d bytes", head.Filename, len(data))
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"hello\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\" you\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
		} else {
			var body struct {
				Input     []string
				Query     string
				Documents []string
			}
			_ = json.NewDecoder(r.Body).Decode(&body)
			note += fmt.Sprintf(" %d inputs, %d documents, query %v", len(body.Input), len(body.Documents), body.Query != "")
			_, _ = io.WriteString(w, `{"data":[{"embedding":[0.5]}],"results":[],"usage":{"prompt_tokens":7,"total_tokens":7}}`)
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, note)
	}))
	t.Cleanup(srv.Close)
	return srv.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(all)
		return all
	}
}

func TestPoolingDatasetsEndToEnd(t *testing.T) {
	t.Parallel()
	at := datasetFiles(t, map[string]string{"talk.jsonl": `{"prompt": "", "audio": "talk.wav"}`, "talk.wav": "RIFF\x04\x00\x00\x00WAVE"})
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"batch", []string{"--backend", "openai-embeddings", "--dataset-name", "random", "--random-batch-size", "3"}, []string{"/v1/embeddings 1 inputs, 0 documents, query false", "/v1/embeddings 3 inputs, 0 documents, query false"}},
		{"rerank", []string{"--backend", "vllm-rerank", "--dataset-name", "random-rerank", "--random-batch-size", "2"}, []string{"/v1/rerank 0 inputs, 2 documents, query true", "/v1/rerank 0 inputs, 2 documents, query true"}},
		{"speech", []string{"--backend", "openai-audio", "--dataset-name", "custom_audio", "--dataset-path", at("talk.jsonl"), "--num-prompts", "-1"}, []string{"/v1/audio/transcriptions talk.wav of 12 bytes"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url, seen := poolingServer(t)
			args := append([]string{"--base-url", url, "--model", "m", "--no-observe", "--num-prompts", "4", "--isl", "20"}, c.args...)
			e := benchCmd(t, args...).want(cli.ExitDone)
			for _, r := range e.measured() {
				if r.Outcome != call.OK {
					t.Errorf("%s: %s", r.Outcome, r.Err)
				}
			}
			got := slices.DeleteFunc(seen(), func(s string) bool { return strings.Contains(s, "tokenize") })
			if !slices.Equal(got, c.want) {
				t.Errorf("the server saw %q, want %q\n%s", got, c.want, e.stderr)
			}
		})
	}
}

func TestConversationsEndToEnd(t *testing.T) {
	t.Parallel()
	srv := quick(t)
	at := datasetFiles(t, map[string]string{"agents.jsonl": `{"turns": [
		{"messages": [{"role": "user", "content": "make a plan"}], "output_tokens": 4, "branches": [[{"messages": [{"role": "user", "content": "look it up"}]}], [{"messages": [{"role": "user", "content": "and this"}]}]]},
		{"messages": [{"role": "user", "content": "sum up"}], "output_tokens": 5, "think_ms": 30}]}`})
	args := []string{"--base-url", srv.URL(), "--model", "spate-sim", "--no-observe"}
	e := benchCmd(t, append(args, "--backend", "openai-chat", "--dataset-name", "multi-turn", "--num-prompts", "6", "--max-concurrency", "2", "--multi-turn-turns", "3",
		"--random-input-len", "20", "--multi-turn-next-len", "10", "--random-output-len", "4", "--think-time", "20ms")...).want(cli.ExitDone)
	turns := map[string][]call.Record{}
	for _, r := range e.measured() {
		turns[r.Session] = append(turns[r.Session], r)
	}
	if len(turns) != 6 {
		t.Fatalf("%d conversations, want 6\n%s", len(turns), e.stderr)
	}
	for name, list := range turns {
		slices.SortFunc(list, func(a, b call.Record) int { return a.Turn - b.Turn })
		for i, r := range list {
			if r.Turn != i || r.Outcome != call.OK || len(list) != 3 {
				t.Errorf("%s: turn %d of %d, %s %s", name, r.Turn, len(list), r.Outcome, r.Err)
			}
			if i > 0 && (r.Due != list[i-1].End+20*time.Millisecond || r.In.N <= list[i-1].In.N+list[i-1].Out.N) {
				t.Errorf("%s: turn %d was due %v after the answer, with %d tokens after %d", name, i, r.Due-list[i-1].End, r.In.N, list[i-1].In.N)
			}
		}
	}
	if notes := strings.Join(e.result().Notes, "\n"); !strings.Contains(notes, "turn 1: 6 requests") || !strings.Contains(notes, "turn 3: 6 requests") {
		t.Errorf("no turns in %q", notes)
	}
	e = benchCmd(t, append(args, "--backend", "openai-chat", "--dataset-name", "agentic", "--dataset-path", at("agents.jsonl"))...).want(cli.ExitDone)
	var last, subs call.Record
	for _, r := range e.measured() {
		switch {
		case r.Labels["branch"] != "":
			if r.End > subs.End {
				subs = r
			}
		case r.Turn == 1:
			last = r
		}
	}
	if n := len(e.measured()); n != 4 || last.Due != subs.End+30*time.Millisecond || last.Out.N != 5 {
		t.Errorf("%d requests; the last was due %v after the sub-agents, with %d tokens", n, last.Due-subs.End, last.Out.N)
	}
}

// TestTraceIsFollowed: requests leave when the trace says, and the plan says so before.
func TestTraceIsFollowed(t *testing.T) {
	t.Parallel()
	srv := quick(t)
	at := datasetFiles(t, map[string]string{"trace.jsonl": traceRows})
	args := []string{"--base-url", srv.URL(), "--model", "spate-sim", "--no-observe", "--dataset-name", "mooncake", "--dataset-path", at("trace.jsonl"), "--mooncake-slowdown-factor", "2"}
	e := benchCmd(t, args...).want(cli.ExitDone)
	start := e.result().Plan.Start
	for i, r := range e.measured() {
		if due := (r.Due - start).Milliseconds(); due != []int64{0, 80, 80, 180}[i] {
			t.Errorf("request %d was due at %d ms", i, due)
		}
	}
	plan := prepare(t, nil, append([]string{"bench", "--dry-run"}, args...)...).want(cli.ExitDone)
	for _, want := range []string{"4 requests at the times of the trace, over 180ms", "ideal prefix-hit rate is 53.3889%: 2048 of the 3836 prompt tokens"} {
		if !strings.Contains(plan.out, want) {
			t.Errorf("the plan does not say %q:\n%s", want, plan.out)
		}
	}
	raw, err := json.Marshal(e.result().Notes)
	if err != nil || !strings.Contains(string(raw), "53.3889%") {
		t.Errorf("the result does not have the ideal hit rate: %s, %v", raw, err)
	}
}
