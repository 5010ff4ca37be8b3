package clock

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const ms = time.Millisecond

// TestBestByHand: asked at 100 ms, answered at 104 ms, the other clock showed 1,002 ms: its 1,002 stands for our 102, so
// the offset is 900 ms, known to within 2 ms. A slower exchange before it says 930 and is not taken.
func TestBestByHand(t *testing.T) {
	got, err := Best([]Exchange{
		{Asked: 0, Answered: 60 * ms, Theirs: 960 * ms},
		{Asked: 100 * ms, Answered: 104 * ms, Theirs: 1002 * ms},
		{Asked: 200 * ms, Answered: 210 * ms, Theirs: 1109 * ms},
		{Asked: 300 * ms, Answered: 299 * ms, Theirs: 1}, // an answer before its question
	})
	want := Estimate{At: 102 * ms, Offset: 900 * ms, RoundTrip: 4 * ms, Exchanges: 3}
	if err != nil || got != want {
		t.Errorf("Best = %+v, %v; want %+v", got, err, want)
	}
	if _, err := Best(nil); err == nil {
		t.Error("no exchange gave an estimate")
	}
}

// TestJudgeByHand: 900 ms at the start; a second later 900.01, two seconds later 900.02: 10 us a second are 10 millionths.
// The last estimate is 20 us off with a round trip of 100 us, so no stamp is more than 70 us wrong.
func TestJudgeByHand(t *testing.T) {
	got := Judge([]Estimate{
		{At: 0, Offset: 900 * ms, RoundTrip: 100 * time.Microsecond, Exchanges: 20},
		{At: time.Second, Offset: 900*ms + 10*time.Microsecond, RoundTrip: 100 * time.Microsecond, Exchanges: 20},
		{At: 2 * time.Second, Offset: 900*ms + 20*time.Microsecond, RoundTrip: 100 * time.Microsecond, Exchanges: 20},
	})
	if got.Offset != 900*ms || math.Abs(got.Drift-10) > 1e-6 || got.Uncertainty != 70*time.Microsecond || got.Exchanges != 60 {
		t.Errorf("Judge = %+v", got)
	}
	one := Judge([]Estimate{{Offset: -5 * ms, RoundTrip: 3, Exchanges: 1}})
	if one.Drift != 0 || one.Uncertainty != 2 { // half of an odd number is rounded up: a bound must not be too small
		t.Errorf("one estimate: %+v", one)
	}
	if Judge(nil) != (Quality{}) {
		t.Error("no estimate says something")
	}
}

// TestTheTrueOffsetIsWithinTheUncertainty makes exchanges over a line whose two ways take different times, with a clock
// that drifts: whatever those are, the true offset at each estimate is no further from the one used than Judge says.
func TestTheTrueOffsetIsWithinTheUncertainty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		offset := time.Duration(rapid.Int64Range(-int64(time.Hour), int64(time.Hour)).Draw(t, "offset"))
		ppm := rapid.Int64Range(-100, 100).Draw(t, "ppm")
		theirs := func(at time.Duration) time.Duration { return at + offset + time.Duration(int64(at)*ppm/1e6) }
		var estimates []Estimate
		for at := time.Duration(0); at < 10*time.Second; at += 2 * time.Second {
			var all []Exchange
			for i := range 5 {
				asked := at + time.Duration(i)*ms
				there := time.Duration(rapid.Int64Range(0, int64(5*ms)).Draw(t, "there"))
				back := time.Duration(rapid.Int64Range(0, int64(5*ms)).Draw(t, "back"))
				all = append(all, Exchange{Asked: asked, Answered: asked + there + back, Theirs: theirs(asked + there)})
			}
			e, err := Best(all)
			if err != nil {
				t.Fatal(err)
			}
			estimates = append(estimates, e)
		}
		q := Judge(estimates)
		for _, e := range estimates {
			if wrong := (theirs(e.At) - e.At - q.Offset).Abs(); wrong > q.Uncertainty+2 { // whole nanoseconds
				t.Fatalf("at %v the clock is %v from the one used; the uncertainty is %v", e.At, wrong, q.Uncertainty)
			}
		}
	})
}
