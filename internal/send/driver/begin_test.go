package driver

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"spate/internal/call"
	"spate/internal/call/recorder"
	"spate/internal/load/schedule"
)

// TestBeginFails sends nothing when there is no start.
func TestBeginFails(t *testing.T) {
	clock := call.NewClock()
	gone := errors.New("the coordinator is gone")
	plan, err := schedule.Closed(2, 5)
	if err != nil {
		t.Fatal(err)
	}
	memory := recorder.NewMemory(5)
	res, err := Run(context.Background(), Config{
		Plan: plan, Source: &numbers{n: 5}, Doer: &server{clock: clock}, Sink: memory, Clock: clock, Grace: -1,
		Begin: func(context.Context) (time.Duration, error) { return 0, gone },
	})
	if !errors.Is(err, gone) || res.Tally.Due != 0 || len(memory.Records()) != 0 {
		t.Errorf("%d requests were due, %v", res.Tally.Due, err)
	}
}

// TestFixedWarmup ends two closed loops together whose first measured requests leave at different times: their time
// begins when the warm-up is over, not when a slot is free then.
func TestFixedWarmup(t *testing.T) {
	clock := call.NewClock()
	const start, warm, length = 20 * time.Millisecond, 20 * time.Millisecond, 60 * time.Millisecond
	for _, takes := range []time.Duration{3 * time.Millisecond, 50 * time.Millisecond} {
		plan, err := schedule.Closed(2, 0)
		if err != nil {
			t.Fatal(err)
		}
		at := start + clock.Now()
		memory := recorder.NewMemory(64)
		if _, err := Run(context.Background(), Config{
			Plan: plan.For(length), Source: &numbers{n: 1000}, Warmup: &Warmup{Source: &numbers{n: 1000}, For: warm, Fixed: true},
			Doer: &server{clock: clock, takes: takes}, Sink: memory, Clock: clock, Grace: -1,
			Begin: func(context.Context) (time.Duration, error) { return at, nil },
		}); err != nil {
			t.Fatal(err)
		}
		for _, r := range memory.Records() {
			if r.Dispatched < at || r.Phase == call.Measure && r.Dispatched >= at+warm+length {
				t.Errorf("answers of %v: request %d left %v after the start; sending lasts %v", takes, r.ID, r.Dispatched-at, warm+length)
			}
		}
	}
}

// TestBegin starts two drivers at one time that is later than both were ready: nothing leaves before it,
// and every due time counts from it.
func TestBegin(t *testing.T) {
	clock := call.NewClock()
	const late = 30 * time.Millisecond
	var wg sync.WaitGroup
	for i, slots := range []int{0, 2} {
		plan, err := schedule.Constant(1000)
		if err != nil {
			t.Fatal(err)
		}
		plan = plan.First(5)
		if slots > 0 {
			if plan, err = schedule.Closed(slots, 5); err != nil {
				t.Fatal(err)
			}
		}
		wg.Go(func() {
			memory := recorder.NewMemory(5)
			var began time.Duration
			res, err := Run(context.Background(), Config{
				Plan: plan, Source: &numbers{n: 5}, Doer: &server{clock: clock, takes: time.Millisecond}, Sink: memory, Clock: clock, Grace: -1,
				Began: func(at time.Duration) { began = at },
				Begin: func(context.Context) (time.Duration, error) { return late, nil }, // and it is still to come
			})
			if err != nil || res.Start != late || began != late || res.Tally.OK != 5 {
				t.Errorf("driver %d: start %v, began %v, %+v, %v", i, res.Start, began, res.Tally, err)
			}
			for _, r := range memory.Records() {
				if r.Due < late || r.Dispatched < late {
					t.Errorf("driver %d: request %d was due at %v and left at %v", i, r.ID, r.Due, r.Dispatched)
				}
			}
		})
	}
	wg.Wait()
}
