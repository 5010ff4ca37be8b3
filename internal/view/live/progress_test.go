package live

import (
	"math"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spate/internal/call"
	"spate/internal/call/recorder"
)

var _ recorder.Sink = (*Progress)(nil)

// finished is a request sent at the given time: 50 ms to its first token, then 10 ms each.
func finished(id int, sent time.Duration, tokens int) call.Record {
	r := call.NewRecord(&call.Request{ID: id, Phase: call.Measure})
	r.Sent, r.Outcome, r.Out = sent, call.OK, call.Count{N: tokens}
	for i := range tokens {
		r.Chunks = append(r.Chunks, call.Chunk{At: sent + 50*time.Millisecond + time.Duration(i)*10*time.Millisecond, Kind: call.Visible})
	}
	return r
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > want*0.002 {
		t.Errorf("%s = %v, want about %v", what, got, want)
	}
}

func TestProgress(t *testing.T) {
	p := NewProgress(1000)
	p.SetPhase("measuring", time.Second, call.Unset)
	p.SetWaiting(7)
	// Ten requests a second for ten seconds, asked for twice a second.
	for step := range 20 {
		now := time.Second + time.Duration(step+1)*500*time.Millisecond
		for i := range 5 {
			p.Sent()
			r := finished(step*5+i, now-500*time.Millisecond, 10)
			if err := p.Record(&r); err != nil {
				t.Fatal(err)
			}
		}
		if step < 19 {
			p.Snapshot(now)
		}
	}
	for range 3 {
		p.Sent() // still running
	}
	s := p.Snapshot(11 * time.Second)
	if s.Phase != "measuring" || s.Done != 100 || s.Total != 1000 || s.Elapsed != 10*time.Second || s.InFlight != 3 || s.Waiting != 7 {
		t.Errorf("counts: %+v", s)
	}
	near(t, "done rate", s.DoneRate, 10)
	near(t, "output rate", s.OutRate, 100)
	near(t, "time left", s.Left.Seconds(), 90)
	near(t, "TTFT p50", s.TTFT.P50.Seconds(), 0.050)
	near(t, "ITL p99", s.ITL.P99.Seconds(), 0.010)
	if s.TTFT.N != 100 || s.ITL.N != 900 {
		t.Errorf("%d TTFTs and %d ITLs, want 100 and 900", s.TTFT.N, s.ITL.N)
	}
}

func TestProgressCountsOnlyFates(t *testing.T) {
	p := NewProgress(0)
	p.SetPhase("measuring", 0, 20*time.Second)
	fate := func(change func(*call.Record)) {
		r := finished(0, 0, 2)
		change(&r)
		_ = p.Record(&r)
	}
	fate(func(r *call.Record) { r.Phase = call.Warmup })
	fate(func(r *call.Record) { r.Phase = call.Probe })
	fate(func(r *call.Record) { r.Retried, r.Outcome, r.Fault = true, call.Failed, call.FaultReset })
	fate(func(r *call.Record) { r.Outcome, r.Fault, r.Status = call.Failed, call.FaultStatus, 500 })
	fate(func(r *call.Record) { r.Outcome, r.Fault = call.Failed, call.FaultTimeout })
	fate(func(r *call.Record) { r.Outcome, r.Fault = call.Failed, call.FaultTimeout })
	fate(func(r *call.Record) { r.Outcome, r.Fault = call.Canceled, call.FaultCutoff })
	fate(func(r *call.Record) {
		r.Chunks = []call.Chunk{{At: 2 * time.Hour}, {At: time.Hour}} // beyond the histogram, and backwards
	})
	s := p.Snapshot(5 * time.Second)
	want := []ErrorCount{{"timeout", 2}, {"HTTP 500", 1}, {"cutoff", 1}}
	if d := cmp.Diff(want, s.Errors); d != "" {
		t.Error(d)
	}
	if s.Done != 5 || s.Failed != 4 || s.TTFT.N != 1 || s.Left != 15*time.Second {
		t.Errorf("%+v", s)
	}
}

// TestRatesLeaveTheWarmUpOut: two seconds of warm-up, then 24 requests of 10 tokens within two seconds.
func TestRatesLeaveTheWarmUpOut(t *testing.T) {
	p := NewProgress(0)
	p.SetPhase("measuring", 0, 4*time.Second)
	for i := range 48 {
		p.Sent()
		r := finished(i, time.Duration(i)*time.Second/12, 10)
		if i < 24 {
			r.Phase = call.Warmup
		}
		if err := p.Record(&r); err != nil {
			t.Fatal(err)
		}
	}
	s := p.Snapshot(4 * time.Second)
	near(t, "sent rate", s.SentRate, 12)
	near(t, "done rate", s.DoneRate, 12)
	near(t, "output rate", s.OutRate, 120)
}

func TestProgressIsSafe(t *testing.T) {
	p := NewProgress(800)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 100 {
				p.Sent()
				r := finished(i, time.Duration(i)*time.Millisecond, 3)
				_ = p.Record(&r)
				if i%10 == 0 {
					p.Snapshot(time.Duration(w*100+i) * time.Millisecond)
				}
			}
		})
	}
	wg.Wait()
	if s := p.Snapshot(time.Minute); s.Done != 800 || s.InFlight != 0 || s.TTFT.N != 800 || s.ITL.N != 1600 {
		t.Errorf("%+v", s)
	}
}

func BenchmarkProgressRecord(b *testing.B) {
	p := NewProgress(0)
	r := finished(1, 0, 100)
	b.ReportAllocs()
	for b.Loop() {
		_ = p.Record(&r)
	}
}
