package cli

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"spate/internal/call"
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
			e := benchCmd(t, append(append(words, "--base-url", url, "--no-observe"), shape...)...).want(ExitDone)
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
