package cluster

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spate/internal/call"
	"spate/internal/sim"
	"spate/internal/sim/kv"
	"spate/internal/sim/latency"
)

const ms = time.Millisecond

func reference() *latency.Reference {
	return &latency.Reference{StepNS: 12e6, PrefillNS: 1e5, AttentionNS: 2, DecodeNS: 5e4, KVNS: 30}
}

func v1Config(blocks int) sim.Config {
	return sim.Config{Policy: sim.V1, MaxSeqs: 256, MaxTokens: 2048, BlockSize: 16, Blocks: blocks, PrefixCaching: true, NullBlock: true}
}

func one(cfg sim.Config, m latency.Model) Config {
	return Config{Engines: []Engine{{Sim: cfg, Model: m}}}
}

func burst(n, in, out int) []Call {
	var list []Call
	for i := range n {
		list = append(list, Call{Prompt: []kv.Segment{{Stream: uint64(i + 1), Len: in}}, Out: out})
	}
	return list
}

func mustRun(t testing.TB, c *Cluster, l Load) *Result {
	t.Helper()
	r, err := c.Run(l)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mustNew(t testing.TB, cfg Config) *Cluster {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestLoneRequest checks every time of a single request against the sum of its steps.
func TestLoneRequest(t *testing.T) {
	cfg := one(v1Config(1000), &latency.Reference{StepNS: 1e6, PrefillNS: 1e3, KVNS: 10})
	cfg.Front = Front{BaseNS: 5e6, RequestNS: 2e6, TokenNS: 1e4, OutNS: 1e6}
	r := mustRun(t, mustNew(t, cfg), Load{Calls: Calls([]Call{{At: 3 * ms, Prompt: []kv.Segment{{Stream: 1, Len: 100}}, Out: 4}})})
	got := r.Requests[0]
	queued := 3*ms + 2*ms + 1*ms + 5*ms // sent, worker, tokens, base
	first := queued + ms + 100*time.Microsecond
	ends := []time.Duration{first}
	for k := 101; k <= 103; k++ {
		ends = append(ends, ends[len(ends)-1]+ms+time.Duration(10*k))
	}
	for i := range ends {
		ends[i] += ms // on its way out
	}
	if got.Sent != 3*ms || got.Queued != queued || got.Scheduled != queued || got.First != ends[0] || got.Last != ends[3] {
		t.Errorf("times %+v, want first %v last %v", got, ends[0], ends[3])
	}
	if times := got.Times(nil); !slices.Equal(times, ends) {
		t.Errorf("tokens at %v, want %v", times, ends)
	}
	rec := r.Records()[0]
	if rec.Outcome != call.OK || rec.Out.N != 4 || len(rec.Chunks) != 4 || rec.Chunks[3].At != rec.LastToken || rec.FirstToken-rec.Sent != ends[0]-3*ms {
		t.Errorf("record %+v", rec)
	}
	if r.OK != 1 || r.Tokens != 4 || r.Prompt != 100 || r.Duration != ends[3] {
		t.Errorf("totals %+v", r)
	}
}

// TestClients checks when requests are sent: due times, gaps within a burst, and a cap.
func TestClients(t *testing.T) {
	sent := func(l Load, n int) string {
		cfg := one(v1Config(1000), &latency.Reference{StepNS: 10e6})
		r := mustRun(t, mustNew(t, cfg), l)
		list := make([]string, n)
		for _, q := range r.Requests {
			list[q.Index] = q.Sent.String()
		}
		return strings.Join(list, " ")
	}
	later := burst(3, 10, 2)
	later[1].At, later[2].At = 7*ms, 40*ms
	cases := []struct {
		name string
		load Load
		want string
	}{
		{"open loop", Load{Calls: Calls(later)}, "0s 7ms 40ms"},
		{"burst with a gap", Load{Calls: Calls(burst(3, 10, 2)), Gap: ms}, "0s 1ms 2ms"},
		{"closed loop", Load{Calls: Calls(burst(3, 10, 2)), Slots: 1}, "0s 20ms 40ms"},
		{"closed loop of two", Load{Calls: Calls(burst(3, 10, 2)), Slots: 2}, "0s 0s 20ms"},
		{"cap and due times", Load{Calls: Calls(later), Slots: 1}, "0s 20ms 40ms"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := sent(c.load, 3); got != c.want {
				t.Errorf("sent at %s, want %s", got, c.want)
			}
		})
	}
}

// TestFront checks the queue in front of the engine.
func TestFront(t *testing.T) {
	cases := []struct {
		name  string
		front Front
		hold  bool
		want  []time.Duration
	}{
		{"one worker", Front{RequestNS: 2e6}, false, []time.Duration{2 * ms, 4 * ms, 6 * ms}},
		{"two workers", Front{RequestNS: 2e6, Workers: 2}, false, []time.Duration{2 * ms, 3 * ms, 4 * ms}},
		{"base does not queue", Front{BaseNS: 9e6, RequestNS: 1e6}, false, []time.Duration{10 * ms, 11 * ms, 12 * ms}},
		{"together", Front{RequestNS: 2e6, Together: true}, false, []time.Duration{6 * ms, 6 * ms, 6 * ms}},
		{"held until the burst is sent", Front{RequestNS: 2e6}, true, []time.Duration{4 * ms, 6 * ms, 8 * ms}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			cfg := one(v1Config(1000), reference())
			cfg.Front = c.front
			r := mustRun(t, mustNew(t, cfg), Load{Calls: Calls(burst(3, 10, 2)), Gap: ms, Hold: c.hold})
			got := make([]time.Duration, 3)
			for _, q := range r.Requests {
				got[q.Index] = q.Queued
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("queued at %v, want %v", got, c.want)
			}
		})
	}
}

