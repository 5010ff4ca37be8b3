package client

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"spate/internal/call"
	"spate/internal/send/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	okHead  = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	endBody = "0\r\n\r\n"
)

// piece wraps events as one chunk of the chunked coding.
func piece(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

func textEvent(s, finish string) string {
	f := "null"
	if finish != "" {
		f = `"` + finish + `"`
	}
	return fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"text\":%q,\"finish_reason\":%s}]}\n\n", s, f)
}

const (
	usageEvent = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3,\"prompt_tokens_details\":{\"cached_tokens\":4}}," +
		"\"metrics\":{\"queue_time_ms\":1.5,\"time_to_first_token_ms\":20,\"generation_time_ms\":40,\"mean_itl_ms\":10}}\n\n"
	doneEvent = "data: [DONE]\n\n"
)

// scripted answers each request on a connection with what script returns; a false second value
// closes the connection after it.
func scripted(t *testing.T, listen func() net.Listener, script func(n int, req *http.Request, body []byte, w io.Writer) bool) net.Listener {
	t.Helper()
	l := listen()
	var wg sync.WaitGroup
	var mu sync.Mutex
	conns := map[net.Conn]bool{}
	n := 0
	serve := func(c net.Conn) {
		defer func() { _ = c.Close() }()
		r := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			body, err := io.ReadAll(req.Body)
			if err != nil {
				return
			}
			mu.Lock()
			i := n
			n++
			mu.Unlock()
			if !script(i, req, body, c) {
				return
			}
		}
	}
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns[c] = true
			mu.Unlock()
			wg.Go(func() { serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return l
}

func tcp(t *testing.T) func() net.Listener {
	return func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
}

func newClient(t *testing.T, cfg Config) *Client {
	t.Helper()
	if cfg.Backend == nil {
		cfg.Backend = backend("vllm")
	}
	if cfg.Endpoint == "" {
		cfg.Endpoint = cfg.Backend.Path
	}
	cfg.Clock = call.NewClock()
	if cfg.Timeout == 0 {
		cfg.Timeout = 30 * time.Second
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// answers is one response by each way of reading it: the reactor and net/http.
func answers(t *testing.T, b *protocol.Protocol, raw string, keep bool) map[string]call.Record {
	t.Helper()
	out := map[string]call.Record{}
	for _, std := range []bool{false, true} {
		l := scripted(t, tcp(t), func(_ int, _ *http.Request, _ []byte, w io.Writer) bool {
			_, _ = io.WriteString(w, raw)
			return keep
		})
		c := newClient(t, Config{Backend: b, BaseURLs: []string{"http://" + l.Addr().String()}, Std: std})
		out[map[bool]string{false: "raw", true: "std"}[std]] = c.Do(t.Context(), &call.Request{MaxOut: 3, Prompt: call.Prompt{Text: "hi"}, In: call.Count{N: 5, From: call.FromTokenizer}})
	}
	return out
}

func TestOutcomes(t *testing.T) {
	good := textEvent("a", "") + textEvent("b", "") + textEvent("c", "length") + usageEvent + doneEvent
	cases := []struct {
		name    string
		backend *protocol.Protocol
		raw     string
		keep    bool
		fault   call.Fault
		chunks  int
		errHas  string
	}{
		{"good", backend("vllm"), okHead + piece(good) + endBody, true, call.NoFault, 3, ""},
		{"good, one byte a chunk", backend("vllm"), okHead + bytewise(good) + endBody, true, call.NoFault, 3, ""},
		{"close-delimited", backend("vllm"), "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + good, false, call.NoFault, 3, ""},
		{"no DONE but finished", backend("vllm"), okHead + piece(textEvent("a", "stop")) + endBody, true, call.NoFault, 1, ""},
		{"status", backend("vllm"), "HTTP/1.1 400 Bad Request\r\nContent-Length: 24\r\n\r\n{\"error\":\"context  long\"}", true, call.FaultStatus, 0, `HTTP 400 Bad Request: {"error":"context long"`},
		{"shed", backend("vllm"), "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 2\r\nContent-Length: 0\r\n\r\n", true, call.FaultShed, 0, "HTTP 429"},
		{"error event", backend("vllm"), okHead + piece(textEvent("a", "")+"data: {\"error\":{\"message\":\"engine dead\",\"type\":\"Internal\",\"code\":500}}\n\n"+doneEvent) + endBody, true, call.FaultEvent, 1, "Internal: engine dead"},
		{"error object of old servers", backend("vllm"), okHead + piece("data: {\"object\":\"error\",\"message\":\"boom\"}\n\n"+doneEvent) + endBody, true, call.FaultEvent, 0, "boom"},
		{"finish error", backend("vllm"), okHead + piece(textEvent("a", "error")+doneEvent) + endBody, true, call.FaultEvent, 1, "finish_reason error"},
		{"cut in a chunk", backend("vllm"), okHead + "ff\r\n" + textEvent("a", ""), false, call.FaultCut, 1, "closed in the middle"},
		{"cut between chunks", backend("vllm"), okHead + piece(textEvent("a", "")), false, call.FaultCut, 1, "closed in the middle"},
		{"cut after the finish", backend("vllm"), okHead + piece(textEvent("a", "stop")), false, call.FaultCut, 1, "closed in the middle"},
		{"clean end, no finish, no DONE", backend("vllm"), okHead + piece(textEvent("a", "")) + endBody, true, call.FaultCut, 1, "without a finish reason"},
		{"no finish reason but DONE", backend("vllm"), okHead + piece(textEvent("a", "")+doneEvent) + endBody, true, call.NoFault, 1, ""},
		{"no finish reason, no token", backend("vllm"), okHead + piece(textEvent("", "")+doneEvent) + endBody, true, call.FaultEmpty, 1, "no token"},
		{"empty", backend("vllm"), okHead + piece(doneEvent) + endBody, true, call.FaultEmpty, 0, "no choices"},
		{"no token", backend("vllm"), okHead + piece(textEvent("", "stop")+doneEvent) + endBody, true, call.FaultEmpty, 1, "no token"},
		{"empty texts with counted tokens", backend("vllm"), okHead + piece(textEvent("", "length")+usageEvent+doneEvent) + endBody, true, call.NoFault, 1, ""},
		{"bad json", backend("vllm"), okHead + piece("data: {oops\n\n"+doneEvent) + endBody, true, call.FaultJSON, 0, "oops"},
		{"json but no object", backend("vllm"), okHead + piece("data: 3\n\n"+doneEvent) + endBody, true, call.FaultJSON, 0, "not a JSON object"},
		{"bad utf8", backend("vllm"), okHead + piece("data: {\"choices\":[{\"text\":\"\xff\xfe\"}]}\n\n"+doneEvent) + endBody, true, call.FaultUTF8, 0, "not UTF-8"},
		{"no answer", backend("vllm"), "", false, call.FaultReset, 0, ""},
		{"not streamed", backend("vllm"), lengthed(`{"choices":[{"text":"abc","finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3}}`), true, call.NoFault, 1, ""},
		{"not streamed, empty", backend("vllm"), lengthed(`{"choices":[]}`), true, call.FaultEmpty, 0, "no token"},
		{"html instead of an answer", backend("vllm"), lengthed(`<html>`), true, call.FaultJSON, 0, "html"},
		{"chat", backend("vllm-chat"), okHead + piece(chatEvent(`{"role":"assistant","content":""}`, "")+chatEvent(`{"content":"hi"}`, "stop")+usageEvent+doneEvent) + endBody, true, call.NoFault, 2, ""},
		{"chat role only", backend("vllm-chat"), okHead + piece(chatEvent(`{"role":"assistant","content":""}`, "stop")+doneEvent) + endBody, true, call.FaultEmpty, 1, "no token"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for way, rec := range answers(t, c.backend, c.raw, c.keep) {
				want := call.OK
				if c.fault != call.NoFault {
					want = call.Failed
				}
				if rec.Outcome != want || rec.Fault != c.fault || len(rec.Chunks) != c.chunks || !strings.Contains(rec.Err, c.errHas) {
					t.Errorf("%s: %s/%s %d chunks, %q; want %s/%s %d %q", way, rec.Outcome, rec.Fault, len(rec.Chunks), rec.Err, want, c.fault, c.chunks, c.errHas)
				}
				if (rec.Err == "") != (c.fault == call.NoFault) {
					t.Errorf("%s: error text %q with fault %q", way, rec.Err, rec.Fault)
				}
			}
		})
	}
	t.Run("garbage", func(t *testing.T) { // net/http words this differently
		rec := answers(t, backend("vllm"), "\x16\x03\x01\x00garbage\n\n\n", false)["raw"]
		if rec.Fault != call.FaultHTTP {
			t.Errorf("fault %q (%s), want %q", rec.Fault, rec.Err, call.FaultHTTP)
		}
	})
}

func bytewise(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteString(piece(s[i : i+1]))
	}
	return b.String()
}

func lengthed(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

func chatEvent(delta, finish string) string {
	f := "null"
	if finish != "" {
		f = `"` + finish + `"`
	}
	return fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%s}]}\n\n", delta, f)
}

