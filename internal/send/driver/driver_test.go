package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"spate/internal/call"
	"spate/internal/call/recorder"
	"spate/internal/load/schedule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// numbers is a source of n requests; fail makes it end with an error instead of io.EOF.
type numbers struct {
	n, next int
	fail    error
}

func (s *numbers) Next(context.Context) (call.Request, error) {
	if s.next >= s.n {
		if s.fail != nil {
			return call.Request{}, s.fail
		}
		return call.Request{}, io.EOF
	}
	s.next++
	return call.Request{ID: s.next - 1, Name: fmt.Sprint(s.next - 1)}, nil
}

// server stands in for client and server: it answers after a time and counts what is in flight.
type server struct {
	clock    call.Clock
	takes    time.Duration
	together int64 // answers nobody before so many are in flight
	gathered chan struct{}
	outcome  func(r *call.Request) call.Outcome
	inFlight atomic.Int64
	peak     atomic.Int64
	mu       sync.Mutex
	order    []int
}

func (s *server) Prepare(r *call.Request) error {
	r.Body = []byte{'x'}
	return nil
}

func (s *server) Do(ctx context.Context, r *call.Request) call.Record {
	n := s.inFlight.Add(1)
	defer s.inFlight.Add(-1)
	for p := s.peak.Load(); n > p && !s.peak.CompareAndSwap(p, n); p = s.peak.Load() {
	}
	s.mu.Lock()
	s.order = append(s.order, r.ID)
	s.mu.Unlock()
	rec := call.NewRecord(r)
	rec.Sent = s.clock.Now()
	rec.Outcome = call.OK
	if s.outcome != nil {
		rec.Outcome = s.outcome(r)
	}
	answer := time.After(s.takes)
	if s.together > 0 {
		if n == s.together {
			close(s.gathered)
		}
		select {
		case <-s.gathered:
		case <-time.After(30 * time.Second):
			rec.Outcome = call.Failed
		}
	}
	select {
	case <-answer:
	case <-ctx.Done():
		rec.Outcome, rec.Fault = call.Canceled, call.FaultStopped
		if errors.Is(context.Cause(ctx), call.ErrCutoff) {
			rec.Fault = call.FaultCutoff
		}
	}
	rec.End = s.clock.Now()
	return rec
}

// pick has the first requests answered by one server and the others by another.
type pick struct{ first, rest *server }

func (p pick) Prepare(r *call.Request) error { return p.first.Prepare(r) }

func (p pick) Do(ctx context.Context, r *call.Request) call.Record {
	if r.ID < FirstAlike {
		return p.first.Do(ctx, r)
	}
	return p.rest.Do(ctx, r)
}

// asking is a server that asks for a wait before the next attempt.
type asking struct {
	*server
	after time.Duration
}

func (a asking) Do(ctx context.Context, r *call.Request) call.Record {
	rec := a.server.Do(ctx, r)
	rec.RetryWait = a.after
	return rec
}

type trial struct {
	res  Result
	recs []call.Record
	srv  *server
}

func play(t testing.TB, cfg Config, srv *server) trial {
	t.Helper()
	mem := recorder.NewMemory(0)
	cfg.Sink = mem
	return trial{playWith(t, cfg, srv), mem.Records(), srv}
}

// playWith runs against whatever answers; where that is made of servers, they share the run's clock.
func playWith(t testing.TB, cfg Config, doer Doer) Result {
	t.Helper()
	mem := recorder.NewMemory(0)
	if cfg.Sink == nil {
		cfg.Sink = mem
	} else {
		mem, _ = cfg.Sink.(*recorder.Memory)
	}
	cfg.Clock, cfg.Doer = call.NewClock(), doer
	for _, srv := range serversOf(doer) {
		srv.clock, srv.gathered = cfg.Clock, make(chan struct{})
	}
	res, err := Run(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	checkLaws(t, res, mem.Records())
	return res
}

func serversOf(doer Doer) []*server {
	switch d := doer.(type) {
	case *server:
		return []*server{d}
	case pick:
		return []*server{d.first, d.rest}
	case asking:
		return []*server{d.server}
	}
	return nil
}

// checkLaws holds on every run: each due request has one fate, each attempt one record, and no stamp
// precedes the one before it.
func checkLaws(t testing.TB, res Result, recs []call.Record) {
	t.Helper()
	if !res.Tally.Balanced() || res.Tally.Attempts != len(recs) {
		t.Errorf("tally %+v with %d records", res.Tally, len(recs))
	}
	for i := range recs {
		r := &recs[i]
		if r.Dispatched < r.Due || r.Started != call.Unset && r.Started < r.Dispatched || r.Sent != call.Unset && r.Sent < r.Started {
			t.Errorf("request %d: due %v dispatched %v started %v sent %v", r.ID, r.Due, r.Dispatched, r.Started, r.Sent)
		}
	}
}

func must(p schedule.Plan, err error) schedule.Plan {
	if err != nil {
		panic(err)
	}
	return p
}

// Closed loops and bursts are tested in fake time, where a busy machine changes nothing. Schedules
// cannot be: the pacer waits in the kernel.

func TestClosedLoopKeepsEverySlotBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots, n = 7, 60
		got := play(t, Config{Plan: must(schedule.Closed(slots, n)), Source: &numbers{n: n}}, &server{takes: 5 * time.Millisecond})
		if got.srv.peak.Load() != slots || got.res.Tally.OK != n {
			t.Errorf("peak %d of %d slots, %d ok of %d", got.srv.peak.Load(), slots, got.res.Tally.OK, n)
		}
		// A slot's next request is due when its last one ended.
		ends := map[time.Duration]bool{got.res.Start: true}
		for _, r := range got.recs {
			ends[r.End] = true
		}
		for _, r := range got.recs {
			if !ends[r.Due] {
				t.Errorf("request %d was due at %v, when no slot became free", r.ID, r.Due)
			}
		}
	})
}

