package metrics

import (
	"maps"
	"slices"
	"time"

	"spate/internal/call"
	"spate/internal/stats"
)

// buckets are vLLM's two peaks: chunks per whole second since the first success was sent, and
// requests that touch a whole second.
func (z *summarizer) buckets() (chunksPerS float64, requests int) {
	if len(z.ok) == 0 {
		return 0, 0
	}
	first, last := z.span()
	n := int((last-first+time.Second-1)/time.Second) + 1 // vLLM: ceil of the span, plus one
	// The seconds that nothing happened in take no room: a damaged log may name any.
	chunks, active := map[int]int{}, map[int]int{}
	// Stamps out of order, as a damaged log may have them, must not reach beyond the buckets.
	at := func(t time.Duration) int { return min(n-1, max(0, int((t-first)/time.Second))) }
	for _, r := range z.ok {
		if len(r.Chunks) == 0 {
			chunks[at(r.Sent)]++ // a TTFT of 0 is an event at the start
		}
		perSecond(r.Chunks, at, chunks)
		from := at(r.Sent)
		active[from]++
		active[max(from, at(endOf(r, z.run.EndRule)))+1]--
	}
	most, now := 0, 0
	for _, n := range chunks {
		most = max(most, n)
	}
	for _, k := range slices.Sorted(maps.Keys(active)) {
		now += active[k]
		requests = max(requests, now)
	}
	return float64(most), requests
}

// perSecond adds chunks to the bucket of each; neighbours fall into the same one and are added together.
func perSecond(chunks []call.Chunk, at func(time.Duration) int, to map[int]int) {
	bucket, n := 0, 0
	for _, c := range chunks {
		if k := at(c.At); k != bucket {
			if n > 0 {
				to[bucket] += n
			}
			bucket, n = k, 0
		}
		n++
	}
	if n > 0 {
		to[bucket] += n
	}
}

// span is from the first send to the last end of the successes.
func (z *summarizer) span() (first, last time.Duration) {
	first, last = z.ok[0].Sent, z.ok[0].Sent
	for _, r := range z.ok {
		first, last = min(first, r.Sent), max(last, endOf(r, z.run.EndRule))
	}
	return first, last
}

// A token event packs its time into the high bits, which have room for call.MaxTime, and its tokens into
// the low ones, so that sorting by time needs no second array. Tokens that do not fit are in a map.
const (
	payloadBits = 8
	payloadMax  = 1<<payloadBits - 1 // the sum of all such events of that moment is in the map
)

// tokenEvents lists when how many tokens came. Peak, batches, window and series all read it, so the
// tokens are assigned to chunks once.
func (z *summarizer) tokenEvents(chunks int) {
	z.events = make([]uint64, 0, chunks)
	var tokens []int32
	for _, r := range z.ok {
		tokens, _ = chunkTokens(tokens, r.Chunks, OutputTokens(r, z.run.Tokenizer))
		for i, k := range tokens {
			z.tokenEvent(uint64(max(0, r.Chunks[i].At)), int(k))
		}
	}
	stats.SortUints(z.events, nil, payloadBits)
}

// tokenEvent adds one event.
func (z *summarizer) tokenEvent(at uint64, k int) {
	switch {
	case k <= 0:
		return
	case k < payloadMax:
		z.events = append(z.events, at<<payloadBits|uint64(k))
		return
	}
	if z.large == nil {
		z.large = map[uint64]int{}
	}
	if z.large[at] == 0 {
		z.events = append(z.events, at<<payloadBits|payloadMax)
	}
	z.large[at] += k
}

// tokensOf are the tokens of an event.
func (z *summarizer) tokensOf(e uint64) int {
	if k := e & payloadMax; k < payloadMax {
		return int(k)
	}
	return z.large[e>>payloadBits]
}

// walkTokens calls f for every token event, in order of time.
func (z *summarizer) walkTokens(f func(at time.Duration, tokens int)) {
	for _, e := range z.events {
		f(time.Duration(e>>payloadBits), z.tokensOf(e))
	}
}