func TestRecordOfAGoodStream(t *testing.T) {
	raw := okHead + piece(textEvent("a", "")) + piece(textEvent("b ", "")) + piece(textEvent("c", "length")+usageEvent+doneEvent) + endBody
	for way, rec := range answers(t, backend("vllm"), raw, true) {
		if rec.In != (call.Count{N: 7, From: call.FromServer}) || rec.Out != (call.Count{N: 3, From: call.FromServer}) ||
			rec.Cached != (call.Count{N: 4, From: call.FromServer}) || rec.Asked.N != 5 || rec.AskedOut != 3 {
			t.Errorf("%s: counts in %v out %v cached %v asked %v", way, rec.In, rec.Out, rec.Cached, rec.Asked)
		}
		if rec.Text != "ab c" || rec.Finish != "length" || rec.Status != 200 {
			t.Errorf("%s: text %q finish %q status %d", way, rec.Text, rec.Finish, rec.Status)
		}
		want := &call.ServerTimes{Queue: 1500 * time.Microsecond, FirstToken: 20 * time.Millisecond, Generation: 40 * time.Millisecond, MeanITL: 10 * time.Millisecond}
		if d := cmp.Diff(want, rec.Server); d != "" {
			t.Errorf("%s: server times (-want +got):\n%s", way, d)
		}
		order := []time.Duration{rec.Sent, rec.FirstByte, rec.Headers, rec.Chunks[0].At, rec.Chunks[1].At, rec.Chunks[2].At, rec.LastEvent, rec.End}
		for i := 1; i < len(order); i++ {
			if order[i] < order[i-1] {
				t.Errorf("%s: stamps out of order: %v", way, order)
			}
		}
		if rec.FirstToken != rec.Chunks[0].At || rec.FirstText != rec.FirstToken || rec.LastToken != rec.Chunks[2].At {
			t.Errorf("%s: first %v visible %v last %v of %v", way, rec.FirstToken, rec.FirstText, rec.LastToken, rec.Chunks)
		}
	}
}

