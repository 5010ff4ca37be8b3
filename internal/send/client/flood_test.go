package client

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fastjson"

	"spate/internal/call"
)

// BenchmarkFlood is the client's own work on a stream that arrives faster than it is read: 16 KiB a
// read, events of vLLM's size.
func BenchmarkFlood(b *testing.B) {
	const tokens = 2000
	var body strings.Builder
	for i := range tokens {
		fmt.Fprintf(&body, "data: {\"id\":\"cmpl-6b1f\",\"object\":\"text_completion\",\"created\":1730000000,\"model\":\"spate-sim\","+
			"\"choices\":[{\"index\":0,\"text\":\" w%d\",\"logprobs\":null,\"finish_reason\":null,\"stop_reason\":null}],\"usage\":null}\n\n", i%97)
	}
	body.WriteString(textEvent("!", "length") + doneEvent)
	raw := []byte(okHead + piece(body.String()) + endBody)
	parsers := &fastjson.ParserPool{}
	req := &call.Request{MaxOut: tokens}
	b.ReportAllocs()
	for b.Loop() {
		x := newExchange(backend("vllm"), parsers, req)
		for at := 0; at < len(raw); at += readSize {
			x.feed(raw[at:min(at+readSize, len(raw))], time.Duration(at))
		}
		if rec := x.finish(time.Second); len(rec.Chunks) != tokens+1 {
			b.Fatalf("%d chunks, %s", len(rec.Chunks), rec.Err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/tokens, "ns/event")
}
