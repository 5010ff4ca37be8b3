package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"spate/internal/cli"
)

// strict is a hosted API: https, a list of models that names no engine, and a 400 for fields it does not know.
func strict(t *testing.T, known ...string) (url string, refused, answered *atomic.Int64) {
	t.Helper()
	refused, answered = new(atomic.Int64), new(atomic.Int64)
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			if r.URL.Path == "/v1/models" {
				_, _ = fmt.Fprint(w, `{"data":[{"id":"big-model","owned_by":"somebody"}]}`)
				return
			}
			http.NotFound(w, r)
			return
		}
		var body map[string]json.RawMessage
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		for name := range body {
			if !strings.Contains(" "+strings.Join(known, " ")+" ", " "+name+" ") {
				refused.Add(1)
				w.WriteHeader(http.StatusBadRequest)
				_, _ = fmt.Fprintf(w, `{"error":{"message":"Unrecognized request argument supplied: %s"}}`, name)
				return
			}
		}
		answered.Add(1)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprint(w, `data: {"choices":[{"index":0,"delta":{"content":"hello"},"finish_reason":null}]}`+"\n\n"+
			`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\n"+`data: {"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":1}}`+"\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(srv.Close)
	return srv.URL, refused, answered
}

// TestHostedAPIs runs the README's command for hosted endpoints against strict ones: what is refused is
// learned from the first request, and a server that refuses everything is asked once.
func TestHostedAPIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		known   []string
		refused int64
		code    int
		says    string
	}{
		{"current", []string{"model", "messages", "stream", "stream_options", "max_completion_tokens"}, 1, cli.ExitDone, "refuses ignore_eos: not sent"},
		{"older", []string{"model", "messages", "stream", "max_tokens"}, 3, cli.ExitDone, "refuses max_completion_tokens"},
		{"nothing fits", []string{"model", "stream"}, 0, cli.ExitFailed, "a first request was refused: HTTP 400"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url, refused, answered := strict(t, c.known...)
			e := benchCmd(t, "--backend", "openai-chat", "--base-url", url, "--insecure", "--model", "big-model", "--skip-tokenizer-init",
				"--num-prompts", "20", "--request-rate", "100", "--osl", "16", "--isl", "12").want(c.code)
			has(t, "output", e.out+e.stderr, c.says)
			if c.code == cli.ExitDone && (refused.Load() != c.refused || answered.Load() != 21) {
				t.Errorf("%d requests were refused and %d answered", refused.Load(), answered.Load())
			}
			if c.code == cli.ExitFailed && (answered.Load() > 0 || refused.Load() > 6) {
				t.Errorf("%d requests were refused and %d answered", refused.Load(), answered.Load())
			}
		})
	}
}
