package bench

import (
	"context"
	"sync"
	"time"

	"spate/internal/call"
	"spate/internal/call/recorder"
	"spate/internal/judge/metrics"
	"spate/internal/judge/verdict"
	"spate/internal/send/client"
	"spate/internal/send/driver"
	"spate/internal/settings/config"
	"spate/internal/view/live"
)

// counted tells the live view of every request that leaves.
type counted struct {
	driver.Doer
	progress *live.Progress
}

func (c counted) Do(ctx context.Context, r *call.Request) call.Record {
	c.progress.Sent()
	return c.Doer.Do(ctx, r)
}

// startView shows progress until the returned function is called.
func (s *session) startView(ctx context.Context, counts *driver.Live, progress *live.Progress) (stop func()) {
	if s.Config.Output.UI == config.UINone {
		return func() {}
	}
	ph := &phases{s: s, live: counts, began: s.clock.Now(), until: call.Unset}
	ph.show(progress)
	snap := func() live.Snapshot {
		ph.show(progress)
		progress.SetWaiting(int(counts.Queued.Load()))
		if s.Drive != nil {
			progress.SetSent(int(counts.Sent.Load()))
		}
		sn := progress.Snapshot(s.clock.Now())
		sn.InFlight, sn.Workers = int(counts.InFlight.Load()), s.rows.get()
		s.judgeSoFar(&sn)
		return sn
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.console.Show(ctx, snap, s.View) }) // a lost terminal ends the view, not the run
	return func() {
		cancel()
		wg.Wait()
	}
}

// phases follows the run through warm-up, measurement and draining.
type phases struct {
	s            *session
	live         *driver.Live
	began, until time.Duration // until is call.Unset while there is no bound or it is not known yet
}

func (p *phases) show(progress *live.Progress) {
	now, plan := p.s.clock.Now(), p.s.whole.load.plan
	if start := time.Duration(p.s.started.Load()); start > 0 {
		p.began = start
	} else if p.s.Drive != nil {
		progress.SetPhase("waiting for workers", p.began, call.Unset)
		return
	}
	warming := p.warming(now)
	if p.until == call.Unset && plan.Until > 0 && (plan.Due != nil || !warming) {
		p.until = p.began + plan.Until
		if plan.Due == nil && p.s.whole.load.warmup != nil {
			p.until = now + plan.Until // a closed loop's time begins with its first measured request
		}
	}
	switch {
	case p.s.stopping() || p.until > 0 && now > p.until:
		progress.SetPhase("draining", p.began, p.until)
	case warming:
		progress.SetPhase("warm-up", p.began, p.until)
	default:
		progress.SetPhase("measuring", p.began, p.until)
	}
}

func (p *phases) warming(now time.Duration) bool {
	w := p.s.whole.load.warmup
	return w != nil && (w.N > 0 && p.live.Due.Load() < int64(w.N) || w.For > 0 && now < p.began+w.For)
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
func (s *session) judgeSoFar(sn *live.Snapshot) {
	if sn.Done == 0 {
		return
	}
	self := s.watch.snapshot()
	var lag *client.Lag
	if l, ok := s.stampLag(); ok {
		lag = &l
	}
	var sum metrics.Summary
	sum.Tally = call.Tally{Due: sn.Done, OK: sn.Done - sn.Failed, Failed: sn.Failed, Attempts: sn.Done}
	sum.Completed, sum.Failed = sn.Done-sn.Failed, sn.Failed
	sum.Failures.Share = float64(sn.Failed) / float64(sn.Done)
	sum.TTFT.N, sum.TTFT.Median = int(sn.TTFT.N), call.Millis(sn.TTFT.P50)
	sum.Streaming.ITLNoRole = metrics.Dist{N: int(sn.ITL.N), Mean: call.Millis(sn.ITL.Mean), Median: call.Millis(sn.ITL.P50)}
	in := verdict.Input{Summary: sum, Self: s.selfOf(&self, lag, recorder.Stats{}), Settings: s.settings()}
	if s.Drive != nil {
		in.Self = nil // it is the workers' lags that count, and they tell them at the end
	}
	v := verdict.Judge(in)
	sn.Verdict = string(v.Grade)
	if bad := v.Bad(); len(bad) > 0 {
		sn.Note = bad[0].Sentence
	}
}
