package client

import (
	"bufio"
	"context"
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
		rec, _ := streamed(backend("llama.cpp"), textEvent("a", "")+textEvent("b", "")+textEvent("c", "")+last+doneEvent, size, true)
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
	rec, _ := streamed(backend("vllm"), body, 1<<20, true)
	var got []int32
	for _, c := range rec.Chunks {
		got = append(got, c.Tokens)
	}
	if len(got) != 3 || got[0] != 2 || got[1] != 0 || got[2] != 3 {
		t.Errorf("tokens of the chunks %v", got)
	}
}

// TestFirstReuseIsNotLost is the same server at its first answers, when nobody knows yet. Connections that have
// carried nothing are taken first; where there are none, a request that meets the close is sent again.
func TestFirstReuseIsNotLost(t *testing.T) {
	l := scripted(t, tcp(t), func(_ int, _ *http.Request, _ []byte, w io.Writer) bool {
		_, _ = io.WriteString(w, okHead+piece(textEvent("a", "stop")+doneEvent)+endBody)
		time.Sleep(100 * time.Microsecond)
		return false
	})
	for _, most := range []int{0, 1, 4} {
		for range 3 {
			c := newClient(t, Config{BaseURLs: []string{"http://" + l.Addr().String()}, MaxConns: most})
			c.targets[0].pool.trial = time.Hour // a server that is slow to close on a busy machine proves nothing
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

// TestRequestMeetsTheClose holds the server's close back until the next request is on its way, so that it is always met:
// the request is sent again, once, with the stamps of the second time, and it is counted.
func TestRequestMeetsTheClose(t *testing.T) {
	arrived := make(chan struct{}, 4)
	l := tcp(t)()
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer func() { _ = conn.Close() }()
				r := bufio.NewReader(conn)
				if !readOne(r) {
					return
				}
				_, _ = io.WriteString(conn, okHead+piece(textEvent("a", "stop")+doneEvent)+endBody)
				if _, err := r.Peek(1); err == nil { // the next request is here: it is left unread
					arrived <- struct{}{}
				}
			})
		}
	})
	c := newClient(t, Config{BaseURLs: []string{"http://" + l.Addr().String()}, MaxConns: 1})
	t.Cleanup(func() {
		_ = l.Close()
		c.Close()
		wg.Wait()
	})
	for i := range 4 {
		rec := c.Do(t.Context(), &call.Request{Prompt: call.Prompt{Text: "x"}})
		if rec.Outcome != call.OK || rec.Reused {
			t.Fatalf("request %d: %s, on a used connection %v: %s", i, rec.Outcome, rec.Reused, rec.Err)
		}
		if i == 1 {
			<-arrived
			if rec.FirstByte < rec.Sent || !rec.InBand {
				t.Errorf("sent at %v, first byte at %v, connection opened for it %v", rec.Sent, rec.FirstByte, rec.InBand)
			}
		}
	}
	if n := c.Stats().Resent; n != 1 || len(arrived) != 0 {
		t.Errorf("%d requests sent again, %d more met a close; want 1 and 0", n, len(arrived))
	}
}

// readOne reads one request whole.
func readOne(r *bufio.Reader) bool {
	req, err := http.ReadRequest(r)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, req.Body)
	return err == nil
}

// TestNoRequestWaitsToLearn: the second request of a slot leaves at once, also while it is unknown whether the server
// keeps connections; and when a request before the run has brought an answer, that is known when the run begins.
func TestNoRequestWaitsToLearn(t *testing.T) {
	l := scripted(t, tcp(t), func(_ int, _ *http.Request, _ []byte, w io.Writer) bool {
		_, _ = io.WriteString(w, okHead+piece(textEvent("a", "stop")+doneEvent)+endBody)
		return true
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c := newClient(t, Config{BaseURLs: []string{"http://" + l.Addr().String()}, MaxConns: 1})
	p := c.targets[0].pool
	p.trial = time.Hour
	for i := range 3 {
		if rec := c.Do(ctx, &call.Request{Prompt: call.Prompt{Text: "x"}}); rec.Outcome != call.OK || rec.Reused != (i > 0) {
			t.Fatalf("request %d: %s, on a used connection %v: %s", i, rec.Outcome, rec.Reused, rec.Err)
		}
	}
	for _, keep := range []bool{true, false} {
		l := scripted(t, tcp(t), func(_ int, _ *http.Request, _ []byte, w io.Writer) bool {
			_, _ = io.WriteString(w, okHead+piece(textEvent("a", "stop")+doneEvent)+endBody)
			return keep
		})
		c := newClient(t, Config{BaseURLs: []string{"http://" + l.Addr().String()}, MaxConns: 1})
		p := c.targets[0].pool
		if !keep {
			p.trial = time.Hour // only the close tells
		}
		if rec := c.Do(ctx, &call.Request{Prompt: call.Prompt{Text: "x"}}); rec.Outcome != call.OK {
			t.Fatal(rec.Err)
		}
		if err := c.Warm(ctx, 1); err != nil {
			t.Fatal(err)
		}
		p.mu.Lock()
		keeps, once := p.keeps, p.once
		p.mu.Unlock()
		if keeps != keep || once == keep {
			t.Errorf("a server that keeps connections %v is taken for one that does %v, or closes them %v", keep, keeps, once)
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
