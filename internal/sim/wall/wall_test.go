package wall

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"spate/internal/rng"
	"spate/internal/sim"
	"spate/internal/sim/catalog"
	"spate/internal/sim/cluster"
	"spate/internal/sim/kv"
	"spate/internal/sim/latency"
	"spate/internal/sim/serve"
)

// sink is a stream that keeps what it gets.
type sink struct {
	started int64
	cached  int
	starts  int
	outs    []serve.Output
}

func (s *sink) Start(at int64, cached int) { s.started, s.cached = at, cached; s.starts++ }
func (s *sink) Emit(o serve.Output)        { s.outs = append(s.outs, o) }

func (s *sink) tokens() int {
	n := 0
	for _, o := range s.outs {
		n += int(o.Tokens)
	}
	return n
}

func (s *sink) finish() serve.Finish {
	if len(s.outs) == 0 {
		return serve.Running
	}
	return s.outs[len(s.outs)-1].Finish
}

// model is a step time that depends on everything a batch has.
var model = &latency.Reference{StepNS: 4e6, PrefillNS: 6e4, DecodeNS: 5e4, KVNS: 30, AttentionNS: 5}

func v1(change ...func(*sim.Config)) sim.Config {
	c := sim.Config{Policy: sim.V1, MaxSeqs: 16, MaxTokens: 256, BlockSize: 16, Blocks: 600, PrefixCaching: true}
	for _, f := range change {
		f(&c)
	}
	return c
}

func single(c sim.Config) Config {
	return Config{Cluster: cluster.Config{Engines: []cluster.Engine{{Sim: c, Model: model}}}}
}

