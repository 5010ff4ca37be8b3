package cluster

import (
	"math"
	"testing"
	"time"

	"spate/internal/rng"
	"spate/internal/sim"
	"spate/internal/sim/kv"
	"spate/internal/sim/latency"
)

// sonnets are 200 prompts of about a thousand tokens with six tokens of output, arriving as numpy's
// generator with seed 0 has them at a rate.
func sonnets(rate float64) []Call {
	gaps := rng.NewLegacy(0)
	list := make([]Call, 200)
	at := 0.0
	for i := range list {
		list[i] = Call{At: time.Duration(at * 1e9), Prompt: []kv.Segment{{Stream: 1, Len: 50}, {Stream: uint64(i + 2), Len: 962}}, Out: 6}
		at += gaps.Exponential(1/rate) + 0.001
	}
	return list
}

// a10 is a small GPU: a prompt of a thousand tokens takes a fifth of a second.
func a10() Engine {
	return Engine{
		Sim:   sim.Config{Policy: sim.V0, MaxSeqs: 256, MaxTokens: 10000, MaxModelLen: 10000, BlockSize: 16, Blocks: 8000, Watermark: 0.01},
		Model: &latency.Reference{StepNS: 10e6, PrefillNS: 2.2e5, DecodeNS: 3e4, KVNS: 20},
	}
}

func separate(link Link) Config {
	return Config{Engines: []Engine{a10()}, Disagg: &Disagg{
		Prefill: []Engine{a10()}, Link: link, ProxyNS: 15e6, Blocking: true, FirstNS: 12e6, Between: true, StallShare: 0.3,
		SendTokenNS: 2e4, SendSquareNS: 20,
	}}
}

func means(t *testing.T, cfg Config, rate float64) (ttft, tpot float64) {
	t.Helper()
	r := mustRun(t, mustNew(t, cfg), Load{Calls: Calls(sonnets(rate))})
	for i := range r.Requests {
		q := &r.Requests[i]
		ttft += (q.First - q.Sent).Seconds() / 200
		tpot += (q.Last - q.First).Seconds() / 5 / 200
	}
	return ttft, tpot
}

// TestSeparateEngines checks the ordering of a published comparison: separating prefill and decode
// costs time to the first token, more over TCP than over RDMA, and keeps decoding even under load.
func TestSeparateEngines(t *testing.T) {
	rdma := Link{SetupNS: 5e6, TokenNS: 6e4}
	tcp := Link{SetupNS: 20e6, TokenNS: 1.6e5}
	plain := Config{Engines: []Engine{a10()}}
	ttftPlain, tpotPlain := means(t, plain, 2)
	ttftRDMA, tpotRDMA := means(t, separate(rdma), 2)
	ttftTCP, tpotTCP := means(t, separate(tcp), 2)
	if !(ttftPlain < ttftRDMA && ttftRDMA < ttftTCP) {
		t.Errorf("TTFT plain %.3f, RDMA %.3f, TCP %.3f", ttftPlain, ttftRDMA, ttftTCP)
	}
	if !(tpotRDMA < tpotTCP) {
		t.Errorf("TPOT RDMA %.4f, TCP %.4f", tpotRDMA, tpotTCP)
	}
	_, tpotPlain8 := means(t, plain, 8)
	_, tpotRDMA8 := means(t, separate(rdma), 8)
	if tpotRDMA8 >= tpotPlain8 {
		t.Errorf("TPOT at 8 requests/s: plain %.4f, RDMA %.4f", tpotPlain8, tpotRDMA8)
	}
	t.Logf("2/s: TTFT %.3f %.3f %.3f s, TPOT %.4f %.4f %.4f s; 8/s: TPOT %.4f %.4f s", ttftPlain, ttftRDMA, ttftTCP,
		tpotPlain, tpotRDMA, tpotTCP, tpotPlain8, tpotRDMA8)
}

// TestHandOver follows one request through both engines.
func TestHandOver(t *testing.T) {
	step := &latency.Reference{StepNS: 1e6, PrefillNS: 1e4}
	cfg := sim.Config{Policy: sim.V0, MaxSeqs: 4, MaxTokens: 1000, BlockSize: 16, Blocks: 100}
	e := Engine{Sim: cfg, Model: step}
	c := Config{Engines: []Engine{e}, Disagg: &Disagg{
		Prefill: []Engine{e}, ProxyNS: 3e6, Blocking: true, FirstNS: 5e6, SendTokenNS: 100, SendSquareNS: 1,
		Link: Link{SetupNS: 2e6, TokenNS: 1e4, DescriptorNS: 1e5, Descriptor: 16},
	}}
	call := []Call{{Prompt: []kv.Segment{{Stream: 1, Len: 100}}, Out: 3}}
	q := mustRun(t, mustNew(t, c), Load{Calls: Calls(call)}).Requests[0]
	prompt := 1000*time.Microsecond + 1000*time.Microsecond + 10*time.Microsecond + 10*time.Microsecond // step, tokens, sending
	moved := 2000*time.Microsecond + 1000*time.Microsecond + 700*time.Microsecond                       // set-up, tokens, descriptors
	first := prompt + 3*ms + moved + 5*ms
	if q.First != first || q.Last != first+2*ms {
		t.Errorf("first token at %v, last at %v; want %v, %v", q.First, q.Last, first, first+2*ms)
	}
	// Beside the queue: the decode engine computes the last prompt token again.
	cfg.Policy = sim.V1
	c.Engines[0].Sim, c.Disagg.Prefill[0].Sim = cfg, cfg
	c.Disagg.Blocking = false
	q = mustRun(t, mustNew(t, c), Load{Calls: Calls(call)}).Requests[0]
	first = prompt + 3*ms + moved + ms + 10*time.Microsecond
	if q.First != first || q.Last != first+2*ms {
		t.Errorf("without blocking: first token at %v, last at %v; want %v, %v", q.First, q.Last, first, first+2*ms)
	}
}

