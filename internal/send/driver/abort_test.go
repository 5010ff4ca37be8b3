package driver

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"spate/internal/call"
	"spate/internal/load/schedule"
)

func fate(outcome call.Outcome, fault call.Fault, status int) *call.Record {
	r := &call.Record{Outcome: outcome, Fault: fault, Status: status}
	if outcome != call.OK {
		r.Err = "the server's words"
	}
	return r
}

// TestAbortRules feeds fates in the order of sending, and says after which of them the run ends.
func TestAbortRules(t *testing.T) {
	ok, refused := fate(call.OK, "", 200), fate(call.Failed, call.FaultConnect, 0)
	missing, broken := fate(call.Failed, call.FaultStatus, 404), fate(call.Failed, call.FaultStatus, 500)
	shed, canceled := fate(call.Failed, call.FaultShed, 429), fate(call.Canceled, call.FaultStopped, 0)
	retried := fate(call.Failed, call.FaultStatus, 500)
	retried.Retried = true
	times := func(n int, r *call.Record) []*call.Record {
		out := make([]*call.Record, n)
		for i := range out {
			out[i] = r
		}
		return out
	}
	join := func(parts ...[]*call.Record) (out []*call.Record) {
		for _, p := range parts {
			out = append(out, p...)
		}
		return out
	}
	for _, c := range []struct {
		name  string
		rule  Abort
		fates []*call.Record
		after int // fates until the run ends; 0: it does not
		says  string
	}{
		{"the first ten alike", Abort{}, times(50, missing), 10, "the first 10 requests all failed: the server's words"},
		{"nine alike and a success", Abort{}, join(times(9, missing), times(1, ok), times(99, missing)), 0, ""},
		{"two kinds", Abort{}, join(times(5, missing), times(50, broken)), 0, ""},
		{"turned away for load", Abort{}, times(50, shed), 0, ""},
		{"a success first", Abort{}, join(times(1, ok), times(50, broken)), 0, ""},
		{"the server is gone", Abort{}, join(times(30, ok), times(50, refused)), 50, "20 requests in a row could not connect"},
		{"gone for a moment", Abort{}, join(times(30, ok), times(19, refused), times(1, ok), times(19, refused)), 0, ""},
		{"a row", Abort{Run: 3}, join(times(1, ok), times(2, broken), times(1, ok), times(3, shed)), 7, "3 requests in a row failed"},
		{"canceled is no failure", Abort{Run: 1}, times(9, canceled), 0, ""},
		{"attempts that are followed by another", Abort{Run: 1}, times(9, retried), 0, ""},
		{"a share waits for 20", Abort{Share: 0.5}, join(times(9, ok), times(10, broken), times(1, ok), times(1, broken)), 21, "11 of 21 requests failed, more than 50 %"},
		{"a share is not broken at its bound", Abort{Share: 0.5}, join(times(10, ok), times(10, broken)), 0, ""},
		{"off", Abort{Off: true}, times(500, refused), 0, ""},
	} {
		f := failures{rule: c.rule}
		after, says := 0, ""
		for i, r := range c.fates {
			if why := f.add(i, r); why != "" {
				after, says = i+1, why
				break
			}
		}
		if after != c.after || !strings.HasPrefix(says, c.says) {
			t.Errorf("%s: ended after %d with %q, want %d with %q", c.name, after, says, c.after, c.says)
		}
	}
}

// TestAbortCountsInSendingOrder has refusals that come before the first answer: quick ones of requests that
// were sent later say nothing of those sent first.
func TestAbortCountsInSendingOrder(t *testing.T) {
	var f failures
	for seq := FirstAlike; seq < 500; seq++ {
		if why := f.add(seq, fate(call.Failed, call.FaultStatus, 400)); why != "" {
			t.Fatalf("ended by request %d: %s", seq, why)
		}
	}
}

// TestAbortEndsTheRun has a server that refuses: sending ends, what is in flight is given up, and every
// request that was let go has its fate.
func TestAbortEndsTheRun(t *testing.T) {
	for name, plan := range map[string]schedule.Plan{"closed": must(schedule.Closed(5, 1000)), "burst": must(schedule.Burst(1000))} {
		synctest.Test(t, func(t *testing.T) {
			srv := &server{takes: time.Millisecond, outcome: func(*call.Request) call.Outcome { return call.Failed }}
			slow := &server{takes: time.Hour}
			doer := pick{first: srv, rest: slow}
			got := playWith(t, Config{Plan: plan, Source: &numbers{n: 1000}, Grace: -1}, doer)
			if !strings.HasPrefix(got.Aborted, "the first 10 requests all failed") || got.Stopped {
				t.Errorf("%s: aborted %q, stopped %v", name, got.Aborted, got.Stopped)
			}
			if got.Tally.Failed != 10 || got.Tally.OK > 0 || name == "closed" && got.Tally.Due > 15 {
				t.Errorf("%s: %+v", name, got.Tally)
			}
		})
	}
}

