package metrics

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"spate/internal/call"
	"spate/internal/judge/stats"
)

// buckets are vLLM's two peaks: chunks per whole second since the first success was sent, and
// requests that touch a whole second.
func (z *summarizer) buckets() (chunksPerS float64, requests int) {
	if z.oks == 0 {
		return 0, 0
	}
	first, last := z.span()
	n := int((last-first+time.Second-1)/time.Second) + 1 // vLLM: ceil of the span, plus one
	// The seconds that nothing happened in take no room: a damaged log may name any.
	chunks, active := map[int]int{}, map[int]int{}
	// Stamps out of order, as a damaged log may have them, must not reach beyond the buckets.
	at := func(t time.Duration) int { return min(n-1, max(0, int((t-first)/time.Second))) }
	for r := range z.ok {
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
	begun := false
	for r := range z.ok {
		if !begun {
			first, last, begun = r.Sent, r.Sent, true
		}
		first, last = min(first, r.Sent), max(last, endOf(r, z.run.EndRule))
	}
	return first, last
}

// tokenTimes calls f for every moment at which tokens of a success came.
func (z *summarizer) tokenTimes(f func(at time.Duration, tokens int)) {
	var tokens []int32
	for r := range z.ok {
		tokens, _ = chunkTokens(tokens, r.Chunks, OutputTokens(r, z.run.Tokenizer))
		for i, k := range tokens {
			if k > 0 {
				f(max(0, r.Chunks[i].At), int(k))
			}
		}
	}
}

// peakOutput is the most tokens within any second of the run, wherever it begins. The windows that
// end at an event are the only ones that need looking at; one of them is the fullest. For this the events must come
// in order of time, and all of them may be too many to sort. But answers can be gone through by their first event:
// then nothing earlier follows, and what lies before the first event of the next answer can be dealt with.
func (z *summarizer) peakOutput() float64 {
	order := z.byFirstToken()
	w := tokenWindow{flushAt: min(z.room, 1<<22)}
	var tokens []int32
	for r := range z.set.Pick(order) {
		tokens, _ = chunkTokens(tokens, r.Chunks, OutputTokens(r, z.run.Tokenizer))
		w.begin(r.Chunks, tokens)
		for i, k := range tokens {
			w.add(uint64(max(0, r.Chunks[i].At)), int(k))
		}
	}
	w.flush(math.MaxUint64)
	return float64(w.most)
}

// byFirstToken are the numbers of the successes with tokens, in order of the first event of each.
func (z *summarizer) byFirstToken() []int32 {
	type first struct {
		at     uint64
		number int32
	}
	all := make([]first, 0, z.oks)
	var tokens []int32
	i := 0
	for r := range z.recs {
		if number := z.order[i]; r.Outcome == call.OK {
			tokens, _ = chunkTokens(tokens, r.Chunks, OutputTokens(r, z.run.Tokenizer))
			if at := earliest(r.Chunks, tokens); at != math.MaxUint64 {
				all = append(all, first{at, number})
			}
		}
		i++
	}
	slices.SortStableFunc(all, func(a, b first) int { return cmp.Compare(a.at, b.at) })
	out := make([]int32, len(all))
	for i := range all {
		out[i] = all[i].number
	}
	return out
}

// earliest is the first event of an answer; stamps of a damaged log may be out of order.
func earliest(chunks []call.Chunk, tokens []int32) uint64 {
	at := uint64(math.MaxUint64)
	for i, k := range tokens {
		if k > 0 {
			at = min(at, uint64(max(0, chunks[i].At)))
		}
	}
	return at
}

// An event packs its time into the high bits, which have room for call.MaxTime, and its tokens into
// the low ones, so that sorting by time needs no second array. Tokens that do not fit are in a map.
const (
	payloadBits = 8
	payloadMax  = 1<<payloadBits - 1 // the sum of all such events of that moment is in the map
)

// tokenWindow follows the tokens of the last second over events that come nearly in order.
type tokenWindow struct {
	pending []uint64 // events not dealt with, in any order
	large   map[uint64]int
	scratch []uint64
	flushAt int // pending events from which it is worth to look

	last []tokenEvent // of the last second, in order
	now  int          // their tokens
	most int
}

type tokenEvent struct {
	at uint64
	k  int
}

// begin is told the next answer: no later one has an event before its first.
func (w *tokenWindow) begin(chunks []call.Chunk, tokens []int32) {
	if len(w.pending) < w.flushAt {
		return
	}
	w.flush(earliest(chunks, tokens))
	w.flushAt = max(w.flushAt, 2*len(w.pending)) // many answers at a time: look less often
}

func (w *tokenWindow) add(at uint64, k int) {
	switch {
	case k <= 0:
		return
	case k < payloadMax:
		w.pending = append(w.pending, at<<payloadBits|uint64(k))
		return
	}
	if w.large == nil {
		w.large = map[uint64]int{}
	}
	if w.large[at] == 0 {
		w.pending = append(w.pending, at<<payloadBits|payloadMax)
	}
	w.large[at] += k
}

// flush deals with the pending events before a moment.
func (w *tokenWindow) flush(before uint64) {
	w.scratch = stats.SortUints(w.pending, w.scratch, payloadBits)
	n := 0
	for ; n < len(w.pending) && w.pending[n]>>payloadBits < before; n++ {
		at, k := w.pending[n]>>payloadBits, int(w.pending[n]&payloadMax)
		if k == payloadMax {
			k = w.large[at]
			delete(w.large, at)
		}
		w.step(at, k)
	}
	w.pending = append(w.pending[:0], w.pending[n:]...)
}

// step moves the window to the next event.
func (w *tokenWindow) step(at uint64, k int) {
	gone := 0
	for gone < len(w.last) && w.last[gone].at+uint64(time.Second) <= at {
		w.now -= w.last[gone].k
		gone++
	}
	if w.last = w.last[gone:]; len(w.last) > 0 && w.last[len(w.last)-1].at == at {
		w.last[len(w.last)-1].k += k
	} else {
		w.last = append(w.last, tokenEvent{at, k})
	}
	w.now += k
	w.most = max(w.most, w.now)
}

// wire is everything that was in flight during the measured part.
type wire struct {
	starts, ends []uint64
	held         time.Duration // by all of it together
	series       flightSeries
}

// flights looks at every attempt that was on the wire during the measured part: failures, attempts
// that were retried and the tail of the warm-up load the server and hold slots as well. Probes go
// beside the cap and are left out.
func (z *summarizer) flights() {
	step, n := z.steps()
	w := &z.wire
	w.series = newFlightSeries(z.run, step, n)
	for r := range z.set.All() {
		from, to := r.Sent, min(firstSet(r.End, r.LastEvent), z.run.End)
		if r.Phase == call.Probe || from < 0 || to < max(from, z.run.Start) {
			continue
		}
		from = max(from, z.run.Start)
		w.starts, w.ends = append(w.starts, uint64(from)), append(w.ends, uint64(to))
		w.held += to - from
		w.series.add(from, to)
	}
	z.s.Concurrency.Peak = peakOverlap(w.starts, w.ends)
	w.starts, w.ends = nil, nil
}

// concurrency is about everything on the wire.
func (z *summarizer) concurrency() {
	c := &z.s.Concurrency
	c.Cap = z.run.MaxConcurrency
	dur := z.run.duration()
	c.Mean = per(seconds(z.wire.held), dur)
	c.Little = z.s.RequestThroughput * z.closed
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
	if z.oks < batchCount || length <= 0 {
		return
	}
	var requests, tokens [batchCount]float64
	at := func(t time.Duration) int {
		return min(batchCount-1, max(0, int((t-z.run.Start)/length)))
	}
	for r := range z.ok {
		requests[at(endOf(r, z.run.EndRule))] += 1 / seconds(length)
	}
	var counts [batchCount]int
	z.tokenTimes(func(t time.Duration, k int) { counts[at(t)] += k })
	for i, n := range counts {
		tokens[i] = float64(n) / seconds(length)
	}
	if in, ok := stats.BatchMeans(requests[:], confidence); ok {
		z.s.Throughput.RequestCI95 = &Range{max(0, in.Low), in.High}
	}
	if in, ok := stats.BatchMeans(tokens[:], confidence); ok {
		z.s.Throughput.OutputCI95 = &Range{max(0, in.Low), in.High}
	}
}