// peakOutput is the most tokens within any second of the run, wherever it begins. The windows that
// end at an event are the only ones that need looking at; one of them is the fullest.
func (z *summarizer) peakOutput() float64 {
	most, now, tail := 0, 0, 0
	for _, e := range z.events {
		now += z.tokensOf(e)
		for z.events[tail]>>payloadBits+uint64(time.Second) <= e>>payloadBits {
			now -= z.tokensOf(z.events[tail])
			tail++
		}
		most = max(most, now)
	}
	return float64(most)
}

// stretch is the time an attempt was on the wire, clipped to the measured part.
type stretch struct{ from, to time.Duration }

// flights lists every attempt that was on the wire during the measured part: failures, attempts
// that were retried and the tail of the warm-up load the server and hold slots as well. Probes go
// beside the cap and are left out.
func (z *summarizer) flights(recs []call.Record) {
	for i := range recs {
		r := &recs[i]
		from, to := r.Sent, min(firstSet(r.End, r.LastEvent), z.run.End)
		if r.Phase == call.Probe || from < 0 || to < max(from, z.run.Start) {
			continue
		}
		z.wire = append(z.wire, stretch{max(from, z.run.Start), to})
	}
}

// concurrency sweeps over the starts and ends of everything on the wire.
func (z *summarizer) concurrency() {
	c := &z.s.Concurrency
	c.Cap = z.run.MaxConcurrency
	starts, ends := make([]uint64, len(z.wire)), make([]uint64, len(z.wire))
	var held time.Duration
	for i, w := range z.wire {
		starts[i], ends[i] = uint64(w.from), uint64(w.to)
		held += w.to - w.from
	}
	c.Peak = peakOverlap(starts, ends)
	dur := z.run.duration()
	c.Mean = per(seconds(held), dur)
	c.Little = z.s.RequestThroughput * stats.Mean(z.times(z.ok, Closed))
	c.Ratio = per(c.Little, c.Mean)
	z.s.Throughput.Input = per(float64(z.s.TotalInput), dur)
	z.batches()
}

// peakOverlap is the most intervals open at once; one that ends when another starts makes room for
// it first. It sorts both lists.
func peakOverlap(starts, ends []uint64) int {
	scratch := stats.SortUints(starts, nil, 0)
	stats.SortUints(ends, scratch, 0)
	most, e := 0, 0
	for s, at := range starts {
		for e < len(ends) && ends[e] <= at {
			// An empty interval ends where it starts and is not closed before it is open.
			if e >= s {
				break
			}
			e++
		}
		most = max(most, s+1-e)
	}
	return most
}

// batchCount is the number of equal stretches the run is cut into for the intervals of its
// throughputs: enough for Student's t to be near normal, few enough to be nearly independent.
const batchCount = 20

// batches gives the throughputs' intervals by batch means; left out when there is less than one
// request per batch.
func (z *summarizer) batches() {
	length := (z.run.End - z.run.Start) / batchCount
	if len(z.ok) < batchCount || length <= 0 {
		return
	}
	var requests, tokens [batchCount]float64
	at := func(t time.Duration) int {
		return min(batchCount-1, max(0, int((t-z.run.Start)/length)))
	}
	for _, r := range z.ok {
		requests[at(endOf(r, z.run.EndRule))] += 1 / seconds(length)
	}
	z.walkTokens(func(t time.Duration, k int) { tokens[at(t)] += float64(k) / seconds(length) })
	if in, ok := stats.BatchMeans(requests[:], confidence); ok {
		z.s.Throughput.RequestCI95 = &Range{max(0, in.Low), in.High}
	}
	if in, ok := stats.BatchMeans(tokens[:], confidence); ok {
		z.s.Throughput.OutputCI95 = &Range{max(0, in.Low), in.High}
	}
}
