package coordinator

import (
	"testing"

	"pgregory.net/rapid"

	"spate/internal/call"
)

// TestRecordsCountOnce: a record is new exactly once, by phase, request, turn and attempt, and a request's fate is known
// when a record came that no other attempt follows.
func TestRecordsCountOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSeen()
		had, final := map[attempt]bool{}, map[attempt]bool{}
		for range rapid.IntRange(0, 200).Draw(t, "records") {
			r := call.Record{
				ID: rapid.SampledFrom([]int{0, 1, 2, 63, 64, 65, pageBits - 1, pageBits, 1 << 30}).Draw(t, "id"), Phase: rapid.SampledFrom([]call.Phase{call.Measure, call.Warmup}).Draw(t, "phase"),
				Turn: rapid.IntRange(0, 1).Draw(t, "turn"), Attempt: rapid.IntRange(0, 2).Draw(t, "attempt"), Retried: rapid.Bool().Draw(t, "retried"),
			}
			k := attempt{r.Phase, r.ID, r.Turn, r.Attempt}
			if got := s.add(&r); got == had[k] {
				t.Fatalf("%+v is new: %v", k, got)
			}
			had[k] = true
			final[attempt{r.Phase, r.ID, 0, 0}] = final[attempt{r.Phase, r.ID, 0, 0}] || !r.Retried
			if got := s.has(r.Phase, r.ID); got != final[attempt{r.Phase, r.ID, 0, 0}] {
				t.Fatalf("the fate of %+v is known: %v", k, got)
			}
		}
	})
}

func TestNaturalOrder(t *testing.T) {
	if natural("w2", "w10") >= 0 || natural("w10", "w2") <= 0 || natural("a10", "b2") >= 0 || natural("w1", "w1") != 0 {
		t.Error("w2 does not come before w10")
	}
}
