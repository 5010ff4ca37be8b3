package deal

import (
	"testing"

	"pgregory.net/rapid"
)

// TestEveryRequestOnce is the law of dealing: whatever the load and the number of workers, each request has exactly
// one worker, each slot too, and what a worker is said to have is what it has.
func TestEveryRequestOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 500).Draw(t, "requests")
		slots := rapid.IntRange(0, 80).Draw(t, "slots")
		of := rapid.IntRange(1, 70).Draw(t, "workers")
		owners := make([]int, n)
		requests, total := 0, 0
		for k := range of {
			s := Part{k, of}.Share(slots)
			own := 0
			for i := range n {
				if s.Has(i) {
					owners[i]++
					own++
				}
			}
			if got := s.Count(n); got != own {
				t.Fatalf("worker %d of %d with %d slots: Count(%d) is %d, it has %d", k, of, slots, n, got, own)
			}
			if s.Idle() != (slots > 0 && k >= slots) || s.Idle() && own > 0 {
				t.Fatalf("worker %d of %d with %d slots: idle %v with %d requests", k, of, slots, s.Idle(), own)
			}
			if slots > 0 && !s.Idle() && s.Slots() == 0 {
				t.Fatalf("worker %d of %d has requests and no slot of %d", k, of, slots)
			}
			requests, total = requests+s.Count(n), total+s.Slots()
		}
		for i, c := range owners {
			if c != 1 {
				t.Fatalf("request %d has %d workers of %d, with %d slots", i, c, of, slots)
			}
		}
		if requests != n || total != slots {
			t.Fatalf("%d requests and %d slots became %d and %d for %d workers", n, slots, requests, total, of)
		}
	})
}

// TestDealt holds one case by hand: 10 requests, 3 slots, 2 workers. Slots 0 and 2 are the first worker's, slot 1 the
// second's.
func TestDealt(t *testing.T) {
	first, second := Part{0, 2}.Share(3), Part{1, 2}.Share(3)
	for i, want := range []bool{true, false, true, true, false, true, true, false, true, true} {
		if first.Has(i) != want || second.Has(i) == want {
			t.Errorf("request %d: first %v, second %v", i, first.Has(i), second.Has(i))
		}
	}
	if first.Count(10) != 7 || second.Count(10) != 3 || first.Slots() != 2 || second.Slots() != 1 {
		t.Errorf("first has %d requests and %d slots, second %d and %d", first.Count(10), first.Slots(), second.Count(10), second.Slots())
	}
	whole := Part{}.Share(3)
	if whole.Count(10) != 10 || whole.Slots() != 3 || whole.Idle() || Nobody().Count(10) != 0 || !Nobody().Idle() {
		t.Errorf("the whole has %d of 10 requests and %d of 3 slots, nobody %d", whole.Count(10), whole.Slots(), Nobody().Count(10))
	}
}

func TestCheck(t *testing.T) {
	for _, p := range []Part{{}, {0, 1}, {6, 7}, {MaxParts - 1, MaxParts}} {
		if err := p.Check(); err != nil {
			t.Errorf("%+v: %v", p, err)
		}
	}
	for _, p := range []Part{{1, 0}, {1, 1}, {-1, 2}, {0, -1}, {0, MaxParts + 1}} {
		if p.Check() == nil {
			t.Errorf("%+v was taken", p)
		}
	}
}
