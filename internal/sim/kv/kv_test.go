package kv

import (
	"testing"

	"pgregory.net/rapid"
)

func hashes(c Chain, size, n int) []uint64 {
	list := make([]uint64, n)
	for i := range list {
		list[i] = c.Next(size)
	}
	return list
}

// TestChain checks that two sequences have equal block hashes exactly as far as they have equal
// tokens.
func TestChain(t *testing.T) {
	base := []Segment{{1, 40}, {2, 24}}
	cases := []struct {
		name       string
		segs       []Segment
		tail, salt uint64
		same       int // blocks of 16 tokens equal to base's
	}{
		{"itself", []Segment{{1, 40}, {2, 24}}, 9, 0, 6},
		{"another tail", []Segment{{1, 40}, {2, 24}}, 8, 0, 4},
		{"its output as prompt", []Segment{{1, 40}, {2, 24}, {9, 32}}, 7, 0, 6},
		{"second segment differs", []Segment{{1, 40}, {3, 24}}, 9, 0, 2},
		{"longer first segment", []Segment{{1, 64}}, 9, 0, 2},
		{"shorter first segment", []Segment{{1, 16}, {2, 24}}, 9, 0, 1},
		{"another adapter", []Segment{{1, 40}, {2, 24}}, 9, 1, 0},
		{"empty segments do not count", []Segment{{7, 0}, {1, 40}, {7, 0}, {2, 24}}, 9, 0, 6},
	}
	want := hashes(NewChain(base, 9, 0), 16, 6)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := hashes(NewChain(c.segs, c.tail, c.salt), 16, 6)
			same := 0
			for same < 6 && got[same] == want[same] {
				same++
			}
			if same != c.same {
				t.Errorf("%d blocks are equal, want %d", same, c.same)
			}
		})
	}
	if Length(base) != 64 {
		t.Errorf("length %d", Length(base))
	}
}

// TestReuseOrder checks which block goes first: never used, then oldest, the end of a sequence
// before its beginning.
func TestReuseOrder(t *testing.T) {
	p := NewPool(4, false)
	held := []int32{p.Take(), p.Take(), p.Take()}
	for i, b := range held {
		p.Publish(b, uint64(100+i))
	}
	p.Release(held)
	want := []int32{3, held[2], held[1], held[0]}
	for i, w := range want {
		if got := p.Take(); got != w {
			t.Errorf("take %d gives block %d, want %d", i, got, w)
		}
	}
	if p.Cached() != 0 || p.Free() != 0 {
		t.Errorf("%d cached, %d free", p.Cached(), p.Free())
	}
	q := NewPool(2, true)
	a, b := q.Take(), q.Take()
	q.Publish(a, 7)
	q.Release([]int32{a})
	q.Release([]int32{b})
	if got := q.Take(); got != b {
		t.Errorf("the block without contents is not reused first: %d", got)
	}
}

// TestTwins checks that contents stay findable as long as any block has them.
func TestTwins(t *testing.T) {
	p := NewPool(3, false)
	a, b, c := p.Take(), p.Take(), p.Take()
	for _, x := range []int32{a, b, c} {
		p.Publish(x, 5)
	}
	p.Release([]int32{b})
	p.Release([]int32{a})
	p.Release([]int32{c})
	for _, w := range []int32{a, a, c} { // b goes first, then a
		if got, ok := p.Lookup(5); !ok || got != w {
			t.Errorf("found %d %v, want %d", got, ok, w)
		}
		p.Take()
	}
	if _, ok := p.Lookup(5); ok {
		t.Error("found after all were reused")
	}
}

// TestPoolLaws drives a pool at random and checks its books after every move.
func TestPoolLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := NewPool(rapid.IntRange(1, 12).Draw(t, "blocks"), rapid.Bool().Draw(t, "unhashed first"))
		var held []int32
		for range rapid.IntRange(1, 80).Draw(t, "moves") {
			switch rapid.IntRange(0, 3).Draw(t, "move") {
			case 0:
				if p.Free() > 0 {
					held = append(held, p.Take())
				}
			case 1:
				if len(held) > 0 {
					p.Publish(held[rapid.IntRange(0, len(held)-1).Draw(t, "which")], uint64(rapid.IntRange(1, 4).Draw(t, "hash")))
				}
			case 2:
				if b, ok := p.Lookup(uint64(rapid.IntRange(1, 4).Draw(t, "hash"))); ok {
					p.Hold(b)
					held = append(held, b)
				}
			case 3:
				if len(held) > 0 {
					n := rapid.IntRange(1, len(held)).Draw(t, "count")
					p.Release(held[len(held)-n:])
					held = held[:len(held)-n]
				}
			}
			if err := p.Check(); err != nil {
				t.Fatal(err)
			}
		}
		p.Release(held)
		if p.Free() != p.Total() {
			t.Fatalf("%d of %d blocks free at the end", p.Free(), p.Total())
		}
		p.Reset()
		if err := p.Check(); err != nil || p.Cached() != 0 {
			t.Fatalf("after a reset: %v, %d cached", err, p.Cached())
		}
	})
}
