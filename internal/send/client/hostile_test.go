package client

import (
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"spate/internal/call"
)

// TestCountsThatCannotBe has servers claim the largest count there is beside three chunks, at the end and
// on every chunk. The answers stay good; the claims are set aside and kept.
func TestCountsThatCannotBe(t *testing.T) {
	t.Parallel()
	claim := `"usage":{"prompt_tokens":7,"completion_tokens":2147483647,"completion_tokens_details":{"reasoning_tokens":2147483647}}`
	last := textEvent("a", "") + textEvent("b", "") + textEvent("c", "stop") + `data: {"choices":[],` + claim + "}\n\n" + doneEvent
	each := ""
	for _, finish := range []string{"null", "null", `"stop"`} {
		each += `data: {"choices":[{"index":0,"text":"x","finish_reason":` + finish + `}],` + claim + "}\n\n"
	}
	for name, body := range map[string]string{"at the end": last, "on every chunk": each + doneEvent} {
		for how, r := range answers(t, backend("vllm"), okHead+piece(body)+endBody, true) {
			if r.Outcome != call.OK || len(r.Chunks) != 3 {
				t.Errorf("%s, %s: %s with %d chunks: %s", name, how, r.Outcome, len(r.Chunks), r.Err)
			}
			if r.Out != (call.Count{}) || r.Reason != (call.Count{}) || r.Claimed != math.MaxInt32 || r.In.N != 7 {
				t.Errorf("%s, %s: out %+v, reasoning %+v, claimed %d, in %+v", name, how, r.Out, r.Reason, r.Claimed, r.In)
			}
			for i, chunk := range r.Chunks {
				if chunk.Tokens != 0 {
					t.Errorf("%s, %s: chunk %d has %d tokens", name, how, i, chunk.Tokens)
				}
			}
		}
	}
}

// endless answers every request with head and then piece after piece until the client is gone.
func endless(t *testing.T, head, each string) net.Listener {
	t.Helper()
	many := strings.Repeat(each, max(1, 32<<10/len(each)))
	return scripted(t, tcp(t), func(_ int, _ *http.Request, _ []byte, w io.Writer) bool {
		_, err := io.WriteString(w, head)
		for err == nil {
			_, err = io.WriteString(w, many)
		}
		return false
	})
}

// TestEndlessAnswers has servers that never stop: each answer is given up at its bound, with that as the cause.
func TestEndlessAnswers(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	open := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
	for _, tt := range []struct {
		name, head, each string
		fault            call.Fault
		bytes            int64
	}{
		{"text", open, textEvent("aaaa", ""), call.FaultLarge, most},
		{"data lines without text", open, "data:\n", call.FaultLarge, most},
		{"one line", open, "data: aaaaaaaaaaaaaaaa", call.FaultLarge, most},
		{"comments", open, ": ping\n", call.FaultLarge, most},
		{"blank lines", open, "\n", call.FaultLarge, most},
		{"tokens after the end mark", open + textEvent("a", "stop") + doneEvent, textEvent("b", ""), call.FaultLarge, most},
		{"chunks of one byte", okHead, "1\r\n\n\r\n", call.FaultLarge, most},
		{"a body of JSON", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n", " ", call.FaultLarge, most},
		{"a refusal", "HTTP/1.1 500 Oh\r\nContent-Type: text/html\r\n\r\n", "no ", call.FaultStatus, maxRefusal},
		{"events that are no JSON", open + "data: {]\n\n", textEvent("a", ""), call.FaultJSON, 64 << 10},
		{"an error event", open + "data: {\"error\":{\"message\":\"dead\"}}\n\n", textEvent("a", ""), call.FaultEvent, 64 << 10},
	} {
		for _, std := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/std %v", tt.name, std), func(t *testing.T) {
				t.Parallel()
				l := endless(t, tt.head, tt.each)
				c := newClient(t, Config{BaseURLs: []string{"http://" + l.Addr().String()}, Std: std, MaxBytes: most, Timeout: time.Hour})
				r := c.Do(t.Context(), &call.Request{MaxOut: 3, Prompt: call.Prompt{Text: "hi"}})
				if r.Outcome != call.Failed || r.Fault != tt.fault {
					t.Errorf("%s %s: %s, want %s", r.Outcome, r.Fault, r.Err, tt.fault)
				}
				if r.BytesIn > tt.bytes+2*readSize {
					t.Errorf("%d bytes were read, the bound is %d", r.BytesIn, tt.bytes)
				}
			})
		}
	}
}