// anyLoad draws calls that fit a small engine.
func anyLoad(t *rapid.T) Load {
	n := rapid.IntRange(1, 30).Draw(t, "calls")
	at := time.Duration(0)
	list := make([]Call, n)
	for i := range list {
		at += time.Duration(rapid.SampledFrom([]int{0, 0, 1, 30, 200}).Draw(t, "gap")) * ms
		list[i] = Call{
			At: at, Prompt: []kv.Segment{{Stream: uint64(rapid.IntRange(1, 5).Draw(t, "stream")), Len: rapid.IntRange(1, 200).Draw(t, "in")}},
			Out: rapid.IntRange(1, 100).Draw(t, "out"),
		}
		if rapid.IntRange(0, 4).Draw(t, "leaves") == 0 {
			list[i].GiveUp = time.Duration(rapid.IntRange(1, 800).Draw(t, "after")) * ms
		}
	}
	return Load{Calls: Calls(list), Slots: rapid.SampledFrom([]int{0, 1, 3}).Draw(t, "slots")}
}

func anyCluster(t *rapid.T) Config {
	cfg := sim.Config{
		Policy:  rapid.SampledFrom([]sim.Policy{sim.V1, sim.V0, sim.V0Chunked, sim.SGLang, sim.LMDeploy}).Draw(t, "policy"),
		MaxSeqs: rapid.IntRange(1, 20).Draw(t, "seqs"), MaxTokens: rapid.IntRange(20, 100).Draw(t, "budget"),
		BlockSize: 16, Blocks: rapid.IntRange(25, 60).Draw(t, "blocks"), PrefixCaching: rapid.Bool().Draw(t, "prefix"),
		CountRetries: rapid.Bool().Draw(t, "retries"), Pipeline: rapid.SampledFrom([]int{0, 0, 2}).Draw(t, "pipeline"),
		ReserveRatio: 0.4, Window: rapid.SampledFrom([]int{0, 64}).Draw(t, "window"),
	}
	if cfg.Policy == sim.V0 {
		cfg.MaxTokens += 300
	}
	if cfg.Pipeline > 1 {
		cfg.Blocks *= 2
	}
	cfg.Async = cfg.Policy == sim.V1 && rapid.Bool().Draw(t, "async")
	e := Engine{Sim: cfg, Model: reference(), Jitter: rapid.SampledFrom([]float64{0, 0.1}).Draw(t, "jitter")}
	c := Config{Engines: []Engine{e}, Seed: 7, Front: Front{RequestNS: 1e6, OutNS: 5e5, Workers: 2}}
	if rapid.Bool().Draw(t, "several") {
		c.Engines = append(c.Engines, e)
		c.Router = rapid.SampledFrom([]Policy{RoundRobin, LeastLoaded, Affinity}).Draw(t, "router")
		c.Lock = cfg.Depth() == 1 && rapid.Bool().Draw(t, "lock")
	}
	if rapid.IntRange(0, 3).Draw(t, "disaggregated") == 0 {
		c.Lock = false
		c.Disagg = &Disagg{
			Prefill: []Engine{e}, ProxyNS: 1e6, Blocking: cfg.Policy == sim.V0 || cfg.Policy == sim.V0Chunked, FirstNS: 3e6,
			Between: rapid.Bool().Draw(t, "between"), WaitOnce: rapid.Bool().Draw(t, "once"), StallShare: 0.5, SendTokenNS: 1e3,
			SendSquareNS: 10, PauseNS: 1e5, FailHard: rapid.Bool().Draw(t, "hard"),
			Link: Link{SetupNS: 1e6, TokenNS: 1e5, DescriptorNS: 1e3, Descriptor: 16, FailureRate: 0.2, Retries: 1, RetryNS: 2e6},
		}
		if cfg.Policy != sim.V1 && !c.Disagg.Blocking {
			c.Disagg = nil
		}
	}
	return c
}