func TestOpenLoopFollowsTheSchedule(t *testing.T) {
	times := []time.Duration{0, 3 * time.Millisecond, 3 * time.Millisecond, 20 * time.Millisecond, 31 * time.Millisecond}
	// No answer comes before all requests are there: none of them may wait for another's.
	got := play(t, Config{Plan: must(schedule.Trace(times)), Source: &numbers{n: len(times)}}, &server{together: int64(len(times))})
	if got.res.Tally.OK != len(times) || got.srv.peak.Load() != int64(len(times)) {
		t.Errorf("%d ok, peak %d", got.res.Tally.OK, got.srv.peak.Load())
	}
	for _, r := range got.recs {
		if want := got.res.Start + times[r.ID]; r.Due != want {
			t.Errorf("request %d due at %v, want %v", r.ID, r.Due, want)
		}
	}
}

func TestCapQueuesInOrderAndNeverExceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 40
		got := play(t, Config{Plan: must(schedule.Burst(n)).Capped(3), Source: &numbers{n: n}}, &server{takes: 2 * time.Millisecond})
		if got.srv.peak.Load() != 3 {
			t.Errorf("peak %d, want exactly the cap of 3", got.srv.peak.Load())
		}
		for i, id := range got.srv.order {
			if d := id - i; d > 2 || d < -2 { // three slots may start within each other
				t.Errorf("request %d started at place %d", id, i)
			}
		}
		waited := 0
		for _, r := range got.recs {
			if r.Started-r.Dispatched > time.Millisecond {
				waited++
			}
		}
		if waited < n/2 {
			t.Errorf("only %d of %d requests waited for a slot", waited, n)
		}
	})
}

func TestDurationAndGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := must(schedule.Closed(4, 0)).For(300 * time.Millisecond)
		got := play(t, Config{Plan: plan, Source: &numbers{n: 1 << 20}, Grace: 20 * time.Millisecond}, &server{takes: 200 * time.Millisecond})
		if got.res.Tally.OK != 4 || got.res.Tally.Canceled != 4 || got.res.Stopped {
			t.Errorf("tally %+v, stopped %v; want 4 done and 4 cut off", got.res.Tally, got.res.Stopped)
		}
		for _, r := range got.recs {
			if r.Outcome == call.Canceled && r.Fault != call.FaultCutoff {
				t.Errorf("request %d canceled with fault %q", r.ID, r.Fault)
			}
		}
		plan = must(schedule.Closed(4, 0)).For(300 * time.Millisecond)
		got = play(t, Config{Plan: plan, Source: &numbers{n: 1 << 20}, Grace: -1}, &server{takes: 200 * time.Millisecond})
		if got.res.Tally.OK != 8 || got.res.Tally.Canceled != 0 {
			t.Errorf("with endless grace: %+v, want 8 done", got.res.Tally)
		}
	})
}

func TestQueuedRequestsAreDroppedAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := must(schedule.Burst(20)).Capped(2).For(150 * time.Millisecond)
		got := play(t, Config{Plan: plan, Source: &numbers{n: 20}, Grace: 2 * time.Second}, &server{takes: 100 * time.Millisecond})
		// Two are answered after 100 ms and two after 200 ms, when nothing was sent for 50 ms.
		if want := (call.Tally{Due: 20, OK: 4, Dropped: 16, Attempts: 20}); got.res.Tally != want {
			t.Errorf("tally %+v, want %+v: the queued ones dropped and those in flight finished", got.res.Tally, want)
		}
	})
}

