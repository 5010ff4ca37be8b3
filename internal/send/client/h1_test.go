package client

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

type seen struct {
	head  head
	heads int
	body  strings.Builder
}

func parseH1(s string, cuts ...int) (*seen, *h1, int, error) {
	out := &seen{}
	p := &h1{
		onHead: func(h head) { out.head = h; out.heads++ },
		onBody: func(b []byte) { out.body.Write(b) },
	}
	used, from := 0, 0
	for _, cut := range append(cuts, len(s)) {
		n, err := p.feed([]byte(s[from:cut]))
		used += n
		if err != nil {
			return out, p, used, err
		}
		if p.done() {
			break
		}
		from = cut
	}
	return out, p, used, nil
}

func TestH1(t *testing.T) {
	const sseHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
	cases := []struct {
		name, in   string
		status     int
		body       string
		sse, keep  bool
		done, okAt bool // complete; complete if the connection ends here
		used       int  // -1: everything
	}{
		{"length", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 200, "abc", false, true, true, true, -1},
		{"length zero", "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", 500, "", false, true, true, true, -1},
		{"chunked", sseHead + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n", 200, "abcde", true, true, true, true, -1},
		{"chunked with trailers", sseHead + "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: y\r\n\r\n", 200, "a", true, true, true, true, -1},
		{"two codings", sseHead + "Transfer-Encoding: gzip, chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", 200, "a", true, true, true, true, -1},
		{"chunked cut", sseHead + "Transfer-Encoding: chunked\r\n\r\n5\r\nab", 200, "ab", true, true, false, false, -1},
		{"close-delimited", sseHead + "\r\ndata: x", 200, "data: x", true, false, false, true, -1},
		{"connection close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na", 200, "a", false, false, true, true, -1},
		{"http 1.0", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", 200, "a", false, false, true, true, -1},
		{"bare line feeds", "HTTP/1.1 200 OK\nContent-Length: 1\n\na", 200, "a", false, true, true, true, -1},
		{"interim answer first", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", 200, "a", false, true, true, true, -1},
		{"bytes after the end are not used", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP", 200, "a", false, true, true, true, 39},
		{"no content", "HTTP/1.1 204 No Content\r\n\r\n", 204, "", false, true, true, true, -1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, cuts := range [][]int{nil, everyByte(len(c.in))} {
				out, p, used, err := parseH1(c.in, cuts...)
				if err != nil {
					t.Fatal(err)
				}
				want := c.used
				if want < 0 {
					want = len(c.in)
				}
				if out.head.status != c.status || out.head.sse != c.sse || out.head.keep != c.keep || out.heads != 1 {
					t.Errorf("head = %+v (%d heads)", out.head, out.heads)
				}
				if out.body.String() != c.body || p.done() != c.done || p.eof() != c.okAt || used != want {
					t.Errorf("body %q done %v eof %v used %d; want %q %v %v %d", out.body.String(), p.done(), p.eof(), used, c.body, c.done, c.okAt, want)
				}
			}
		})
	}
}

func everyByte(n int) []int {
	var cuts []int
	for i := 1; i < n; i++ {
		cuts = append(cuts, i)
	}
	return cuts
}

func TestH1Refuses(t *testing.T) {
	for name, in := range map[string]string{
		"garbage":             "\x16\x03\x01 garbage",
		"wrong protocol":      "HTTP/2 200 OK\r\n\r\n",
		"bad status":          "HTTP/1.1 abc OK\r\n\r\n",
		"bad length":          "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
		"negative length":     "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"bad chunk size":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"empty chunk size":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
		"chunk over its size": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
		"endless head":        "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", maxHead/6+10),
	} {
		if _, _, _, err := parseH1(in); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	for in, want := range map[string]time.Duration{"2": 2 * time.Second, "0.5": 500 * time.Millisecond, "-1": 0, "soon": 0, "": 0} {
		if got := retryAfter(in); got != want {
			t.Errorf("retryAfter(%q) = %v, want %v", in, got, want)
		}
	}
}

// FuzzH1 compares with net/http where both accept the input, and checks that cuts change nothing.
func FuzzH1(f *testing.F) {
	f.Add("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", uint16(20))
	f.Add("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", uint16(50))
	f.Add("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 429 No\r\nRetry-After: 1\r\n\r\n", uint16(9))
	f.Fuzz(func(t *testing.T, s string, cut uint16) {
		whole, p1, used1, err1 := parseH1(s)
		split, p2, used2, err2 := parseH1(s, int(cut)%(len(s)+1))
		if (err1 == nil) != (err2 == nil) {
			t.Fatalf("whole: %v, split: %v", err1, err2)
		}
		if err1 != nil {
			return
		}
		if whole.body.String() != split.body.String() || whole.head != split.head || p1.done() != p2.done() || p1.eof() != p2.eof() || used1 != used2 {
			t.Fatalf("split at %d differs", cut)
		}
		if !p1.done() || strings.Contains(s, "HTTP/1.1 1") {
			return
		}
		resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(s)), nil)
		if err != nil || len(resp.TransferEncoding) > 0 != strings.Contains(strings.ToLower(s), "chunked") {
			return // net/http is stricter about header syntax
		}
		body, err := io.ReadAll(resp.Body)
		if err == nil && resp.StatusCode == whole.head.status && string(body) != whole.body.String() {
			t.Fatalf("net/http read %q, h1 %q", body, whole.body.String())
		}
	})
}
