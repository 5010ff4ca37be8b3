package metrics

import (
	"slices"

	"spate/internal/rng"
	"spate/internal/stats"
)

// streams computes everything that looks at single chunks: the three inter-token latencies and the
// tokens per chunk. A long run has tens of millions of gaps, so one buffer serves all three lists,
// and a list that would equal the one before is not made again.
func (z *summarizer) streams() {
	st := z.chunkStats()
	buf := make([]float64, 0, st.gaps)
	for _, r := range z.ok {
		buf = appendITL(buf, r.Chunks)
	}
	ci := z.itlCI()
	z.s.ITL = z.b.dist(buf, milli)
	z.s.ITL.CI95 = ci
	s := &z.s.Streaming
	s.ITLNoRole, s.TokenITL = z.s.ITL, z.s.ITL
	s.ITLNoRole.CI95, s.TokenITL.CI95 = nil, nil
	if st.roles {
		buf = buf[:0]
		for _, r := range z.ok {
			buf = appendITL(buf, withoutRole(r.Chunks))
		}
		s.ITLNoRole = z.b.dist(buf, milli)
	}
	if !st.plain {
		gaps := make([]gapRun, 0, st.bearing)
		var tokens []int32
		for _, r := range z.ok {
			tokens, _ = chunkTokens(tokens, r.Chunks, OutputTokens(r, z.run.Tokenizer))
			gaps = appendTokenITL(gaps, r.Chunks, tokens)
		}
		s.TokenITL = z.b.gaps(gaps)
	}
	z.tokenEvents(st.bearing)
	z.s.Throughput.PeakOutput = z.peakOutput()
}

// chunkTotals is what one look over all chunks tells the later ones.
type chunkTotals struct {
	gaps    int  // chunk gaps in all
	bearing int  // chunks that bore tokens
	tokens  int  // tokens they bore
	roles   bool // some answer opened with an empty message
	plain   bool // every chunk of every answer bore one token, so token gaps are chunk gaps
}

// chunkStats counts chunks and tokens per chunk.
func (z *summarizer) chunkStats() chunkTotals {
	s := &z.s.Streaming
	s.TokenITLSource = map[string]int{}
	st := chunkTotals{plain: true}
	var tokens []int32
	multi := 0
	for _, r := range z.ok {
		var source TokenSource
		tokens, source = chunkTokens(tokens, r.Chunks, OutputTokens(r, z.run.Tokenizer))
		s.TokenITLSource[string(source)]++
		st.gaps += max(0, len(r.Chunks)-1)
		st.roles = st.roles || len(withoutRole(r.Chunks)) != len(r.Chunks)
		s.Chunks += len(r.Chunks)
		for i, k := range tokens {
			if r.Chunks[i].Kind != 0 {
				s.ContentChunks++
			}
			if k != 1 {
				st.plain = false
			}
			if k > 0 {
				st.bearing++
				st.tokens += int(k)
				s.MaxChunkTokens = max(s.MaxChunkTokens, int(k))
			}
			if k > 1 {
				multi++
			}
		}
	}
	s.TokensPerChunk = per(float64(st.tokens), float64(st.bearing))
	s.MultiShare = share(multi, st.bearing)
	z.kindShares()
	return st
}

// kindShares tells how much of the output was reasoning and tool calls.
func (z *summarizer) kindShares() {
	out, reason, tool := 0, 0, 0
	for _, r := range z.ok {
		out += r.Out.N
		reason += r.Reason.N
		tool += r.ToolOut.N
	}
	z.s.Streaming.ReasoningShare = share(reason, out)
	z.s.Streaming.ToolShare = share(tool, out)
}

// ciPercentiles are the percentiles that get a bootstrap interval.
var ciPercentiles = []float64{50, 90, 99}

// headline is a Dist in milliseconds with bootstrap intervals; xs are in dispatch order.
func (z *summarizer) headline(name string, xs []float64) Dist {
	ci := z.bootstrap(name, stats.Groups{Values: xs})
	d := z.b.dist(xs, milli)
	d.CI95 = ci
	return d
}

// maxGapSample bounds the gaps that go into the interval of ITL.
const maxGapSample = 200_000

// itlCI resamples whole requests, since the gaps of one depend on each other, and keeps every k-th
// gap of each where there are too many.
func (z *summarizer) itlCI() *CI {
	total := 0
	for _, r := range z.ok {
		total += max(0, len(r.Chunks)-1)
	}
	stride := 1 + total/maxGapSample
	g := stats.Groups{Values: make([]float64, 0, total/stride+len(z.ok)), Ends: make([]int, 0, len(z.ok))}
	for i, r := range z.ok {
		// The offset differs per request so that no position in the answer is left out.
		for j := 1 + i%stride; j < len(r.Chunks); j += stride {
			g.Values = append(g.Values, seconds(r.Chunks[j].At-r.Chunks[j-1].At))
		}
		g.Ends = append(g.Ends, len(g.Values))
	}
	return z.bootstrap("itl", g)
}

// bootstrap gives the intervals in milliseconds; nil when there are too few requests.
func (z *summarizer) bootstrap(name string, g stats.Groups) *CI {
	if len(g.Values) == 0 || z.run.Intervals != nil && !slices.Contains(z.run.Intervals, name) {
		return nil
	}
	b := stats.Bootstrap(g, ciPercentiles, confidence, rng.New(z.run.Seed, "metrics/bootstrap/"+name))
	if !b.OK {
		return nil
	}
	scaled := func(in stats.Interval) Range { return Range{in.Low * milli, in.High * milli} }
	return &CI{
		Mean:       scaled(b.Mean),
		Median:     scaled(b.Quantiles[0]),
		P90:        scaled(b.Quantiles[1]),
		P99:        scaled(b.Quantiles[2]),
		EffectiveN: b.Size,
		Block:      b.Block,
	}
}
