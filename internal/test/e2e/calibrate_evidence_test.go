package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spate/internal/cli"
	"spate/internal/forecast/predict"
	"spate/internal/forecast/profile"
)

// TestFolderOfResultsCalibrates makes a folder as users have them, logs of a client with its command lines
// and one of the server, out of the predictions of a known profile, and finds a profile that predicts as it does.
// The program is the one that ships: the fit takes a minute under the race detector, and calibrate has tests of its own.
func TestFolderOfResultsCalibrates(t *testing.T) {
	t.Parallel()
	slow(t, "fits a profile")
	spate := func(args ...string) string { return prepare(t, nil, args...).want(cli.ExitDone).out }
	const known = "003-Qwen3-8B"
	dir := t.TempDir()
	logs := filepath.Join(dir, "logs")
	if err := os.Mkdir(logs, 0o755); err != nil {
		t.Fatal(err)
	}
	for i, load := range []string{
		"--num-prompts 3 --max-concurrency 1 --random-input-len 600 --random-output-len 40",
		"--num-prompts 120 --max-concurrency 48 --random-input-len 400 --random-output-len 120",
		"--num-prompts 30 --request-rate 5 --random-input-len 2000 --random-output-len 30",
	} {
		args := append([]string{"predict", "--profile", known, "--no-run-folder", "--intervals=false", "--dataset-name", "random", "--ignore-eos", "--salt", fmt.Sprint(i)}, strings.Fields(load)...)
		_, block, _ := strings.Cut(spate(args...), "\n")
		text := "$ vllm bench serve --model Qwen/Qwen3-8B --dataset-name random --ignore-eos " + load + "\n" + block
		if err := os.WriteFile(filepath.Join(logs, fmt.Sprintf("client%d.log", i)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	spate("predict", "--profile", known, "--no-run-folder", "--intervals=false", "--stages", "10s@1,20s@1-14", "--random-input-len", "400",
		"--random-output-len", "120", "--random-range-ratio", "0.8", "--engine-log", filepath.Join(logs, "server.log"))
	out := filepath.Join(dir, "profiles")
	spate("calibrate", logs, "--gpu", "A100-80GB", "--name", "mine", "-o", out, "--cross-validate=false", "--rows", filepath.Join(dir, "rows.json"))
	data, err := os.ReadFile(filepath.Join(out, "mine.json"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := profile.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	shipped, err := profile.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	want, err := profile.Find(shipped, known)
	if err != nil {
		t.Fatal(err)
	}
	if got.Engine.Version != want.Engine.Version || len(got.Provenance.Rows) != 3 || !got.Calibrated {
		t.Errorf("engine %+v from rows %v", got.Engine, got.Provenance.Rows)
	}
	if b := float64(got.Cost.Blocks) / float64(want.Cost.Blocks); math.Abs(b-1) > 0.01 {
		t.Errorf("%d KV blocks, want %d as the log says", got.Cost.Blocks, want.Cost.Blocks)
	}
	unseen := []string{
		"--json", "--no-run-folder", "--intervals=false", "--num-prompts", "64", "--max-concurrency", "16", "--random-input-len", "800", "--random-output-len", "100",
	}
	figures := func(name string) predict.Metrics {
		var one struct {
			Figures predict.Metrics `json:"predicted"`
		}
		if err := json.Unmarshal([]byte(spate(append([]string{"predict", "--profile", name}, unseen...)...)), &one); err != nil {
			t.Fatal(err)
		}
		return one.Figures
	}
	a, b := figures(filepath.Join(out, "mine.json")), figures(known)
	for name, within := range map[string]float64{"output_throughput": 0.05, "mean_tpot_ms": 0.05, "mean_ttft_ms": 0.15} {
		if math.Abs(a[name]/b[name]-1) > within {
			t.Errorf("%s of a load nobody measured: %.4g, want %.4g within %.0f %%", name, a[name], b[name], 100*within)
		}
	}
	if e := got.Provenance.Fit["output_throughput"]; e > 3 {
		t.Errorf("throughput is fitted within %.1f %%, want 3", e)
	}
}
