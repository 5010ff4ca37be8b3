package metrics

import (
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"spate/internal/call"
)

// TestNothingGrowsWithACount gives an answer of three chunks the largest count there is, in a log that says
// nothing of its bytes: the figures are of that count, and no memory is.
func TestNothingGrowsWithACount(t *testing.T) {
	r := done(stamped(0, 0, 0, 0, 0, 900), 800, 10, math.MaxInt32, []call.Chunk{
		{At: 100 * ms, Kind: call.Visible}, {At: 200 * ms, Kind: call.Visible}, {At: 400 * ms, Kind: call.Visible},
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s := Summarize([]call.Record{r}, Run{Tokenizer: true})
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 16<<20 {
		t.Errorf("%d bytes for three chunks", grown)
	}
	// 2147483647 tokens over three chunks: the first 715827883 come together, the others are gaps.
	d := s.Streaming.TokenITL
	if want := math.MaxInt32 - 715827883; d.N != want || s.TotalOutput != math.MaxInt32 {
		t.Errorf("%d gaps of %d tokens, want %d", d.N, s.TotalOutput, want)
	}
	if want := 300.0 / float64(d.N); math.Abs(d.Mean-want) > 1e-12 || d.Max <= d.Min {
		t.Errorf("mean %v, want %v; from %v to %v", d.Mean, want, d.Min, d.Max)
	}
}

// TestNothingGrowsWithATime has one answer a year after the others.
func TestNothingGrowsWithATime(t *testing.T) {
	recs := []call.Record{
		done(stamped(0, 0, 0, 0, 0, 300), 300, 10, 2, []call.Chunk{{At: 100 * ms, Kind: call.Visible}, {At: 200 * ms, Kind: call.Visible}}),
		done(stamped(1, 0, 0, 0, 0, 300), 300, 10, 2, []call.Chunk{{At: 100 * ms, Kind: call.Visible}, {At: call.MaxTime, Kind: call.Visible}}),
	}
	recs[1].LastEvent, recs[1].End = call.MaxTime, call.MaxTime
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s := Summarize(recs, Run{Tokenizer: true})
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 16<<20 {
		t.Errorf("%d bytes for four chunks", grown)
	}
	if s.MaxOutputPerS != 3 || s.MaxConcurrent != 2 || s.Throughput.PeakOutput != 3 || s.Series.Output[len(s.Series.Output)-1] != 1 {
		t.Errorf("peaks %v, %d and %v, want 3, 2 and 3", s.MaxOutputPerS, s.MaxConcurrent, s.Throughput.PeakOutput)
	}
	if want := float64(call.MaxTime-100*time.Millisecond) / 1e6; s.ITL.Max != want {
		t.Errorf("longest gap %v ms, want %v", s.ITL.Max, want)
	}
}

// TestRoomChangesNothing holds that the figures are the same, to the last digit, however few values may be held at a
// time.
func TestRoomChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		recs, run := anyRun(t)
		want := Summarize(recs, run)
		for _, room := range []int{1, 3, 40} {
			if diff := cmp.Diff(want, summarize(call.List(recs), run, room)); diff != "" {
				t.Fatalf("room for %d values (-all +few):\n%s", room, diff)
			}
		}
	})
}
