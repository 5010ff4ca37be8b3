package wall

import (
	"testing"

	"spate/internal/sim"
	"spate/internal/sim/serve"
)

// TestSeveralAnswers: a request for n answers gets n of them, all their tokens, one end of the stream, and
// its prompt is computed once.
func TestSeveralAnswers(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*sim.Config)
		vary   float64
	}{
		{"v1", func(*sim.Config) {}, 0},
		{"v1 without prefix cache", func(c *sim.Config) { c.PrefixCaching = false }, 0},
		{"v0", func(c *sim.Config) { c.Policy, c.MaxTokens, c.PrefixCaching = sim.V0, 512, false }, 0},
		{"answers of many lengths", func(*sim.Config) {}, 0.9},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := single(v1(c.change))
			cfg.Answers = Answers{Len: 20, Vary: c.vary}
			e := make1(t, cfg)
			req := request(0, 0, 101, 40)
			req.N, req.IgnoreEOS = 4, c.vary == 0
			var s sink
			e.Submit(0, req, &s)
			drain(e)
			per, ends, over := map[int32]int{}, 0, 0
			for i, o := range s.outs {
				per[o.Choice] += int(o.Tokens)
				if o.Finish == serve.Running {
					continue
				}
				ends++
				if !o.More {
					over++
					if i != len(s.outs)-1 {
						t.Error("the stream ends before its last output")
					}
				}
			}
			if len(per) != 4 || ends != 4 || over != 1 || s.starts != 1 || len(e.calls) != 0 {
				t.Errorf("answers %v, %d ended, the stream %d times, started %d times; %d calls left", per, ends, over, s.starts, len(e.calls))
			}
			same := true
			for k := range int32(4) {
				same = same && per[k] == per[0]
				if per[k] < 1 || per[k] > 40 {
					t.Errorf("answer %d has %d tokens", k, per[k])
				}
			}
			if same != (c.vary == 0) {
				t.Errorf("lengths %v with a spread of %v", per, c.vary)
			}
			if got := e.States()[0].Stats.PromptTokens; got > 101+3*16 {
				t.Errorf("%d prompt tokens were computed for one prompt of 101", got)
			}
		})
	}
}

// TestSeveralAnswersEndTogether: leaving, or an error, ends all of them, and nothing is left behind.
func TestSeveralAnswersEndTogether(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(e *Engine, req *serve.Request)
		outs int // errors at the end
	}{
		{"abort", func(e *Engine, req *serve.Request) { e.Abort(e.Next(), req) }, 0},
		{"death", func(e *Engine, _ *serve.Request) { _ = e.Harm(e.Next(), serve.Harm{Kind: "die"}) }, 1},
	} {
		e := make1(t, single(v1()))
		req := request(0, 0, 50, 100)
		req.N = 3
		var s sink
		e.Submit(0, req, &s)
		for len(s.outs) < 12 {
			e.Advance(e.Next())
		}
		c.end(e, req)
		before := len(s.outs)
		drain(e)
		failed := 0
		for _, o := range s.outs {
			if o.Finish == serve.FinishError {
				failed++
			}
		}
		if len(e.calls) != 0 || e.cluster.Open() != 0 && c.outs == 0 || len(s.outs) != before || failed != c.outs {
			t.Errorf("%s: %d calls left, %d outputs after the end, %d errors", c.name, len(e.calls), len(s.outs)-before, failed)
		}
	}
	// A request that can never run fails once.
	e := make1(t, single(v1(func(c *sim.Config) { c.MaxModelLen = 60 })))
	req := request(0, 0, 50, 100)
	req.N = 3
	var s sink
	e.Submit(0, req, &s)
	drain(e)
	if len(s.outs) != 1 || s.finish() != serve.FinishError || len(e.calls) != 0 {
		t.Errorf("too long: %+v", s.outs)
	}
}
