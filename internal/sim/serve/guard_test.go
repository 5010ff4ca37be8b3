package serve

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

func guarded(t *testing.T, cfg Config) *Server {
	t.Helper()
	s, err := Start(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop() })
	return s
}

// TestEndlessHeaders sends headers without an end: the server stops reading and says why.
func TestEndlessHeaders(t *testing.T) {
	s := guarded(t, Config{})
	for name, each := range map[string]string{"lines": "x: " + strings.Repeat("a", 1000) + "\r\n", "one line": strings.Repeat("a", 1000)} {
		c, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		sent := 0
		_, err = io.WriteString(c, "GET /health HTTP/1.1\r\nhost: x\r\ny: ")
		for err == nil && sent < 256<<20 {
			var n int
			n, err = io.WriteString(c, each)
			sent += n
		}
		if err == nil {
			t.Fatalf("%s: the server took %d bytes of headers", name, sent)
		}
		if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAnnouncedBody announces more than it sends: nothing is made room for.
func TestAnnouncedBody(t *testing.T) {
	if b, err := readBody(strings.NewReader("abc"), 60<<20); !errors.Is(err, io.ErrUnexpectedEOF) || cap(b) > 1<<20 {
		t.Errorf("%d bytes of room, %v", cap(b), err)
	}
	if _, err := readBody(io.LimitReader(zeros{}, maxBody+10), -1); err == nil {
		t.Error("a body above the bound was read")
	}
	if b, err := readBody(strings.NewReader("abc"), 3); err != nil || string(b) != "abc" {
		t.Errorf("%q, %v", b, err)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// TestSteering asks for a path under /sim/ as those do who may and those who may not.
func TestSteering(t *testing.T) {
	open := guarded(t, Config{})
	keyed := guarded(t, Config{APIKey: "k"})
	public := guarded(t, Config{Addr: "0.0.0.0:0"})
	asked := guarded(t, Config{Addr: "0.0.0.0:0", Control: true, APIKey: "k"})
	for _, tt := range []struct {
		name    string
		srv     *Server
		headers string
		status  int
	}{
		{"loopback", open, "host: 127.0.0.1:8000\r\n", 200},
		{"localhost", open, "host: localhost:8000\r\n", 200},
		{"without a name", open, "", 200},
		{"another name", open, "host: evil.example:8000\r\n", 403},
		{"another origin", open, "host: localhost:8000\r\norigin: http://evil.example\r\n", 403},
		{"no origin a page may have", open, "host: localhost:8000\r\norigin: null\r\n", 403},
		{"its own origin", open, "host: localhost:8000\r\norigin: http://localhost:8000\r\n", 200},
		{"without the key", keyed, "host: localhost\r\n", 401},
		{"with the key", keyed, "host: localhost\r\nauthorization: Bearer k\r\n", 200},
		{"beyond loopback", public, "host: 127.0.0.1\r\n", 403},
		{"beyond loopback, asked for, no key", asked, "host: 127.0.0.1\r\n", 401},
		{"beyond loopback, asked for", asked, "host: box.example\r\nauthorization: Bearer k\r\n", 200},
	} {
		_, port, err := net.SplitHostPort(tt.srv.Addr())
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, "DELETE /sim/faults HTTP/1.1\r\n"+tt.headers+"connection: close\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if resp.StatusCode != tt.status {
			t.Errorf("%s: status %d, want %d", tt.name, resp.StatusCode, tt.status)
		}
		_ = resp.Body.Close()
		_ = c.Close()
	}
}
