package bench

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spate/internal/call"
	"spate/internal/settings/config"
	"spate/internal/sim/serve"
	"spate/internal/view/live"
)

// seen ends a run when its view has shown what a test waits for.
type seen struct {
	mu   sync.Mutex
	want *regexp.Regexp
	end  context.CancelCauseFunc
	all  []byte
}

func (s *seen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, b...)
	if s.want.Match(b) {
		s.end(call.ErrInterrupted)
	}
	return len(b), nil
}

// TestViewFollowsAnswers has answers of a quarter of an hour: the view shows their tokens and TTFT while none has ended.
func TestViewFollowsAnswers(t *testing.T) {
	srv := start(t, serve.Config{Timetable: serve.TimetableConfig{TTFT: time.Millisecond, ITL: 10 * time.Millisecond}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ctx, end := context.WithCancelCause(ctx)
	j := job(t, "--base-url", srv.URL(), "--num-prompts", "4", "--max-concurrency", "4", "--random-input-len", "12", "--random-output-len", "100000", "--skip-tokenizer-init", "--model", "spate-sim")
	view := &seen{want: regexp.MustCompile(`0/4 0%.*output [1-9]\d* tok/s; TTFT p50 \d`), end: end}
	j.Config.Output.UI, j.Stderr, j.View = config.UIPlain, view, live.Options{Every: 20 * time.Millisecond}
	out, err := Run(ctx, j)
	if err != nil || out.Run.Tally.OK > 0 || out.Run.Tally.Canceled == 0 {
		t.Fatalf("%v, %+v", err, out.Run.Tally)
	}
	view.mu.Lock()
	defer view.mu.Unlock()
	if !view.want.Match(view.all) {
		t.Errorf("the view never showed tokens and TTFT:\n%.2000s", view.all)
	}
}

// TestVerdictSoFarCountsFailures: every second request fails, and the view says so in its verdict.
func TestVerdictSoFarCountsFailures(t *testing.T) {
	sim := start(t, serve.Config{Timetable: serve.TimetableConfig{TTFT: time.Millisecond, ITL: time.Millisecond}})
	target, err := url.Parse(sim.URL())
	if err != nil {
		t.Fatal(err)
	}
	proxy, asked := httputil.NewSingleHostReverseProxy(target), atomic.Int64{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && asked.Add(1)%2 == 0 {
			http.Error(w, "no", http.StatusInternalServerError)
			return
		}
		// Read first: the proxy's server closes the body once the answer begins, and the proxy's client then fails where
		// it still looks for the body's end.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	defer srv.Close()
	j := job(t, "--base-url", srv.URL, "--num-prompts", "20", "--max-concurrency", "2", "--random-input-len", "12", "--random-output-len", "4", "--skip-tokenizer-init", "--model", "spate-sim")
	view := &seen{want: regexp.MustCompile(`never`), end: func(error) {}}
	j.Config.Output.UI, j.Stderr, j.View = config.UIPlain, view, live.Options{Every: time.Hour}
	if _, err := Run(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	view.mu.Lock()
	defer view.mu.Unlock()
	if !regexp.MustCompile(`failed: HTTP 500; verdict so far INVALID`).Match(view.all) {
		t.Errorf("half of all requests failed:\n%.2000s", view.all)
	}
}