// TestLinkShares checks that transfers share the bandwidth: alone, together, overlapping.
func TestLinkShares(t *testing.T) {
	l := newLink(Link{SetupNS: 10, TokenNS: 1}, 1)
	l.begin()
	add := func(now time.Duration, work float64) {
		l.progress(now)
		l.active = append(l.active, transfer{left: work, from: now + 10})
	}
	add(0, 100)
	if got := l.due(); got != 10 {
		t.Errorf("set-up ends at %d, want 10", got)
	}
	l.progress(10)
	if got := l.due(); got != 110 {
		t.Errorf("alone it ends at %d, want 110", got)
	}
	add(50, 100) // begins at 60, when the first has 50 left: both at half speed until 160
	l.progress(60)
	if got := l.due(); got != 160 {
		t.Errorf("shared it ends at %d, want 160", got)
	}
	l.progress(160)
	if math.Abs(l.active[0].left) > 1e-9 || math.Abs(l.active[1].left-50) > 1e-9 {
		t.Errorf("left %v and %v, want 0 and 50", l.active[0].left, l.active[1].left)
	}
}

// TestLostTransfers checks that what is lost is tried again, then computed anew or given up.
func TestLostTransfers(t *testing.T) {
	cfg := sim.Config{Policy: sim.V1, MaxSeqs: 16, MaxTokens: 1000, BlockSize: 16, Blocks: 1000}
	e := Engine{Sim: cfg, Model: reference()}
	for _, hard := range []bool{false, true} {
		c := Config{Engines: []Engine{e}, Disagg: &Disagg{
			Prefill: []Engine{e}, FailHard: hard, Link: Link{TokenNS: 1e3, FailureRate: 0.6, Retries: 1, RetryNS: 1e6},
		}}
		cl := mustNew(t, c)
		r := mustRun(t, cl, Load{Calls: Calls(burst(200, 50, 4))})
		again := cl.Engine(0).State().Stats.PromptTokens
		switch {
		case hard && (r.Failed < 40 || r.Failed > 110):
			t.Errorf("%d of 200 failed, want about 72", r.Failed)
		case !hard && (r.Failed != 0 || again < 40*50 || again > 110*50+200):
			t.Errorf("%d failed, %d prompt tokens computed again", r.Failed, again)
		}
	}
}

// TestTurnsOfEachKind checks that requests go round among prefill and among decode engines, each kind
// by its own count.
func TestTurnsOfEachKind(t *testing.T) {
	e := Engine{Sim: sim.Config{Policy: sim.V1, MaxSeqs: 16, MaxTokens: 1000, BlockSize: 16, Blocks: 1000}, Model: reference()}
	c := mustNew(t, Config{Engines: []Engine{e, e}, Disagg: &Disagg{Prefill: []Engine{e, e}, Link: Link{TokenNS: 1e3}}})
	list := burst(40, 50, 4)
	for i := range list {
		list[i].At = time.Duration(i) * time.Second // one at a time: prompt and answer take turns
	}
	mustRun(t, c, Load{Calls: Calls(list)})
	for i := range c.Engines() {
		if got := c.Engine(i).State().Stats.Submitted; got != 20 {
			t.Errorf("engine %d had %d of 40 requests, want 20", i, got)
		}
	}
	if moved, lost := c.Transfers(); moved != 40 || lost != 0 {
		t.Errorf("%d moved, %d lost", moved, lost)
	}
}

// TestLostWhileBlocking checks that an engine that waits for KV computes what was lost.
func TestLostWhileBlocking(t *testing.T) {
	cfg := separate(Link{SetupNS: 5e6, TokenNS: 6e4})
	call := []Call{{Prompt: []kv.Segment{{Stream: 1, Len: 1000}}, Out: 3}}
	good := mustRun(t, mustNew(t, cfg), Load{Calls: Calls(call)}).Requests[0]
	cfg.Disagg.Link.FailureRate = 1
	bad := mustRun(t, mustNew(t, cfg), Load{Calls: Calls(call)}).Requests[0]
	prompt := cfg.Engines[0].Model.Step(latency.Batch{Prompts: 1, Prefill: 1000, Attention2: 1e6})
	if bad.Failed || bad.First-good.First != prompt {
		t.Errorf("first token %v later, want %v: %s", bad.First-good.First, prompt, bad.Err)
	}
}

// TestLoseNeedsTransfers checks what a live run refuses.
func TestLoseNeedsTransfers(t *testing.T) {
	if err := mustNew(t, Config{Engines: []Engine{a10()}}).Lose(0.5); err == nil {
		t.Error("transfers are lost where there are none")
	}
	c := mustNew(t, separate(Link{}))
	for share, ok := range map[float64]bool{0: true, 0.5: true, 1: true, -0.1: false, 1.1: false, math.NaN(): false} {
		if err := c.Lose(share); (err == nil) != ok {
			t.Errorf("share %v: %v", share, err)
		}
	}
}
