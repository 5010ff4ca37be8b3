package client

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// parse feeds the pieces one after the other and returns the events.
func parse(pieces ...string) []string {
	var got []string
	p := sse{emit: func(b []byte) { got = append(got, string(b)) }}
	for _, s := range pieces {
		buf := []byte(s)
		p.feed(buf)
		clear(buf) // an event must not depend on the caller's buffer after feed
	}
	p.end()
	return got
}

func TestSSE(t *testing.T) {
	cases := []struct {
		name string
		in   []string
		want []string
	}{
		{"one event", []string{"data: a\n\n"}, []string{"a"}},
		{"no space after the colon", []string{"data:a\n\n"}, []string{"a"}},
		{"only one space is taken", []string{"data:  a \n\n"}, []string{" a "}},
		{"several events in one read", []string{"data: a\n\ndata: b\n\ndata: [DONE]\n\n"}, []string{"a", "b", "[DONE]"}},
		{"split inside the field name", []string{"da", "ta: a\n\n"}, []string{"a"}},
		{"split before the blank line", []string{"data: a\n", "\n"}, []string{"a"}},
		{"split inside the data", []string{"data: {\"x\": ", "1}\n\n"}, []string{`{"x": 1}`}},
		{"crlf", []string{"data: a\r\n\r\ndata: b\r\n\r\n"}, []string{"a", "b"}},
		{"crlf split between cr and lf", []string{"data: a\r", "\n\r", "\ndata: b\r\n\r\n"}, []string{"a", "b"}},
		{"lone cr", []string{"data: a\r\rdata: b\r\r"}, []string{"a", "b"}},
		{"multi-line data", []string{"data: a\ndata: b\n\n"}, []string{"a\nb"}},
		{"multi-line data over reads", []string{"data: a\n", "data: b\n", "\n"}, []string{"a\nb"}},
		{"comment alone", []string{": ping\n\n", "data: a\n\n"}, []string{"a"}},
		{"comment inside an event", []string{"data: a\n: ping\n\n"}, []string{"a"}},
		{"other fields", []string{"event: token\nid: 7\nretry: 10\ndata: a\n\n"}, []string{"a"}},
		{"event field alone is no event", []string{"event: ping\n\n"}, nil},
		{"empty data is an event", []string{"data:\n\n"}, []string{""}},
		{"field without colon", []string{"data\n\n"}, []string{""}},
		{"last event without blank line", []string{"data: a\n\ndata: b\n"}, []string{"a", "b"}},
		{"last event without line end", []string{"data: a\n\ndata: b"}, []string{"a", "b"}},
		{"byte order mark", []string{"\xef\xbb\xbfdata: a\n\n"}, []string{"a"}},
		{"blank lines between", []string{"\n\n\ndata: a\n\n\n\n"}, []string{"a"}},
		{"whitespace in data is kept", []string{"data: {\"t\":\" ", " x \"}\n\n"}, []string{`{"t":"  x "}`}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, parse(c.in...)); d != "" {
				t.Errorf("events (-want +got):\n%s", d)
			}
			whole := strings.Join(c.in, "")
			var bytewise []string
			for i := range len(whole) {
				bytewise = append(bytewise, whole[i:i+1])
			}
			if d := cmp.Diff(c.want, parse(bytewise...)); d != "" {
				t.Errorf("byte by byte (-want +got):\n%s", d)
			}
		})
	}
}

func TestSSEBoundsAnEvent(t *testing.T) {
	p := sse{emit: func([]byte) { t.Error("an event over the bound was emitted") }}
	junk := bytes.Repeat([]byte{'x'}, 1<<20)
	for range maxEvent>>20 + 2 {
		p.feed(junk)
	}
	if !p.full || len(p.line) > maxEvent {
		t.Errorf("full = %v with %d bytes kept, want true within %d", p.full, len(p.line), maxEvent)
	}
}

// naive reads a whole stream the plain way: lines, then events.
func naive(s string) []string {
	s = strings.TrimPrefix(s, "\xef\xbb\xbf")
	s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
	var events, data []string
	for _, line := range append(strings.Split(s, "\n"), "") {
		if line == "" {
			if data != nil {
				events = append(events, strings.Join(data, "\n"))
			}
			data = nil
			continue
		}
		if name, value, _ := strings.Cut(line, ":"); name == "data" {
			data = append(data, strings.TrimPrefix(value, " "))
		}
	}
	return events
}

func FuzzSSE(f *testing.F) {
	for _, s := range []string{"data: a\n\n", "data: a\r\n\r\n: c\r\rdata\n", "\xef\xbb\xbfdata:x\n\n", "data: a\ndata:b\r\n\n\n"} {
		f.Add(s, uint16(3), uint16(7))
	}
	f.Fuzz(func(t *testing.T, s string, a, b uint16) {
		want := naive(s)
		i := int(a) % (len(s) + 1)
		j := i + int(b)%(len(s)-i+1)
		if d := cmp.Diff(want, parse(s)); d != "" {
			t.Fatalf("whole (-naive +sse):\n%s", d)
		}
		if d := cmp.Diff(want, parse(s[:i], s[i:j], s[j:])); d != "" {
			t.Fatalf("split at %d, %d (-naive +sse):\n%s", i, j, d)
		}
	})
}
