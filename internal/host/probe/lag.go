package probe

import (
	"math"
	"math/bits"
	"runtime/metrics"
	"time"

	"spate/internal/judge/stats"
)

// Lag summarises delays. Percentiles are upper edges of histogram bars, at most 7 % above the true value.
type Lag struct {
	N   uint64        `json:"n"`
	P50 time.Duration `json:"p50_ns"`
	P99 time.Duration `json:"p99_ns"`
	Low time.Duration `json:"p99_at_least_ns"` // what the p99 is above, by so many samples, in 99 of 100 cases
	Max time.Duration `json:"max_ns"`
}

// histogram counts delays in bars that are a sixteenth of a power of two wide, in constant memory.
type histogram struct {
	bars [64 * 16]uint64
	n    uint64
	max  time.Duration
}

// barOf and edgeOf are inverses: delays below 16 ns have a bar each, above that the four bits after the first
// choose the bar.
func barOf(d time.Duration) int {
	if d < 16 {
		return int(max(d, 0))
	}
	shift := bits.Len64(uint64(d)) - 5
	return shift*16 + int(d>>shift)
}

// edgeOf returns the largest delay in a bar.
func edgeOf(bar int) time.Duration {
	if bar < 32 {
		return time.Duration(bar)
	}
	shift := bar/16 - 1
	return time.Duration(bar%16+17)<<shift - 1
}

func (h *histogram) add(d time.Duration) {
	h.bars[barOf(d)]++
	h.n++
	h.max = max(h.max, d)
}

func (h *histogram) summary() Lag {
	return Lag{N: h.n, P50: h.quantile(0.5), P99: h.quantile(0.99), Low: h.at(uint64(stats.SureRank(int(h.n), 99))), Max: h.max}
}

func (h *histogram) quantile(q float64) time.Duration {
	return h.at(uint64(math.Ceil(q * float64(h.n))))
}

// at is the delay of a rank, counted from the shortest.
func (h *histogram) at(rank uint64) time.Duration {
	var seen uint64
	for i, n := range h.bars {
		if seen += n; n > 0 && seen >= rank {
			return min(edgeOf(i), h.max)
		}
	}
	return 0
}

// bucketLag summarises what the runtime added to one of its histograms between two readings.
func bucketLag(before, after *metrics.Float64Histogram) Lag {
	if after == nil || len(after.Buckets) != len(after.Counts)+1 {
		return Lag{}
	}
	counts := make([]uint64, len(after.Counts))
	var l Lag
	for i, n := range after.Counts {
		if before != nil && i < len(before.Counts) {
			n -= before.Counts[i]
		}
		counts[i] = n
		l.N += n
	}
	edge := func(i int) time.Duration {
		e := after.Buckets[i+1]
		if math.IsInf(e, 1) {
			e = after.Buckets[i]
		}
		return time.Duration(math.Round(max(e, 0) * 1e9))
	}
	half, most := uint64(math.Ceil(0.5*float64(l.N))), uint64(math.Ceil(0.99*float64(l.N)))
	var seen uint64
	for i, n := range counts {
		if n == 0 {
			continue
		}
		if seen < half && seen+n >= half {
			l.P50 = edge(i)
		}
		if seen < most && seen+n >= most {
			l.P99 = edge(i)
		}
		seen += n
		l.Max = edge(i)
	}
	return l
}