func TestChatKindsAndContinuousUsage(t *testing.T) {
	usage := func(n int) string { return fmt.Sprintf(`,"usage":{"prompt_tokens":7,"completion_tokens":%d}`, n) }
	ev := func(delta, finish string, n int) string {
		return strings.TrimSuffix(chatEvent(delta, finish), "}\n\n") + usage(n) + "}\n\n"
	}
	raw := okHead + piece(ev(`{"role":"assistant","content":""}`, "", 0)+
		ev(`{"reasoning_content":"hm"}`, "", 2)+ev(`{"reasoning":"so"}`, "", 3)+
		ev(`{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{}"}}]}`, "", 4)+
		ev(`{"content":"yes"}`, "tool_calls", 9)+
		"data: {\"choices\":[]"+usage(9)+"}\n\n"+doneEvent) + endBody
	for way, rec := range answers(t, backend("vllm-chat"), raw, true) {
		var tokens []int32
		var kinds []call.Kind
		for _, c := range rec.Chunks {
			tokens, kinds = append(tokens, c.Tokens), append(kinds, c.Kind)
		}
		if d := cmp.Diff([]int32{0, 2, 1, 1, 5}, tokens); d != "" {
			t.Errorf("%s: tokens (-want +got):\n%s", way, d)
		}
		if d := cmp.Diff([]call.Kind{0, call.Reasoning, call.Reasoning, call.Tool, call.Visible}, kinds); d != "" {
			t.Errorf("%s: kinds (-want +got):\n%s", way, d)
		}
		if rec.Text != "yes" || rec.Thoughts != "hmso" || rec.ToolText != "f{}" || rec.Out.N != 9 {
			t.Errorf("%s: text %q thoughts %q tool %q out %v", way, rec.Text, rec.Thoughts, rec.ToolText, rec.Out)
		}
		if rec.FirstToken != rec.Chunks[1].At || rec.FirstText != rec.Chunks[4].At {
			t.Errorf("%s: first token %v, first text %v", way, rec.FirstToken, rec.FirstText)
		}
	}
}

