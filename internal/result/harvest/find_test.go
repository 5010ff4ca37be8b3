package harvest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spate/internal/call"
	"spate/internal/judge/metrics"
	"spate/internal/result"
)

const blockText = `============ Serving Benchmark Result ============
Successful requests:                     3
Benchmark duration (s):                  2.00
Total input tokens:                      30
Total generated tokens:                  20
Request throughput (req/s):              1.50
Output token throughput (tok/s):         10.00
Total Token throughput (tok/s):          25.00
---------------Time to First Token----------------
Mean TTFT (ms):                          12.50
Median TTFT (ms):                        12.00
P99 TTFT (ms):                           20.00
==================================================
`

// newRun writes a run folder with two records and returns its path.
func newRun(t *testing.T, root string) string {
	t.Helper()
	run := &result.Run{Started: time.Unix(1, 0), Tool: "spate test", Labels: map[string]string{"engine": "x"}, Plan: result.NewPlan(metrics.Run{}, "")}
	f, err := result.Create(run, result.Options{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		rec := call.Record{ID: i, Outcome: call.OK, Sent: time.Second, End: 2 * time.Second}
		if err := f.Log.Record(&rec); err != nil {
			t.Fatal(err)
		}
	}
	run.State = result.Complete
	if err := f.Finish(run); err != nil {
		t.Fatal(err)
	}
	return f.Dir
}

func TestReadFindsOwnAndOthersResults(t *testing.T) {
	root := t.TempDir()
	dir := newRun(t, root)
	page := filepath.Join(root, "zz.md")
	if err := os.WriteFile(page, []byte("# QPS 2\n\n"+blockText), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := Find([]string{root}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Entries) != 2 {
		t.Fatalf("found %d entries, want the run and the blockText: %+v", len(set.Entries), set.Entries)
	}
	own, other := &set.Entries[0], &set.Entries[1]
	if own.Run == nil || own.ID != filepath.Base(dir) || own.Setting("engine") != "x" {
		t.Errorf("own run: id %q, run %v, engine %q", own.ID, own.Run != nil, own.Setting("engine"))
	}
	if recs, err := own.Records(); err != nil || len(recs) != 2 {
		t.Errorf("own run has %d records, %v; want 2", len(recs), err)
	}
	if other.Run != nil || other.ID != page+":3" || other.Text("mean_ttft_ms") != "12.50" || !other.Measured() {
		t.Errorf("blockText: %+v", other)
	}
	if got := other.Setting(result.TheSetting); got != "QPS 2" {
		t.Errorf("the blockText's setting is %q, want its heading", got)
	}
	if v, ok := other.Float("request_throughput"); !ok || v != 1.5 {
		t.Errorf("request throughput %v %v", v, ok)
	}
	if recs, err := other.Records(); recs != nil || err != nil {
		t.Errorf("a blockText has records: %v, %v", recs, err)
	}
	if set.Entries[0].Format != result.FormatSpate {
		t.Errorf("the run is a %s", set.Entries[0].Format)
	}
}

func TestReadNamesWhatIsMissing(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "results.md"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Find([]string{filepath.Join(root, "result.md"), filepath.Join(root, "none", "x")}, nil)
	if err == nil || !strings.Contains(err.Error(), "results.md") || !strings.Contains(err.Error(), "there is no folder") {
		t.Errorf("got %v, want both paths named and the nearest one", err)
	}
}

func TestReadFromStandardInput(t *testing.T) {
	set, err := Find([]string{"-"}, strings.NewReader(blockText))
	if err != nil || len(set.Entries) != 1 || set.Entries[0].ID != "standard input:1" {
		t.Errorf("%+v, %v", set, err)
	}
}
