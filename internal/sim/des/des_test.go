package des

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestOrder checks the total order: time, then rank, then order of arrival.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type entry struct {
			at        time.Duration
			rank, seq int
		}
		var q Queue[int]
		var want []entry
		for i := range rapid.IntRange(1, 60).Draw(t, "events") {
			e := entry{time.Duration(rapid.IntRange(0, 5).Draw(t, "at")), rapid.IntRange(0, 2).Draw(t, "rank"), i}
			want = append(want, e)
			q.Push(e.at, e.rank, i)
		}
		slices.SortStableFunc(want, func(a, b entry) int {
			if a.at != b.at {
				return int(a.at - b.at)
			}
			return a.rank - b.rank
		})
		for _, w := range want {
			at, ok := q.Next()
			e, _ := q.Pop()
			if !ok || at != w.at || e.Data != w.seq || e.At != w.at || e.Rank != w.rank {
				t.Fatalf("got %+v, want %+v", e, w)
			}
		}
		if _, ok := q.Pop(); ok || q.Len() != 0 {
			t.Fatal("not empty at the end")
		}
		q.Push(1, 1, 1)
		q.Reset()
		if _, ok := q.Next(); ok {
			t.Fatal("not empty after a reset")
		}
	})
}