func TestBodies(t *testing.T) {
	two := 2
	body := protocol.Body{Model: "m", IgnoreEOS: true, Logprobs: &two, Sampling: json.RawMessage(`{"temperature":0.5}`), Extra: json.RawMessage(`{"temperature":0,"max_tokens":9}`)}
	got, err := backend("vllm").Encode(nil, &body, &call.Request{MaxOut: 4, Prompt: call.Prompt{Text: "a\"b\\\n\x01é<&>\xff"}, Extra: json.RawMessage(`{"seed":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"model":"m","prompt":"a\"b\\\n\u0001é<&>` + "\ufffd" + `","repetition_penalty":1.0,"max_tokens":9,"logprobs":2,"stream":true,` +
		`"stream_options":{"include_usage":true},"ignore_eos":true,"temperature":0,"seed":1}`
	if string(got) != want {
		t.Errorf("completions body\n got %s\nwant %s", got, want)
	}
	got, err = backend("vllm-chat").Encode(nil, &protocol.Body{Model: "m", Continuous: true}, &call.Request{Model: "lora", MaxOut: 4, Prompt: call.Prompt{Text: "hi"}})
	if err != nil {
		t.Fatal(err)
	}
	want = `{"model":"lora","messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"max_completion_tokens":4,"stream":true,` +
		`"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`
	if string(got) != want {
		t.Errorf("chat body\n got %s\nwant %s", got, want)
	}
	strict := protocol.Body{Model: "m", IgnoreEOS: true, Extra: json.RawMessage(`{"ignore_eos":null,"repetition_penalty":null,"unknown":null,"stop":["\n"]}`)}
	got, err = backend("vllm").Encode(nil, &strict, &call.Request{MaxOut: 4, Prompt: call.Prompt{Text: "hi"}})
	want = `{"model":"m","prompt":"hi","max_tokens":4,"logprobs":null,"stream":true,"stream_options":{"include_usage":true},"stop":["\n"]}`
	if err != nil || string(got) != want {
		t.Errorf("body without fields\n got %s, %v\nwant %s", got, err, want)
	}
	got, err = backend("vllm").Encode(nil, &protocol.Body{Model: "m"}, &call.Request{Prompt: call.Prompt{IDs: []int32{1, 22, 333}}})
	if err != nil || !strings.Contains(string(got), `"prompt":[1,22,333]`) {
		t.Errorf("ids body %s, %v", got, err)
	}
	if _, err := backend("vllm").Encode(nil, &protocol.Body{Extra: json.RawMessage(`[1]`)}, &call.Request{}); err == nil {
		t.Error("an extra body that is no object was accepted")
	}
}

// TestWireFormat sees what the server sees: path, headers, keep-alive and request ids.
func TestWireFormat(t *testing.T) {
	var mu sync.Mutex
	var heads []http.Header
	var paths, remotes []string
	answer := okHead + piece(textEvent("a", "stop")+doneEvent) + endBody
	l := scripted(t, tcp(t), func(_ int, req *http.Request, _ []byte, w io.Writer) bool {
		mu.Lock()
		heads, paths = append(heads, req.Header), append(paths, req.URL.Path)
		remotes = append(remotes, w.(net.Conn).RemoteAddr().String())
		mu.Unlock()
		_, _ = io.WriteString(w, answer)
		return true
	})
	h := http.Header{"Authorization": {"Bearer secret-key"}, "X-Team": {"a"}}
	c := newClient(t, Config{BaseURLs: []string{"http://" + l.Addr().String() + "/api/"}, Header: h})
	c.targets[0].pool.keeps = true // else the first answers would all come over connections of their own
	for i := range 3 {
		rec := c.Do(t.Context(), &call.Request{ID: i, Name: fmt.Sprintf("bench-%d", i), Prompt: call.Prompt{Text: "x"}, MaxOut: 1})
		if rec.Outcome != call.OK || rec.Reused != (i > 0) {
			t.Fatalf("request %d: %s %s, reused %v", i, rec.Outcome, rec.Err, rec.Reused)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for i, got := range heads {
		if paths[i] != "/api/v1/completions" || got.Get("Authorization") != "Bearer secret-key" || got.Get("X-Team") != "a" ||
			got.Get("X-Request-Id") != fmt.Sprintf("bench-%d", i) || got.Get("Content-Type") != "application/json" {
			t.Errorf("request %d: %s %v", i, paths[i], got)
		}
		if remotes[i] != remotes[0] {
			t.Errorf("request %d came over another connection", i)
		}
	}
}

// The user's headers take the place of spate's own, the host's name among them.
func TestHeadersOfTheUser(t *testing.T) {
	own := http.Header{"Host": {"virtual.example"}, "User-Agent": {"mine"}, "Accept": {"*/*"}, "Content-Type": {"application/json; v=2"}, "X-Request-Id": {"theirs"}, "Content-Length": {"7"}}
	answer := okHead + piece(textEvent("a", "stop")+doneEvent) + endBody
	for _, std := range []bool{false, true} {
		seen := make(chan *http.Request, 2)
		l := scripted(t, tcp(t), func(_ int, req *http.Request, _ []byte, w io.Writer) bool {
			seen <- req
			_, _ = io.WriteString(w, answer)
			return true
		})
		cfg := Config{BaseURLs: []string{"http://" + l.Addr().String()}, Header: own, Std: std}
		if rec := newClient(t, cfg).Do(t.Context(), &call.Request{Name: "ours", Prompt: call.Prompt{Text: "x"}}); rec.Outcome != call.OK {
			t.Fatalf("std %v: %s", std, rec.Err)
		}
		got := <-seen
		if ids := got.Header["X-Request-Id"]; got.Host != "virtual.example" || len(ids) != 1 || ids[0] != "ours" {
			t.Errorf("std %v: host %q, ids %q", std, got.Host, ids)
		}
		for _, name := range []string{"User-Agent", "Accept", "Content-Type"} {
			if d := cmp.Diff(own[name], got.Header[name]); d != "" {
				t.Errorf("std %v: %s (-want +got):\n%s", std, name, d)
			}
		}
	}
}

// Headers with a place for something of the request are filled for each of them, and left out where it has nothing.
func TestFilledHeaders(t *testing.T) {
	own := http.Header{"X-Smg-Routing-Key": {"{group}"}, "X-Session": {"a-{session}-b"}, "X-Same": {"same"}}
	answer := okHead + piece(textEvent("a", "stop")+doneEvent) + endBody
	for _, std := range []bool{false, true} {
		seen := make(chan http.Header, 1)
		l := scripted(t, tcp(t), func(_ int, req *http.Request, _ []byte, w io.Writer) bool {
			seen <- req.Header
			_, _ = io.WriteString(w, answer)
			return true
		})
		c := newClient(t, Config{BaseURLs: []string{"http://" + l.Addr().String()}, Header: own, Std: std})
		for _, r := range []call.Request{{Session: "s1", Labels: map[string]string{"group": "7"}}, {Session: "s2"}, {}} {
			r.Prompt.Text = "x"
			if rec := c.Do(t.Context(), &r); rec.Outcome != call.OK {
				t.Fatalf("std %v: %s", std, rec.Err)
			}
			got := <-seen
			session := ""
			if r.Session != "" {
				session = "a-" + r.Session + "-b"
			}
			if got.Get("X-Smg-Routing-Key") != r.Labels["group"] || got.Get("X-Session") != session || got.Get("X-Same") != "same" {
				t.Errorf("std %v, session %q: %v", std, r.Session, got)
			}
			if _, ok := got["X-Smg-Routing-Key"]; ok != (r.Labels["group"] != "") {
				t.Errorf("std %v: an empty header was sent: %v", std, got)
			}
		}
	}
}

func TestTLSAndSecrets(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer right-key" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, "bad key: "+r.Header.Get("Authorization"))
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, textEvent("a", "stop")+doneEvent)
	}))
	t.Cleanup(srv.Close)
	pool := x509.NewCertPool()
	pool.AddCert(srv.Certificate())
	good := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	cases := []struct {
		name  string
		tls   *tls.Config
		key   string
		fault call.Fault
	}{
		{"trusted", good, "right-key", call.NoFault},
		{"untrusted", nil, "right-key", call.FaultTLS},
		{"insecure", &tls.Config{InsecureSkipVerify: true}, "right-key", call.NoFault}, //nolint:gosec // the case under test
		{"refused", good, "wrong-key", call.FaultStatus},
	}
	for _, c := range cases {
		for _, std := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s std=%v", c.name, std), func(t *testing.T) {
				cl := newClient(t, Config{BaseURLs: []string{srv.URL}, TLS: c.tls, Std: std, Secrets: []string{c.key}, Header: http.Header{"Authorization": {"Bearer " + c.key}}})
				for range 2 {
					rec := cl.Do(t.Context(), &call.Request{Prompt: call.Prompt{Text: "x"}, MaxOut: 1})
					if rec.Fault != c.fault {
						t.Fatalf("fault %q: %s", rec.Fault, rec.Err)
					}
					if strings.Contains(rec.Err, c.key) {
						t.Errorf("the key is in the error text: %s", rec.Err)
					}
					if c.fault == call.NoFault && rec.Handshake <= 0 && !rec.Reused {
						t.Error("no handshake time")
					}
				}
			})
		}
	}
}