// TestLaws checks, for any cluster and load, that requests are conserved, times are in order, no
// block leaks, and that running every step on its own gives exactly the same result.
func TestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg, load := anyCluster(t), anyLoad(t)
		var results []*Result
		for _, single := range []bool{false, true, false} {
			cfg.Single = single
			c, err := New(cfg)
			if err != nil {
				t.Skip(err)
			}
			for range 2 { // the second run meets the caches of the first
				r, err := c.Run(load)
				if err != nil {
					t.Fatal(err)
				}
				checkResult(t, c, r)
				results = append(results, r)
			}
		}
		for i := 2; i < len(results); i++ {
			a, b := results[i%2], results[i]
			if a.Digest != b.Digest || !reflect.DeepEqual(a.Samples, b.Samples) {
				t.Fatalf("run %d: digests %x and %x, samples\n%+v\n%+v", i, a.Digest, b.Digest, a.Samples, b.Samples)
			}
			if !reflect.DeepEqual(times(a), times(b)) || !reflect.DeepEqual(gaps(a), gaps(b)) {
				t.Fatalf("run %d: times differ", i)
			}
		}
	})
}

func checkResult(t *rapid.T, c *Cluster, r *Result) {
	if r.OK+r.Failed != len(r.Requests) || c.live != 0 || !c.clients[0].done() {
		t.Fatalf("%d fine, %d failed, of %d requests", r.OK, r.Failed, len(r.Requests))
	}
	for _, n := range c.nodes {
		st := n.engine.State()
		if err := n.engine.Check(); err != nil || st.Free != st.Total || st.Running+st.Waiting != 0 || n.engine.InFlight() != 0 {
			t.Fatalf("engine %d at the end: %v %+v", n.index, err, st)
		}
	}
	gaps := 0
	for _, g := range r.Gaps {
		gaps += g.N
	}
	for i := range r.Requests {
		q := &r.Requests[i]
		if q.Failed {
			gaps -= max(0, q.Chunks()-1)
			continue
		}
		ts := q.Times(nil)
		if q.Due > q.Sent || q.Sent > q.Queued || q.Queued > q.Scheduled || q.Scheduled >= q.First || q.First > q.Last || !slices.IsSorted(ts) {
			t.Fatalf("times out of order: %+v", q)
		}
		if ts[0] != q.First || ts[len(ts)-1] != q.Last || q.Got != q.Out {
			t.Fatalf("tokens %v do not fit %+v", ts, q)
		}
		gaps -= len(ts) - 1
	}
	if gaps != 0 {
		t.Fatalf("%d gaps too many", gaps)
	}
}

// gaps counts the inter-token latencies, whatever order engines gave them in.
func gaps(r *Result) map[time.Duration]int {
	all := map[time.Duration]int{}
	for _, g := range r.Gaps {
		all[g.D] += g.N
	}
	return all
}

func times(r *Result) [][]time.Duration {
	var all [][]time.Duration
	for i := range r.Requests {
		q := &r.Requests[i]
		all = append(all, append([]time.Duration{time.Duration(q.Index), q.Sent, q.Queued, q.Scheduled}, q.Times(nil)...))
	}
	return all
}

