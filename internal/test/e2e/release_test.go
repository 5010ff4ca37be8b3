package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFirstReleaseOpens: what spate 0.1.0 wrote (run folders, a sweep's folder, a store, exports, a profile) and the
// settings files it shipped are read by this spate, and show the figures that 0.1.0 printed.
func TestFirstReleaseOpens(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "old")
	if err := os.CopyFS(dir, os.DirFS("testdata/release-0.1.0")); err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	block := printedBlock(t, in("open.txt"))
	killed := in("killed") // as kill -9 leaves it
	if err := os.CopyFS(killed, os.DirFS(in("open"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(killed, "result.json")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"report", []string{"report", in("open")}, block},
		{"killed run", []string{"report", killed}, []string{"Mean TTFT (ms):                          20.16", "Successful requests:                     12"}},
		{"explain", []string{"explain", in("open")}, []string{"below-capacity"}},
		{"list", []string{"list", "--store", in("store.db")}, []string{"closed", "team=a", "142.08", "SUSPECT", "INVALID"}},
		{"show", []string{"show", "open", "--store", in("store.db")}, []string{"verdict:  SUSPECT", "142.08"}},
		{"tag", []string{"tag", "open", "kept=yes", "--store", in("store.db")}, nil},
		{"query", []string{"list", "--store", in("store.db"), "--where", "mean_ttft_ms<21"}, []string{"open"}},
		{"compare", []string{"compare", in("open"), in("closed"), "--force"}, []string{"mean_ttft_ms"}},
		{"sweep's runs", []string{"report", in("swept/runs"), "-o", in("table.md")}, nil},
		{"resume a finished sweep", []string{"sweep", "--resume", in("swept"), "--no-store"}, []string{"SUSPECT", "110.64"}},
		{"predicted", []string{"report", in("predicted")}, []string{"Successful requests:                     12"}},
		{"import JSON", []string{"import", in("export.json"), "--store", "none"}, []string{"142.08", "262.78", "2 results"}},
		{"import CSV", []string{"import", in("export.csv"), "--store", "none"}, []string{"142.08", "262.78", "2 results"}},
		{"import vLLM's JSON", []string{"import", in("open.json"), "--store", "none"}, []string{"142.08", "1 result"}},
		{"profile", []string{"predict", "--sim", in("profiles/000-test1.json"), "--num-prompts", "12", "--request-rate", "4", "--isl", "64", "--osl", "8"}, []string{"Successful requests:                     12"}},
		{"profile by its old name", []string{"predict", "--sim", "000-test1", "--num-prompts", "12", "--isl", "64", "--osl", "8"}, []string{"Successful requests:                     12"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := prepare(t, nil, c.args...).want(0)
			for _, w := range c.want {
				if !strings.Contains(got.out, w) {
					t.Errorf("%q is missing:\n%s\n%s", w, got.out, got.stderr)
				}
			}
		})
	}
	settings, err := filepath.Glob(in("examples/*.yaml"))
	if err != nil || len(settings) < 5 {
		t.Fatalf("%v, %d settings files", err, len(settings))
	}
	for _, file := range append(settings, in("examples/tenants/chat-and-batch.yaml")) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			c := prepare(t, nil, "bench", "--config", file, "--dry-run", "--model", "m", "--base-url", "http://127.0.0.1:1")
			c.cmd.Dir = dir // the files name others from there
			c.want(0)
		})
	}
}

// printedBlock is vLLM's block in what 0.1.0 printed, line by line.
func printedBlock(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(data), "============ Serving Benchmark Result ============\n")
	body, _, end := strings.Cut(rest, "\n==================================================")
	if !ok || !end {
		t.Fatalf("no block in %s", path)
	}
	return strings.Split(body, "\n")
}
