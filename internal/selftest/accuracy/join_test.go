package accuracy

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spate/internal/sim/serve"
)

const msec = int64(time.Millisecond)

// TestRowByHand is a run of two answers of three tokens, worked out on paper.
func TestRowByHand(t *testing.T) {
	load := Load{Streams: 2, Requests: 2, Tokens: 3, TTFT: 50 * time.Millisecond, ITL: 10 * time.Millisecond}
	did := serverReport{
		CPU:   10 * time.Millisecond,
		Stats: serve.Stats{Lateness: serve.Lateness{P99: 2 * time.Millisecond}},
		Served: []Served{
			{ID: "b", Arrived: 102 * msec, At: []int64{152 * msec, 162 * msec, 172 * msec}},
			{ID: "a", Arrived: 101 * msec, At: []int64{151 * msec, 161 * msec, 173 * msec}},
		},
	}
	saw := readerReport{
		Events: 10, Wall: 2 * time.Second, CPU: 20 * time.Millisecond, RSS: 7,
		Seen: []Seen{
			{ID: "a", Due: 99 * msec, Sent: 100 * msec, At: []int64{152 * msec, 164 * msec, 174 * msec}}, // late by 1, 3, 1
			{ID: "b", Due: 98 * msec, Sent: 101 * msec, At: []int64{154 * msec, 162 * msec, 177 * msec}}, // late by 2, 0, 5
		},
	}
	want := Row{
		Reader: Spate, Streams: 2, Requests: 2, Events: 10,
		Stamp: Dist{Mean: 2, P50: 1.5, P99: 4.9, Max: 5}, // 0 1 1 2 3 5; rank 0.99*5 = 4.95
		// TTFT: 52 and 53 reported; 50 and 50 true.
		TTFTReported: 52.5, TTFTTrue: 50, TTFTError: 2.5, TTFTOffTimetable: 2.5, TTFTStamp: 1.5,
		// Gaps reported: 8 10 12 15; true: 10 10 10 12. p99 at rank 2.97.
		ITLReported: 14.91, ITLTrue: 11.94, ITLError: 2.97, ITLOffTimetable: 4.91,
		SendLag: Dist{Mean: 2, P50: 2, P99: 2.98, Max: 3},
		Wall:    2, EventRate: 5, CPU: 0.02, CPUPerEvent: 2000, CPUCores: 0.01, PerCore: 500, RSS: 7,
		ServerLateP99: 2, ServerCPUPerEv: 1000,
	}
	got := newRow(load, Spate, &saw, &did)
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })
	if d := cmp.Diff(want, got, near); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestJoinCountsWhatDoesNotMatch(t *testing.T) {
	one := []int64{1}
	cases := []struct {
		name     string
		seen     []Seen
		served   []Served
		unjoined int
		tokens   int
	}{
		{"nothing", nil, nil, 0, 0},
		{"all", []Seen{{ID: "a", At: one}}, []Served{{ID: "a", At: one}}, 0, 1},
		{"seen only", []Seen{{ID: "a", At: one}}, nil, 1, 0},
		{"served only", nil, []Served{{ID: "a", At: one}}, 1, 0},
		{"other tokens", []Seen{{ID: "a", At: one}}, []Served{{ID: "a", At: []int64{1, 2}}}, 2, 0},
		{"no tokens", []Seen{{ID: "a"}}, []Served{{ID: "a"}}, 2, 0},
		{"seen twice", []Seen{{ID: "a", At: one}, {ID: "a", At: one}}, []Served{{ID: "a", At: one}}, 1, 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			j := join(c.seen, c.served)
			if j.unjoined != c.unjoined || len(j.stamp) != c.tokens {
				t.Errorf("%d unjoined and %d tokens, want %d and %d", j.unjoined, len(j.stamp), c.unjoined, c.tokens)
			}
		})
	}
}
