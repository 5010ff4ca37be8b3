package predict

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"spate/internal/judge/metrics"
	"spate/internal/load/lengths"
	"spate/internal/settings/config"
	"spate/internal/sim/cluster"
)

// TestHeadlineIsSummarize: the figures of a simulated run are those that Summarize computes from its records.
func TestHeadlineIsSummarize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.IntRange(1, 9).Draw(t, "slots")
		cfg := settings(func(c *config.Bench) {
			c.Dataset.Random.InputLen, c.Dataset.Random.OutputLen = rapid.IntRange(4, 60).Draw(t, "in"), rapid.IntRange(4, 20).Draw(t, "out")
			c.Dataset.Random.RangeRatio = lengths.Ratio{Input: 0.5, Output: 0.5}
			c.Load.Seed, c.Load.MaxConcurrency = int64(rapid.IntRange(0, 99).Draw(t, "seed")), &slots
		})
		l, err := NewLoad(cfg, Prompts{})
		if err != nil {
			t.Fatal(err)
		}
		own, err := l.Run(toy(), 0, false)
		if err != nil {
			t.Fatal(err)
		}
		run := l.Plan(nil)
		want := metrics.Summarize(own.Result.Records(), run)
		got := Headline(own.Result, Answered, run)
		near := func(name string, a, b float64) {
			if math.Abs(a-b) > 1e-9*math.Max(1, math.Abs(b)) {
				t.Errorf("%s: %v, Summarize says %v", name, a, b)
			}
		}
		near("duration", got.DurationS, want.DurationS)
		near("output throughput", got.OutputThroughput, want.OutputThroughput)
		near("request throughput", got.RequestThroughput, want.RequestThroughput)
		near("total throughput", got.TotalTokenThroughput, want.TotalTokenThroughput)
		near("tokens in", float64(got.TotalInput), float64(want.TotalInput))
		for name, d := range map[string][2]metrics.Dist{
			"ttft": {got.TTFT, want.TTFT}, "tpot": {got.TPOT, want.TPOT}, "itl": {got.ITL, want.ITL}, "e2el": {got.E2EL, want.E2EL},
		} {
			near(name+" n", float64(d[0].N), float64(d[1].N))
			near(name+" mean", d[0].Mean, d[1].Mean)
			near(name+" median", d[0].Median, d[1].Median)
			near(name+" std", d[0].Std, d[1].Std)
			near(name+" min", d[0].Min, d[1].Min)
			near(name+" max", d[0].Max, d[1].Max)
			for _, p := range []float64{50, 90, 95, 99} {
				near(name, d[0].P(p), d[1].P(p))
			}
		}
		for name, v := range FromSummary(&want) {
			near(name, own.Metrics[name], v)
		}
	})
	var empty cluster.Result
	if s := Headline(&empty, Answered, metrics.Run{}); s.Completed != 0 || s.ITL.N != 0 || s.OutputThroughput != 0 {
		t.Errorf("nothing: %+v", s)
	}
}
