package cluster

import (
	"math"
	"testing"
	"time"

	"spate/internal/rng"
	"spate/internal/sim/kv"
)

// chats draws prompts and answers with the spread of a chat collection: log-normal, 226 and 199
// tokens in the mean.
func chats(n int) []Call {
	draw := rng.New(1, "chats")
	list := make([]Call, n)
	for i := range list {
		in := min(1024, max(4, int(math.Exp(4.5+1.4*draw.NormFloat64()))))
		out := min(2048-in, max(4, int(math.Exp(4.75+1.1*draw.NormFloat64()))))
		list[i] = Call{Prompt: []kv.Segment{{Stream: uint64(i + 1), Len: in}}, Out: out}
	}
	return list
}

// BenchmarkTokens is the rate of simulated output tokens on prompts and answers of 1024 tokens.
func BenchmarkTokens(b *testing.B) {
	for name, load := range map[string]func() Load{
		"burst":  func() Load { return Load{Calls: Calls(burst(1000, 1024, 1024))} },
		"closed": func() Load { return Load{Calls: Calls(burst(2000, 1024, 1024)), Slots: 128} },
		"poisson": func() Load {
			list := burst(1000, 1024, 1024)
			draw := rng.New(1, "gaps")
			at := time.Duration(0)
			for i := range list {
				at += time.Duration(draw.ExpFloat64() * 0.35e9)
				list[i].At = at
			}
			return Load{Calls: Calls(list)}
		},
	} {
		b.Run(name, func(b *testing.B) { benchmark(b, load()) })
	}
}

// BenchmarkChats is a run of 10,000 chat requests sent at once.
func BenchmarkChats(b *testing.B) {
	benchmark(b, Load{Calls: Calls(chats(10000))})
}

func benchmark(b *testing.B, load Load) {
	tokens := 0
	b.ReportAllocs()
	for b.Loop() {
		c := mustNew(b, one(v1Config(25000), reference()))
		tokens += mustRun(b, c, load).Tokens
	}
	b.ReportMetric(float64(tokens)/b.Elapsed().Seconds()/1e6, "Mtokens/s")
}

// TestCostIsFlat checks that a long run costs no more per request than a short one: engines and
// drivers remember only what is in flight.
func TestCostIsFlat(t *testing.T) {
	per := func(n int) float64 {
		load := Load{Calls: Calls(burst(n, 64, 16)), Slots: 32, Sink: func(*Request) {}}
		c := mustNew(t, one(v1Config(2000), reference()))
		allocs := testing.AllocsPerRun(1, func() { mustRun(t, c, load) })
		if len(c.slots) > 32 || len(c.nodes[0].log.ends) > 1<<14 {
			t.Errorf("%d slots and %d steps kept after %d requests", len(c.slots), len(c.nodes[0].log.ends), n)
		}
		return allocs / float64(n)
	}
	if short, long := per(1000), per(8000); long > short+1 {
		t.Errorf("%.1f allocations per request in a long run, %.1f in a short one", long, short)
	}
}
