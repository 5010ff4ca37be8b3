package recorder

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"spate/internal/call"
)

// drawRecord makes any record the format promises to carry: every field, UTF-8 text.
func drawRecord(t *rapid.T) call.Record {
	text := func(name string) string {
		return rapid.OneOf(rapid.Just(""), rapid.String(), rapid.SampledFrom([]string{"\x00\x1f\"\\/", "é漢😀\u2028"})).Draw(t, name)
	}
	stamp := func(name string) time.Duration {
		return time.Duration(rapid.OneOf(rapid.Just(int64(call.Unset)), rapid.Just(int64(0)), rapid.Int64Range(0, int64(call.MaxTime))).Draw(t, name))
	}
	span := func(name string) time.Duration { return max(0, stamp(name)) }
	num := func(name string) int {
		return rapid.OneOf(rapid.Just(0), rapid.IntRange(0, call.MaxCount)).Draw(t, name)
	}
	count := func(name string) call.Count {
		return call.Count{N: num(name), From: call.From(text(name + "From"))}
	}
	r := call.Record{
		ID: num("id"), Name: text("name"), Attempt: num("attempt"), Retried: rapid.Bool().Draw(t, "retried"),
		Phase: call.Phase(text("phase")), Session: text("session"), Turn: num("turn"), Model: text("model"), Target: num("target"), Worker: text("worker"),
		Due: stamp("due"), Dispatched: stamp("dispatched"), Started: stamp("started"), Sent: stamp("sent"),
		FirstByte: stamp("firstByte"), Headers: stamp("headers"), FirstToken: stamp("firstToken"),
		FirstText: stamp("firstText"), LastToken: stamp("lastToken"), LastEvent: stamp("lastEvent"), End: stamp("end"),
		Dial: span("dial"), Handshake: span("handshake"),
		InBand: rapid.Bool().Draw(t, "inBand"), Reused: rapid.Bool().Draw(t, "reused"),
		Asked: count("asked"), AskedOut: num("askedOut"), Inputs: num("inputs"), Audio: time.Duration(num("audio")), In: count("in"), Out: count("out"), Cached: count("cached"),
		Reason: count("reason"), ToolOut: count("toolOut"), BytesIn: int64(num("bytes")), Finish: text("finish"),
		Text: text("text"), Thoughts: text("thoughts"), ToolText: text("toolText"), Status: num("status"),
		Outcome: rapid.SampledFrom([]call.Outcome{call.OK, call.Failed, call.Dropped, call.Canceled}).Draw(t, "outcome"),
		Fault:   call.Fault(text("fault")), Err: text("err"), RetryWait: time.Duration(num("wait")),
	}
	if labels := rapid.MapOfN(rapid.String(), rapid.String(), 0, 3).Draw(t, "labels"); len(labels) > 0 {
		r.Labels = labels
	}
	if rapid.Bool().Draw(t, "server") {
		r.Server = &call.ServerTimes{Queue: span("q"), FirstToken: span("f"), Generation: span("g"), MeanITL: span("m")}
	}
	plain := rapid.Bool().Draw(t, "plainChunks")
	for range rapid.IntRange(0, 5).Draw(t, "chunks") {
		c := call.Chunk{At: span("at"), Kind: call.Visible}
		if !plain {
			c.Tokens = rapid.Int32Range(0, math.MaxInt32).Draw(t, "tokens")
			c.Kind = call.Kind(rapid.Uint8().Draw(t, "kind"))
		}
		r.Chunks = append(r.Chunks, c)
	}
	r.Doubt() // what is written has been through it
	return r
}

func TestEncodeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawRecord(t)
		line := appendRecord(nil, &want, true)
		if n := strings.Count(string(line), "\n"); n != 1 || line[len(line)-1] != '\n' {
			t.Fatalf("a record must be exactly one line, got %q", line)
		}
		if !json.Valid(line) {
			t.Fatalf("not JSON: %s", line)
		}
		got, err := Decode(line[:len(line)-1])
		if err != nil {
			t.Fatalf("decode %s: %v", line, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("record changed on its way (-want +got):\n%s", d)
		}
	})
}

