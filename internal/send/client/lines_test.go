package client

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fastjson"

	"spate/internal/call"
	"spate/internal/send/protocol"
)

// linesOf feeds the pieces one after the other and returns the lines.
func linesOf(pieces ...string) []string {
	var got []string
	p := lines{emit: func(b []byte) { got = append(got, string(b)) }}
	for _, s := range pieces {
		buf := []byte(s)
		p.feed(buf)
		clear(buf) // a line must not depend on the caller's buffer after feed
	}
	p.end()
	return got
}

func TestLines(t *testing.T) {
	for name, c := range map[string]struct{ in, want []string }{
		"one line":                {[]string{"a\n"}, []string{"a"}},
		"several in one read":     {[]string{"a\nb\nc\n"}, []string{"a", "b", "c"}},
		"split in a line":         {[]string{"a", "b\nc", "d\n"}, []string{"ab", "cd"}},
		"split before its end":    {[]string{"a", "\n"}, []string{"a"}},
		"CRLF":                    {[]string{"a\r\nb\r", "\n"}, []string{"a", "b"}},
		"blank lines":             {[]string{"\n\n \r\na\n\n"}, []string{"a"}},
		"last line without end":   {[]string{"a\nb"}, []string{"a", "b"}},
		"nothing":                 {nil, nil},
		"space around is no text": {[]string{"  a b \n"}, []string{"a b"}},
	} {
		if d := cmp.Diff(c.want, linesOf(c.in...)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func TestLinesBoundALine(t *testing.T) {
	p := lines{emit: func([]byte) { t.Error("a line over the bound was emitted") }}
	junk := bytes.Repeat([]byte{'x'}, 1<<20)
	for range maxEvent>>20 + 2 {
		p.feed(junk)
	}
	if !p.full || len(p.rest) > maxEvent {
		t.Errorf("full = %v with %d bytes kept, want true within %d", p.full, len(p.rest), maxEvent)
	}
}

func FuzzLines(f *testing.F) {
	for _, s := range []string{"{}\n{}\n", "a\r\n\r\nb", "\n", "{\"a\":\n1}"} {
		f.Add(s, uint16(3), uint16(7))
	}
	f.Fuzz(func(t *testing.T, s string, a, b uint16) {
		var want []string
		for line := range strings.SplitSeq(s, "\n") {
			if line = strings.TrimSpace(line); line != "" {
				want = append(want, line)
			}
		}
		i := int(a) % (len(s) + 1)
		j := i + int(b)%(len(s)-i+1)
		if d := cmp.Diff(want, linesOf(s[:i], s[i:j], s[j:])); d != "" {
			t.Fatalf("split at %d, %d (-naive +lines):\n%s", i, j, d)
		}
	})
}

// messagesOf are the messages of a good answer, for the fuzzer to start from.
func messagesOf(g *tongue) []string {
	if !g.streams() {
		return []string{g.answer, g.fault}
	}
	var out []string
	p := sse{emit: func(b []byte) { out = append(out, string(b)) }}
	p.feed([]byte(g.answer + g.fault))
	p.end()
	if g.kind == ndjson {
		out = linesOf(g.answer, g.fault)
	}
	return out
}

// FuzzDecode gives messages to every backend: none may panic or make a record out of what no server can
// mean, and a stream of them ends in exactly one fate.
func FuzzDecode(f *testing.F) {
	for _, g := range tongues() {
		for _, m := range messagesOf(&g) {
			f.Add(g.names[0], m)
		}
	}
	f.Add("ollama-chat", `{"message":{"tool_calls":[{},{"function":null}]},"done":true,"eval_count":-3,"eval_duration":1e300}`)
	f.Add("anthropic", `{"type":"error","error":null}`)
	f.Add("sglang", `{"text":"a","meta_info":{"completion_tokens":-1,"finish_reason":7}}`)
	f.Add("vllm", `{"choices":[{"text":"a"}],"usage":{"completion_tokens":99999999999999},"metrics":{"queue_time_ms":-1e99}}`)
	f.Fuzz(func(t *testing.T, name, message string) {
		b, ok := known(name)
		if !ok {
			return
		}
		x := newExchange(b, &fastjson.ParserPool{}, &call.Request{MaxOut: 4})
		x.begin(head{status: 200, sse: !b.Whole})
		for range 2 {
			x.at++
			x.onEvent([]byte(message))
			if !validEvent(&x.event) {
				t.Fatalf("%s: %q is read as %+v", name, message, x.event)
			}
		}
		rec := x.finish(time.Second)
		if (rec.Outcome == call.OK) != (rec.Fault == call.NoFault) || (rec.Err == "") != (rec.Fault == call.NoFault) {
			t.Fatalf("%s: outcome %s, fault %q, error %q", name, rec.Outcome, rec.Fault, rec.Err)
		}
		for _, c := range rec.Chunks {
			if c.Tokens < 0 || c.At <= 0 {
				t.Fatalf("%s: chunk %+v", name, c)
			}
		}
		if rec.In.N < 0 || rec.Out.N < 0 || rec.Cached.N < 0 || rec.Reason.N < 0 || !utf8.ValidString(rec.Text+rec.Thoughts) {
			t.Fatalf("%s: %+v", name, rec)
		}
	})
}

func validEvent(e *protocol.Event) bool {
	if u := e.Usage; u != nil && (u.Prompt < 0 || u.Completion < 0 || u.Cached < 0 || u.Reasoning < 0 || u.Completion > math.MaxInt32) {
		return false
	}
	if s := e.Server; s != nil && (s.Queue < 0 || s.FirstToken < 0 || s.Generation < 0 || s.MeanITL < 0) {
		return false
	}
	return e.Tokens >= 0 && (e.Kind == 0 || e.Choices || e.Failed)
}
