package sim

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"spate/internal/sim/kv"
)

// anyConfig draws an engine small enough to run out of everything.
func anyConfig(t *rapid.T) Config {
	policies := []Policy{V1, V0, V0Chunked, SGLang, LMDeploy}
	c := Config{
		Policy:        rapid.SampledFrom(policies).Draw(t, "policy"),
		MaxSeqs:       rapid.IntRange(1, 6).Draw(t, "seqs"),
		BlockSize:     rapid.SampledFrom([]int{1, 2, 4, 16}).Draw(t, "block"),
		PrefixCaching: rapid.Bool().Draw(t, "prefix"),
		ReserveFull:   rapid.Bool().Draw(t, "full"),
		UnhashedFirst: rapid.Bool().Draw(t, "unhashed first"),
		CountRetries:  rapid.Bool().Draw(t, "retries"),
		Pipeline:      rapid.IntRange(1, 3).Draw(t, "pipeline"),
		LongPrefill:   rapid.SampledFrom([]int{0, 0, 5}).Draw(t, "long"),
		Watermark:     rapid.SampledFrom([]float64{0, 0.01, 0.1}).Draw(t, "watermark"),
		Window:        rapid.SampledFrom([]int{0, 8}).Draw(t, "window"),
		LoRASlots:     rapid.SampledFrom([]int{0, 1, 2}).Draw(t, "loras"),
		Drafts:        rapid.SampledFrom([]int{0, 0, 2}).Draw(t, "drafts"),
		Steps:         rapid.SampledFrom([]int{0, 0, 3}).Draw(t, "steps"),
		SwapBlocks:    rapid.SampledFrom([]int{0, 8, 200}).Draw(t, "swap space"),
		Swap:          rapid.Bool().Draw(t, "swap"),
		Acceptance:    0.5,
		ReserveRatio:  0.5,
	}
	if c.Window > 0 {
		c.WindowGroups = rapid.IntRange(0, 1).Draw(t, "groups")
	}
	c.Async = c.Policy == V1 && c.Drafts == 0 && rapid.Bool().Draw(t, "async")
	c.MaxTokens = rapid.IntRange(c.MaxSeqs, 48).Draw(t, "budget")
	if c.Policy == V0 {
		c.MaxTokens += 40
	}
	c.Blocks = rapid.IntRange(6, 40).Draw(t, "blocks") * 16 / c.BlockSize * (1 + c.WindowGroups) * c.lanes()
	return c
}

func anyRequest(t *rapid.T, id int, cfg Config) Request {
	r := Request{
		ID:      id,
		Prompt:  []kv.Segment{{Stream: uint64(rapid.IntRange(1, 3).Draw(t, "stream")), Len: rapid.IntRange(1, 24).Draw(t, "in")}},
		Out:     rapid.IntRange(1, 20).Draw(t, "out"),
		Stops:   rapid.Bool().Draw(t, "stops"),
		Adapter: rapid.IntRange(0, 2).Draw(t, "adapter"),
	}
	if rapid.Bool().Draw(t, "more") {
		r.Prompt = append(r.Prompt, kv.Segment{Stream: uint64(100 + id), Len: rapid.IntRange(1, 8).Draw(t, "own")})
	}
	if cfg.LoRASlots == 0 {
		r.Adapter = 0
	}
	r.Group = rapid.SampledFrom([]uint64{0, 0, 7, 8}).Draw(t, "group")
	r.Remote = (cfg.Policy == V1 || cfg.Policy == V0) && rapid.IntRange(0, 5).Draw(t, "remote") == 0
	return r
}

// ledger follows what an engine says it did.
type ledger struct {
	cfg  Config
	out  map[int]int // tokens still owed
	seen map[int]int
}

func (l *ledger) check(t *rapid.T, b Batch) {
	tokens, decodes := 0, 0
	ids := map[int]bool{}
	for _, it := range b.Items {
		if ids[it.ID] {
			t.Fatalf("request %d is twice in a batch", it.ID)
		}
		ids[it.ID] = true
		if _, ok := l.out[it.ID]; !ok {
			t.Fatalf("request %d is not in the engine", it.ID)
		}
		if it.Decode {
			decodes++
		}
		if !(it.Decode && l.cfg.Policy == LMDeploy) && !it.Receive {
			tokens += it.Tokens
		}
	}
	if tokens > l.cfg.MaxTokens && !(l.cfg.Policy == V0 && decodes == len(b.Items)) && l.cfg.Policy != SGLang {
		t.Fatalf("%d tokens exceed the budget of %d", tokens, l.cfg.MaxTokens)
	}
	if len(b.Items) > l.cfg.MaxSeqs*l.cfg.lanes() {
		t.Fatalf("%d requests exceed max_num_seqs %d", len(b.Items), l.cfg.MaxSeqs)
	}
	if b.Shape.Decode != decodes || b.Repeat < 1 {
		t.Fatalf("shape %+v does not describe %+v", b.Shape, b.Items)
	}
	if l.cfg.Policy == V1 && len(b.Preempted) > 0 && len(b.Admitted) > 0 {
		t.Fatal("a step that preempted admitted a request")
	}
}

func (l *ledger) settle(t *rapid.T, out *Outputs) {
	for _, o := range out.List {
		owed, ok := l.out[o.ID]
		if !ok {
			t.Fatalf("request %d got tokens after its end", o.ID)
		}
		if o.First != (l.seen[o.ID] == 0) {
			t.Fatalf("request %d: first %v after %d tokens", o.ID, o.First, l.seen[o.ID])
		}
		owed -= o.Tokens
		l.seen[o.ID] += o.Tokens
		l.out[o.ID] = owed
		if owed < 0 || (owed == 0) != (o.Reason != Running) {
			t.Fatalf("request %d owes %d tokens and ends for %d", o.ID, owed, o.Reason)
		}
		if owed == 0 {
			delete(l.out, o.ID)
		}
	}
}

