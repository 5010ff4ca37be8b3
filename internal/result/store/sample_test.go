package store

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"spate/internal/call"
	"spate/internal/judge/metrics"
	"spate/internal/judge/verdict"
	"spate/internal/result"
	"spate/internal/result/harvest"
)

// page is a text with two results of another tool and a failed start.
const page = `# Llama on H100

` + "```" + `
vllm serve meta-llama/Llama-3.1-8B-Instruct --tensor-parallel-size 2
vllm bench serve --model meta-llama/Llama-3.1-8B-Instruct --num-prompts 3 --request-rate 4
============ Serving Benchmark Result ============
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
` + "```" + `

# Qwen

` + "```" + `
vllm bench serve --model Qwen/Qwen3-8B --num-prompts 6
============ Serving Benchmark Result ============
Successful requests:                     6
Benchmark duration (s):                  2.00
Total input tokens:                      60
Total generated tokens:                  40
Request throughput (req/s):              3.00
Output token throughput (tok/s):         20.00
Total Token throughput (tok/s):          50.00
---------------Time to First Token----------------
Mean TTFT (ms):                          25.00
Median TTFT (ms):                        24.00
P99 TTFT (ms):                           40.00
==================================================
` + "```" + `
`

// imported are the results of page.
func imported(t testing.TB) []result.Entry {
	t.Helper()
	set, err := harvest.Find([]string{"-"}, strings.NewReader(page))
	if err != nil || len(set.Entries) != 2 {
		t.Fatalf("the page has %d results, %v; want 2", len(set.Entries), err)
	}
	return set.Entries
}

// started is when measured runs began; each number is an hour later. It is long ago: what is imported
// without a date counts from now.
func started(n int) time.Time {
	return time.Date(2021, 3, 15, 12, 0, 0, 123456000, time.UTC).Add(time.Duration(n) * time.Hour)
}

// unsaved is a run of two requests that has no folder; each number is slower than the one before.
func unsaved(n int) (*result.Run, []call.Record) {
	run := &result.Run{
		Schema: result.Schema, ID: fmt.Sprintf("run%d", n), State: result.Complete, Started: started(n), Tool: "spate test", Command: []string{"spate", "bench", "--num-prompts", "2"},
		Labels: map[string]string{"engine": "x", "n": fmt.Sprint(n)}, Plan: result.NewPlan(metrics.Run{}, "two requests"),
		Server: result.Server{Model: "Qwen/Qwen3-8B", Backend: "openai", Kind: "vllm"},
		Config: json.RawMessage(`{"load":{"num_prompts":2}}`), Environment: json.RawMessage(`{"host":{"name":"here","cores":2},"gpus":[{"name":"NVIDIA H100 80GB HBM3"}]}`),
		Verdict: verdict.Verdict{Grade: verdict.Valid},
	}
	at := func(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }
	var recs []call.Record
	for i := range 2 {
		recs = append(recs, call.Record{
			ID: i, Phase: call.Measure, Outcome: call.OK, Started: at(1000), Sent: at(1000), FirstToken: at(1100), LastEvent: at(1900 + 50*n), End: at(2000 + 50*n),
			In: call.Count{N: 10}, Out: call.Count{N: 5},
		})
	}
	run.Compute(call.List(recs))
	return run, recs
}

// quick is an unsaved run under a name.
func quick(n int, name string) result.Entry {
	run, _ := unsaved(n)
	run.ID = name
	return result.FromRun(run)
}

// measured writes a run folder with two records below root and reads it back.
func measured(t testing.TB, root string, n int) result.Entry {
	t.Helper()
	run, recs := unsaved(n)
	f, err := result.Create(run, result.Options{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	for i := range recs {
		if err := f.Log.Record(&recs[i]); err != nil {
			t.Fatal(err)
		}
	}
	run.State = result.Complete
	if err := f.Finish(run); err != nil {
		t.Fatal(err)
	}
	set, err := harvest.Find([]string{f.Dir}, nil)
	if err != nil || len(set.Entries) != 1 {
		t.Fatalf("run folder has %d results, %v", len(set.Entries), err)
	}
	return set.Entries[0]
}