// TestGraceAfterStop has answers that take longer than the grace period, and such as do not.
func TestGraceAfterStop(t *testing.T) {
	for takes, want := range map[time.Duration]call.Tally{
		25 * time.Second: {Due: 5, OK: 5, Attempts: 5},
		45 * time.Second: {Due: 5, Canceled: 5, Attempts: 5},
	} {
		synctest.Test(t, func(t *testing.T) {
			stop := make(chan struct{})
			time.AfterFunc(time.Second, func() { close(stop) })
			began := time.Now()
			got := play(t, Config{Plan: must(schedule.Closed(5, 1000)), Source: &numbers{n: 1000}, Stop: stop, Grace: 30 * time.Second}, &server{takes: takes})
			if got.res.Tally != want || !got.res.Stopped || time.Since(began) > 31*time.Second {
				t.Errorf("answers of %v: %+v after %v, want %+v", takes, got.res.Tally, time.Since(began), want)
			}
			for _, r := range got.recs {
				if r.Outcome == call.Canceled && r.Fault != call.FaultStopped {
					t.Errorf("%d was ended by %s", r.ID, r.Fault)
				}
			}
		})
	}
}

// TestRetriesKeepTheTimeout has a server that wants days between two attempts.
func TestRetriesKeepTheTimeout(t *testing.T) {
	for name, c := range map[string]struct {
		after    time.Duration // Retry-After
		timeout  time.Duration
		attempts int
	}{
		"longer than the timeout": {999999 * time.Second, 10 * time.Second, 1},
		"some attempts":           {4 * time.Second, 10 * time.Second, 3},
		"bounded without one":     {999999 * time.Second, 0, 101},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			srv := &server{outcome: func(*call.Request) call.Outcome { return call.Failed }}
			got := playWith(t, Config{Plan: must(schedule.Closed(1, 1)), Source: &numbers{n: 1}, Retries: 100, Timeout: c.timeout, Abort: Abort{Off: true}}, asking{srv, c.after})
			if got.Tally.Attempts != c.attempts || got.Tally.Failed != 1 {
				t.Errorf("%s: %+v, want %d attempts", name, got.Tally, c.attempts)
			}
			if c.timeout > 0 && time.Since(began) > c.timeout {
				t.Errorf("%s: took %v under a timeout of %v", name, time.Since(began), c.timeout)
			}
		})
	}
}

// TestStopEndsRetries stops a run that waits for its next attempt.
func TestStopEndsRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(stop) })
		srv := &server{outcome: func(*call.Request) call.Outcome { return call.Failed }, takes: time.Millisecond}
		began := time.Now()
		got := playWith(t, Config{Plan: must(schedule.Closed(1, 1)), Source: &numbers{n: 1}, Retries: 100, Stop: stop, Grace: -1}, asking{srv, 20 * time.Second})
		if got.Tally != (call.Tally{Due: 1, Canceled: 1, Attempts: 2}) || time.Since(began) > 2*time.Second {
			t.Errorf("%+v after %v", got.Tally, time.Since(began))
		}
	})
}

// heavy makes bodies of a size.
type heavy struct {
	*server
	size int
}

func (h heavy) Prepare(r *call.Request) error {
	r.Body = make([]byte, h.size)
	return nil
}

// TestLookAheadIsBoundedInBytes has bodies so large that a few of them are all that may be encoded ahead.
func TestLookAheadIsBoundedInBytes(t *testing.T) {
	src := &numbers{n: 12}
	f := newFeed(src, 0, 12)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { f.fill(ctx, heavy{&server{}, maxHeld / 2}); close(done) }()
	<-f.primed
	if n := len(f.ready); n != 2 {
		t.Errorf("%d requests are encoded ahead, want 2", n)
	}
	for range 12 {
		req, ok := <-f.ready
		if !ok {
			t.Fatal("the feed ended early")
		}
		if f.took(&req); f.held.Load() > maxHeld {
			t.Errorf("%d bytes are held", f.held.Load())
		}
	}
	cancel()
	<-done
}
