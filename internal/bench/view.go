package bench

import (
	"context"
	"sync"
	"time"

	"spate/internal/call"
	"spate/internal/client"
	"spate/internal/config"
	"spate/internal/driver"
	"spate/internal/metrics"
	"spate/internal/recorder"
	"spate/internal/report"
	"spate/internal/verdict"
)

// counted tells the live view of every request that leaves.
type counted struct {
	*client.Client
	progress *report.Progress
}

func (c counted) Do(ctx context.Context, r *call.Request) call.Record {
	c.progress.Sent()
	return c.Client.Do(ctx, r)
}

// startView shows progress until the returned function is called.
func (s *session) startView(ctx context.Context, live *driver.Live, progress *report.Progress) (stop func()) {
	if s.Config.Output.UI == config.UINone {
		return func() {}
	}
	began := s.clock.Now()
	until := call.Unset
	if s.load.plan.Until > 0 {
		until = began + s.load.plan.Until
	}
	progress.SetPhase("measuring", began, until)
	snap := func() report.Snapshot {
		s.setPhase(progress, live, began, until)
		progress.SetWaiting(int(live.Queued.Load()))
		sn := progress.Snapshot(s.clock.Now())
		sn.InFlight = int(live.InFlight.Load())
		s.judgeSoFar(&sn)
		return sn
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { _ = report.NewLive(s.Stderr, snap, s.View).Run(ctx) }) // a lost terminal ends the view, not the run
	return func() {
		cancel()
		wg.Wait()
	}
}

// setPhase follows the run through warm-up, measurement and draining.
func (s *session) setPhase(progress *report.Progress, live *driver.Live, began, until time.Duration) {
	switch now := s.clock.Now(); {
	case s.stopping() || until > 0 && now > until:
		progress.SetPhase("draining", began, until)
	case s.load.warmup != nil && s.load.warmup.N > 0 && live.Due.Load() < int64(s.load.warmup.N),
		s.load.warmup != nil && s.load.warmup.For > 0 && now < began+s.load.warmup.For:
		progress.SetPhase("warm-up", began, until)
	default:
		progress.SetPhase("measuring", began, until)
	}
}

func (s *session) stopping() bool {
	select {
	case <-s.Stop:
		return true
	default:
		return false
	}
}

// judgeSoFar gives the verdict on what has been seen so far: the client's own state and failures.
func (s *session) judgeSoFar(sn *report.Snapshot) {
	if sn.Done == 0 {
		return
	}
	self := s.watch.self.Snapshot()
	ms := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
	var sum metrics.Summary
	sum.Tally = call.Tally{Due: sn.Done, OK: sn.Done - sn.Failed, Failed: sn.Failed, Attempts: sn.Done}
	sum.Completed, sum.Failed = sn.Done-sn.Failed, sn.Failed
	sum.TTFT.N, sum.TTFT.Median = int(sn.TTFT.N), ms(sn.TTFT.P50)
	sum.Streaming.ITLNoRole.N, sum.Streaming.ITLNoRole.Median = int(sn.ITL.N), ms(sn.ITL.P50)
	v := verdict.Judge(verdict.Input{Summary: sum, Self: s.selfOf(&self, recorder.Stats{}), Settings: s.settings()})
	sn.Verdict = string(v.Grade)
	if bad := v.Bad(); len(bad) > 0 {
		sn.Note = bad[0].Sentence
	}
}