// TestLateClientDropsWhatWasDue stalls the sender over the end of the time: what fell due meanwhile is
// due, and dropped.
func TestLateClientDropsWhatWasDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		times := []time.Duration{0, 10 * time.Millisecond, 20 * time.Millisecond, 99 * time.Millisecond, 100 * time.Millisecond}
		stalling := schedule.Plan{N: len(times), Due: func(yield func(time.Duration) bool) {
			for i, d := range times {
				if i == 1 {
					time.Sleep(200 * time.Millisecond)
				}
				if !yield(d) {
					return
				}
			}
		}}
		for _, slots := range []int{0, 1} {
			got := play(t, Config{Plan: stalling.Capped(slots).For(100 * time.Millisecond), Source: &numbers{n: 5}, Grace: time.Second}, &server{takes: time.Millisecond})
			if want := (call.Tally{Due: 4, OK: 1, Dropped: 3, Attempts: 4}); got.res.Tally != want || got.res.Stopped {
				t.Errorf("%d slots: %+v, want %+v", slots, got.res.Tally, want)
			}
			for _, r := range got.recs {
				if want := got.res.Start + times[r.ID]; r.Due != want || r.Outcome == call.Dropped && r.Sent != call.Unset {
					t.Errorf("request %d was due at %v, want %v; %s, sent at %v", r.ID, r.Due, want, r.Outcome, r.Sent)
				}
			}
		}
	})
}

// slept are times whose gaps are slept; before the request with index stall the client is held up for a while.
func slept(times []time.Duration, stall int, wait time.Duration) schedule.Plan {
	return schedule.Plan{N: len(times), Slept: true, Due: func(yield func(time.Duration) bool) {
		for i, d := range times {
			if i == stall {
				time.Sleep(wait)
			}
			if !yield(d) {
				return
			}
		}
	}}
}

// TestSleptGapsAddUpLateness: each gap begins when the request before was let go, so a stall moves all that follows.
func TestSleptGapsAddUpLateness(t *testing.T) {
	const stall = 30 * time.Millisecond
	times := []time.Duration{0, time.Millisecond, 3 * time.Millisecond, 3 * time.Millisecond, 8 * time.Millisecond}
	for _, slots := range []int{0, 1} {
		got := play(t, Config{Plan: slept(times, 1, stall).Capped(slots), Source: &numbers{n: len(times)}}, &server{takes: time.Millisecond})
		if got.res.Tally.OK != len(times) {
			t.Fatalf("%d slots: tally %+v", slots, got.res.Tally)
		}
		recs := got.recs
		slices.SortFunc(recs, func(a, b call.Record) int { return cmp.Compare(a.ID, b.ID) })
		if recs[0].Due != got.res.Start {
			t.Errorf("the first is due at %v, want at once: %v", recs[0].Due, got.res.Start)
		}
		for i := 1; i < len(recs); i++ {
			if want := recs[i-1].Dispatched + times[i] - times[i-1]; recs[i].Due != want {
				t.Errorf("%d slots: request %d due at %v, want %v: a gap after the one before was let go", slots, i, recs[i].Due, want)
			}
		}
		if last := recs[len(recs)-1].Due - got.res.Start; last < stall+7*time.Millisecond {
			t.Errorf("%d slots: the last was due at %v: the stall is not in it", slots, last)
		}
	}
}

// TestSleptGapsEndWithTheTime: what lateness moved beyond the end was never due.
func TestSleptGapsEndWithTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		times := []time.Duration{0, 10 * time.Millisecond, 20 * time.Millisecond, 99 * time.Millisecond}
		plan := slept(times, 1, 200*time.Millisecond).For(100 * time.Millisecond)
		got := play(t, Config{Plan: plan, Source: &numbers{n: 4}, Grace: time.Second}, &server{takes: time.Millisecond})
		// The second was due at 10 ms and let go at 200 ms; the third would be due at 210 ms.
		if want := (call.Tally{Due: 2, OK: 1, Dropped: 1, Attempts: 2}); got.res.Tally != want || got.res.Stopped {
			t.Errorf("%+v, want %+v", got.res.Tally, want)
		}
	})
}

func TestStopDrainsAndCancelGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		time.AfterFunc(150*time.Millisecond, func() { close(stop) })
		got := play(t, Config{Plan: must(schedule.Closed(5, 1000)), Source: &numbers{n: 1000}, Stop: stop, Grace: -1}, &server{takes: 400 * time.Millisecond})
		if got.res.Tally.OK != 5 || !got.res.Stopped {
			t.Errorf("after stop: %+v, stopped %v; want the 5 in flight done", got.res.Tally, got.res.Stopped)
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(150*time.Millisecond, func() { cancel(call.ErrInterrupted) })
		mem, srv, clock := recorder.NewMemory(0), &server{takes: time.Hour}, call.NewClock()
		srv.clock = clock
		res, err := Run(ctx, Config{Plan: must(schedule.Burst(5)), Source: &numbers{n: 5}, Doer: srv, Sink: mem, Clock: clock})
		if err != nil || res.Tally.Canceled != 5 || !res.Stopped {
			t.Errorf("after cancel: %+v, %v", res.Tally, err)
		}
		checkLaws(t, res, mem.Records())
	})
}

func TestRetriesAreRecords(t *testing.T) {
	var tries atomic.Int64
	srv := &server{outcome: func(r *call.Request) call.Outcome {
		tries.Add(1)
		if r.ID == 1 && r.Attempt < 2 || r.ID == 2 {
			return call.Failed
		}
		return call.OK
	}}
	got := play(t, Config{Plan: must(schedule.Closed(1, 4)), Source: &numbers{n: 4}, Retries: 2}, srv)
	if got.res.Tally != (call.Tally{Due: 4, OK: 3, Failed: 1, Attempts: 8}) {
		t.Errorf("tally %+v", got.res.Tally)
	}
	for _, r := range got.recs {
		again := r.ID == 1 && r.Attempt < 2 || r.ID == 2 && r.Attempt < 2
		if r.Retried != again {
			t.Errorf("request %d attempt %d: retried %v", r.ID, r.Attempt, r.Retried)
		}
	}
}

func TestWarmupIsHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		warm := &Warmup{Source: &numbers{n: 1 << 20}, N: 9}
		got := play(t, Config{Plan: must(schedule.Closed(4, 12)), Source: &numbers{n: 12}, Warmup: warm}, &server{takes: 5 * time.Millisecond})
		var warmEnd, firstMeasured time.Duration
		phases := map[call.Phase]int{}
		firstMeasured = time.Hour
		for _, r := range got.recs {
			phases[r.Phase]++
			if r.Phase == call.Warmup {
				warmEnd = max(warmEnd, r.End)
			} else {
				firstMeasured = min(firstMeasured, r.Dispatched)
			}
		}
		if phases[call.Warmup] != 9 || phases[call.Measure] != 12 {
			t.Errorf("phases %v", phases)
		}
		if firstMeasured >= warmEnd || got.res.Measure != firstMeasured {
			t.Errorf("first measured request at %v (reported %v), last warm-up ended %v: the warm-up was drained", firstMeasured, got.res.Measure, warmEnd)
		}
	})
}

func TestWarmupInAnOpenLoopTakesTheFirstPlaces(t *testing.T) {
	times := []time.Duration{0, 1e6, 2e6, 3e6, 4e6}
	got := play(t, Config{Plan: must(schedule.Trace(times)), Source: &numbers{n: 9}, Warmup: &Warmup{Source: &numbers{n: 9}, N: 2}}, &server{})
	for _, r := range got.recs {
		place := int((r.Due - got.res.Start) / time.Millisecond)
		want := call.Measure
		if place < 2 {
			want = call.Warmup
		}
		if r.Phase != want {
			t.Errorf("place %d is %s", place, r.Phase)
		}
	}
	if got.res.Tally.Due != 5 {
		t.Errorf("due %d, want 5", got.res.Tally.Due)
	}
}

// TestBegan: whoever asks is told the beginning of the measured part, once, as the result has it.
func TestBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			plan schedule.Plan
			warm int
			want func(Result) time.Duration
		}{
			"burst":                 {must(schedule.Burst(5)), 0, func(r Result) time.Duration { return r.Start }},
			"burst with a warm-up":  {must(schedule.Burst(5)), 2, func(r Result) time.Duration { return r.Start }},
			"closed":                {must(schedule.Closed(2, 5)), 0, func(r Result) time.Duration { return r.Measure }},
			"closed with a warm-up": {must(schedule.Closed(2, 5)), 4, func(r Result) time.Duration { return r.Measure }},
		} {
			var told []time.Duration
			cfg := Config{Plan: c.plan, Source: &numbers{n: 5}, Began: func(at time.Duration) { told = append(told, at) }}
			if c.warm > 0 {
				cfg.Warmup = &Warmup{Source: &numbers{n: c.warm}, N: c.warm}
			}
			got := play(t, cfg, &server{takes: 10 * time.Millisecond})
			if len(told) != 1 || told[0] != c.want(got.res) {
				t.Errorf("%s: told %v, want %v", name, told, c.want(got.res))
			}
		}
	})
}

