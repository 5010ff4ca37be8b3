package metrics

import (
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
	chunks, active := make([]int, n), make([]int, n+1)
	for _, r := range z.ok {
		if len(r.Chunks) == 0 {
			chunks[(r.Sent-first)/time.Second]++ // a TTFT of 0 is an event at the start
		}
		for _, c := range r.Chunks {
			if k := int((c.At - first) / time.Second); k >= 0 && k < n {
				chunks[k]++
			}
		}
		latency, _ := z.latency(r)
		active[(r.Sent-first)/time.Second]++
		active[(r.Sent+latency-first)/time.Second+1]--
	}
	most, now := 0, 0
	for k := range chunks {
		most = max(most, chunks[k])
		now += active[k]
		requests = max(requests, now)
	}
	return float64(most), requests
}

// span is from the first send to the last end of the successes.
func (z *summarizer) span() (first, last time.Duration) {
	first = z.ok[0].Sent
	for _, r := range z.ok {
		latency, _ := z.latency(r)
		first, last = min(first, r.Sent), max(last, r.Sent+latency)
	}
	return first, last
}

// A token event packs its time into the high bits and its tokens into the low ones, so that sorting
// by time needs no second array.
const (
	payloadBits = 16
	payloadMax  = 1<<payloadBits - 1
)

// peakOutput is the most tokens within any second of the run, wherever it begins. The windows that
// end at an event are the only ones that need looking at; one of them is the fullest.
func (z *summarizer) peakOutput(events int) float64 {
	keys := make([]uint64, 0, events)
	z.walkTokens(func(c call.Chunk, tokens int) {
		at := uint64(max(0, c.At)) << payloadBits
		for ; tokens > payloadMax; tokens -= payloadMax {
			keys = append(keys, at|payloadMax)
		}
		keys = append(keys, at|uint64(tokens))
	})
	stats.SortUints(keys, nil, payloadBits)
	most, now, tail := 0, 0, 0
	for _, k := range keys {
		now += int(k & payloadMax)
		for keys[tail]>>payloadBits+uint64(time.Second) <= k>>payloadBits {
			now -= int(keys[tail] & payloadMax)
			tail++
		}
		most = max(most, now)
	}
	return float64(most)
}

// inFlight is the time a request was on the wire; false if it never was.
func inFlight(r *call.Record) (from, to time.Duration, ok bool) {
	to = firstSet(r.End, r.LastEvent)
	return r.Sent, to, r.Sent >= 0 && to >= r.Sent
}

// concurrency sweeps over the starts and ends of everything that was sent, failures too.
func (z *summarizer) concurrency() {
	c := &z.s.Concurrency
	c.Cap = z.run.MaxConcurrency
	starts, ends := make([]uint64, 0, len(z.recs)), make([]uint64, 0, len(z.recs))
	var held time.Duration
	for _, r := range z.recs {
		from, to, ok := inFlight(r)
		if !ok {
			continue
		}
		starts, ends = append(starts, uint64(from)), append(ends, uint64(to))
		held += max(0, min(to, z.run.End)-max(from, z.run.Start))
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
	z.walkTokens(func(c call.Chunk, k int) { tokens[at(c.At)] += float64(k) / seconds(length) })
	if in, ok := stats.BatchMeans(requests[:], confidence); ok {
		z.s.Throughput.RequestCI95 = &Range{max(0, in.Low), in.High}
	}
	if in, ok := stats.BatchMeans(tokens[:], confidence); ok {
		z.s.Throughput.OutputCI95 = &Range{max(0, in.Low), in.High}
	}
}
