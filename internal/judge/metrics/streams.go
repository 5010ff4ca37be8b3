package metrics

import (
	"slices"

	"spate/internal/call"

	"spate/internal/judge/stats"
	"spate/internal/rng"
)

// streams computes everything that looks at single chunks: the three inter-token latencies and the
// tokens per chunk. A long run has a thousand million gaps, so they are gone through rather than held, and a
// list that would equal the one before is not made again.
func (z *summarizer) streams() {
	st := z.chunkStats()
	z.s.ITL = z.described(z.gaps(st.gaps, func(chunks []call.Chunk) []call.Chunk { return chunks }))
	z.s.ITL.CI95 = z.itlCI(st.gaps)
	s := &z.s.Streaming
	s.ITLNoRole, s.TokenITL = z.s.ITL, z.s.ITL
	s.ITLNoRole.CI95, s.TokenITL.CI95 = nil, nil
	if st.roles {
		s.ITLNoRole = z.described(z.gaps(st.roleless, withoutRole))
	}
	if !st.plain {
		s.TokenITL = z.described(z.tokenGaps(st))
	}
	z.s.Throughput.PeakOutput = z.peakOutput()
}

// described is a sample in milliseconds.
func (z *summarizer) described(s stats.Sample) Dist { return z.b.sample(z.held(s), milli) }

// held is a sample in memory where it fits: going through values is faster than making them again.
func (z *summarizer) held(s stats.Sample) stats.Sample {
	if s.N > z.room/4 {
		return s
	}
	var weights []int
	xs := make([]float64, 0, s.N)
	for x, w := range s.Values {
		if w != nil && weights == nil {
			weights = make([]int, 0, s.N)
		}
		xs, weights = append(xs, x...), append(weights, w...)
	}
	s.Values = func(yield func([]float64, []int) bool) { yield(xs, weights) }
	return s
}

// gaps are the n inter-token latencies of the successes, between the chunks that of leaves.
func (z *summarizer) gaps(n int, of func([]call.Chunk) []call.Chunk) stats.Sample {
	return stats.Sample{N: n, Count: n, Values: func(yield func([]float64, []int) bool) {
		var buf []float64
		for r := range z.ok {
			if buf = appendITL(buf[:0], of(r.Chunks)); !yield(buf, nil) {
				return
			}
		}
	}}
}

// tokenGaps are the token-true inter-token latencies. Tokens of one chunk have the same, so nothing grows with how
// many a server says there were.
func (z *summarizer) tokenGaps(st chunkTotals) stats.Sample {
	return stats.Sample{N: st.runs, Count: st.tokens - st.leading, Values: func(yield func([]float64, []int) bool) {
		var tokens []int32
		var buf []float64
		var counts []int
		for r := range z.ok {
			tokens, _ = chunkTokens(tokens, r.Chunks, OutputTokens(r, z.run.Tokenizer))
			if buf, counts = appendTokenITL(buf[:0], counts[:0], r.Chunks, tokens); len(buf) > 0 && !yield(buf, counts) {
				return
			}
		}
	}}
}

// chunkTotals is what one look over all chunks tells the later ones.
type chunkTotals struct {
	gaps     int  // chunk gaps in all
	roleless int  // those that do not begin with an empty message
	bearing  int  // chunks that bore tokens
	tokens   int  // tokens they bore
	leading  int  // those of the first such chunk of each answer
	runs     int  // token gaps of different chunks
	roles    bool // some answer opened with an empty message
	plain    bool // every chunk of every answer bore one token, so token gaps are chunk gaps
}

// chunkStats counts chunks and tokens per chunk.
func (z *summarizer) chunkStats() chunkTotals {
	s := &z.s.Streaming
	s.TokenITLSource = map[string]int{}
	st := chunkTotals{plain: true}
	var tokens []int32
	multi := 0
	for r := range z.ok {
		var source TokenSource
		tokens, source = chunkTokens(tokens, r.Chunks, OutputTokens(r, z.run.Tokenizer))
		s.TokenITLSource[string(source)]++
		rest := len(withoutRole(r.Chunks))
		st.gaps += max(0, len(r.Chunks)-1)
		st.roleless += max(0, rest-1)
		st.roles = st.roles || rest != len(r.Chunks)
		first := true
		s.Chunks += len(r.Chunks)
		for i, k := range tokens {
			if r.Chunks[i].Kind != 0 {
				s.ContentChunks++
			}
			if k != 1 {
				st.plain = false
			}
			if k > 0 {
				if first {
					st.leading += int(k)
				} else {
					st.runs++
				}
				first = false
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
	for r := range z.ok {
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
func (z *summarizer) itlCI(total int) *CI {
	stride := 1 + total/maxGapSample
	g := stats.Groups{Values: make([]float64, 0, total/stride), Ends: make([]int, 0, z.oks)}
	i := 0
	for r := range z.ok {
		// The offset differs per request so that no position in the answer is left out.
		for j := 1 + i%stride; j < len(r.Chunks); j += stride {
			g.Values = append(g.Values, seconds(r.Chunks[j].At-r.Chunks[j-1].At))
		}
		g.Ends = append(g.Ends, len(g.Values))
		i++
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
