package client

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fastjson"

	"spate/internal/call"
	"spate/internal/send/protocol"
)

// streamed feeds an event stream, cut into pieces of some bytes, to an exchange and returns its
// record and how many events took the shortcut.
func streamed(b *protocol.Protocol, body string, size int, short bool) (rec call.Record, hits int) {
	x := newExchange(b, &fastjson.ParserPool{}, &call.Request{MaxOut: 8})
	x.begin(head{status: 200, sse: true})
	x.sse.shortcut = nil
	if short {
		x.sse.shortcut = func(b []byte) int {
			before := len(x.chunks)
			n := x.shortcut(b)
			hits += len(x.chunks) - before
			return n
		}
	}
	for at := 0; at < len(body); at += size {
		x.at++
		x.onBody([]byte(body[at:min(at+size, len(body))])) // a copy: the shortcut must keep nothing of it
	}
	return x.finish(time.Second), hits
}

func contentEvent(field, text string) string {
	return fmt.Sprintf("data: {\"id\":\"chatcmpl-7\",\"choices\":[{\"index\":0,\"delta\":{%q:%s},\"finish_reason\":null}]}\n\n", field, text)
}

func TestFormTakesOnlyWhatParsingWouldGive(t *testing.T) {
	end := textEvent("!", "length") + doneEvent
	chatEnd := chatEvent(`"content":"!"`, "stop") + doneEvent
	cases := []struct {
		name    string
		backend string
		body    string
		hits    int
	}{
		{"plain tokens", "vllm", textEvent("a", "") + textEvent("bc", "") + textEvent(" d", "") + end, 2},
		{"not ASCII", "vllm", textEvent("a", "") + "data: {\"choices\":[{\"index\":0,\"text\":\"é漢🙂\",\"finish_reason\":null}]}\n\n" + end, 1},
		{"bad UTF-8", "vllm", textEvent("a", "") + "data: {\"choices\":[{\"index\":0,\"text\":\"\xff\",\"finish_reason\":null}]}\n\n" + end, 0},
		{"escapes are parsed", "vllm", textEvent("a", "") + textEvent("\"\\\n", "") + textEvent("b", "") + end, 1},
		{"learnt after an escape", "vllm", textEvent("\t", "") + textEvent("a", "") + textEvent("b", "") + end, 1},
		{"empty text is parsed", "vllm", textEvent("a", "") + textEvent("", "") + textEvent("b", "") + end, 1},
		{"text that names a field", "vllm", textEvent("index", "") + textEvent("text", "") + textEvent("choices", "") + end, 2},
		{"text repeated elsewhere", "vllm", "data: {\"id\":\"x\",\"choices\":[{\"text\":\"x\"}]}\n\ndata: {\"id\":\"x\",\"choices\":[{\"text\":\"y\"}]}\n\n" +
			"data: {\"id\":\"y\",\"choices\":[{\"text\":\"x\"}]}\n\n" + end, 1},
		{"a raw newline in the text", "vllm", textEvent("a", "") + "data: {\"choices\":[{\"index\":0,\"text\":\"a\nb\",\"finish_reason\":null}]}\n\n" + end, 0},
		{"usage on every event", "vllm", strings.Repeat("data: {\"choices\":[{\"text\":\"a\"}],\"usage\":{\"completion_tokens\":1}}\n\n", 3) + end, 0},
		{"token ids", "vllm", strings.Repeat("data: {\"choices\":[{\"text\":\"a\",\"token_ids\":[1]}]}\n\n", 3) + end, 0},
		{"two choices", "vllm", strings.Repeat("data: {\"choices\":[{\"text\":\"a\"},{\"text\":\"b\"}]}\n\n", 3) + end, 2},
		{"error after tokens", "vllm", textEvent("a", "") + "data: {\"error\":{\"message\":\"no\"}}\n\n" + textEvent("b", "") + end, 0},
		{"CRLF", "vllm", strings.ReplaceAll(textEvent("a", "")+textEvent("b", "")+end, "\n", "\r\n"), 0},
		{"comments between", "vllm", textEvent("a", "") + ": ping\n\n" + textEvent("b", "") + end, 1},
		{"two data lines", "vllm", textEvent("a", "") + "data: {\"choices\":\ndata: [{\"index\":0,\"text\":\"a\",\"finish_reason\":null}]}\n\n" + textEvent("b", "") + end, 1},
		{"chat content", "openai-chat", contentEvent("content", `"a"`) + contentEvent("content", `"b"`) + chatEnd, 1},
		{"chat reasoning, then content", "openai-chat", contentEvent("reasoning", `"a"`) + contentEvent("reasoning", `"b"`) +
			contentEvent("content", `"c"`) + contentEvent("content", `"d"`) + chatEnd, 2},
		{"every event another id", "vllm", func() string {
			var s strings.Builder
			for i := range 9 {
				fmt.Fprintf(&s, "data: {\"n\":%d,\"choices\":[{\"text\":\"a\"}]}\n\n", i)
			}
			return s.String() + textEvent("a", "") + textEvent("a", "") + end
		}(), 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := backend(c.backend)
			for _, size := range []int{1, 7, 64, 1 << 20} {
				want, _ := streamed(b, c.body, size, false)
				got, hits := streamed(b, c.body, size, true)
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("in pieces of %d: the shortcut changed the record (-parsed +short):\n%s", size, d)
				}
				if size == 1<<20 && hits != c.hits {
					t.Errorf("%d events took the shortcut, want %d", hits, c.hits)
				}
			}
		})
	}
}

func FuzzForm(f *testing.F) {
	f.Add("vllm", textEvent("a", "")+textEvent("b", "")+textEvent("c", "length")+doneEvent, 16)
	f.Add("vllm", textEvent("index", "")+textEvent("0", "")+usageEvent+doneEvent, 1000)
	f.Add("openai-chat", contentEvent("content", `"a"`)+contentEvent("reasoning", `"b\u00e9"`)+contentEvent("content", `"é"`), 1000)
	f.Add("vllm", "data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: {\"choices\":[{\"text\":\"\"}]}\n\n", 1000)
	f.Fuzz(func(t *testing.T, backend, body string, size int) {
		b, ok := known(backend)
		if !ok || size < 1 {
			return
		}
		// The fuzzed stream, and each of its events again with other text, so that forms are met.
		for _, s := range []string{body, body + body, body + strings.ReplaceAll(body, "a", "zz")} {
			want, _ := streamed(b, s, size, false)
			got, _ := streamed(b, s, size, true)
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("the shortcut changed the record (-parsed +short):\n%s", d)
			}
		}
	})
}

// BenchmarkEvents is what one event costs beyond its system calls: alone in a read, as engines write
// them, and many to a read, as a flood brings them.
func BenchmarkEvents(b *testing.B) {
	event := "data: {\"id\":\"cmpl-0123456789\",\"object\":\"text_completion\",\"created\":1700000000,\"model\":\"spate-sim\"," +
		"\"choices\":[{\"index\":0,\"text\":\" word\",\"logprobs\":null,\"finish_reason\":null,\"stop_reason\":null}],\"usage\":null}\n\n"
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprintf("%d to a read", n), func(b *testing.B) {
			read := []byte(piece(strings.Repeat(event, n)))
			x := newExchange(backend("vllm"), &fastjson.ParserPool{}, &call.Request{MaxOut: 2000})
			x.feed([]byte(okHead), 1)
			b.ReportAllocs()
			for b.Loop() {
				x.feed(read, 2)
				if len(x.chunks) >= 2000 {
					x.chunks, x.text = x.chunks[:0], x.text[:0]
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/event")
		})
	}
}
