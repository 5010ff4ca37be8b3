package metrics

import (
	"testing"
	"time"

	"spate/internal/call"
	"spate/internal/rng"
)

// load makes n successful streams of the given number of chunks, 100 at a time.
func load(n, chunks int, chat bool) ([]call.Record, Run) {
	r := rng.New(1, "bench")
	recs := make([]call.Record, n)
	store := make([]call.Chunk, n*chunks)
	var end time.Duration
	for i := range recs {
		sent := time.Duration(i) * 10 * time.Millisecond
		at := sent + 50*time.Millisecond + time.Duration(r.ExpFloat64()*1e7)
		cs := store[i*chunks : (i+1)*chunks : (i+1)*chunks]
		for j := range cs {
			cs[j] = call.Chunk{At: at, Kind: call.Visible}
			at += 10*time.Millisecond + time.Duration(r.NormFloat64()*1e6)
		}
		out := chunks
		if chat {
			cs[0].Kind = 0
			out = 2 * chunks
		}
		last := cs[chunks-1].At
		recs[i] = call.Record{
			ID: i, Phase: call.Measure, Outcome: call.OK, Due: sent, Dispatched: sent, Started: sent,
			Sent: sent, FirstByte: cs[0].At, FirstToken: cs[0].At, FirstText: cs[0].At, LastToken: last,
			LastEvent: last, End: last, Chunks: cs, AskedOut: out, Finish: "length",
			In: call.Count{N: 128, From: call.FromServer}, Out: call.Count{N: out, From: call.FromServer},
		}
		end = max(end, last)
	}
	return recs, Run{End: end, MaxConcurrency: 300, Tokenizer: true}
}

func benchmarkSummarize(b *testing.B, n, chunks int, chat bool) {
	recs, run := load(n, chunks, chat)
	b.ResetTimer()
	for b.Loop() {
		if s := Summarize(recs, run); s.Completed != n {
			b.Fatal("wrong count")
		}
	}
}

func BenchmarkSummarize1kx100(b *testing.B)       { benchmarkSummarize(b, 1000, 100, false) }
func BenchmarkSummarize100kx256(b *testing.B)     { benchmarkSummarize(b, 100_000, 256, false) }
func BenchmarkSummarize100kx256Chat(b *testing.B) { benchmarkSummarize(b, 100_000, 256, true) }