func TestHTTP2(t *testing.T) {
	var proto string
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proto = r.Proto
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, textEvent("a", "stop")+doneEvent)
	}))
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
	t.Cleanup(srv.Close)
	c := newClient(t, Config{BaseURLs: []string{srv.URL}, HTTP2: true})
	rec := c.Do(t.Context(), &call.Request{Prompt: call.Prompt{Text: "x"}, MaxOut: 1})
	if rec.Outcome != call.OK || proto != "HTTP/2.0" {
		t.Errorf("%s %s over %s", rec.Outcome, rec.Err, proto)
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l := scripted(t, func() net.Listener {
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}, func(_ int, _ *http.Request, _ []byte, w io.Writer) bool {
		_, _ = io.WriteString(w, okHead+piece(textEvent("a", "stop")+doneEvent)+endBody)
		return true
	})
	_ = l
	c := newClient(t, Config{BaseURLs: []string{"http://localhost"}, Unix: path})
	if rec := c.Do(t.Context(), &call.Request{Prompt: call.Prompt{Text: "x"}}); rec.Outcome != call.OK {
		t.Error(rec.Err)
	}
}

// deafPort is a port that refuses connections and that nobody else can take: bound, never listened on.
func deafPort(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	addr, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", addr.(*syscall.SockaddrInet4).Port)
}

