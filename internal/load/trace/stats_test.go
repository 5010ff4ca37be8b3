package trace

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSpread(t *testing.T) {
	got := SpreadOf([]int{9, 1, 0, 3, 8, 8, 100})
	want := Spread{Total: 129, Min: 0, Mean: 129.0 / 7, P50: 8, P90: 100, P99: 100, Max: 100, Bars: []Bar{{0, 1, 1}, {1, 2, 1}, {2, 4, 1}, {8, 16, 3}, {64, 128, 1}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(Spread{}, SpreadOf(nil)); d != "" {
		t.Error(d)
	}
}

func TestArrivals(t *testing.T) {
	s := time.Second
	got := ArrivalsOf([]time.Duration{5 * s, 6 * s, 7 * s, 8 * s, 9 * s})
	if want := (Arrivals{Span: 4 * s, Rate: 1, Peak: 1, Longest: s}); got != want {
		t.Errorf("%+v", got)
	}
	got = ArrivalsOf([]time.Duration{0, 0, 0, 10 * s})
	if got.Peak != 3 || got.Longest != 10*s || got.GapCV < 1.41 || got.GapCV > 1.42 || got.Rate != 0.3 { // gaps 0, 0, 10: deviation sqrt(2) of the mean
		t.Errorf("%+v", got)
	}
	if (ArrivalsOf(nil) != Arrivals{}) {
		t.Error("nothing arrives")
	}
}

// counter draws 0, 1, 2 and so on.
func counter() Draw {
	at := -1
	return func(n int) int { at++; return at % n }
}

// TestMake: a trace made with half of each prompt shared among two groups hits half, but for the first of each.
func TestMake(t *testing.T) {
	spec := Spec{
		Requests: 400, Chunk: 16, Groups: 2, Share: 0.5, Group: counter(), Length: func(int) (int, int) { return 320, 7 },
		Due: func(yield func(time.Duration) bool) {
			for i := time.Duration(0); yield(i * time.Millisecond); i++ {
			}
		},
	}
	rows, err := Make(spec)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := IdealHits(rows, 16), (Ideal{Requests: 400, Tokens: 128000, Hit: 398 * 160, Blocks: 2*10 + 400*10}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if rows[9].At != 9*time.Millisecond || rows[9].Out != 7 {
		t.Errorf("%+v", rows[9])
	}
	for _, bad := range []Spec{{}, {Requests: 1}, {Requests: 1, Chunk: 1, Share: 2}, {Requests: 1, Chunk: 1, Share: 0.5}} {
		if _, err := Make(bad); err == nil {
			t.Errorf("%+v was made", bad)
		}
	}
}

// TestLike: what is made like a trace keeps its lengths, its rate and nearly its hit rate.
func TestLike(t *testing.T) {
	spec := Spec{Requests: 500, Chunk: 16, Groups: 5, Share: 0.6, Group: counter(), Length: func(i int) (int, int) { return 100 + i%200, 1 + i%9 }, Due: func(yield func(time.Duration) bool) {
		for i := time.Duration(0); yield(i * 100 * time.Millisecond); i++ {
		}
	}}
	rows, err := Make(spec)
	if err != nil {
		t.Fatal(err)
	}
	made, err := Like(rows, 2000, 16, counter(), counter())
	if err != nil {
		t.Fatal(err)
	}
	before, after := IdealHits(rows, 16), IdealHits(made, 16)
	if d := after.Rate() - before.Rate(); d < -0.02 || d > 0.02 {
		t.Errorf("hit rate %v became %v", before.Rate(), after.Rate())
	}
	if got := ArrivalsOf([]time.Duration{made[0].At, made[1999].At}); got.Span != 1999*100*time.Millisecond {
		t.Errorf("%v", got.Span)
	}
	mean := float64(after.Tokens) / 2000 / (float64(before.Tokens) / 500)
	if mean < 0.95 || mean > 1.05 {
		t.Errorf("prompts are %v times as long", mean)
	}
	if _, err := Like(nil, 1, 16, nil, nil); err == nil {
		t.Error("something was made of nothing")
	}
}