func TestSourceTrouble(t *testing.T) {
	boom := errors.New("bad row 7")
	mem, srv, clock := recorder.NewMemory(0), &server{}, call.NewClock()
	srv.clock = clock
	res, err := Run(context.Background(), Config{Plan: must(schedule.Closed(2, 10)), Source: &numbers{n: 3, fail: boom}, Doer: srv, Sink: mem, Clock: clock})
	if !errors.Is(err, boom) || res.Tally.OK != 3 {
		t.Errorf("%v with %+v; want the error and the 3 requests made", err, res.Tally)
	}
	got := play(t, Config{Plan: must(schedule.Burst(10)), Source: &numbers{n: 3}}, &server{})
	if got.res.Tally.Due != 3 {
		t.Errorf("a source that ends early gave %+v", got.res.Tally)
	}
}

// TestConservation runs random plans with random faults and stops.
func TestConservation(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(rt, "n")
		slots := rapid.IntRange(0, 6).Draw(rt, "slots")
		takes := time.Duration(rapid.IntRange(0, 3).Draw(rt, "takes")) * time.Millisecond
		var plan schedule.Plan
		switch rapid.IntRange(0, 2).Draw(rt, "law") {
		case 0:
			plan = must(schedule.Closed(max(1, slots), n))
		case 1:
			plan = must(schedule.Burst(n)).Capped(slots)
		default:
			plan = must(schedule.VLLM(n, 5000, 1, 1)).Capped(slots)
		}
		if rapid.Bool().Draw(rt, "timed") {
			plan = plan.For(time.Duration(rapid.IntRange(1, 5).Draw(rt, "until")) * time.Millisecond)
		}
		cfg := Config{Plan: plan, Source: &numbers{n: n}, Retries: rapid.IntRange(0, 2).Draw(rt, "retries"), Grace: time.Millisecond}
		if rapid.Bool().Draw(rt, "stop") {
			stop := make(chan struct{})
			timer := time.AfterFunc(time.Duration(rapid.IntRange(0, 3).Draw(rt, "after"))*time.Millisecond, func() { close(stop) })
			defer timer.Stop()
			cfg.Stop = stop
		}
		srv := &server{takes: takes, outcome: func(r *call.Request) call.Outcome {
			if r.ID%3 == 0 {
				return call.Failed
			}
			return call.OK
		}}
		got := play(t, cfg, srv)
		if slots > 0 && got.srv.peak.Load() > int64(slots) {
			rt.Errorf("peak %d above the cap of %d", got.srv.peak.Load(), slots)
		}
		for _, r := range got.recs {
			if plan.Due == nil && plan.Until > 0 && r.Dispatched >= got.res.Start+plan.Until {
				rt.Errorf("request %d was let go %v into a run of %v", r.ID, r.Dispatched-got.res.Start, plan.Until)
			}
		}
	})
}

func TestPacerIsNeverEarly(t *testing.T) {
	clock := call.NewClock()
	p := newPacer(clock)
	defer p.close()
	stop := make(chan struct{})
	for i := range 20 {
		due := clock.Now() + time.Duration(i)*300*time.Microsecond
		if !p.until(due, stop) || clock.Now() < due {
			t.Fatalf("woke at %v for %v", clock.Now(), due)
		}
	}
	close(stop)
	if p.until(clock.Now()+time.Hour, stop) {
		t.Error("a stop was not noticed")
	}
}

func TestAWarmupTakesNothingFromTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := must(schedule.Closed(2, 0)).For(200 * time.Millisecond)
		warm := &Warmup{Source: &numbers{n: 1 << 20}, N: 8}
		got := play(t, Config{Plan: plan, Source: &numbers{n: 1 << 20}, Warmup: warm, Grace: -1}, &server{takes: 50 * time.Millisecond})
		var last time.Duration
		for _, r := range got.recs {
			if r.Phase == call.Measure {
				last = max(last, r.Dispatched)
			}
		}
		// Both slots are free at 200 ms; the last to begin do so at 350 ms, since at 400 ms the time is over.
		if span := last - got.res.Measure; got.res.Measure-got.res.Start != 200*time.Millisecond || span != 150*time.Millisecond {
			t.Errorf("measured for %v after a warm-up of %v, want 150 ms after 200 ms", span, got.res.Measure-got.res.Start)
		}
	})
}
