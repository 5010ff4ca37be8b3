package cluster

import (
	"testing"
	"time"

	"spate/internal/sim"
	"spate/internal/sim/kv"
	"spate/internal/sim/latency"
)

func reference() *latency.Reference {
	return &latency.Reference{StepNS: 12e6, PrefillNS: 1e5, AttentionNS: 2, DecodeNS: 5e4, KVNS: 30}
}

func v1Config(blocks int) sim.Config {
	return sim.Config{Policy: sim.V1, MaxSeqs: 256, MaxTokens: 2048, BlockSize: 16, Blocks: blocks, PrefixCaching: true, NullBlock: true}
}

func burst(n, in, out int) []Call {
	var list []Call
	for i := range n {
		list = append(list, Call{Prompt: []kv.Segment{{Stream: uint64(i + 1), Len: in}}, Out: out})
	}
	return list
}

func BenchmarkTokens1024(b *testing.B) {
	for b.Loop() {
		c, err := New(Config{Engines: []Engine{{Sim: v1Config(40000), Model: reference()}}})
		if err != nil {
			b.Fatal(err)
		}
		r, err := c.Run(Load{Calls: Calls(burst(1000, 1024, 1024))})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(r.Tokens)*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
		if b.N == 1 {
			st := c.Engine(0).State()
			b.Logf("%v requests %d gaps %d steps %d preempt %d", r.Duration, len(r.Requests), len(r.Gaps), st.Stats.Steps, st.Stats.Preemptions)
		}
	}
	_ = time.Second
}
