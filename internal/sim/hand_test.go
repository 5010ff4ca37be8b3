package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"spate/internal/sim/kv"
)

// prompt is a prompt of n tokens of its own stream.
func prompt(stream, n int) []kv.Segment { return []kv.Segment{{Stream: uint64(stream), Len: n}} }

func mustNew(t testing.TB, cfg Config) *Engine {
	t.Helper()
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func mustSubmit(t testing.TB, e *Engine, r Request) {
	t.Helper()
	if err := e.Submit(r); err != nil {
		t.Fatal(err)
	}
}

// batchText writes a batch as "id:tokens@context", decodes with a d and preemptions with a minus.
func batchText(b Batch) string {
	var parts []string
	for _, it := range b.Items {
		mark := ""
		if it.Decode {
			mark = "d"
		}
		parts = append(parts, fmt.Sprintf("%d%s:%d@%d", it.ID, mark, it.Tokens, it.Context))
	}
	for _, id := range b.Preempted {
		parts = append(parts, fmt.Sprintf("-%d", id))
	}
	return strings.Join(parts, " ")
}

// steps runs an engine until it is empty, a millisecond per step, and lists its batches.
func steps(t testing.TB, e *Engine) []string {
	t.Helper()
	var list []string
	now := time.Duration(0)
	for e.Pending() {
		b, ok := e.Plan(now)
		if !ok {
			t.Fatalf("nothing planned with %d requests left, after %q", e.Load(), list)
		}
		list = append(list, batchText(b))
		now += time.Millisecond
		e.Commit(now)
		if err := e.Check(); err != nil {
			t.Fatalf("after %q: %v", list, err)
		}
		if len(list) > 10000 {
			t.Fatal("no end")
		}
	}
	return list
}

// TestBatchesByHand compares batch sequences with ones worked out on paper.
func TestBatchesByHand(t *testing.T) {
	small := Config{Policy: V1, MaxSeqs: 4, MaxTokens: 8, BlockSize: 4, Blocks: 100}
	with := func(f func(*Config)) Config {
		c := small
		f(&c)
		return c
	}
	three := []Request{
		{ID: 1, Prompt: prompt(1, 6), Out: 3},
		{ID: 2, Prompt: prompt(2, 5), Out: 2},
		{ID: 3, Prompt: prompt(3, 2), Out: 1},
	}
	cases := []struct {
		name string
		cfg  Config
		in   []Request
		want string
	}{
		{
			"V1 mixes decodes and chunks under one budget", small, three,
			// 6 of prompt 1 and 2 of prompt 2; then 1's decode, the rest of 2, all of 3; then decodes
			"1:6@0 2:2@0|1d:1@6 2:3@2 3:2@0|1d:1@7 2d:1@5",
		},
		{
			"V1 cuts long prompts at the threshold", with(func(c *Config) { c.LongPrefill = 3 }), three,
			"1:3@0 2:3@0 3:2@0|1:3@3 2:2@3|1d:1@6 2d:1@5|1d:1@7",
		},
		{
			"V1 respects max_num_seqs", with(func(c *Config) { c.MaxSeqs = 1 }), three,
			"1:6@0|1d:1@6|1d:1@7|2:5@0|2d:1@5|3:2@0",
		},
		{
			"V1 with whole prompts stops at the first that does not fit", with(func(c *Config) { c.WholePrompts = true }), three,
			"1:6@0|1d:1@6 2:5@0 3:2@0|1d:1@7 2d:1@5",
		},
		{
			"V0 admits prompts first and decodes when none waits", with(func(c *Config) { c.Policy = V0 }), three,
			// prompt 1 and 3 do not fit together with 2 in 8 tokens: order is kept
			"1:6@0|2:5@0 3:2@0|1d:1@6 2d:1@5|1d:1@7",
		},
		{
			"V0 chunked decodes first", with(func(c *Config) { c.Policy = V0Chunked }), three,
			"1:6@0 2:2@0|1d:1@6 2:3@2 3:2@0|1d:1@7 2d:1@5",
		},
		{
			"LMDeploy's decodes leave the prompt budget alone", with(func(c *Config) { c.Policy = LMDeploy; c.MaxTokens = 5; c.MaxSeqs = 3 }), three,
			"1:5@0|1:1@5 2:4@0|1d:1@6 2:1@4 3:2@0|1d:1@7 2d:1@5",
		},
		{
			"V1 preempts the last one and admits nobody in that step", with(func(c *Config) { c.Blocks = 4 }),
			[]Request{{ID: 1, Prompt: prompt(1, 4), Out: 6}, {ID: 2, Prompt: prompt(2, 4), Out: 6}},
			// both fill a block, grow to two each, and at token 9 the pool is empty: 2 goes
			"1:4@0 2:4@0|1d:1@4 2d:1@4|1d:1@5 2d:1@5|1d:1@6 2d:1@6|1d:1@7 2d:1@7|1d:1@8 -2|2:8@0|2d:1@8",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			e := mustNew(t, c.cfg)
			for _, r := range c.in {
				mustSubmit(t, e, r)
			}
			if got := strings.Join(steps(t, e), "|"); got != c.want {
				t.Errorf("batches\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestResumedHitsItself checks that a preempted request finds the blocks it gave back.
func TestResumedHitsItself(t *testing.T) {
	e := mustNew(t, Config{Policy: V1, MaxSeqs: 4, MaxTokens: 64, BlockSize: 4, Blocks: 7, PrefixCaching: true})
	mustSubmit(t, e, Request{ID: 1, Prompt: prompt(1, 8), Out: 8})
	mustSubmit(t, e, Request{ID: 2, Prompt: prompt(2, 8), Out: 8})
	got := strings.Join(steps(t, e), "|")
	// at 13 tokens both want a fourth block and one is free: 2 gives back three full blocks, which 1
	// does not need, and cannot come back with a fourth until 1 has ended. It then goes on from 12.
	want := "1:8@0 2:8@0|1d:1@8 2d:1@8|1d:1@9 2d:1@9|1d:1@10 2d:1@10|1d:1@11 2d:1@11|1d:1@12 -2|1d:1@13|1d:1@14|2d:1@12|2d:1@13|2d:1@14"
	if got != want {
		t.Errorf("batches\n got %s\nwant %s", got, want)
	}
}

// TestDelayFactor checks that prompts wait for several times the last prompt step.
func TestDelayFactor(t *testing.T) {
	e := mustNew(t, Config{Policy: V0, MaxSeqs: 4, MaxTokens: 64, BlockSize: 4, Blocks: 100, DelayFactor: 2})
	mustSubmit(t, e, Request{ID: 1, Prompt: prompt(1, 8), Out: 8})
	e.Plan(0)
	e.Commit(10 * time.Millisecond) // a prompt step of 10 ms
	mustSubmit(t, e, Request{ID: 2, Arrive: 10 * time.Millisecond, Prompt: prompt(2, 8), Out: 2})
	var got []string
	for now := 10 * time.Millisecond; now <= 35*time.Millisecond; now += 5 * time.Millisecond {
		b, _ := e.Plan(now)
		got = append(got, batchText(b))
		e.Commit(now + 5*time.Millisecond)
	}
	want := "1d:1@8|1d:1@9|1d:1@10|1d:1@11|1d:1@12|2:8@0"
	if s := strings.Join(got, "|"); s != want {
		t.Errorf("batches\n got %s\nwant %s", s, want)
	}
}

// TestReserveFull checks the two admission rules: first chunk fits, or whole prompt fits.
func TestReserveFull(t *testing.T) {
	for _, full := range []bool{false, true} {
		e := mustNew(t, Config{Policy: V1, MaxSeqs: 4, MaxTokens: 8, BlockSize: 4, Blocks: 8, ReserveFull: full})
		mustSubmit(t, e, Request{ID: 1, Prompt: prompt(1, 15), Out: 4})
		mustSubmit(t, e, Request{ID: 2, Prompt: prompt(2, 20), Out: 2})
		e.Plan(0)
		e.Commit(1)
		b, _ := e.Plan(1) // 7 tokens left of prompt 1, one token of budget
		want := "1:7@8 2:1@0"
		if full {
			want = "1:7@8" // 4 blocks are free, prompt 2 wants 5
		}
		if got := batchText(b); got != want {
			t.Errorf("full %v: got %s, want %s", full, got, want)
		}
	}
}

// TestPipeline checks that a request is not scheduled again while its token is being computed, and
// that two batches alternate.
func TestPipeline(t *testing.T) {
	cases := []struct {
		name   string
		policy Policy
		want   string
	}{
		{"one pool and one queue", V1, "1:4@0 2:4@0;-|1d:1@4 2d:1@4;-|1d:1@5 2d:1@5;-"},
		{"one scheduler per stage", V0, "1:4@0;2:4@0|1d:1@4;2d:1@4|1d:1@5;2d:1@5"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			e := mustNew(t, Config{Policy: c.policy, MaxSeqs: 4, MaxTokens: 32, BlockSize: 4, Blocks: 100, Pipeline: 2})
			mustSubmit(t, e, Request{ID: 1, Prompt: prompt(1, 4), Out: 3})
			mustSubmit(t, e, Request{ID: 2, Prompt: prompt(2, 4), Out: 3})
			var rounds []string
			for range 3 {
				var both []string
				n := 0
				for range 2 {
					b, ok := e.Plan(0)
					if ok {
						both = append(both, batchText(b))
						n++
					} else {
						both = append(both, "-")
					}
				}
				rounds = append(rounds, strings.Join(both, ";"))
				for range n {
					e.Commit(1)
				}
			}
			if got := strings.Join(rounds, "|"); got != c.want {
				t.Errorf("batches\n got %s\nwant %s", got, c.want)
			}
			if e.Pending() {
				t.Error("requests left")
			}
		})
	}
}

// TestAsync checks that the next step is planned before the last one ends: an end by length is
// foreseen, one by EOS costs a step.
func TestAsync(t *testing.T) {
	for _, stops := range []bool{false, true} {
		e := mustNew(t, Config{Policy: V1, MaxSeqs: 4, MaxTokens: 32, BlockSize: 4, Blocks: 100, Async: true})
		mustSubmit(t, e, Request{ID: 1, Prompt: prompt(1, 4), Out: 2, Stops: stops})
		b1, _ := e.Plan(0)
		b2, _ := e.Plan(0)
		if got := batchText(b1) + "|" + batchText(b2); got != "1:4@0|1d:1@4" {
			t.Fatalf("got %s", got)
		}
		e.Commit(1)
		b3, ok := e.Plan(1)
		if ok != stops {
			t.Errorf("stops %v: a third step was planned: %v %s", stops, ok, batchText(b3))
		}
		if out := e.Commit(2); len(out.List) != 1 || out.List[0].Reason == Running {
			t.Errorf("stops %v: the second token does not end the request: %+v", stops, out)
		}
		if ok {
			if out := e.Commit(3); len(out.List) != 0 {
				t.Errorf("the wasted step gave %+v", out.List)
			}
		}
		if err := e.Check(); err != nil || e.State().Free != e.State().Total {
			t.Errorf("stops %v: %v, %d of %d blocks free", stops, err, e.State().Free, e.State().Total)
		}
	}
}

// TestLoRASlots checks that a batch holds no more adapters than there are slots, and that requests
// behind one that has to wait go ahead.
func TestLoRASlots(t *testing.T) {
	e := mustNew(t, Config{Policy: V1, MaxSeqs: 8, MaxTokens: 64, BlockSize: 4, Blocks: 100, LoRASlots: 1})
	for id, adapter := range []int{1, 2, 1, 0} {
		mustSubmit(t, e, Request{ID: id, Prompt: prompt(id, 4), Out: 1, Adapter: adapter})
	}
	if got := strings.Join(steps(t, e), "|"); got != "0:4@0 2:4@0 3:4@0|1:4@0" {
		t.Errorf("batches %s", got)
	}
}

// TestSpeculation checks the number of tokens per step against the acceptance rate.
func TestSpeculation(t *testing.T) {
	for _, c := range []struct {
		accept float64
		want   float64
	}{{0, 1}, {0.5, 1.875}, {1, 4}} {
		e := mustNew(t, Config{Policy: V1, MaxSeqs: 8, MaxTokens: 64, BlockSize: 16, Blocks: 2000, Drafts: 3, Acceptance: c.accept})
		mustSubmit(t, e, Request{ID: 1, Prompt: prompt(1, 4), Out: 4001})
		n := len(steps(t, e)) - 1
		if got := 4000 / float64(n); got < c.want*0.95 || got > c.want*1.05 {
			t.Errorf("acceptance %v: %.3f tokens per step, want %.3f", c.accept, got, c.want)
		}
	}
}

// TestRemote checks both ways of taking over a prompt computed elsewhere.
func TestRemote(t *testing.T) {
	e := mustNew(t, Config{Policy: V1, MaxSeqs: 8, MaxTokens: 64, BlockSize: 4, Blocks: 100})
	mustSubmit(t, e, Request{ID: 1, Prompt: prompt(1, 9), Out: 2, Remote: true})
	if _, ok := e.Plan(0); ok {
		t.Error("a step without KV")
	}
	if ids := e.Fetches(); len(ids) != 1 || ids[0] != 1 {
		t.Fatalf("fetches %v", ids)
	}
	if st := e.State(); st.Deferred != 1 || st.Free != 97 {
		t.Errorf("state while waiting: %+v", st)
	}
	e.Deliver(1)
	if got := strings.Join(steps(t, e), "|"); got != "1:1@8|1d:1@9" {
		t.Errorf("batches %s", got)
	}
	old := mustNew(t, Config{Policy: V0, MaxSeqs: 8, MaxTokens: 64, BlockSize: 4, Blocks: 100})
	mustSubmit(t, old, Request{ID: 1, Prompt: prompt(1, 9), Out: 2, Remote: true})
	b, _ := old.Plan(0)
	if b.Receive != 9 || b.Shape.Prefill != 0 || !b.Items[0].Receive {
		t.Errorf("batch %+v", b)
	}
}

// TestRefusals checks the settings and requests that an engine does not take.
func TestRefusals(t *testing.T) {
	good := Config{Policy: V1, MaxSeqs: 4, MaxTokens: 64, BlockSize: 4, Blocks: 10, MaxModelLen: 32}
	for name, change := range map[string]func(*Config){
		"budget below max_num_seqs":  func(c *Config) { c.MaxSeqs = 65 },
		"unknown policy":             func(c *Config) { c.Policy = "v2" },
		"no room for one request":    func(c *Config) { c.Blocks = 7 },
		"whole prompts, long model":  func(c *Config) { c.Policy = V0; c.MaxModelLen = 65; c.Blocks = 100 },
		"pipeline halves the blocks": func(c *Config) { c.Policy = V0; c.Pipeline = 2 },
		"no blocks of size zero":     func(c *Config) { c.BlockSize = 0 },
	} {
		c := good
		change(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	e := mustNew(t, good)
	mustSubmit(t, e, Request{ID: 1, Prompt: prompt(1, 8), Out: 1})
	for name, r := range map[string]Request{
		"same id":       {ID: 1, Prompt: prompt(1, 8), Out: 1},
		"too long":      {ID: 2, Prompt: prompt(1, 30), Out: 3},
		"empty prompt":  {ID: 3, Out: 3},
		"nothing to do": {ID: 4, Prompt: prompt(1, 8)},
	} {
		if err := e.Submit(r); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