func TestRefusedConnection(t *testing.T) {
	addr := deafPort(t)
	for _, std := range []bool{false, true} {
		c := newClient(t, Config{BaseURLs: []string{"http://" + addr}, Std: std})
		rec := c.Do(t.Context(), &call.Request{Prompt: call.Prompt{Text: "x"}})
		if rec.Fault != call.FaultConnect || rec.Outcome != call.Failed || rec.Sent == call.Unset {
			t.Errorf("std=%v: %s/%s %s", std, rec.Outcome, rec.Fault, rec.Err)
		}
		if err := c.Warm(t.Context(), 3); err == nil && !std {
			t.Error("warming up against nothing succeeded")
		}
	}
}

func TestTimeoutAndCancel(t *testing.T) {
	hang := make(chan struct{})
	l := scripted(t, tcp(t), func(_ int, _ *http.Request, _ []byte, w io.Writer) bool {
		_, _ = io.WriteString(w, okHead+piece(textEvent("a", "")))
		<-hang
		return false
	})
	t.Cleanup(func() { close(hang) })
	for _, std := range []bool{false, true} {
		base := []string{"http://" + l.Addr().String()}
		keepsChunk(t, func(wait time.Duration) call.Record {
			c := newClient(t, Config{BaseURLs: base, Std: std, Timeout: wait})
			begun := c.cfg.Clock.Now() // the timeout covers the attempt, dialing included
			rec := c.Do(t.Context(), &call.Request{Prompt: call.Prompt{Text: "x"}})
			if rec.Fault != call.FaultTimeout || rec.Outcome != call.Failed || rec.End-begun < wait {
				t.Errorf("std=%v timeout: %s/%s after %v: %s", std, rec.Outcome, rec.Fault, rec.End-begun, rec.Err)
			}
			return rec
		})
		c := newClient(t, Config{BaseURLs: base, Std: std})
		for cause, want := range map[error]call.Fault{call.ErrCutoff: call.FaultCutoff, call.ErrInterrupted: call.FaultStopped} {
			keepsChunk(t, func(wait time.Duration) call.Record {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(wait, func() { cancel(cause) })
				rec := c.Do(ctx, &call.Request{Prompt: call.Prompt{Text: "x"}})
				if rec.Fault != want || rec.Outcome != call.Canceled {
					t.Errorf("std=%v %v: %s/%s", std, cause, rec.Outcome, rec.Fault)
				}
				return rec
			})
		}
	}
}

// keepsChunk checks that a request given up after a while keeps the one chunk that came before. On a
// busy machine the chunk may need longer than that, so it is given more and more time.
func keepsChunk(t *testing.T, giveUp func(after time.Duration) call.Record) {
	t.Helper()
	for wait := 250 * time.Millisecond; wait < 20*time.Second; wait *= 3 {
		if rec := giveUp(wait); len(rec.Chunks) == 1 {
			return
		}
	}
	t.Error("the chunk that came before the end is not kept")
}

// TestIdleCloseIsNoFailure lets the server close idle connections between requests; the client must
// notice and open new ones instead of losing requests.
func TestIdleCloseIsNoFailure(t *testing.T) {
	l := scripted(t, tcp(t), func(_ int, _ *http.Request, _ []byte, w io.Writer) bool {
		_, _ = io.WriteString(w, okHead+piece(textEvent("a", "stop")+doneEvent)+endBody)
		return false // closes although the response promised keep-alive
	})
	c := newClient(t, Config{BaseURLs: []string{"http://" + l.Addr().String()}})
	for i := range 20 {
		if rec := c.Do(t.Context(), &call.Request{Prompt: call.Prompt{Text: "x"}}); rec.Outcome != call.OK {
			t.Fatalf("request %d: %s", i, rec.Err)
		}
		waitClosed(t, c)
	}
}

