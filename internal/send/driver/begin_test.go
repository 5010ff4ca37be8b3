package driver

import (
	"context"
	"sync"
	"testing"
	"time"

	"spate/internal/call"
	"spate/internal/call/recorder"
	"spate/internal/load/schedule"
)

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
				Begin: func() time.Duration {
					time.Sleep(late - clock.Now())
					return late
				},
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
