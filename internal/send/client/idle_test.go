package client

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fastjson"

	"spate/internal/call"
)

// TestStreamThatStandsStill has a server send one token and then nothing: the request is given up as what it is, with
// what had come. A server that takes longer than that for its first token is waited for.
func TestStreamThatStandsStill(t *testing.T) {
	t.Parallel()
	const idle = 50 * time.Millisecond
	still := scripted(t, tcp(t), func(_ int, _ *http.Request, _ []byte, w io.Writer) bool {
		_, _ = io.WriteString(w, okHead+piece(textEvent("a", "")))
		_, _ = w.(net.Conn).Read(make([]byte, 1)) // until the client is gone
		return false
	})
	late := scripted(t, tcp(t), func(_ int, _ *http.Request, _ []byte, w io.Writer) bool {
		_, _ = io.WriteString(w, okHead+piece(": queued\n\n"))
		time.Sleep(10 * idle)
		_, _ = io.WriteString(w, piece(textEvent("a", "stop")+doneEvent)+endBody)
		return false
	})
	for _, std := range []bool{false, true} {
		do := func(l net.Listener) call.Record {
			c := newClient(t, Config{BaseURLs: []string{"http://" + l.Addr().String()}, Std: std, Timeout: time.Hour, Idle: idle})
			return c.Do(t.Context(), &call.Request{MaxOut: 3, Prompt: call.Prompt{Text: "hi"}})
		}
		if r := do(still); r.Outcome != call.Failed || r.Fault != call.FaultIdle || !strings.Contains(r.Err, "nothing came for 50ms in the middle of the answer (--idle-timeout)") || len(r.Chunks) != 1 {
			t.Errorf("std %v, stands still: %s %s with %d chunks: %s", std, r.Outcome, r.Fault, len(r.Chunks), r.Err)
		}
		if r := do(late); r.Outcome != call.OK {
			t.Errorf("std %v, late: %s %s: %s", std, r.Outcome, r.Fault, r.Err)
		}
	}
}

// TestHeard holds what counts as a sign of life: any bytes, from the first token on.
func TestHeard(t *testing.T) {
	t.Parallel()
	x := newExchange(backend("vllm"), &fastjson.ParserPool{}, &call.Request{MaxOut: 3})
	for i, step := range []struct {
		text string
		want int64
	}{
		{okHead, 0},
		{piece(": queued\n\n"), 0},
		{piece(textEvent("a", "")), 30},
		{piece(": ping\n\n"), 40},
		{piece(textEvent("b", "")), 50},
	} {
		if x.feed([]byte(step.text), time.Duration(10*(i+1))) {
			t.Fatalf("step %d: the answer has ended: %s", i, x.err)
		}
		if got := x.heard.Load(); got != step.want {
			t.Errorf("step %d: heard at %d, want %d", i, got, step.want)
		}
	}
}

// TestNothingBesideWaitsLonger has servers that say nothing: what is asked beside the load, and connections that are
// opened ahead of it, end with the time that a request has.
func TestNothingBesideWaitsLonger(t *testing.T) {
	t.Parallel()
	mute := tcp(t)() // the kernel takes connections, nobody reads
	t.Cleanup(func() { _ = mute.Close() })
	addr := mute.Addr().String()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // half of every other limit
	defer cancel()
	const most = 100 * time.Millisecond

	control, err := NewControl(Config{BaseURLs: []string{"http://" + addr}, Timeout: most})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(control.Close)
	if _, err := control.Tokenize(ctx, "m", "hi", false); err == nil {
		t.Error("a server that says nothing has tokenized")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := control.Elsewhere(req); err == nil {
		_ = resp.Body.Close()
		t.Error("a server that says nothing has metrics")
	}
	c := newClient(t, Config{BaseURLs: []string{"https://" + addr}, Timeout: most})
	if err := c.Warm(ctx, 1); err == nil || !strings.Contains(err.Error(), "TLS handshake") {
		t.Errorf("a server that says nothing has a TLS connection: %v", err)
	}
	if ctx.Err() != nil {
		t.Error("something waited for the test's own end")
	}
}