// TestLaws drives engines with any mix of arrivals, aborts and steps, and holds the books.
func TestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := anyConfig(t)
		e, err := New(cfg)
		if err != nil {
			t.Skip(err)
		}
		l := &ledger{cfg: cfg, out: map[int]int{}, seen: map[int]int{}}
		now, next := time.Duration(0), 0
		var fetching []int
		for range rapid.IntRange(1, 60).Draw(t, "moves") {
			switch rapid.IntRange(0, 6).Draw(t, "move") {
			case 0, 1:
				r := anyRequest(t, next, cfg)
				r.Arrive = now
				if e.Submit(r) == nil {
					l.out[next] = r.Out
				}
				next++
			case 2:
				id := rapid.IntRange(0, max(0, next-1)).Draw(t, "abort")
				_, in := l.out[id]
				if e.Abort(id) != in {
					t.Fatalf("abort of %d, in the engine: %v", id, in)
				}
				delete(l.out, id)
			default:
				fetching = l.step(t, e, &now, fetching, rapid.Bool().Draw(t, "repeat"))
			}
			if err := e.Check(); err != nil {
				t.Fatal(err)
			}
		}
		for turn := 0; e.Pending() || e.InFlight() > 0; turn++ {
			if turn > 20000 {
				t.Fatalf("no end: %+v", e.State())
			}
			fetching = l.step(t, e, &now, fetching, true)
		}
		if st := e.State(); st.Free != st.Total || len(l.out) != 0 || st.Running+st.Waiting != 0 {
			t.Fatalf("left over: %+v %v", st, l.out)
		}
		if err := e.Check(); err != nil {
			t.Fatal(err)
		}
	})
}

// step plans what can be planned and commits the oldest batch, several times if it may repeat.
func (l *ledger) step(t *rapid.T, e *Engine, now *time.Duration, fetching []int, repeat bool) []int {
	for _, id := range fetching {
		if id%3 == 0 {
			e.Forget(id) // lost on the way
		} else {
			e.Deliver(id)
		}
	}
	fetching = nil
	planned, last := false, Batch{}
	for {
		b, ok := e.Plan(*now)
		fetching = append(fetching, e.Fetches()...)
		if !ok {
			break
		}
		planned, last = true, b
		l.check(t, b)
	}
	if e.InFlight() == 0 {
		if e.Pending() && len(fetching) == 0 && e.State().Deferred == 0 {
			t.Fatalf("requests wait and nothing runs: %+v", e.State())
		}
		return fetching
	}
	*now += time.Millisecond
	if planned && repeat && last.Repeat > 1 {
		ends := make([]time.Duration, rapid.IntRange(1, min(last.Repeat, 40)).Draw(t, "times"))
		for i := range ends {
			ends[i] = *now + time.Duration(i)
		}
		l.settle(t, e.CommitRun(ends))
		return fetching
	}
	l.settle(t, e.Commit(*now))
	return fetching
}

// TestStretchEqualsSteps runs the same requests with and without repeating batches and compares the
// engines afterwards, pools and caches included.
func TestStretchEqualsSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := anyConfig(t)
		cfg.Pipeline, cfg.Async, cfg.Drafts = 1, false, 0
		fast, err := New(cfg)
		if err != nil {
			t.Skip(err)
		}
		slow, _ := New(cfg)
		n := rapid.IntRange(1, 12).Draw(t, "requests")
		at := make([]int64, n)
		reqs := make([]Request, n)
		for i := range n {
			reqs[i] = anyRequest(t, i, cfg)
			reqs[i].Remote = false
			at[i] = rapid.Int64Range(0, 60).Draw(t, "after steps")
		}
		run(t, fast, reqs, at, true)
		run(t, slow, reqs, at, false)
		a, b := fast.State(), slow.State()
		if fast.Digest() != slow.Digest() || a.Stats.Steps != b.Stats.Steps || a.Stats.Tokens != b.Stats.Tokens || a.HitRecent != b.HitRecent {
			t.Fatalf("stretches %+v\nsteps     %+v", a, b)
		}
		for i := range fast.lanes {
			if x, y := fast.lanes[i].pool, slow.lanes[i].pool; x.Fingerprint() != y.Fingerprint() {
				t.Fatalf("the pools differ: %d and %d cached blocks", x.Cached(), y.Cached())
			}
		}
	})
}

// run submits requests after given numbers of steps and runs the engine until it is empty.
func run(t *rapid.T, e *Engine, reqs []Request, at []int64, stretch bool) {
	for steps := int64(0); steps < 61 || e.Pending(); {
		for i := range reqs {
			if at[i] == steps {
				_ = e.Submit(reqs[i]) // one that does not fit is refused both times
			}
		}
		b, ok := e.Plan(time.Duration(steps))
		if !ok {
			steps++
			continue
		}
		k := int64(1)
		if stretch {
			for k < int64(b.Repeat) && !due(at, steps+1, steps+k) {
				k++
			}
		}
		ends := make([]time.Duration, k)
		for i := range ends {
			ends[i] = time.Duration(steps + int64(i) + 1)
		}
		if k > 2 && steps%2 == 0 { // part of the stretch first
			e.Advance(ends[:k-2])
			ends = ends[k-2:]
		}
		e.CommitRun(ends)
		steps += k
		if err := e.Check(); err != nil {
			t.Fatal(err)
		}
	}
}

func due(at []int64, from, to int64) bool {
	for _, a := range at {
		if a >= from && a <= to {
			return true
		}
	}
	return false
}
