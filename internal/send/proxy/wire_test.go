package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestBytesAreTheSame sends the same bytes to a server with and without the proxy in between and compares what
// comes back, byte for byte, heads and chunks included.
func TestBytesAreTheSame(t *testing.T) {
	big := strings.Repeat("lorem ipsum ", 1<<18) // 3 MiB
	url := scripted(t, func(r *http.Request, body []byte, c net.Conn) bool {
		say := func(parts ...string) {
			for _, p := range parts {
				_, _ = io.WriteString(c, p) // a client that left ends the connection
			}
		}
		switch r.URL.Path {
		case "/stream":
			say(sseHead, textChunk("a"), textChunk("é\n\x01"), usageChunk(3, 2)+lastChunk)
		case "/trailer":
			say(sseHead, "3;name=value\r\nabc\r\n", "0\r\nX-Sum: 1\r\n\r\n")
		case "/error":
			say("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 4\r\n\r\nfail")
		case "/busy":
			say("HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n")
		case "/echo":
			say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(body)), string(body))
		case "/close":
			say("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the ", "end")
			return false
		case "/old":
			say("HTTP/1.0 200 OK\r\n\r\nold")
			return false
		case "/none":
			say("HTTP/1.1 204 No Content\r\n\r\n")
		case "/head":
			say("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
		case "/cut":
			say("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nonly this")
			return false
		case "/odd":
			say("what is HTTP\n")
			return false
		}
		return true
	})
	prompt := `{"model":"m","prompt":"one two three","stream":true}`
	cases := []struct{ name, asked string }{
		{"stream", post("/stream", prompt)},
		{"trailer", post("/trailer", prompt)},
		{"error", post("/error", prompt)},
		{"rate limit", post("/busy", prompt)},
		{"big both ways", post("/echo", `{"prompt":"`+big+`"}`)},
		{"chunked request", "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(`{"prompt":`) + chunk(`"x"}`) + lastChunk},
		{"until the connection ends", post("/close", prompt)},
		{"HTTP/1.0", "GET /old HTTP/1.0\r\n\r\n"},
		{"no content", post("/none", prompt)},
		{"HEAD", "HEAD /head HTTP/1.1\r\nHost: x\r\n\r\n"},
		{"cut by the server", post("/cut", prompt)},
		{"not HTTP from the server", post("/odd", prompt)},
		{"not HTTP from the client", "HELO there\r\n\r\n"},
		{"one after another", post("/stream", prompt) + post("/error", prompt) + post("/echo", prompt)},
		{"expecting", "POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc"},
		{"a path with a query", post("/echo?key=secret", prompt)},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := recording(t, url, func(cfg *Config) { cfg.All, cfg.Block = true, 512 })
			want, got := exchanged(t, url, c.asked), exchanged(t, p.URL(), c.asked)
			if got != want {
				t.Errorf("through the proxy %d bytes %.200q\nwithout it %d bytes %.200q", len(got), got, len(want), want)
			}
			n := strings.Count(c.asked, "HTTP/1.")
			if c.name == "not HTTP from the client" {
				n = 1
			}
			lines(t, p, n)
		})
	}
}

