package metrics

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spate/internal/call"
)

// TestSenders computes by hand: worker a sends two requests, 1 and 20 ms late, and one of them twice; worker b is gone
// with one of its two; warm-ups count for nobody.
func TestSenders(t *testing.T) {
	const ms = time.Millisecond
	rec := func(worker string, id int, late time.Duration, outcome call.Outcome) call.Record {
		r := call.NewRecord(&call.Request{ID: id, Phase: call.Measure})
		r.Worker, r.Outcome, r.Due = worker, outcome, 100*ms
		if outcome == call.OK || outcome == call.Failed {
			r.Dispatched = r.Due + late
			r.Started, r.Sent = r.Dispatched, r.Dispatched+2*ms
			r.FirstToken, r.Chunks = r.Sent+40*ms, []call.Chunk{{At: r.Sent + 40*ms, Kind: call.Visible}}
			r.Out = call.Count{N: 5, From: call.FromServer}
		}
		return r
	}
	again, gone, warm := rec("a", 1, 20*ms, call.Failed), rec("b", 3, 0, call.Dropped), rec("b", 0, 0, call.OK)
	again.Retried, gone.Fault, warm.Phase = true, call.FaultLost, call.Warmup
	got := Senders(call.List([]call.Record{rec("a", 0, ms, call.OK), again, rec("a", 1, 20*ms, call.OK), rec("b", 2, 0, call.OK), gone, warm}), true)
	a, b := got["a"], got["b"]
	if len(got) != 2 || a == nil || b == nil {
		t.Fatalf("%v", got)
	}
	want := []call.Tally{{Due: 2, OK: 2, Attempts: 3}, {Due: 2, OK: 1, Dropped: 1, Attempts: 2}}
	if d := cmp.Diff(want, []call.Tally{a.Tally, b.Tally}); d != "" {
		t.Error(d)
	}
	if a.Late10ms != 1 || a.Lost != 0 || b.Lost != 1 || b.Late10ms != 0 || a.Output != 10 {
		t.Errorf("a: %d late, %d lost, %d tokens; b: %d late, %d lost", a.Late10ms, a.Lost, a.Output, b.Late10ms, b.Lost)
	}
	if a.DispatchLag.Mean != 10.5 || a.DispatchLag.Max != 20 || a.SendLag.Mean != 2 || a.TTFT.Median != 40 || b.DispatchLag.N != 1 {
		t.Errorf("a waits %v to dispatch, %v to send, %v for a token; b has %d", a.DispatchLag.Mean, a.SendLag.Mean, a.TTFT.Median, b.DispatchLag.N)
	}
	if !a.Tally.Balanced() || !b.Tally.Balanced() {
		t.Error("a due request has no fate")
	}
}