// TestMonotone checks laws of the whole: what helps by itself never hurts.
func TestMonotone(t *testing.T) {
	took := func(change func(*Config, *latency.Reference)) time.Duration {
		m := reference()
		cfg := one(v1Config(2000), m)
		change(&cfg, m)
		return mustRun(t, mustNew(t, cfg), Load{Calls: Calls(burst(120, 300, 200))}).Duration
	}
	base := took(func(*Config, *latency.Reference) {})
	cases := []struct {
		name   string
		better bool
		change func(*Config, *latency.Reference)
	}{
		{"more KV cache", true, func(c *Config, _ *latency.Reference) { c.Engines[0].Sim.Blocks *= 2 }},
		{"less KV cache", false, func(c *Config, _ *latency.Reference) { c.Engines[0].Sim.Blocks /= 2 }},
		{"faster steps", true, func(_ *Config, m *latency.Reference) { m.StepNS /= 2 }},
		{"slower KV reads", false, func(_ *Config, m *latency.Reference) { m.KVNS *= 3 }},
		{"fewer places", false, func(c *Config, _ *latency.Reference) { c.Engines[0].Sim.MaxSeqs = 16 }},
		{"two engines", true, func(c *Config, _ *latency.Reference) { c.Engines = append(c.Engines, c.Engines[0]) }},
		{"two engines in lock step", true, func(c *Config, _ *latency.Reference) { c.Engines = append(c.Engines, c.Engines[0]); c.Lock = true }},
		{"slow front end", false, func(c *Config, _ *latency.Reference) { c.Front.RequestNS = 1e9 }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := took(c.change); (got < base) != c.better || got == base {
				t.Errorf("took %v, before %v", got, base)
			}
		})
	}
}

// TestPipelineOverlaps checks that two stages hold two batches at once. The old engine, with one
// scheduler per stage, nearly doubles its rate; the new one puts everybody in one batch while all
// requests are in step.
func TestPipelineOverlaps(t *testing.T) {
	took := func(pp int) time.Duration {
		cfg := sim.Config{Policy: sim.V0, MaxSeqs: 8, MaxTokens: 512, BlockSize: 16, Blocks: 1000, Pipeline: pp}
		return mustRun(t, mustNew(t, one(cfg, &latency.Reference{StepNS: 10e6})), Load{Calls: Calls(burst(32, 16, 50))}).Duration
	}
	if a, b := took(1), took(2); float64(b) > 0.55*float64(a) {
		t.Errorf("two stages take %v, one %v", b, a)
	}
}

// TestSink checks that a sink sees what a result would hold, and that the log of steps stays short.
func TestSink(t *testing.T) {
	load := Load{Calls: Calls(burst(2000, 16, 60)), Slots: 8}
	kept := mustRun(t, mustNew(t, one(v1Config(500), reference())), load)
	c := mustNew(t, one(v1Config(500), reference()))
	var got [][]time.Duration
	longest := 0
	load.Sink = func(r *Request) {
		got = append(got, append([]time.Duration{time.Duration(r.Index), r.Sent, r.Queued, r.Scheduled}, r.Times(nil)...))
		longest = max(longest, len(c.nodes[0].log.ends))
	}
	if r := mustRun(t, c, load); len(r.Requests) != 0 || r.OK != 2000 {
		t.Errorf("%d requests kept, %d fine", len(r.Requests), r.OK)
	}
	if !reflect.DeepEqual(got, times(kept)) {
		t.Error("the sink saw other times")
	}
	if longest > 1<<14 {
		t.Errorf("%d steps remembered", longest)
	}
	if len(c.slots) > 8 {
		t.Errorf("%d slots for 8 requests in flight", len(c.slots))
	}
}

// TestAffinity checks that prompts that begin alike meet the same cache.
func TestAffinity(t *testing.T) {
	hits := func(p Policy) int64 {
		cfg := one(v1Config(2000), reference())
		cfg.Engines = append(cfg.Engines, cfg.Engines[0], cfg.Engines[0])
		cfg.Router = p
		list := burst(60, 160, 5)
		for i := range list {
			list[i].Prompt[0].Stream = uint64(i % 7)
			list[i].At = time.Duration(i) * 50 * ms
		}
		n := int64(0)
		for _, s := range mustRun(t, mustNew(t, cfg), Load{Calls: Calls(list)}).Engines {
			n += s.Hits
		}
		return n
	}
	if a, r := hits(Affinity), hits(RoundRobin); a != 53*144 || r >= a {
		t.Errorf("affinity hits %d tokens, want %d; round robin %d", a, 53*144, r)
	}
}