// exchanged is all that comes back for some bytes, until the server has nothing more to say.
func exchanged(t *testing.T, url, asked string) string {
	t.Helper()
	c := dial(t, url)
	go func() { // an answer may come before all is sent
		_, _ = io.WriteString(c, asked)
		_ = c.CloseWrite()
	}()
	got, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

// TestEveryChunkAtOnce lets the server go on only when the client has what came before: nothing may be held
// back. The same with the request's body.
func TestEveryChunkAtOnce(t *testing.T) {
	seen := make(chan struct{})
	url := scripted(t, func(_ *http.Request, _ []byte, c net.Conn) bool {
		_, _ = io.WriteString(c, sseHead)
		for i := range 20 {
			<-seen
			_, _ = io.WriteString(c, textChunk(fmt.Sprint(i)))
		}
		<-seen
		_, _ = io.WriteString(c, usageChunk(5, 20)+lastChunk)
		return true
	})
	p := recording(t, url, nil)
	c := dial(t, p.URL())
	if _, err := io.WriteString(c, post("/v1/completions", `{"prompt":"x","stream":true}`)); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	events := bufio.NewReader(res.Body)
	for i := range 21 {
		seen <- struct{}{}
		if text, err := events.ReadString('\n'); err != nil || i < 20 && !strings.Contains(text, fmt.Sprintf(`"text":"%d"`, i)) {
			t.Fatalf("event %d: %q %v", i, text, err)
		}
		if _, err := events.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	got := lines(t, p, 1)[0]
	if got.Output != 20 || got.OutFrom != ByServer || got.Input != 5 || got.Fate != fateOK || got.TTFT == nil || *got.TTFT > got.End || *got.Cached != 2 {
		t.Errorf("%+v", got)
	}
}

// TestWhoeverLeaves has every request written down once, with what became of it.
func TestWhoeverLeaves(t *testing.T) {
	var open atomic.Int32
	stay := make(chan struct{})
	url := scripted(t, func(r *http.Request, _ []byte, c net.Conn) bool {
		switch r.URL.Path {
		case "/hang":
			_, _ = io.WriteString(c, sseHead+textChunk("a"))
			open.Add(1)
			select {
			case <-stay:
			case <-gone(c):
			}
			return false
		case "/cut":
			_, _ = io.WriteString(c, sseHead+textChunk("some words of it"))
			return false
		case "/silent":
			return false
		case "/reset":
			_ = c.(*net.TCPConn).SetLinger(0)
			return false
		}
		_, _ = io.WriteString(c, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\nno")
		return true
	})
	defer close(stay)
	p := recording(t, url, nil)
	prompt := `{"prompt":"x","stream":true}`
	for _, path := range []string{"/cut", "/silent"} {
		c := dial(t, p.URL())
		if _, err := io.WriteString(c, post(path, prompt)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(c); err != nil {
			t.Fatal(err)
		}
	}
	exchanged(t, p.URL(), post("/busy", prompt))
	c := dial(t, p.URL())
	if _, err := io.WriteString(c, post("/reset", prompt)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(c); err == nil {
		t.Error("a reset came as an end")
	}
	for _, abort := range []bool{true, false} {
		before := open.Load()
		c := dial(t, p.URL())
		if _, err := io.WriteString(c, post("/hang", prompt)); err != nil {
			t.Fatal(err)
		}
		await(t, "the server answers", func() bool { return open.Load() > before })
		if abort {
			_ = c.SetLinger(0)
		}
		_ = c.Close()
	}
	await(t, "those who left are recorded", func() bool { return p.Stats().Requests == 6 })
	c = dial(t, p.URL())
	if _, err := io.WriteString(c, post("/hang", prompt)); err != nil {
		t.Fatal(err)
	}
	await(t, "the server answers", func() bool { return open.Load() == 3 })
	if err := p.Close(); err != nil { // in the middle of the last one
		t.Fatal(err)
	}
	want := []string{fateServerGone, fateServerGone, fateOK, fateServerGone, fateClientGone, fateClientGone, fateStopped}
	got := readTrace(t, p.cfg.Path)
	if len(got) != len(want) {
		t.Fatalf("%d lines for %d requests", len(got), len(want))
	}
	for i, l := range got {
		if l.Fate != want[i] {
			t.Errorf("request %d ended %s, not %s: %+v", i, l.Fate, want[i], l)
		}
	}
	if got[2].Status != 503 || got[0].OutFrom != Estimated || got[0].Output != 4 || got[1].Status != 0 {
		t.Errorf("%+v", got)
	}
	if st := p.Stats(); st.Failed != 7 {
		t.Errorf("%+v", st)
	}
}

// gone is closed when the other side has left.
func gone(c net.Conn) <-chan struct{} {
	ch := make(chan struct{})
	go func() {
		var one [1]byte
		_, _ = c.Read(one[:])
		close(ch)
	}()
	return ch
}

// TestNoServer answers for a server that is not there, and still writes the request down.
func TestNoServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	_ = l.Close()
	p := recording(t, url, nil)
	status, text := get(t, p.URL()+"/v1/completions", `{"prompt":"twelve chars"}`)
	if status != 502 || !strings.Contains(text, "upstream_unreachable") {
		t.Errorf("%d %s", status, text)
	}
	got := lines(t, p, 1)[0]
	if got.Fate != fateUnreachable || got.Status != 502 || got.Input != 3 || got.InFrom != Estimated {
		t.Errorf("%+v", got)
	}
}

// TestDrain waits for what is in flight, closes what carries nothing, and takes nothing new.
func TestDrain(t *testing.T) {
	begun, on := make(chan struct{}), make(chan struct{})
	url := scripted(t, func(r *http.Request, _ []byte, c net.Conn) bool {
		if r.URL.Path == "/slow" {
			_, _ = io.WriteString(c, sseHead+textChunk("a"))
			close(begun)
			<-on
			_, _ = io.WriteString(c, usageChunk(1, 2)+lastChunk)
			return true
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
		return true
	})
	p := recording(t, url, nil)
	idle := dial(t, p.URL())
	if _, err := io.WriteString(idle, post("/fast", `{"prompt":"x"}`)); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(idle), nil)
	if err != nil || res.StatusCode != 200 {
		t.Fatal(res, err)
	}
	busy := dial(t, p.URL())
	if _, err := io.WriteString(busy, post("/slow", `{"prompt":"x"}`)); err != nil {
		t.Fatal(err)
	}
	<-begun
	drained := make(chan struct{})
	go func() {
		p.Drain(t.Context())
		close(drained)
	}()
	if _, err := io.Copy(io.Discard, idle); err != nil && !errors.Is(err, net.ErrClosed) && !strings.Contains(err.Error(), "reset") {
		t.Fatal(err) // its end: the proxy closed it
	}
	if _, err := net.DialTimeout("tcp", strings.TrimPrefix(p.URL(), "http://"), 10*time.Second); err == nil {
		t.Error("a new connection was taken")
	}
	select {
	case <-drained:
		t.Fatal("it did not wait for the request in flight")
	default:
	}
	close(on)
	if all, err := io.ReadAll(busy); err != nil || !strings.HasSuffix(string(all), lastChunk) {
		t.Errorf("%q %v", all, err)
	}
	<-drained
	for _, l := range lines(t, p, 2) {
		if l.Fate != fateOK {
			t.Errorf("%+v", l)
		}
	}
}

// TestPathInFront puts the path of the upstream's URL before those of requests, and the server's name into them.
func TestPathInFront(t *testing.T) {
	var path, host atomic.Value
	url := scripted(t, func(r *http.Request, _ []byte, c net.Conn) bool {
		path.Store(r.RequestURI)
		host.Store(r.Host)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
		return true
	})
	p := recording(t, url+"/proxy/7/", nil)
	get(t, p.URL()+"/v1/completions?x=1", `{"prompt":"x"}`)
	if path.Load() != "/proxy/7/v1/completions?x=1" || "http://"+host.Load().(string) != url {
		t.Errorf("the server saw %v of %v", path.Load(), host.Load())
	}
	lines(t, p, 1)
}
