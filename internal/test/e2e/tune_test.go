package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"spate/internal/rng"
)

const killedFile = `
name: killed
server: sim
model: Qwen/Qwen2-0.5B-Instruct
gpu: L40S
version: 0.6.0
fixed: {max-model-len: 4096, num-gpu-blocks-override: 2000}
space:
  max-num-seqs: {int: [16, 512], log: true}
  max-num-batched-tokens: {int: [512, 8192], log: true}
  enable-chunked-prefill: switch
  enable-prefix-caching: switch
workload: {dataset-name: random, random-input-len: 128, random-output-len: 32, num-prompts: 60, max-concurrency: 30}
holdout: {dataset-name: random, random-input-len: 200, random-output-len: 16, num-prompts: 40, max-concurrency: 30}
objective: throughput
budget: {trials: 20}
drift_every: 5
seed: 5
`

// TestTuneKilled: a search that is killed with -9 at ten moments comes to the same end as one that nobody
// disturbed, and makes no finished step twice.
func TestTuneKilled(t *testing.T) {
	slow(t, "runs a search twice")
	bin, err := program()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "killed.yaml")
	if err := os.WriteFile(file, []byte(killedFile), 0o600); err != nil {
		t.Fatal(err)
	}
	tune := func(to string) *exec.Cmd {
		cmd := exec.Command(bin, "tune", file, "--predict", "--output-dir", filepath.Join(dir, to))
		cmd.Dir = dir
		return cmd
	}
	began := time.Now()
	if out, err := tune("whole").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	took := time.Since(began)
	draw := rng.New(7, "kill")
	for range 10 {
		cmd := tune("killed")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(draw.Float64() * 0.3 * float64(took))) // a moment, whichever
		_ = cmd.Process.Kill()                                          // it may have come to its end
		_ = cmd.Wait()
	}
	if out, err := tune("killed").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"outcome.json", "trials.csv", "report.md"} {
		a, errA := os.ReadFile(filepath.Join(dir, "whole", name))
		b, errB := os.ReadFile(filepath.Join(dir, "killed", name))
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Errorf("%s differs: %v %v", name, errA, errB)
		}
	}
	noneTwice(t, filepath.Join(dir, "killed", "journal.jsonl"), 20)
}

// noneTwice checks that a journal has the end of every step once, nothing begun after it ended, and enough of them.
func noneTwice(t *testing.T, path string, least int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	done := map[string]bool{}
	for line := range bytes.Lines(data) {
		var e struct{ Event, Key string }
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		switch {
		case e.Event == "start" && done[e.Key], e.Event == "done" && done[e.Key]:
			t.Errorf("%s again after it was done", e.Key)
		case e.Event == "done":
			done[e.Key] = true
		}
	}
	if len(done) < least {
		t.Errorf("%d steps", len(done))
	}
}
