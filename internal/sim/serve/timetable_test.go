package serve

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// tape records what an engine emits.
type tape struct {
	name string
	log  *[]string
	outs []Output
}

func (t *tape) Start(int64, int) {}

func (t *tape) Emit(o Output) {
	t.outs = append(t.outs, o)
	if t.log != nil {
		*t.log = append(*t.log, fmt.Sprintf("%s@%d+%d%s", t.name, o.Due/1e6, o.Tokens, o.Finish))
	}
}

const ms = int64(time.Millisecond)

// drive advances an engine to each of its deadlines until it has none.
func drive(e Engine) {
	for e.Next() != Never {
		e.Advance(e.Next())
	}
}

func durp(d time.Duration) *time.Duration { return &d }

func TestTimetable(t *testing.T) {
	cfg := TimetableConfig{TTFT: 50 * time.Millisecond, ITL: 10 * time.Millisecond}
	with := func(f func(*TimetableConfig)) TimetableConfig {
		c := cfg
		f(&c)
		return c
	}
	cases := []struct {
		name string
		cfg  TimetableConfig
		reqs []*Request
		want []string
	}{
		{
			"plain", cfg,
			[]*Request{{MaxTokens: 3}},
			[]string{"0@50+1", "0@60+1", "0@70+1length"},
		},
		{
			"two in step", cfg,
			[]*Request{{MaxTokens: 2}, {MaxTokens: 2, Arrived: 5 * ms}},
			[]string{"0@50+1", "1@55+1", "0@60+1length", "1@65+1length"},
		},
		{
			"tokens per chunk", with(func(c *TimetableConfig) { c.ChunkTokens = 4 }),
			[]*Request{{MaxTokens: 10}},
			[]string{"0@50+4", "0@60+4", "0@70+2length"},
		},
		{
			"own end", with(func(c *TimetableConfig) { c.OutputLen = 2 }),
			[]*Request{{MaxTokens: 5}, {MaxTokens: 1}, {MaxTokens: 3, IgnoreEOS: true}, {MaxTokens: 5, MinTokens: 3}},
			[]string{
				"0@50+1", "1@50+1length", "2@50+1", "3@50+1",
				"0@60+1stop", "2@60+1", "3@60+1",
				"2@70+1length", "3@70+1stop",
			},
		},
		{
			"prefill by length", with(func(c *TimetableConfig) { c.Prefill = 100 * time.Millisecond }),
			[]*Request{{MaxTokens: 1, PromptTokens: 500}, {MaxTokens: 1, PromptTokens: 2000}},
			[]string{"0@100+1length", "1@250+1length"},
		},
		{
			"queue of one", with(func(c *TimetableConfig) { c.MaxRunning = 1 }),
			[]*Request{{MaxTokens: 2}, {MaxTokens: 2}, {MaxTokens: 1}},
			[]string{"0@50+1", "0@60+1length", "1@110+1", "1@120+1length", "2@170+1length"},
		},
		{
			"script", cfg,
			[]*Request{{MaxTokens: 9, Timing: &Timing{
				TTFT: durp(7 * time.Millisecond), ITL: []time.Duration{1e6, 20e6}, Chunks: []int{1, 2}, Output: 6, Finish: FinishStop,
			}}},
			[]string{"0@7+1", "0@8+2", "0@28+2", "0@48+1stop"},
		},
		{
			"stall", cfg,
			[]*Request{{MaxTokens: 3, Timing: &Timing{StallAt: 1, Stall: time.Second}}},
			[]string{"0@50+1", "0@1060+1", "0@1070+1length"},
		},
		{
			"stall for ever", cfg,
			[]*Request{{MaxTokens: 3, Timing: &Timing{StallAt: 2, Stall: Forever}}},
			[]string{"0@50+1", "0@60+1"},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			e := NewTimetable(c.cfg)
			var log []string
			for i, r := range c.reqs {
				r.Index = i
				e.Submit(r.Arrived, r, &tape{name: fmt.Sprint(i), log: &log})
			}
			drive(e)
			if d := cmp.Diff(c.want, log); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestTimetableKinds(t *testing.T) {
	e := NewTimetable(TimetableConfig{ChunkTokens: 2, Reasoning: 3, ToolTokens: 3})
	chat, plain := &tape{}, &tape{}
	e.Submit(0, &Request{MaxTokens: 9, Chat: true}, chat)
	e.Submit(0, &Request{MaxTokens: 4}, plain)
	drive(e)
	want := []Output{
		{Tokens: 2, Kind: Reasoning},
		{Tokens: 1, Kind: Reasoning},
		{Tokens: 2, Kind: Text},
		{Tokens: 1, Kind: Text},
		{Tokens: 2, Kind: Tool},
		{Tokens: 1, Kind: Tool, Finish: FinishTool},
	}
	if d := cmp.Diff(want, chat.outs); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]Output{{Tokens: 2}, {Tokens: 2, Finish: FinishLength}}, plain.outs); d != "" {
		t.Error(d)
	}
}

// TestTimetableLaws throws random requests and aborts at the engine and checks what must hold
// whatever happens.
func TestTimetableLaws(t *testing.T) {
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		e := NewTimetable(TimetableConfig{
			TTFT: 20 * time.Millisecond, ITL: 3 * time.Millisecond, Jitter: 0.5, TTFTSpread: 5 * time.Millisecond,
			ChunkTokens: 1 + rnd.IntN(3), MaxRunning: rnd.IntN(5), Seed: seed,
		})
		var reqs []*Request
		var outs []*tape
		aborted := map[*Request]int{}
		now := int64(0)
		for i := range 60 {
			now += int64(rnd.IntN(5)) * ms
			e.Advance(now)
			r := &Request{Index: i, Arrived: now, MaxTokens: 1 + rnd.IntN(12)}
			tp := &tape{}
			reqs, outs = append(reqs, r), append(outs, tp)
			e.Submit(now, r, tp)
			if rnd.IntN(4) == 0 {
				k := rnd.IntN(len(reqs))
				if _, twice := aborted[reqs[k]]; !twice {
					aborted[reqs[k]] = len(outs[k].outs)
					e.Abort(now, reqs[k])
				}
			}
			st := e.State()
			if e.cfg.MaxRunning > 0 && (st.Running > e.cfg.MaxRunning || (st.Waiting > 0 && st.Running < e.cfg.MaxRunning)) {
				t.Fatalf("seed %d: %+v with at most %d", seed, st, e.cfg.MaxRunning)
			}
		}
		drive(e)
		if st := e.State(); st.Running != 0 || st.Waiting != 0 || len(e.runs) != 0 {
			t.Fatalf("seed %d: left over %+v", seed, st)
		}
		for k, r := range reqs {
			checkRun(t, r, outs[k].outs, aborted)
		}
	}
}