// waitClosed returns when the client knows that the server has closed every connection it used: a
// request written before that would be lost, and rightly reported so.
func waitClosed(t *testing.T, c *Client) {
	t.Helper()
	used := func(o *opened) bool { return o.used && o.link.alive(time.Second) }
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		p := c.targets[0].pool
		p.mu.Lock()
		open := slices.ContainsFunc(p.used, used)
		p.mu.Unlock()
		if !open {
			return
		}
	}
	t.Fatal("the client never saw the server close its connection")
}

func TestLargeBodyAgainstASlowReader(t *testing.T) {
	big := strings.Repeat("lorem ipsum ", 2<<20)
	var got atomic.Int64
	l := scripted(t, tcp(t), func(_ int, _ *http.Request, body []byte, w io.Writer) bool {
		got.Store(int64(len(body)))
		_, _ = io.WriteString(w, okHead+piece(textEvent("a", "stop")+doneEvent)+endBody)
		return true
	})
	c := newClient(t, Config{BaseURLs: []string{"http://" + l.Addr().String()}, Timeout: 30 * time.Second})
	req := &call.Request{Prompt: call.Prompt{Text: big}}
	rec := c.Do(t.Context(), req)
	if n := int(got.Load()); rec.Outcome != call.OK || n != len(req.Body) || n < len(big) {
		t.Errorf("%s: sent %d, server got %d: %s", rec.Outcome, len(req.Body), n, rec.Err)
	}
}

// An answer that came before the request had left whole ends the connection: what is left of the
// request would be read as the next one.
func TestAnswerBeforeTheRequestHasLeft(t *testing.T) {
	l := tcp(t)()
	var wg sync.WaitGroup
	over := make(chan struct{})
	answer := func(c net.Conn) {
		defer func() { _ = c.Close() }()
		wg.Go(func() { // a connection opened ahead may never be used
			<-over
			_ = c.Close()
		})
		if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
		<-over
	}
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { answer(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		close(over)
		wg.Wait()
	})
	c := newClient(t, Config{BaseURLs: []string{"http://" + l.Addr().String()}, MaxConns: 1})
	big := strings.Repeat("lorem ipsum ", 2<<20)
	for i := range 2 {
		rec := c.Do(t.Context(), &call.Request{Prompt: call.Prompt{Text: big}})
		if rec.Status != 413 || rec.Reused {
			t.Errorf("request %d: status %d %s, on a used connection: %v", i, rec.Status, rec.Err, rec.Reused)
		}
	}
}

func TestWarmOpensAheadAndInBandCounts(t *testing.T) {
	l := scripted(t, tcp(t), func(_ int, _ *http.Request, _ []byte, w io.Writer) bool {
		_, _ = io.WriteString(w, okHead+piece(textEvent("a", "stop")+doneEvent)+endBody)
		return true
	})
	base := []string{"http://" + l.Addr().String()}
	c := newClient(t, Config{BaseURLs: base, MaxConns: 8})
	if err := c.Warm(t.Context(), 8); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if rec := c.Do(t.Context(), &call.Request{Prompt: call.Prompt{Text: "x"}}); rec.InBand || rec.Dial <= 0 {
				t.Errorf("in band %v, dial %v", rec.InBand, rec.Dial)
			}
		})
	}
	wg.Wait()
	if s := c.Stats(); s.Dialed != 8 || s.InBand != 0 {
		t.Errorf("stats %+v, want 8 dialed ahead", s)
	}
	in := newClient(t, Config{BaseURLs: base, InBand: true})
	rec := in.Do(t.Context(), &call.Request{Prompt: call.Prompt{Text: "x"}})
	if !rec.InBand || rec.FirstByte-rec.Sent < rec.Dial {
		t.Errorf("in band %v: first byte after %v, dial took %v", rec.InBand, rec.FirstByte-rec.Sent, rec.Dial)
	}
}

