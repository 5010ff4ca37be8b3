package e2e

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"spate/internal/cli"
)

// TestSimEngine measures a simulated engine in another process, as users do, and compares what the
// client reports with what the engine was asked to do.
func TestSimEngine(t *testing.T) {
	addr := simProcess(t, "Qwen/Qwen3-8B", "--gpu", "H100", "--max-num-seqs", "8", "--time-scale", "20", "--served-model-name", "fast")
	c := prepare(t, nil, "bench", "--base-url", "http://"+addr, "--model", "fast", "--num-prompts", "24", "--isl", "32", "--osl", "10",
		"--ignore-eos", "--output-dir", "run")
	c.start()
	if e := c.wait(); e.code != cli.ExitDone {
		t.Fatalf("exit %d:\n%s", e.code, e.stderr)
	}
	data, err := os.ReadFile(filepath.Join(c.cmd.Dir, "run", "records.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(data), `"outcome":"ok"`); n != 24 {
		t.Errorf("%d of 24 requests are good", n)
	}
	resp, err := http.Get("http://" + addr + "/metrics") //nolint:noctx // a test on loopback
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end below
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	tokens := regexp.MustCompile(`vllm:generation_tokens_total\{engine="0",model_name="fast"\} (\d+)`).FindSubmatch(page)
	if tokens == nil || len(tokens[1]) != 3 || string(tokens[1]) < "240" || string(tokens[1]) > "260" { // 24 x 10, and a test request's
		t.Errorf("tokens: %q", tokens)
	}
	if !strings.Contains(string(page), `vllm:num_requests_running{engine="0",model_name="fast"} 0`) {
		t.Error("requests still run")
	}
}

// TestSimSplit: prefill and decode engines by flag, their transfers lost by flag.
func TestSimSplit(t *testing.T) {
	addr := simProcess(t, "Qwen/Qwen3-8B", "--gpu", "H100", "--prefill-engines", "1", "--decode-engines", "2", "--kv-link", "rdma", "--router", "round-robin",
		"--kv-loss", "1", "--kv-retries", "2", "--kv-load-failure-policy", "fail", "--time-scale", "20")
	resp, err := http.Post("http://"+addr+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"the cat","max_tokens":3}`)) //nolint:noctx // a test on loopback
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end below
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != 500 || !strings.Contains(string(body), "the KV transfer failed") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}