func checkRun(t *testing.T, r *Request, outs []Output, aborted map[*Request]int) {
	t.Helper()
	if n, gone := aborted[r]; gone {
		if len(outs) != n {
			t.Errorf("request %d: %d outputs after its abort", r.Index, len(outs)-n)
		}
		return
	}
	tokens := 0
	for i, o := range outs {
		tokens += int(o.Tokens)
		if o.Due < r.Arrived || (i > 0 && o.Due < outs[i-1].Due) || (o.Finish != Running) != (i == len(outs)-1) {
			t.Errorf("request %d: output %d is %+v after %+v", r.Index, i, o, outs[:i])
		}
	}
	if tokens != r.MaxTokens {
		t.Errorf("request %d: %d tokens of %d", r.Index, tokens, r.MaxTokens)
	}
}

func TestTimetableSeeded(t *testing.T) {
	run := func(seed uint64) []Output {
		e := NewTimetable(TimetableConfig{TTFT: time.Second, ITL: time.Second, Jitter: 0.2, OutputLen: 100, OutputVary: 0.5, Seed: seed})
		tp := &tape{}
		e.Submit(0, &Request{MaxTokens: 1000}, tp)
		drive(e)
		return tp.outs
	}
	a, b, c := run(1), run(1), run(2)
	if !slices.Equal(a, b) {
		t.Error("the same seed gave two timetables")
	}
	if slices.Equal(a, c) {
		t.Error("two seeds gave one timetable")
	}
	if n := len(a); n < 50 || n > 150 {
		t.Errorf("%d tokens", n)
	}
	for i, o := range a[1:] {
		if gap := time.Duration(o.Due - a[i].Due); gap < 800*time.Millisecond || gap > 1200*time.Millisecond {
			t.Errorf("gap %d is %v", i, gap)
		}
	}
}

func TestPrefixCache(t *testing.T) {
	c := newPrefixCache(6, 4)
	seq := func(from, n int) (ids []int32) {
		for i := range n {
			ids = append(ids, int32(from+i))
		}
		return ids
	}
	steps := []struct {
		prompt []int32
		want   int
	}{
		{seq(0, 10), 0},
		{seq(0, 10), 8},                           // two full blocks, the rest is never cached
		{seq(0, 8), 4},                            // a fully known prompt still computes its last block
		{append(seq(0, 4), seq(90, 6)...), 4},     // shares one block
		{seq(4, 8), 0},                            // the same tokens behind another start are another block
		{append(seq(0, 8), seq(50, 1)...), 8},     // still there
		{seq(100, 24), 0},                         // fills the cache and pushes the oldest out
		{append(seq(0, 8), seq(50, 1)...), 0},     // so it is gone
		{append(seq(100, 3), seq(400, 20)...), 0}, // differs in its first block
	}
	for i, s := range steps {
		if got := c.lookup(s.prompt); got != s.want {
			t.Errorf("step %d: %d cached, want %d", i, got, s.want)
		}
		if c.len() > 6 || c.len() != c.order.Len() {
			t.Fatalf("step %d: %d blocks, %d in order", i, c.len(), c.order.Len())
		}
	}
	c.reset()
	if got := c.lookup(seq(100, 24)); got != 0 {
		t.Errorf("%d cached after a reset", got)
	}
}