// TestFaultEndsTheAnswer has a server that sends what cannot be read and then waits for the client, which must
// leave by itself: the timeout is an hour away.
func TestFaultEndsTheAnswer(t *testing.T) {
	t.Parallel()
	for _, std := range []bool{false, true} {
		gone := make(chan error, 1)
		l := scripted(t, tcp(t), func(_ int, _ *http.Request, _ []byte, w io.Writer) bool {
			_, _ = io.WriteString(w, okHead+piece("data: {]\n\n"))
			_, err := w.(net.Conn).Read(make([]byte, 1))
			gone <- err
			return false
		})
		c := newClient(t, Config{BaseURLs: []string{"http://" + l.Addr().String()}, Std: std, Timeout: time.Hour})
		r := c.Do(t.Context(), &call.Request{MaxOut: 3, Prompt: call.Prompt{Text: "hi"}})
		if r.Fault != call.FaultJSON {
			t.Errorf("std %v: fault %s: %s", std, r.Fault, r.Err)
		}
		if err := <-gone; err == nil {
			t.Errorf("std %v: the client sent something instead of leaving", std)
		}
	}
}

// TestSwitchedProtocol has servers switch to another protocol and then wait for the client, or never stop: the client
// leaves by itself.
func TestSwitchedProtocol(t *testing.T) {
	t.Parallel()
	const switched = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"
	waiting := scripted(t, tcp(t), func(_ int, _ *http.Request, _ []byte, w io.Writer) bool {
		_, _ = io.WriteString(w, switched)
		_, _ = w.(net.Conn).Read(make([]byte, 1)) // until the client is gone
		return false
	})
	for _, l := range []net.Listener{waiting, endless(t, switched, "\n")} {
		cfg := Config{BaseURLs: []string{"http://" + l.Addr().String()}, Std: true, Timeout: time.Hour}
		r := newClient(t, cfg).Do(t.Context(), &call.Request{MaxOut: 3, Prompt: call.Prompt{Text: "hi"}})
		if r.Outcome != call.Failed || r.Fault != call.FaultHTTP || !strings.Contains(r.Err, "switches to another protocol") {
			t.Errorf("%s %s: %s", r.Outcome, r.Fault, r.Err)
		}
		control, err := NewControl(cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(control.Close)
		if _, err := control.Tokenize(t.Context(), "m", "hi", false); err == nil || !strings.Contains(err.Error(), "switches to another protocol") {
			t.Errorf("/tokenize: %v", err)
		}
	}
}

// TestEndlessBesideTheLoad has a server whose answers to /tokenize have no end.
func TestEndlessBesideTheLoad(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]string{"200 OK": "answered more than 16777216 bytes", "500 Oh": "answered HTTP 500"} {
		l := endless(t, "HTTP/1.1 "+status+"\r\nContent-Type: application/json\r\n\r\n", " ")
		control, err := NewControl(Config{BaseURLs: []string{"http://" + l.Addr().String()}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(control.Close)
		if _, err := control.Tokenize(t.Context(), "m", "hi", false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", status, err, want)
		}
	}
	l := endless(t, "HTTP/1.1 200 OK\r\n", "X-Filler: aaaaaaaaaaaaaaaa\r\n")
	c := newClient(t, Config{BaseURLs: []string{"http://" + l.Addr().String()}, Std: true, Timeout: time.Hour})
	if r := c.Do(t.Context(), &call.Request{MaxOut: 3, Prompt: call.Prompt{Text: "hi"}}); r.Fault != call.FaultHTTP {
		t.Errorf("endless headers: %s: %s", r.Fault, r.Err)
	}
}
