package proxy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// scripted is a server of bytes: it reads requests one after another and gives each to answer, which writes
// what it likes and says whether the connection goes on.
func scripted(t *testing.T, answer func(r *http.Request, body []byte, c net.Conn) bool) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	conns := map[net.Conn]bool{}
	serve := func(c net.Conn) {
		defer func() { _ = c.Close() }()
		in := bufio.NewReader(c)
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			if r.Header.Get("Expect") == "100-continue" {
				_, _ = io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
			}
			body, err := io.ReadAll(r.Body)
			if err != nil || !answer(r, body, c) {
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
	return "http://" + l.Addr().String()
}

// recording starts a proxy whose trace lies in a folder of its own.
func recording(t *testing.T, upstream string, change func(*Config)) *Proxy {
	t.Helper()
	cfg := Config{Listen: "127.0.0.1:0", Upstream: upstream, Path: filepath.Join(t.TempDir(), "trace.jsonl"), Block: 4, Salt: []byte("pepper")}
	if change != nil {
		change(&cfg)
	}
	p, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// lines waits for the lines of so many requests and ends the recording.
func lines(t *testing.T, p *Proxy, n int) []Line {
	t.Helper()
	await(t, fmt.Sprintf("%d requests recorded", n), func() bool { return p.Stats().Requests >= n })
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	got := readTrace(t, p.cfg.Path)
	if len(got) != n {
		t.Fatalf("%d lines for %d requests", len(got), n)
	}
	return got
}

func readTrace(t *testing.T, path string) []Line {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []Line
	for text := range bytes.Lines(raw) {
		var l Line
		if err := json.Unmarshal(text, &l); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		out = append(out, l)
	}
	return out
}

func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
	}
}

func dial(t *testing.T, url string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

func post(path, body string, fields ...string) string {
	var extra strings.Builder
	for _, f := range fields {
		extra.WriteString(f + "\r\n")
	}
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: there\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s", path, extra.String(), len(body), body)
}

// chunk is one piece of a body without a length.
func chunk(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }

const (
	sseHead   = "HTTP/1.1 200 OK\r\ncontent-TYPE: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\nX-Odd:  spaces kept \r\n\r\n"
	lastChunk = "0\r\n\r\n"
)

func textChunk(text string) string {
	raw, _ := json.Marshal(text) // a string always has a JSON form
	return chunk(`data: {"choices":[{"index":0,"text":` + string(raw) + `}]}` + "\n\n")
}

func usageChunk(in, out int) string {
	return chunk(fmt.Sprintf(`data: {"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":2}}}`+"\n\n", in, out)) +
		chunk("data: [DONE]\n\n")
}

// ask sends one request with net/http and reads the answer to its end.
func get(t *testing.T, url, body string, fields ...string) (status int, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(raw)
}
