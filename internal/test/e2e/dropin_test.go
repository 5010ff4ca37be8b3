package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"spate/internal/call"
	"spate/internal/cli"
)

// TestModelNamedLikeAFile: a model that is called like a file of the working folder is a name, not a tokenizer.
func TestModelNamedLikeAFile(t *testing.T) {
	t.Parallel()
	addr := simProcess(t, "--ttft", "0", "--itl", "0", "--model", "truth")
	c := prepare(t, nil, "bench", "--base-url", "http://"+addr, "--model", "truth", "--num-prompts", "2", "--osl", "2", "--no-output", "--no-store")
	if err := os.WriteFile(filepath.Join(c.cmd.Dir, "truth"), []byte("my notes"), 0o600); err != nil {
		t.Fatal(err)
	}
	has(t, "block", c.want(cli.ExitDone).out, "Successful requests:                     2 ")
}

// TestSimAnswersToBothNames: a model of the catalog is known by the name that was typed and by its full one.
func TestSimAnswersToBothNames(t *testing.T) {
	t.Parallel()
	addr := simProcess(t, "Qwen3-8B", "--gpu", "H100", "--time-scale", "20")
	for _, model := range []string{"Qwen3-8B", "Qwen/Qwen3-8B"} {
		c := prepare(t, nil, "bench", "--base-url", "http://"+addr, "--model", model, "--num-prompts", "2", "--osl", "2", "--no-output", "--no-store")
		has(t, model, c.want(cli.ExitDone).out, "Successful requests:                     2 ")
	}
}

// TestSimTakesServerFlags: names and adapters of a `vllm serve` line are answered to, and what is not simulated is said.
func TestSimTakesServerFlags(t *testing.T) {
	t.Parallel()
	addr := simProcess(t, "Qwen3-8B", "--gpu", "H100", "--time-scale", "20", "--served-model-name", "a", "b", "--enable-lora", "--lora-modules", "x=/x",
		`{"name": "y", "path": "/y"}`, "-tp", "2", "--allowed-origins", `["*"]`, "--kv-transfer-config", `{"kv_role": "kv_both"}`, "--enable-eplb", "--decode-context-parallel-size", "2")
	resp, err := http.Get("http://" + addr + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var list struct{ Data []struct{ ID string } }
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, m := range list.Data {
		ids = append(ids, m.ID)
	}
	if want := []string{"a", "b", "x", "y"}; !slices.Equal(ids, want) {
		t.Errorf("models %q, want %q", ids, want)
	}
}

// TestRandomFromAFile: SGLang's and LMDeploy's clients cut random prompts out of the file they are given.
func TestRandomFromAFile(t *testing.T) {
	t.Parallel()
	at := datasetFiles(t, map[string]string{"chats.json": `[{"conversations": [{"value": "why is the sky blue today"}, {"value": "it is"}]},
		{"conversations": [{"value": ""}, {"value": "no"}]}, {"conversations": [{"value": "name ten rivers"}, {"value": "the first"}]}]`})
	addr := simProcess(t, "--ttft", "0", "--itl", "0", "--model", "m")
	for _, tool := range []string{"lmdeploy", "sglang"} {
		line := []string{
			"bench", "--compat", tool, "--backend", "vllm", "--dataset-name", "random", "--dataset-path", at("chats.json"), "--num-prompts", "2",
			"--random-input-len", "40", "--random-output-len", "6", "--random-range-ratio", "1.0",
		}
		plan := prepare(t, nil, append(line, "--dry-run", "--port", "1")...).want(cli.ExitDone)
		has(t, "plan", plan.out, "nothing was sent", "model unknown", "80 in all", "12 in all", "the model is unknown (nothing answers at")
		c := prepare(t, nil, append(line, "--base-url", "http://"+addr, "--no-store", "--output-dir", "run")...)
		e := c.want(cli.ExitDone)
		has(t, "block", e.out, "Successful requests:                     2 ", "Total input tokens:                      80 ", "Total generated tokens:                  12 ")
		e.folder = filepath.Join(e.dir, "run")
		for _, r := range e.measured() {
			if r.In != (call.Count{N: 40, From: call.FromServer}) {
				t.Errorf("%s: request %d has %+v prompt tokens", tool, r.ID, r.In)
			}
		}
	}
	c := prepare(t, nil, "bench", "--dataset-name", "random", "--dataset-path", at("chats.json"), "--dry-run")
	has(t, "vLLM's own rule", c.want(cli.ExitUsage).stderr, "random prompts do not come from a file")
}

// TestTimeBoundLengths: without a tokenizer, runs that are bounded by time have exact lengths too, and the notes say how.
func TestTimeBoundLengths(t *testing.T) {
	t.Parallel()
	slow(t, "waits for durations to pass")
	addr := simProcess(t, "--ttft", "1ms", "--itl", "0", "--model", "m")
	for name, load := range map[string][]string{
		"duration": {"--duration", "1s", "--request-rate", "40"}, "closed": {"--duration", "1s", "--max-concurrency", "2"}, "stages": {"--stages", "500ms@20,500ms@40"},
		"count": {"--num-prompts", "30"}, "salt": {"--duration", "1s", "--request-rate", "40", "--salt", "Run 17"}, "warm": {"--duration", "1s", "--request-rate", "40", "--warmup-duration", "200ms"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := benchCmd(t, append([]string{"--base-url", "http://" + addr, "--isl", "50", "--osl", "2"}, load...)...).want(cli.ExitDone)
			recs := e.records()
			if len(recs) < 15 {
				t.Errorf("%d requests", len(recs))
			}
			for _, r := range recs {
				if r.Outcome == call.OK && (r.In.N != 50 || r.Asked.N != 50) {
					t.Fatalf("request %d: %d tokens asked for, %d counted by the server", r.ID, r.Asked.N, r.In.N)
				}
			}
			out := strings.Join(strings.Fields(e.out), " ")
			has(t, "notes", out, "words that the server's /tokenize counts as one token each")
			for _, not := range []string{"about the asked length", "estimates"} {
				if strings.Contains(out, not) {
					t.Errorf("a note says %q", not)
				}
			}
		})
	}
}
