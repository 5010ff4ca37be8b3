package sim

import (
	"slices"
	"testing"
	"time"

	"spate/internal/sim/kv"
)

// old is a first-generation engine with room for few blocks.
func old(change func(*Config)) Config {
	c := Config{Policy: V0, MaxSeqs: 8, MaxTokens: 256, BlockSize: 4, Blocks: 10}
	change(&c)
	return c
}

// watch runs an engine until it is empty, one step at a time, and shows each step.
func watch(t *testing.T, e *Engine, each func(n int, b Batch)) {
	t.Helper()
	for n := 0; e.Pending(); n++ {
		b, ok := e.Plan(time.Duration(n) * time.Millisecond)
		if !ok {
			t.Fatalf("step %d: nothing planned for %d requests", n, e.Load())
		}
		each(n, b)
		e.Commit(time.Duration(n+1) * time.Millisecond)
		if err := e.Check(); err != nil {
			t.Fatalf("step %d: %v", n, err)
		}
		if n > 1000 {
			t.Fatal("no end")
		}
	}
}

// TestSwap: two requests outgrow the cache. With room in the host's memory the second is moved there and
// comes back without computing anything again, before a third is admitted; without, it is computed again.
func TestSwap(t *testing.T) {
	for _, c := range []struct {
		name  string
		cfg   Config
		group uint64
		swaps bool
	}{
		{"told to", old(func(c *Config) { c.Swap, c.SwapBlocks = true, 100 }), 0, true},
		{"several answers", old(func(c *Config) { c.SwapBlocks = 100 }), 5, true},
		{"one answer", old(func(c *Config) { c.SwapBlocks = 100 }), 0, false},
		{"no room", old(func(c *Config) { c.Swap, c.SwapBlocks = true, 2 }), 0, false},
		{"chunked", old(func(c *Config) { c.Policy, c.Swap, c.SwapBlocks = V0Chunked, true, 100 }), 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := New(c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			for id := range 3 {
				r := Request{ID: id, Prompt: []kv.Segment{{Stream: uint64(id + 1), Len: 12}}, Out: 16}
				if c.group > 0 {
					r.Group = c.group + uint64(id)
				}
				if err := e.Submit(r); err != nil {
					t.Fatal(err)
				}
			}
			moved, admitted := 0, []int{}
			prompts := 0
			watch(t, e, func(_ int, b Batch) {
				moved += b.Moved
				prompts += b.Shape.Prefill
				for _, a := range b.Admitted {
					admitted = append(admitted, a.ID)
				}
			})
			st := e.State()
			if (st.Stats.SwappedOut > 0) != c.swaps || st.Stats.Preemptions < 1 || st.Stats.Finished != 3 {
				t.Fatalf("%+v, want moved out: %v", st.Stats, c.swaps)
			}
			if c.swaps {
				if prompts != 3*12 || moved%2 != 0 || moved < 8 {
					t.Errorf("%d prompt tokens and %d blocks moved: what was moved out is not computed again, and comes back", prompts, moved)
				}
				if !slices.Equal(admitted, []int{0, 1, 2}) {
					t.Errorf("admitted %v: a request that was moved is not admitted anew", admitted)
				}
			} else if prompts <= 3*12 || moved != 0 {
				t.Errorf("%d prompt tokens, %d blocks moved: it should have been computed again", prompts, moved)
			}
			if st.Host != 0 || st.Swapped != 0 || st.Free != st.Total {
				t.Errorf("left behind: %+v", st)
			}
		})
	}
}

// TestAbortWhileSwapped gives the host's memory back.
func TestAbortWhileSwapped(t *testing.T) {
	e, err := New(old(func(c *Config) { c.Swap, c.SwapBlocks = true, 100 }))
	if err != nil {
		t.Fatal(err)
	}
	for id := range 2 {
		if err := e.Submit(Request{ID: id, Prompt: []kv.Segment{{Stream: uint64(id + 1), Len: 12}}, Out: 16}); err != nil {
			t.Fatal(err)
		}
	}
	watch(t, e, func(int, Batch) {
		if e.State().Swapped > 0 {
			e.Abort(1)
		}
	})
	if st := e.State(); st.Stats.Aborted != 1 || st.Host != 0 || st.Free != st.Total {
		t.Errorf("%+v", st)
	}
}

// TestSeveralSteps: with N decode steps per decision a request that comes in between waits for the next
// decision, and no longer.
func TestSeveralSteps(t *testing.T) {
	for _, policy := range []Policy{V0, V0Chunked} {
		for _, n := range []int{1, 2, 8} {
			e, err := New(old(func(c *Config) { c.Policy, c.Blocks, c.Steps = policy, 100, n }))
			if err != nil {
				t.Fatal(err)
			}
			submit := func(id, out int) {
				if err := e.Submit(Request{ID: id, Prompt: []kv.Segment{{Stream: uint64(id + 1), Len: 8}}, Out: out}); err != nil {
					t.Fatal(err)
				}
			}
			submit(0, 40)
			at := map[int]int{}
			watch(t, e, func(k int, b Batch) {
				for _, a := range b.Admitted {
					at[a.ID] = k
				}
				if k == 4 {
					submit(1, 3) // while the fourth decode step runs
				}
			})
			want := 5 // the next one
			for (want-1)%n != 0 {
				want++
			}
			if at[1] != want {
				t.Errorf("%s, %d steps a decision: admitted in step %d, want %d", policy, n, at[1], want)
			}
		}
	}
}

// TestSeveralAnswers: the prompt of several answers is computed once, whether the engine caches prefixes or
// not, and each answer has blocks of its own.
func TestSeveralAnswers(t *testing.T) {
	for _, policy := range []Policy{V0, V0Chunked, V1} {
		for _, caching := range []bool{false, true} {
			e, err := New(Config{Policy: policy, MaxSeqs: 8, MaxTokens: 256, BlockSize: 4, Blocks: 100, PrefixCaching: caching})
			if err != nil {
				t.Fatal(err)
			}
			for id := range 4 {
				if err := e.Submit(Request{ID: id, Prompt: []kv.Segment{{Stream: 9, Len: 41}}, Out: 6, Group: 3}); err != nil {
					t.Fatal(err)
				}
			}
			prompts, most := 0, 0
			watch(t, e, func(_ int, b Batch) {
				prompts += b.Shape.Prefill
				st := e.State()
				most = max(most, st.Total-st.Free)
			})
			if prompts != 41+3 { // one token is always computed
				t.Errorf("%s, caching %v: %d prompt tokens computed, want 44", policy, caching, prompts)
			}
			if most != 10+4*2 { // ten blocks in common; the last token of the prompt and five of the answer for each
				t.Errorf("%s, caching %v: %d blocks at most, want 18", policy, caching, most)
			}
			if h := e.State().Stats; h.Finished != 4 {
				t.Errorf("%s: %+v", policy, h)
			}
		}
	}
}
