package driver

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"spate/internal/call"
	"spate/internal/load/schedule"
	"spate/internal/load/workload"
)

// sessions is a source whose every request leads to turns more, one after the other; the first answer also
// sets beside others to work.
type sessions struct {
	numbers
	turns, beside int
	think         time.Duration

	mu sync.Mutex
	id int
}

func (s *sessions) Follow(rec *call.Record) []workload.Turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rec.Turn >= s.turns || rec.Outcome != call.OK {
		return nil
	}
	turn := func(n int) workload.Turn {
		s.id++
		return workload.Turn{Request: call.Request{ID: 1000 + s.id, Session: rec.Session, Turn: n, Phase: call.Measure}, After: s.think}
	}
	out := []workload.Turn{turn(rec.Turn + 1)}
	if rec.Turn == 0 {
		for range s.beside {
			out = append(out, turn(s.turns)) // leads to nothing more
		}
	}
	return out
}

func TestTurnsFollowAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan, err := schedule.Closed(2, 4)
		if err != nil {
			t.Fatal(err)
		}
		src := &sessions{numbers: numbers{n: 4}, turns: 3, beside: 2, think: 50 * time.Millisecond}
		got := play(t, Config{Plan: plan, Source: src}, &server{takes: 10 * time.Millisecond})
		// Two slots hold two conversations each, of four turns with three pauses: 40+150 ms.
		if n := len(got.recs); n != 4*6 || !got.res.Tally.Balanced() || got.res.Tally.Due != n {
			t.Errorf("%d records, %+v", n, got.res.Tally)
		}
		if took := got.res.End - got.res.Start; took != 380*time.Millisecond {
			t.Errorf("took %v, want 380ms", took)
		}
		if peak := got.srv.peak.Load(); peak != 6 { // the first turns of both, then three beside each other
			t.Errorf("%d in flight, want 6", peak)
		}
		for _, r := range got.recs {
			if r.Turn > 0 && (r.Due != r.Dispatched || (r.Due-got.res.Start)%(10*time.Millisecond) != 0) {
				t.Errorf("turn %d was due at %v and let go at %v", r.Turn, r.Due, r.Dispatched)
			}
		}
	})
}

// TestStopEndsConversations: nobody speaks after the end, and nothing that was never due is counted.
func TestStopEndsConversations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan, err := schedule.Closed(3, 0)
		if err != nil {
			t.Fatal(err)
		}
		src := &sessions{numbers: numbers{n: 1 << 20}, turns: 1000, think: 50 * time.Millisecond}
		got := play(t, Config{Plan: plan.For(time.Second), Source: src, Grace: time.Minute}, &server{takes: 10 * time.Millisecond})
		if n := len(got.recs); n != 3*17 || !got.res.Tally.Balanced() { // every 60 ms from 0 to 960
			t.Errorf("%d records, %+v", n, got.res.Tally)
		}
	})
}

// TestTurnsInOpenLoop: conversations begin when they are due, whatever the others do. The pacer sleeps on the real
// clock, so only laws are held.
func TestTurnsInOpenLoop(t *testing.T) {
	plan, err := schedule.Constant(1000)
	if err != nil {
		t.Fatal(err)
	}
	src := &sessions{numbers: numbers{n: 5}, turns: 2, think: 5 * time.Millisecond}
	got := play(t, Config{Plan: plan.First(5).Capped(3), Source: src}, &server{takes: time.Millisecond})
	if n := len(got.recs); n != 15 || got.res.Tally.OK != 15 || got.srv.peak.Load() > 3 {
		t.Errorf("%d records, %+v, %d in flight", n, got.res.Tally, got.srv.peak.Load())
	}
	ends := map[time.Duration]bool{}
	for _, r := range got.recs {
		ends[r.End] = true
	}
	for _, r := range got.recs {
		switch {
		case r.Turn == 0 && r.Due-got.res.Start != time.Duration(r.ID)*time.Millisecond:
			t.Errorf("conversation %d was due at %v", r.ID, r.Due-got.res.Start)
		case r.Turn > 0 && (!ends[r.Due-src.think] || r.Dispatched < r.Due):
			t.Errorf("turn %d was due at %v, which is %v after no answer", r.Turn, r.Due, src.think)
		}
	}
}