func make1(t *testing.T, cfg Config) *Engine {
	t.Helper()
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// load is arrivals with prompts that partly begin alike.
type load struct {
	at  []int64
	req []*serve.Request
}

func makeLoad(r *rand.Rand, n int) load {
	var l load
	at := int64(1e9)
	for i := range n {
		at += r.Int64N(12e6)
		if r.IntN(4) == 0 && i > 0 {
			at = l.at[i-1] // several at one instant
		}
		in := 1 + r.IntN(400)
		ids := make([]int32, in)
		for k := range ids {
			ids[k] = int32(k % 50)
			if k >= 100 {
				ids[k] = int32(r.IntN(50))
			}
		}
		l.at = append(l.at, at)
		l.req = append(l.req, &serve.Request{Index: i, Arrived: at, Prompt: ids, PromptTokens: in, MaxTokens: 1 + r.IntN(60), IgnoreEOS: true})
	}
	return l
}

// play submits a load and wakes the engine at each of its deadlines, up to late too late.
func play(e *Engine, l load, r *rand.Rand, late time.Duration) []*sink {
	sinks := make([]*sink, len(l.req))
	delay := func() int64 {
		if late == 0 {
			return 0
		}
		return r.Int64N(int64(late))
	}
	i := 0
	clock := int64(0)
	for i < len(l.at) || e.Next() != serve.Never {
		if i < len(l.at) && l.at[i] <= e.Next() {
			clock = max(clock, l.at[i])
			sinks[i] = &sink{}
			e.Submit(clock, l.req[i], sinks[i])
			i++
			continue
		}
		clock = max(clock, e.Next()+delay())
		// Whoever arrived before the clock has been handed over by then.
		for i < len(l.at) && l.at[i] <= clock {
			sinks[i] = &sink{}
			e.Submit(clock, l.req[i], sinks[i])
			i++
		}
		e.Advance(clock)
	}
	return sinks
}

// virtual runs the same load in virtual time.
func virtual(t *testing.T, cfg Config, l load) (*cluster.Cluster, *cluster.Result) {
	t.Helper()
	cc := cfg.Cluster
	cc.Single, cc.Log = true, time.Hour
	c, err := cluster.New(cc)
	if err != nil {
		t.Fatal(err)
	}
	var m memory
	var calls []cluster.Call
	for _, r := range l.req {
		p := m.prompt(r, cc.Engines[0].Sim.BlockSize)
		calls = append(calls, cluster.Call{At: time.Duration(r.Arrived), Prompt: p.segments, Out: r.MaxTokens, MaxOut: r.MaxTokens, OutStream: p.answer})
	}
	res, err := c.Run(cluster.Load{Calls: cluster.Calls(calls)})
	if err != nil {
		t.Fatal(err)
	}
	return c, res
}

var setups = []struct {
	name string
	cfg  Config
}{
	{"v1", single(v1())},
	{"v1 preempting", single(v1(func(c *sim.Config) { c.Blocks = 60 }))},
	{"v1 async", single(v1(func(c *sim.Config) { c.Async = true }))},
	{"v1 pipeline", single(v1(func(c *sim.Config) { c.Pipeline = 3 }))},
	{"v1 async pipeline", single(v1(func(c *sim.Config) { c.Pipeline, c.Async = 2, true }))},
	{"v1 whole prompts", single(v1(func(c *sim.Config) { c.WholePrompts, c.MaxTokens = true, 512 }))},
	{"v1 drafts", single(v1(func(c *sim.Config) { c.Drafts, c.Acceptance = 3, 0.6 }))},
	{"v0", single(v1(func(c *sim.Config) { c.Policy, c.MaxTokens, c.Watermark = sim.V0, 512, 0.01 }))},
	{"v0 delayed", single(v1(func(c *sim.Config) { c.Policy, c.MaxTokens, c.DelayFactor = sim.V0, 512, 0.5 }))},
	{"v0 pipeline", single(v1(func(c *sim.Config) { c.Policy, c.MaxTokens, c.Pipeline = sim.V0, 512, 2 }))},
	{"v0 chunked", single(v1(func(c *sim.Config) { c.Policy = sim.V0Chunked }))},
	{"sglang", single(v1(func(c *sim.Config) { c.Policy, c.ReserveRatio = sim.SGLang, 0.7 }))},
	{"lmdeploy", single(v1(func(c *sim.Config) { c.Policy = sim.LMDeploy }))},
	{"jitter", Config{Cluster: cluster.Config{Seed: 7, Engines: []cluster.Engine{{Sim: v1(), Model: model, Jitter: 0.1}}}}},
	{"front", Config{Cluster: cluster.Config{Front: cluster.Front{BaseNS: 3e6, RequestNS: 5e6, TokenNS: 1e3, OutNS: 2e5}, Engines: []cluster.Engine{{Sim: v1(), Model: model}}}}},
	{"two replicas", Config{Cluster: cluster.Config{Engines: []cluster.Engine{{Sim: v1(), Model: model}, {Sim: v1(), Model: model, Jitter: 0.05}}}}},
	{"least loaded", Config{Cluster: cluster.Config{Router: cluster.LeastLoaded, Engines: []cluster.Engine{{Sim: v1(), Model: model}, {Sim: v1(), Model: model}}}}},
	{"affinity", Config{Cluster: cluster.Config{Router: cluster.Affinity, Engines: []cluster.Engine{{Sim: v1(), Model: model}, {Sim: v1(), Model: model}}}}},
	{"locked", Config{Cluster: cluster.Config{Lock: true, Engines: []cluster.Engine{{Sim: v1(), Model: model}, {Sim: v1(), Model: model}}}}},
	{"rdma1", split(link("rdma1"))},
	{"rdma2", split(link("rdma2"))},
	{"tcp", split(link("tcp"))},
	{"two of each", split(link("tcp"), func(c *cluster.Config) {
		c.Engines, c.Router = append(c.Engines, c.Engines[0]), cluster.LeastLoaded
		c.Disagg.Prefill = append(c.Disagg.Prefill, c.Disagg.Prefill[0])
	})},
	{"jitter on both sides", split(link("rdma1"), func(c *cluster.Config) {
		c.Seed, c.Engines[0].Jitter, c.Disagg.Prefill[0].Jitter = 5, 0.1, 0.1
	})},
	{"between steps", split(link("rdma1"), func(c *cluster.Config) { c.Disagg.Between, c.Disagg.StallShare = true, 0.3 })},
	{"blocking rdma1", split(link("rdma1"), blocking)},
	{"blocking tcp", split(link("tcp"), blocking)},
	{"lost and computed again", split(link("rdma1"), func(c *cluster.Config) { c.Disagg.Link.FailureRate, c.Disagg.Link.Retries = 0.5, 1 })},
	{"lost for good", split(link("tcp"), func(c *cluster.Config) { c.Disagg.Link.FailureRate, c.Disagg.FailHard = 0.3, true })},
	{"blocking, lost for good", split(link("tcp"), blocking, func(c *cluster.Config) { c.Disagg.Link.FailureRate, c.Disagg.FailHard = 0.3, true })},
}

// link is a link of the catalog, for a model of 64 KiB of KV per token.
func link(name string) cluster.Link {
	l, err := catalog.FindLink(name)
	if err != nil {
		panic(err) // named in this file
	}
	return cluster.Link{SetupNS: 1e3 * l.Setup, TokenNS: 65536 / l.Bandwidth, DescriptorNS: 1e3 * l.Descriptor, Descriptor: 16, RetryNS: 2e6}
}

// split is a prefill and a decode engine with a link between them.
func split(l cluster.Link, change ...func(*cluster.Config)) Config {
	e := cluster.Engine{Sim: v1(), Model: model}
	c := cluster.Config{Engines: []cluster.Engine{e}, Disagg: &cluster.Disagg{Prefill: []cluster.Engine{e}, Link: l, ProxyNS: 2e6}}
	for _, f := range change {
		f(&c)
	}
	return Config{Cluster: c}
}

// blocking makes the engines old ones, which receive KV between their steps.
func blocking(c *cluster.Config) {
	old := v1(func(c *sim.Config) { c.Policy, c.MaxTokens, c.PrefixCaching = sim.V0, 512, false })
	c.Engines[0].Sim, c.Disagg.Prefill[0].Sim = old, old
	c.Disagg.Blocking, c.Disagg.Between, c.Disagg.FirstNS, c.Disagg.SendTokenNS = true, true, 4e6, 1e4
}

// TestSameBatchesAsVirtual: for the same arrivals, the engines run the same batches at the same times
// on the wall clock as in virtual time, however late the thread wakes.
func TestSameBatchesAsVirtual(t *testing.T) {
	for _, s := range setups {
		t.Run(s.name, func(t *testing.T) {
			for run := range 3 {
				r := rng.New(uint64(run), "wall/test")
				l := makeLoad(r, 60)
				want, res := virtual(t, s.cfg, l)
				if d := s.cfg.Cluster.Disagg; d != nil {
					if moved, lost := want.Transfers(); moved == 0 || (lost > 0) != (d.Link.FailureRate > 0) {
						t.Fatalf("run %d: %d transfers, %d lost", run, moved, lost)
					}
				}
				for _, late := range []time.Duration{0, 3 * time.Millisecond, 80 * time.Millisecond} {
					e := make1(t, s.cfg)
					sinks := play(e, l, r, late)
					for i := range want.Engines() {
						if e.cluster.Engine(i).Digest() != want.Engine(i).Digest() {
							t.Fatalf("run %d, %v late: engine %d ran other batches than in virtual time", run, late, i)
						}
						if err := e.cluster.Engine(i).Check(); err != nil {
							t.Error(err)
						}
					}
					compare(t, res, sinks)
				}
			}
		})
	}
}

// compare checks every token's time and count against virtual time.
func compare(t *testing.T, res *cluster.Result, sinks []*sink) {
	t.Helper()
	if len(res.Requests) != len(sinks) {
		t.Fatalf("%d requests of %d", len(res.Requests), len(sinks))
	}
	for i := range res.Requests {
		q := &res.Requests[i]
		s := sinks[q.Index]
		if q.Failed {
			if s.finish() != serve.FinishError || s.outs[len(s.outs)-1].Err.Message != q.Err {
				t.Fatalf("request %d: %+v, in virtual time %s", q.Index, s.outs, q.Err)
			}
			continue
		}
		times := q.Times(nil)
		if len(times) != len(s.outs) || s.tokens() != q.Got || s.finish() != serve.FinishLength {
			t.Fatalf("request %d: %d outputs with %d tokens, finish %q; virtual %d with %d", q.Index, len(s.outs), s.tokens(), s.finish(), len(times), q.Got)
		}
		for k, at := range times {
			if s.outs[k].Due != int64(at) {
				t.Fatalf("request %d: output %d due at %d, in virtual time %d", q.Index, k, s.outs[k].Due, at)
			}
		}
		if s.starts != 1 || s.started != int64(q.Scheduled) || s.cached != q.Cached {
			t.Fatalf("request %d: started %d times, at %d with %d cached; virtual %d with %d", q.Index, s.starts, s.started, s.cached, q.Scheduled, q.Cached)
		}
	}
}

// TestAbortAtAnyMoment: aborted requests get nothing more, the others everything, and the books
// balance.
func TestAbortAtAnyMoment(t *testing.T) {
	for _, s := range setups {
		t.Run(s.name, func(t *testing.T) {
			for run := range 4 {
				r := rng.New(uint64(run), "wall/abort")
				l := makeLoad(r, 40)
				e := make1(t, s.cfg)
				sinks := make([]*sink, len(l.req))
				aborted := make([]int, len(l.req)) // outputs at the time, -1 for none
				clock := int64(0)
				for i := range l.req {
					aborted[i] = -1
					for e.Next() <= l.at[i] {
						clock = e.Next()
						e.Advance(clock)
					}
					clock = max(clock, l.at[i])
					sinks[i] = &sink{}
					e.Submit(clock, l.req[i], sinks[i])
					if k := r.IntN(i + 1); r.IntN(3) == 0 && aborted[k] < 0 && sinks[k].finish() == serve.Running {
						e.Abort(clock, l.req[k])
						aborted[k] = len(sinks[k].outs)
					}
				}
				for e.Next() != serve.Never {
					e.Advance(e.Next())
				}
				for i, k := range sinks {
					switch {
					case aborted[i] >= 0 && len(k.outs) != aborted[i]:
						t.Errorf("request %d got %d outputs after its abort", i, len(k.outs)-aborted[i])
					case aborted[i] < 0 && k.tokens() != l.req[i].MaxTokens && k.finish() != serve.FinishError:
						t.Errorf("request %d got %d tokens of %d", i, k.tokens(), l.req[i].MaxTokens)
					}
				}
				for i, st := range e.States() {
					if err := e.cluster.Engine(i).Check(); err != nil {
						t.Error(err)
					}
					if st.Free != st.Total || st.Running+st.Waiting != 0 {
						t.Errorf("left over: %+v", st)
					}
				}
				if len(e.calls) != 0 || e.Burst() != 0 {
					t.Errorf("%d calls and %d places left", len(e.calls), e.Burst())
				}
			}
		})
	}
}

func request(i int, at int64, in, out int) *serve.Request {
	return &serve.Request{Index: i, Arrived: at, PromptTokens: in, MaxTokens: out, IgnoreEOS: true}
}

func drain(e *Engine) {
	for e.Next() != serve.Never {
		e.Advance(e.Next())
	}
}

// TestOneRequest follows one request by hand.
func TestOneRequest(t *testing.T) {
	e := make1(t, single(v1()))
	var s sink
	e.Submit(1000, request(0, 1000, 10, 3), &s)
	drain(e)
	first := int64(1000) + int64(model.Step(latency.Batch{Prefill: 10, Prompts: 1, Attention2: 100}))
	second := first + int64(model.Step(latency.Batch{Decode: 1, KV: 11, MaxContext: 11}))
	third := second + int64(model.Step(latency.Batch{Decode: 1, KV: 12, MaxContext: 12}))
	want := []serve.Output{{Due: first, Tokens: 1}, {Due: second, Tokens: 1}, {Due: third, Tokens: 1, Finish: serve.FinishLength}}
	if !slices.Equal(s.outs, want) {
		t.Errorf("got %+v\nwant %+v", s.outs, want)
	}
	if st := e.State(); st.Steps != 3 || st.StepTokens.Sum != 12 || st.Computed != 10 {
		t.Errorf("%+v", st)
	}
}

// TestScale: simulated time runs faster than the clock, by the factor given.
func TestScale(t *testing.T) {
	plain, fast := make1(t, single(v1())), make1(t, single(v1()))
	fast.cfg.Scale = 8
	var a, b sink
	const start = 5e9
	plain.Submit(start, request(0, start, 100, 20), &a)
	fast.Submit(start, request(0, start, 100, 20), &b)
	drain(plain)
	drain(fast)
	for i := range a.outs {
		slow, quick := a.outs[i].Due-start, b.outs[i].Due-start
		if d := quick*8 - slow; d < 0 || d > 16 {
			t.Errorf("output %d after %d and %d", i, slow, quick)
		}
	}
	if plain.Digest() != fast.Digest() {
		t.Error("other batches at another scale")
	}
}

func TestKindsAndLengths(t *testing.T) {
	cfg := single(v1())
	cfg.Answers = Answers{Len: 10, Reasoning: 4, ToolTokens: 3}
	for _, c := range []struct {
		name   string
		change func(*serve.Request)
		tokens int
		finish serve.Finish
		kinds  string
	}{
		{"completion", func(*serve.Request) {}, 10, serve.FinishStop, "tttttttttt"},
		{"chat", func(r *serve.Request) { r.Chat = true }, 10, serve.FinishTool, "rrrrtttccc"},
		{"limit", func(r *serve.Request) { r.MaxTokens = 5 }, 5, serve.FinishLength, "ttttt"},
		{"ignore_eos", func(r *serve.Request) { r.IgnoreEOS = true; r.MaxTokens = 12 }, 12, serve.FinishLength, "tttttttttttt"},
		{"at least", func(r *serve.Request) { r.MinTokens = 13 }, 13, serve.FinishStop, "ttttttttttttt"},
		{"script", func(r *serve.Request) { r.Timing = &serve.Timing{Output: 2} }, 2, serve.FinishStop, "tt"},
	} {
		e := make1(t, cfg)
		req := request(0, 0, 20, 50)
		req.IgnoreEOS = false
		c.change(req)
		var s sink
		e.Submit(0, req, &s)
		drain(e)
		kinds := ""
		for _, o := range s.outs {
			for range o.Tokens {
				kinds += string("trc"[o.Kind])
			}
		}
		if s.tokens() != c.tokens || s.finish() != c.finish || kinds != c.kinds {
			t.Errorf("%s: %d tokens, %s, %s", c.name, s.tokens(), s.finish(), kinds)
		}
	}
}

// TestDraftsSplitKinds: an output of several tokens is cut where the kind changes.
func TestDraftsSplitKinds(t *testing.T) {
	cfg := single(v1(func(c *sim.Config) { c.Drafts, c.Acceptance = 4, 1 }))
	cfg.Answers = Answers{Reasoning: 3}
	e := make1(t, cfg)
	req := request(0, 0, 20, 11)
	req.Chat = true
	var s sink
	e.Submit(0, req, &s)
	drain(e)
	n := [3]int{}
	for _, o := range s.outs {
		n[o.Kind] += int(o.Tokens)
	}
	if n != [3]int{8, 3, 0} || s.tokens() != 11 {
		t.Errorf("%v of %+v", n, s.outs)
	}
	if st := e.State(); st.Accepted == 0 || st.Drafted < st.Accepted {
		t.Errorf("accepted %d of %d", st.Accepted, st.Drafted)
	}
}

func TestStalls(t *testing.T) {
	for _, c := range []struct {
		name  string
		stall time.Duration
		outs  int
	}{{"a while", time.Second, 6}, {"for ever", -1, 2}} {
		e := make1(t, single(v1()))
		req := request(0, 0, 20, 6)
		req.Timing = &serve.Timing{StallAt: 2, Stall: c.stall}
		var s, other sink
		e.Submit(0, req, &s)
		e.Submit(0, request(1, 0, 20, 6), &other)
		drain(e)
		if len(s.outs) != c.outs || other.tokens() != 6 {
			t.Fatalf("%s: %d outputs, %d of the other request", c.name, len(s.outs), other.tokens())
		}
		if c.stall > 0 && s.outs[2].Due-other.outs[2].Due != int64(c.stall) {
			t.Errorf("%s: event 2 after %d", c.name, s.outs[2].Due-other.outs[2].Due)
		}
		if c.stall > 0 && (s.outs[5].Due != s.outs[2].Due || s.finish() != serve.FinishLength) {
			t.Errorf("%s: what was held is not written together", c.name)
		}
		e.Abort(1<<40, req)
		if len(e.calls) != 0 {
			t.Errorf("%s: the stalled call stays", c.name)
		}
	}
}

func TestMultiStep(t *testing.T) {
	e := make1(t, single(v1(func(c *sim.Config) { c.Policy, c.MaxTokens, c.Steps = sim.V0, 512, 4 })))
	var s, late sink
	e.Submit(0, request(0, 0, 20, 12), &s)
	for len(s.outs) < 3 {
		e.Advance(e.Next())
	}
	at := s.outs[2].Due
	e.Submit(at, request(1, at, 20, 2), &late)
	drain(e)
	before := 0
	for _, o := range s.outs {
		if o.Due < late.outs[0].Due {
			before++
		}
	}
	if before != 1+4 || s.tokens() != 12 {
		t.Errorf("%d outputs before the late request's first: want that of the prompt and four decided on together", before)
	}
}

func TestDeath(t *testing.T) {
	e := make1(t, single(v1()))
	sinks := make([]sink, 5)
	reqs := make([]*serve.Request, 5)
	for i := range sinks {
		reqs[i] = request(i, 0, 30, 1000)
		e.Submit(0, reqs[i], &sinks[i])
	}
	for range 20 {
		e.Advance(e.Next())
	}
	if err := e.Harm(1e9, serve.Harm{Kind: "stall"}); err == nil {
		t.Error("a stall without a time is accepted")
	}
	if err := e.Harm(1e9, serve.Harm{Kind: "revive"}); err == nil {
		t.Error("a living engine was revived")
	}
	if err := e.Harm(1e9, serve.Harm{Kind: "oom"}); err != nil {
		t.Fatal(err)
	}
	for i := range sinks {
		last := sinks[i].outs[len(sinks[i].outs)-1]
		if last.Finish != serve.FinishError || last.Err == nil || last.Err.Message != outOfMemory {
			t.Errorf("request %d ends with %+v", i, last)
		}
		e.Abort(2e9, reqs[i])
	}
	var late sink
	e.Submit(2e9, request(9, 2e9, 3, 3), &late)
	if e.Dead() == nil || late.finish() != serve.FinishError || e.Next() != serve.Never {
		t.Errorf("a dead engine goes on: %+v", late.outs)
	}
	if err := e.Harm(3e9, serve.Harm{Kind: "revive"}); err != nil {
		t.Fatal(err)
	}
	var again sink
	e.Submit(3e9, request(10, 3e9, 3, 3), &again)
	drain(e)
	if again.tokens() != 3 || again.outs[0].Due < 3e9 {
		t.Errorf("after its revival: %+v", again.outs)
	}
}

// TestStallOfTheEngine: no step starts while the engine hangs.
func TestStallOfTheEngine(t *testing.T) {
	var starts []time.Duration
	cfg := single(v1())
	cfg.Trace = func(_ int, _ *sim.Batch, start, _ time.Duration) { starts = append(starts, start) }
	e := make1(t, cfg)
	var s sink
	e.Submit(0, request(0, 0, 30, 50), &s)
	for range 10 {
		e.Advance(e.Next())
	}
	now := e.Next()
	if err := e.Harm(now, serve.Harm{Kind: "stall", For: time.Second}); err != nil {
		t.Fatal(err)
	}
	drain(e)
	for _, at := range starts {
		if int64(at) > now && int64(at) < now+1e9 {
			t.Errorf("a step started %v into the stall", at-time.Duration(now))
		}
	}
	if s.tokens() != 50 {
		t.Errorf("%d tokens", s.tokens())
	}
}

// TestOutOfMemoryUnderLoad: the engine starts, serves, and dies of the first step that is too large.
func TestOutOfMemoryUnderLoad(t *testing.T) {
	cfg := single(v1())
	cfg.Exhausts = func(b latency.Batch) bool { return b.Decode > 3 }
	e := make1(t, cfg)
	sinks := make([]sink, 4)
	for i := range sinks {
		at := int64(i) * 20e6
		for e.Next() < at {
			e.Advance(e.Next())
		}
		if e.Dead() != nil {
			t.Fatalf("dead with %d requests", i)
		}
		e.Submit(at, request(i, at, 10, 100), &sinks[i])
	}
	drain(e)
	if e.Dead() == nil {
		t.Fatal("four requests run")
	}
	for i := range sinks {
		if sinks[i].finish() != serve.FinishError {
			t.Errorf("request %d: %s", i, sinks[i].finish())
		}
	}
}

func TestRefusesWhatNeverFits(t *testing.T) {
	e := make1(t, single(v1()))
	var s sink
	e.Submit(0, request(0, 0, 100, 100000), &s)
	drain(e)
	if len(s.outs) != 1 || s.outs[0].Err == nil || s.outs[0].Err.Status != 400 {
		t.Errorf("%+v", s.outs)
	}
}

// TestConversation: the next turn finds the last one's prompt and answer in the cache, a repeated
// prompt finds itself, a different one nothing.
func TestConversation(t *testing.T) {
	e := make1(t, single(v1()))
	ids := make([]int32, 100)
	for i := range ids {
		ids[i] = int32(i)
	}
	turn := func(i int, prompt []int32) (*serve.Request, int) {
		at := int64(i) * 1e10
		req := &serve.Request{Index: i, Arrived: at, Prompt: prompt, PromptTokens: len(prompt), MaxTokens: 60, IgnoreEOS: true}
		var s sink
		e.Submit(at, req, &s)
		drain(e)
		return req, s.cached
	}
	first, cached := turn(1, ids)
	if cached != 0 {
		t.Errorf("first turn: %d cached", cached)
	}
	second := append(first.Answer(slices.Clone(ids), 60), 7, 8, 9)
	_, cached = turn(2, second)
	// 160 tokens are known; the last one sampled was never computed, so nine blocks of 16 are full.
	if cached != 144 {
		t.Errorf("second turn: %d cached, want 144", cached)
	}
	if _, cached = turn(3, second); cached != 160 {
		t.Errorf("the same again: %d cached, want 160", cached)
	}
	other := slices.Clone(ids)
	other[0] = 999
	if _, cached = turn(4, other); cached != 0 {
		t.Errorf("another prompt: %d cached", cached)
	}
	if !e.ResetPrefixCache() {
		t.Fatal("cannot reset an idle engine")
	}
	if _, cached = turn(5, ids); cached != 0 {
		t.Errorf("after a reset: %d cached", cached)
	}
}

// TestMemoryIsBounded: what is remembered of old conversations does not grow without end.
func TestMemoryIsBounded(t *testing.T) {
	var m memory
	long := make([]kv.Segment, 1<<12)
	for i := range 1000 {
		req := request(i, 0, 1, 1)
		req.Prompt = []int32{int32(i)}
		m.learn(&call{req: req, prompt: long, want: 1})
	}
	if m.held > maxHeld || len(m.turns) != len(m.order) || len(m.turns) == 0 {
		t.Errorf("%d segments held by %d turns", m.held, len(m.turns))
	}
}

func TestResetNeedsIdle(t *testing.T) {
	e := make1(t, single(v1()))
	var s sink
	e.Submit(0, request(0, 0, 100, 100), &s)
	e.Advance(e.Next())
	e.Advance(e.Next())
	if e.ResetPrefixCache() {
		t.Error("reset while a request holds blocks")
	}
	drain(e)
	if !e.ResetPrefixCache() {
		t.Error("no reset although nothing runs")
	}
}

func TestNewRefuses(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("no engine is accepted")
	}
	if _, err := New(single(sim.Config{})); err == nil {
		t.Error("an engine without blocks is accepted")
	}
}

func FuzzArrivals(f *testing.F) {
	f.Add(uint64(1), uint8(0), uint16(30), true)
	f.Add(uint64(2), uint8(3), uint16(90), false)
	f.Fuzz(func(t *testing.T, seed uint64, setup uint8, ms uint16, aborts bool) {
		s := setups[int(setup)%len(setups)]
		r := rng.New(seed, "wall/fuzz")
		l := makeLoad(r, 20)
		e := make1(t, s.cfg)
		sinks := play(e, l, r, time.Duration(ms)*time.Millisecond)
		if aborts {
			for _, q := range l.req {
				e.Abort(1<<50, q)
			}
		}
		for i, k := range sinks {
			if k.tokens() != l.req[i].MaxTokens && k.finish() != serve.FinishError {
				t.Errorf("request %d: %d tokens of %d", i, k.tokens(), l.req[i].MaxTokens)
			}
		}
		for i := range e.cluster.Engines() {
			if err := e.cluster.Engine(i).Check(); err != nil {
				t.Error(fmt.Errorf("%s: %w", s.name, err))
			}
		}
	})
}
