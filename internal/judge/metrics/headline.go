package metrics

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"
)

// Outline is what the headline figures take of an answered request. Searches that simulate thousands of runs have
// these instead of records.
type Outline struct {
	First   time.Duration // from sending to the first message
	Latency time.Duration // from sending to the last
	In, Out int           // tokens
}

// Gap is a time between two messages of one answer, and how often it occurred.
type Gap struct {
	D time.Duration
	N int
}

// Headline computes the figures that vLLM prints from outlines and counted gaps. Summarize computes the same ones from
// records, and all else that records tell.
func Headline(ok []Outline, gaps []Gap, run Run) Summary {
	b := builder{run.percentiles()}
	s := Summary{DurationS: run.duration(), Completed: len(ok)}
	var ttft, tpot, e2el []float64
	for i := range ok {
		r := &ok[i]
		s.TotalInput += r.In
		s.TotalOutput += r.Out
		ttft, e2el = append(ttft, seconds(r.First)), append(e2el, seconds(r.Latency))
		if v, ok := tpotOf(r.Latency, r.First, r.Out); ok {
			tpot = append(tpot, v)
		}
	}
	s.RequestThroughput = per(float64(s.Completed), s.DurationS)
	s.OutputThroughput = per(float64(s.TotalOutput), s.DurationS)
	s.TotalTokenThroughput = per(float64(s.TotalInput+s.TotalOutput), s.DurationS)
	s.TTFT, s.TPOT, s.E2EL = b.dist(ttft, milli), b.dist(tpot, milli), b.dist(e2el, milli)
	s.ITL = b.counted(gaps)
	return s
}

// counted describes values that come with how often they occurred.
func (b *builder) counted(gaps []Gap) Dist {
	c := counted{gaps: slices.Clone(gaps)}
	slices.SortFunc(c.gaps, func(x, y Gap) int { return cmp.Compare(x.D, y.D) })
	sum := 0.0
	for _, g := range c.gaps {
		c.n += g.N
		c.upTo = append(c.upTo, c.n)
		sum += float64(g.N) * seconds(g.D)
	}
	if c.n == 0 {
		return b.dist(nil, milli)
	}
	mean, square := sum/float64(c.n), 0.0
	for _, g := range c.gaps {
		square += float64(g.N) * (seconds(g.D) - mean) * (seconds(g.D) - mean)
	}
	return b.describe(&c, mean, math.Sqrt(square/float64(c.n)), milli)
}

// counted is an ordered sample of values that occurred several times.
type counted struct {
	gaps []Gap
	upTo []int // how many values each and those before it stand for
	n    int
}

// Len implements stats.Ordered.
func (c *counted) Len() int { return c.n }

// At implements stats.Ordered.
func (c *counted) At(i int) float64 {
	return seconds(c.gaps[sort.SearchInts(c.upTo, i+1)].D)
}
