package bench

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"spate/internal/host/observe"
	"spate/internal/sim/serve"
)

// A run with a server, its log and a DCGM exporter, all watched.
func TestRunIsObserved(t *testing.T) {
	var leaked, asked atomic.Int64
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Header.Get("Authorization") != "" || r.Header.Get("X-Own") != "" {
			leaked.Add(1)
		}
		_, _ = w.Write([]byte("DCGM_FI_DEV_POWER_USAGE{gpu=\"0\"} 500\nDCGM_FI_DEV_GPU_UTIL{gpu=\"0\"} 90\n"))
	}))
	defer exporter.Close()
	log := filepath.Join(t.TempDir(), "server.log")
	if err := os.WriteFile(log, []byte("started\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	srv := start(t, serve.Config{Timetable: serve.TimetableConfig{TTFT: 5 * time.Millisecond}}) // several samples long
	j := job(t, "--base-url", srv.URL(), "--num-prompts", "60", "--max-concurrency", "2", "--random-input-len", "8", "--random-output-len", "8",
		"--observe-interval", "20ms", "--gpu-metrics", exporter.URL, "--server-log", log, "--price-per-hour", "36", "--api-key", "secret-key", "--header", "X-Own=1")
	out, err := Run(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	o := out.Run.Observed
	if o == nil || o.Server == nil || o.Server.Running == nil || o.Host == nil {
		t.Fatalf("observed %+v", o)
	}
	if got := *o.Server.GenerationTokens; got < 480-2*8 || got > 480 { // it may count the last two after they are read
		t.Errorf("the server counted %v tokens, want 480", got)
	}
	if o.FrontEnd == nil || o.Energy == nil || o.Cost == nil || o.Energy.GPUs != 1 {
		t.Fatalf("front end %v, energy %v, cost %v", o.FrontEnd, o.Energy, o.Cost)
	}
	if w := o.Energy.MeanW; w < 499.9 || w > 500.1 {
		t.Errorf("mean power %v, want the steady 500 W", w)
	}
	seconds := (o.ToMS - o.FromMS) / 1000
	if want := 0.01 * seconds; o.Cost.Total < 0.999*want || o.Cost.Total > 1.001*want {
		t.Errorf("cost %v, want a cent a second: %v", o.Cost.Total, want)
	}
	if leaked.Load() > 0 || asked.Load() == 0 {
		t.Errorf("the exporter was asked %d times, %d with the server's headers", asked.Load(), leaked.Load())
	}
	series, err := observe.Read(out.Run.Dir)
	if err != nil || !slices.ContainsFunc(series, func(s observe.Series) bool { return s.Name == "generation_rate" && s.Source == observe.Server }) {
		t.Errorf("series of the folder: %d, %v", len(series), err)
	}
	if !slices.ContainsFunc(out.Run.Notes, func(n string) bool { return len(n) > 12 && n[:12] == "--server-log" }) {
		t.Errorf("notes %q do not say that the log told nothing", out.Run.Notes)
	}
}

// TestSharedOnPurpose says of which workloads a prefix cache may answer a part without spoiling the run.
func TestSharedOnPurpose(t *testing.T) {
	for args, want := range map[string]bool{
		"--dataset-name random":                                       false,
		"--dataset-name random --random-prefix-len 64":                true,
		"--dataset-name sonnet":                                       true,
		"--dataset-name prefix_repetition":                            true,
		"--dataset-name generated-shared-prefix":                      true,
		"--multi-turn":                                                true,
		"--dataset-name agentic --dataset-path agents.json":           true,
		"--dataset-name mooncake --dataset-path trace.jsonl":          true,
		"--dataset-name timed_trace --dataset-path trace.jsonl":       true,
		"--dataset-name custom --dataset-path prompts.jsonl":          false,
		"--dataset-name sharegpt --dataset-path conversations.json":   false,
		"--dataset-name burstgpt --dataset-path lengths.csv":          false,
		"--backend openai-chat --dataset-name random-mm --model some": false,
	} {
		if got := sharesPrefixes(&job(t, strings.Fields(args)...).Config.Dataset); got != want {
			t.Errorf("%s: %v, want %v", args, got, want)
		}
	}
}
