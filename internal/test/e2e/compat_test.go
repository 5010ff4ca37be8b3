package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"spate/internal/call"
	"spate/internal/cli"
	"spate/internal/load/schedule"
	"spate/internal/settings/config"
)

// routedServer answers chats and notes the routing key of each.
func routedServer(t *testing.T) (url string, seen func() map[string]int) {
	t.Helper()
	var mu sync.Mutex
	keys := map[string]int{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path == "/tokenize" {
			http.NotFound(w, r)
			return
		}
		mu.Lock()
		keys[r.Header.Get("x-smg-routing-key")]++
		mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"so it is\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(srv.Close)
	return srv.URL, func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return keys
	}
}

// TestSharedPrefixTurnsEndToEnd: SGLang's groups as conversations, each group under one routing key, in spate's own
// words and in SGLang's.
func TestSharedPrefixTurnsEndToEnd(t *testing.T) {
	t.Parallel()
	shape := []string{
		"--dataset-name", "generated-shared-prefix", "--gsp-num-groups", "2", "--gsp-prompts-per-group", "3", "--gsp-system-prompt-len", "12", "--gsp-question-len", "4",
		"--gsp-output-len", "3", "--gsp-num-turns", "2", "--gsp-send-routing-key", "--gsp-fast-prepare",
	}
	for name, words := range map[string][]string{
		"own":    {"--backend", "openai-chat", "--model", "m"},
		"sglang": {"--compat", "sglang", "--backend", "sglang-oai-chat", "--model", "m", "--warmup-requests", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, seen := routedServer(t)
			e := benchCmd(t, append(append(words, "--base-url", url, "--no-observe"), shape...)...).want(cli.ExitDone)
			turns := map[int]int{}
			for _, r := range e.measured() {
				turns[r.Turn]++
				if r.Outcome != call.OK || r.Labels["group"] == "" {
					t.Errorf("%s of group %q: %s", r.Outcome, r.Labels["group"], r.Err)
				}
			}
			if got := fmt.Sprint(turns, seen()); got != "map[0:6 1:6] map[0:6 1:6]" {
				t.Errorf("turns and keys %s", got)
			}
		})
	}
}

// TestCompatSleepsBetweenSends: tools without a schedule sleep a gap after each request, drawn as NumPy does for their
// seed. Lateness may move a request, and then all that follow, but no gap changes for it.
func TestCompatSleepsBetweenSends(t *testing.T) {
	t.Parallel()
	const n, rate = 20, 100
	for name, c := range map[string]struct {
		words []string
		seed  uint32
	}{
		"own":      {[]string{"--pacing", "slept", "--seed", "7"}, 7},
		"sglang":   {[]string{"--compat", "sglang", "--backend", "vllm"}, 42},
		"lmdeploy": {[]string{"--compat", "lmdeploy", "--backend", "vllm"}, 1},
		"vllm-0.6": {[]string{"--compat", "vllm-0.6"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan, err := schedule.Slept(n, rate, 1, c.seed)
			if err != nil {
				t.Fatal(err)
			}
			times := slices.Collect(plan.Due)
			e := benchCmd(t, append(c.words, "--base-url", quick(t).URL(), "--dataset-name", "random", "--random-input-len", "12", "--random-output-len", "3",
				"--num-prompts", fmt.Sprint(n), "--request-rate", fmt.Sprint(rate))...).want(cli.ExitDone)
			run, recs := e.balanced(), e.measured()
			if len(recs) != n {
				t.Fatalf("%d requests", len(recs))
			}
			for i := 1; i < n; i++ {
				if off := recs[i].Due - recs[i-1].Dispatched - (times[i] - times[i-1]); off.Abs() > time.Microsecond {
					t.Errorf("request %d is due %v off a gap of %v after the one before was let go", i, off, times[i]-times[i-1])
				}
			}
			var settings config.Bench
			if err := json.Unmarshal(run.Config, &settings); err != nil || settings.Load.Pacing != schedule.PacingSlept {
				t.Errorf("the run's settings say %q, %v", settings.Load.Pacing, err)
			}
			if want := "20 requests at 100 per second, each gap slept after the request before"; run.Plan.Text != want {
				t.Errorf("plan %q, want %q", run.Plan.Text, want)
			}
			if said := strings.Contains(e.out, "The gaps between requests are slept one after the other"); said != (name != "own") {
				t.Errorf("told of it: %v\n%s", said, e.out)
			}
		})
	}
}
