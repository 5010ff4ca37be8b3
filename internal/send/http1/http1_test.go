package http1

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

// TestDelimited holds the rules of RFC 9112, section 6, for how a body is delimited.
func TestDelimited(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\n"
	for _, c := range []struct {
		name, fields      string
		request, response Body
	}{
		{"no length", "", Body{}, Body{state: toClose}},
		{"length", "Content-Length: 3\r\n", Body{state: counted, left: 3}, Body{state: counted, left: 3}},
		{"length of nothing", "Content-Length: 0\r\n", Body{}, Body{}},
		{"the same length twice", "Content-Length: 3\r\ncontent-length: 3\r\n", Body{state: counted, left: 3}, Body{state: counted, left: 3}},
		{"chunks", "transfer-encoding: Chunked\r\n", Body{state: size}, Body{state: size}},
		{"compressed in chunks", "Transfer-Encoding: gzip, chunked\r\n", Body{state: size}, Body{state: size}},
		{"chunks by a second field", "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", Body{state: size}, Body{state: size}},
		{"chunks beat a length", "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", Body{state: size}, Body{state: size}},
		{"another coding", "Transfer-Encoding: gzip\r\nContent-Length: 3\r\n", Body{state: toClose}, Body{state: toClose}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, err := ParseHead(head + c.fields + "\r\n")
			if err != nil {
				t.Fatal(err)
			}
			request, err1 := h.RequestBody()
			response, err2 := h.ResponseBody()
			if err := errors.Join(err1, err2); err != nil {
				t.Fatal(err)
			}
			if request.state != c.request.state || request.left != c.request.left || response.state != c.response.state || response.left != c.response.left {
				t.Errorf("request %+v, response %+v", request, response)
			}
		})
	}
	for _, bad := range []string{"x", "-1", "+1", "3, 4", "3,", "99999999999999999999"} {
		h, err := ParseHead(head + "Content-Length: " + bad + "\r\n\r\n")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.ResponseBody(); !errors.Is(err, Err) {
			t.Errorf("content-length %q: %v", bad, err)
		}
	}
}

func TestParseHead(t *testing.T) {
	h, err := ParseHead("POST /x?y HTTP/1.1\r\nHost: a\nX-One:  1 \r\nx-one: 2\r\nno field\r\nbad name: x\r\nLast:\r\n\r\n")
	if !errors.Is(err, Err) {
		t.Errorf("a line that is no field: %v", err)
	}
	if want := []Field{{"Host", "a"}, {"X-One", "1"}, {"x-one", "2"}, {"Last", ""}}; !slices.Equal(h.Fields, want) {
		t.Errorf("fields %q, want %q", h.Fields, want)
	}
	if h.Get("X-ONE") != "1, 2" || h.Get("none") != "" {
		t.Errorf("X-One is %q", h.Get("x-one"))
	}
	method, target, err := h.Request()
	if method != "POST" || target != "/x?y" || err != nil {
		t.Errorf("request %q %q %v", method, target, err)
	}
	if _, err := h.Status(); err == nil {
		t.Error("a request has no status")
	}
}

func TestKeep(t *testing.T) {
	for in, want := range map[string]bool{
		"HTTP/1.1 200 OK\r\n\r\n":                                       true,
		"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n\r\n":             true,
		"HTTP/1.1 200 OK\r\nConnection: Close\r\n\r\n":                  false,
		"HTTP/1.1 200 OK\r\nConnection: x, close\r\n\r\n":               false,
		"HTTP/1.1 200 OK\r\nConnection: x\r\nConnection: close\r\n\r\n": false,
		"HTTP/1.0 200 OK\r\n\r\n":                                       false,
	} {
		if h, err := ParseHead(in); err != nil || h.Keep() != want {
			t.Errorf("%q: %v %v", in, h.Keep(), err)
		}
	}
}

// TestHeadEnd finds the end of a head wherever the bytes before it were searched.
func TestHeadEnd(t *testing.T) {
	for in, want := range map[string]int{"a\r\nb: c\r\n\r\nrest": 11, "a\nb: c\n\nrest": 8, "a\n\r\nrest": 4, "a\r\nb: c\r\n": -1, "a\r\nb: c\r\n\r": -1, "": -1} {
		for from := range len(in) + 1 {
			if want >= 0 && from >= want {
				break // the end was there before: nobody asks again
			}
			if got := HeadEnd([]byte(in), from); got != want {
				t.Errorf("%q from %d: %d, want %d", in, from, got, want)
			}
		}
	}
}

// FuzzBody cuts a chunked body anywhere and wants the same content and the same end.
func FuzzBody(f *testing.F) {
	f.Add([]byte("3\r\nabc\r\n0\r\n\r\nrest"), uint8(1))
	f.Add([]byte("3;x=y\r\nabc\r\n0\r\nA: b\r\n\r\n"), uint8(4))
	f.Add([]byte("zz\r\n"), uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, step uint8) {
		whole := Body{state: size}
		var want []byte
		used, err := whole.Feed(data, func(b []byte) { want = append(want, b...) })
		pieces := Body{state: size}
		var got []byte
		at := 0
		var failed error
		for at < len(data) && !pieces.Ended() && failed == nil {
			var n int
			n, failed = pieces.Feed(data[at:min(len(data), at+1+int(step))], func(b []byte) { got = append(got, b...) })
			at += n
		}
		if (failed == nil) != (err == nil) || !bytes.Equal(got, want) || err == nil && (at != used || pieces.Ended() != whole.Ended()) {
			t.Fatalf("whole: %d %v %q; in pieces: %d %v %q", used, err, want, at, failed, got)
		}
	})
}