// TestNeverMoreConnections opens one ahead while a request opens its own: only one may stay.
func TestNeverMoreConnections(t *testing.T) {
	l := scripted(t, tcp(t), func(int, *http.Request, []byte, io.Writer) bool { return true })
	p := newClient(t, Config{BaseURLs: []string{"http://" + l.Addr().String()}, MaxConns: 1}).targets[0].pool
	o, fresh, err := p.get(t.Context())
	if err != nil || !fresh {
		t.Fatalf("fresh %v, %v", fresh, err)
	}
	if err := p.openIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	held := p.idle() + p.inUse
	p.mu.Unlock()
	if held != 1 {
		t.Errorf("%d connections are held where one is allowed", held)
	}
	p.put(o)
}

func TestSeveralTargets(t *testing.T) {
	var mu sync.Mutex
	hits := map[string]int{}
	var bases []string
	for i := range 3 {
		l := scripted(t, tcp(t), func(_ int, _ *http.Request, _ []byte, w io.Writer) bool {
			mu.Lock()
			hits[fmt.Sprint(i)]++
			mu.Unlock()
			_, _ = io.WriteString(w, okHead+piece(textEvent("a", "stop")+doneEvent)+endBody)
			return true
		})
		bases = append(bases, "http://"+l.Addr().String())
	}
	c := newClient(t, Config{BaseURLs: bases})
	for range 9 {
		c.Do(t.Context(), &call.Request{Prompt: call.Prompt{Text: "x"}})
	}
	mu.Lock()
	if d := cmp.Diff(map[string]int{"0": 3, "1": 3, "2": 3}, hits); d != "" {
		t.Errorf("round robin (-want +got):\n%s", d)
	}
	mu.Unlock()
	sticky := newClient(t, Config{BaseURLs: bases, Sticky: true})
	first := map[string]int{}
	for i := range 30 {
		s := fmt.Sprintf("session-%d", i%10)
		rec := sticky.Do(t.Context(), &call.Request{Session: s, Prompt: call.Prompt{Text: "x"}})
		if i < 10 {
			first[s] = rec.Target
		} else if rec.Target != first[s] {
			t.Errorf("%s moved from target %d to %d", s, first[s], rec.Target)
		}
	}
}

func TestControl(t *testing.T) {
	resets := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/tokenize":
			_, _ = io.WriteString(w, `{"count":2,"tokens":[5,6]}`)
		case "/detokenize":
			_, _ = io.WriteString(w, `{"prompt":"hi"}`)
		case "/reset_prefix_cache":
			resets++
			_, _ = fmt.Fprintf(w, `{"success":%v}`, resets > 1)
		default:
			http.Error(w, "key secret-key is wrong", http.StatusForbidden)
		}
	}))
	t.Cleanup(srv.Close)
	c, err := NewControl(Config{BaseURLs: []string{srv.URL + "/"}, Secrets: []string{"secret-key"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if ids, err := c.Tokenize(t.Context(), "m", "hi", true); err != nil || len(ids) != 2 {
		t.Errorf("tokenize: %v, %v", ids, err)
	}
	if s, err := c.Detokenize(t.Context(), "m", []int32{5}); err != nil || s != "hi" {
		t.Errorf("detokenize: %q, %v", s, err)
	}
	if err := c.ResetPrefixCache(t.Context()); err != nil || resets != 2 {
		t.Errorf("reset: %v after %d tries", err, resets)
	}
	_, err = c.Post(t.Context(), "/nothing", nil)
	var se *StatusError
	if !errors.As(err, &se) || se.Status != 403 || strings.Contains(err.Error(), "secret-key") {
		t.Errorf("status error: %v", err)
	}
}

func TestUserInTheURL(t *testing.T) {
	var mu sync.Mutex
	var got []string
	l := scripted(t, tcp(t), func(_ int, req *http.Request, _ []byte, w io.Writer) bool {
		mu.Lock()
		got = append(got, req.Header.Get("Authorization"))
		mu.Unlock()
		_, _ = io.WriteString(w, okHead+piece(textEvent("a", "stop")+doneEvent)+endBody)
		return true
	})
	for _, std := range []bool{false, true} {
		c := newClient(t, Config{BaseURLs: []string{"http://ann:secret@" + l.Addr().String()}, Std: std})
		if rec := c.Do(t.Context(), &call.Request{Prompt: call.Prompt{Text: "x"}}); rec.Outcome != call.OK {
			t.Fatal(rec.Err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(got) != 2 || got[0] != "Basic YW5uOnNlY3JldA==" || got[1] != got[0] {
		t.Errorf("Authorization %q, want the same basic one from both clients", got)
	}
}

// backend is the protocol of a name; known reports whether there is one.
func backend(name string) *protocol.Protocol {
	p, _ := known(name)
	return p
}

func known(name string) (*protocol.Protocol, bool) {
	p, err := protocol.Lookup(name)
	return p, err == nil
}
