package client

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"spate/internal/call"
)

// TestUsageOnTheLastChoice is the stream of llama.cpp's completions: the whole answer's usage stands on the
// message with the finish reason, which brings no text and is no chunk of all tokens.
func TestUsageOnTheLastChoice(t *testing.T) {
	last := `data: {"choices":[{"text":"","index":0,"finish_reason":"length"}],"usage":{"completion_tokens":3,"prompt_tokens":6,"total_tokens":9},` +
		`"timings":{"cache_n":0,"prompt_n":6,"prompt_ms":2.5,"predicted_n":3,"predicted_ms":4.5,"predicted_per_token_ms":2.25}}` + "\n\n"
	for _, size := range []int{7, 1 << 20} {
		rec, _ := streamed(Backends()["llama.cpp"], textEvent("a", "")+textEvent("b", "")+textEvent("c", "")+last+doneEvent, size, true)
		if rec.Outcome != call.OK || rec.Out.N != 3 || rec.In.N != 6 || len(rec.Chunks) != 4 {
			t.Fatalf("%+v", rec)
		}
		for i, c := range rec.Chunks {
			if c.Tokens != 0 {
				t.Errorf("chunk %d has %d tokens", i, c.Tokens)
			}
		}
		if rec.LastToken != rec.Chunks[2].At {
			t.Errorf("the last token came at %v, not with the last text at %v", rec.LastToken, rec.Chunks[2].At)
		}
		if rec.Server == nil || rec.Server.Generation != 4500*time.Microsecond {
			t.Errorf("server's times %+v", rec.Server)
		}
	}
}

// TestUsageOnEveryChoice keeps continuous usage what it is: each message's share of the sum.
func TestUsageOnEveryChoice(t *testing.T) {
	body := strings.Repeat(`data: {"choices":[{"text":"a"}],"usage":{"completion_tokens":2}}`+"\n\n", 2) +
		`data: {"choices":[{"text":"a","finish_reason":"stop"}],"usage":{"completion_tokens":5}}` + "\n\n" + doneEvent
	rec, _ := streamed(Backends()["vllm"], body, 1<<20, true)
	var got []int32
	for _, c := range rec.Chunks {
		got = append(got, c.Tokens)
	}
	if len(got) != 3 || got[0] != 2 || got[1] != 0 || got[2] != 3 {
		t.Errorf("tokens of the chunks %v", got)
	}
}

// TestFirstReuseIsNotLost is the same server at its first answers, when nobody knows yet. Connections that have
// carried nothing are taken first, and where there are none the first request on a used one waits until it is seen
// whether the server closes it.
func TestFirstReuseIsNotLost(t *testing.T) {
	l := scripted(t, tcp(t), func(_ int, _ *http.Request, _ []byte, w io.Writer) bool {
		_, _ = io.WriteString(w, okHead+piece(textEvent("a", "stop")+doneEvent)+endBody)
		time.Sleep(100 * time.Microsecond)
		return false
	})
	for _, most := range []int{0, 1, 4} {
		for range 3 {
			c := newClient(t, Config{BaseURLs: []string{"http://" + l.Addr().String()}, MaxConns: most})
			c.targets[0].pool.trial = 20 * time.Second // a server that is slow to close on a busy machine proves nothing
			if err := c.Warm(t.Context(), max(1, most)); err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for range max(1, most) {
				wg.Go(func() {
					for i := range 12 {
						if rec := c.Do(t.Context(), &call.Request{Prompt: call.Prompt{Text: "x"}}); rec.Outcome != call.OK || rec.Reused {
							t.Errorf("request %d: %s, on a used connection %v: %s", i, rec.Outcome, rec.Reused, rec.Err)
							return
						}
					}
				})
			}
			wg.Wait()
		}
	}
}

// TestKeptConnectionsAreUsedAgain: once a connection has stayed open for a while, the server is believed.
func TestKeptConnectionsAreUsedAgain(t *testing.T) {
	l := scripted(t, tcp(t), func(_ int, _ *http.Request, _ []byte, w io.Writer) bool {
		_, _ = io.WriteString(w, okHead+piece(textEvent("a", "stop")+doneEvent)+endBody)
		return true
	})
	c := newClient(t, Config{BaseURLs: []string{"http://" + l.Addr().String()}})
	reused := false
	for end := time.Now().Add(20 * time.Second); !reused && time.Now().Before(end); time.Sleep(time.Millisecond) {
		rec := c.Do(t.Context(), &call.Request{Prompt: call.Prompt{Text: "x"}})
		if rec.Outcome != call.OK {
			t.Fatal(rec.Err)
		}
		reused = rec.Reused
	}
	p := c.targets[0].pool
	p.mu.Lock()
	keeps := p.keeps
	p.mu.Unlock()
	if !reused || !keeps {
		t.Errorf("used again %v, known to keep %v", reused, keeps)
	}
}

// TestClosesAfterEveryStream is a server that promises to keep connections and closes each after one answer.
// Once seen, no connection is taken for a second request, so that none is lost to a close under way.
func TestClosesAfterEveryStream(t *testing.T) {
	l := scripted(t, tcp(t), func(_ int, _ *http.Request, _ []byte, w io.Writer) bool {
		_, _ = io.WriteString(w, okHead+piece(textEvent("a", "stop")+doneEvent)+endBody)
		return false
	})
	c := newClient(t, Config{BaseURLs: []string{"http://" + l.Addr().String()}})
	ask := func() call.Record { return c.Do(t.Context(), &call.Request{Prompt: call.Prompt{Text: "x"}}) }
	if rec := ask(); rec.Outcome != call.OK {
		t.Fatal(rec.Err)
	}
	waitClosed(t, c)
	for i := range 200 {
		if rec := ask(); rec.Outcome != call.OK || rec.Reused {
			t.Fatalf("request %d: %s, on a used connection %v: %s", i, rec.Outcome, rec.Reused, rec.Err)
		}
	}
}