func TestEncodeLine(t *testing.T) {
	unset := call.Record{
		Due: call.Unset, Dispatched: call.Unset, Started: call.Unset, Sent: call.Unset, FirstByte: call.Unset,
		Headers: call.Unset, FirstToken: call.Unset, FirstText: call.Unset, LastToken: call.Unset,
		LastEvent: call.Unset, End: call.Unset,
	}
	with := func(f func(*call.Record)) call.Record {
		r := unset
		f(&r)
		return r
	}
	cases := []struct {
		name string
		rec  call.Record
		text bool
		want string
	}{
		{
			"dropped request has its due time only",
			with(func(r *call.Record) { r.ID, r.Phase, r.Due, r.Outcome = 7, call.Measure, 0, call.Dropped }),
			false, `{"id":7,"phase":"measure","due_ns":0,"outcome":"dropped"}`,
		},
		{
			"visible chunks of unknown size are times only",
			with(func(r *call.Record) {
				r.Chunks = []call.Chunk{{At: 5, Kind: call.Visible}, {At: 9, Kind: call.Visible}}
				r.Outcome = call.OK
			}),
			false, `{"id":0,"chunk_ns":[5,9],"outcome":"ok"}`,
		},
		{
			"role chunk and counted tokens need their columns",
			with(func(r *call.Record) {
				r.Chunks = []call.Chunk{{At: 5}, {At: 9, Tokens: 3, Kind: call.Reasoning | call.Visible}}
				r.Outcome = call.OK
			}),
			false, `{"id":0,"chunk_ns":[5,9],"chunk_tokens":[0,3],"chunk_kind":[0,3],"outcome":"ok"}`,
		},
		{
			"text is left out unless asked for",
			with(func(r *call.Record) { r.Text, r.Thoughts, r.ToolText, r.Outcome = "a", "b", "c", call.OK }),
			false, `{"id":0,"outcome":"ok"}`,
		},
		{
			"text when asked for",
			with(func(r *call.Record) { r.Text, r.Thoughts, r.ToolText, r.Outcome = "a\n", "b\"", "c\x01", call.OK }),
			true, `{"id":0,"text":"a\n","thoughts":"b\"","tool_text":"c\u0001","outcome":"ok"}`,
		},
		{
			"bytes that are not UTF-8 are replaced",
			with(func(r *call.Record) { r.Err, r.Outcome = "x\xffy\xc3", call.Failed }),
			false, "{\"id\":0,\"outcome\":\"failed\",\"error\":\"x\ufffdy\ufffd\"}",
		},
		{
			"labels come in order",
			with(func(r *call.Record) { r.Labels, r.Outcome = map[string]string{"b": "2", "a": "1", "c": "3"}, call.OK }),
			false, `{"id":0,"labels":{"a":"1","b":"2","c":"3"},"outcome":"ok"}`,
		},
		{
			"counts carry where they come from",
			with(func(r *call.Record) {
				r.In, r.Out, r.Outcome = call.Count{N: 12, From: call.FromServer}, call.Count{N: 3}, call.OK
			}),
			false, `{"id":0,"in":{"n":12,"from":"server"},"out":{"n":3},"outcome":"ok"}`,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want+"\n", string(appendRecord(nil, &c.rec, c.text))); d != "" {
				t.Error(d)
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	r := sample(1, 100)
	buf := appendRecord(nil, &r, false)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		buf = appendRecord(buf[:0], &r, false)
	}
}

// sample is a plausible finished request of n chunks.
func sample(id, n int) call.Record {
	at := time.Duration(id) * time.Millisecond
	r := call.Record{
		ID: id, Name: "bench-0", Phase: call.Measure, Due: at, Dispatched: at + 10, Started: at + 20, Sent: at + 30,
		FirstByte: at + 50e6, Headers: at + 50e6, FirstToken: at + 50e6, FirstText: at + 50e6,
		Dial: 200e3, Reused: true,
		Asked: call.Count{N: 128, From: call.FromTokenizer}, AskedOut: n,
		In: call.Count{N: 128, From: call.FromServer}, Out: call.Count{N: n, From: call.FromServer},
		BytesIn: int64(n) * 200, Finish: "length", Text: "hello", Status: 200, Outcome: call.OK,
	}
	for i := range n {
		r.Chunks = append(r.Chunks, call.Chunk{At: at + 50e6 + time.Duration(i)*10e6, Kind: call.Visible})
	}
	r.LastToken = at + 50e6 + time.Duration(n)*10e6
	r.LastEvent, r.End = r.LastToken, r.LastToken+1000
	return r
}
