package executor

import (
	"context"
	"sync"
	"time"

	"spate/internal/bench"
	"spate/internal/call"
	"spate/internal/send/driver"
	"spate/internal/trial"
)

// following is a run that is looked at while it goes. It ends sending when the user says so, when the watch sees no
// use in going on, and when the server is gone; what is in flight then is given up a little later, or at once.
type following struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	watch  trial.Watch
	live   driver.Live
	stop   <-chan struct{} // the user's word
	died   <-chan struct{}
	ending chan struct{} // closed to end sending
	over   chan struct{} // closed when the run has ended
	wait   sync.WaitGroup
	early  string
}

// sink hands records to a watch.
type sink struct{ trial.Watch }

func (sink) Close() error { return nil }

// follow looks at the run of a job, if somebody wants to.
func (m *Measured) follow(ctx context.Context, w trial.Watch, died <-chan struct{}, job *bench.Job) *following {
	f := &following{ctx: ctx, watch: w, stop: job.Stop, died: died, ending: make(chan struct{}), over: make(chan struct{})}
	if w == nil {
		return f
	}
	f.ctx, f.cancel = context.WithCancelCause(ctx)
	job.Live, job.Sink, job.Stop = &f.live, sink{w}, f.ending
	f.wait.Go(f.look)
	return f
}

// end says that the run has ended, and returns why the watch ended it.
func (f *following) end() string {
	close(f.over)
	f.wait.Wait()
	if f.cancel != nil {
		f.cancel(nil)
	}
	return f.early
}

func (f *following) look() {
	tick := time.NewTicker(trial.LookEvery)
	defer tick.Stop()
	var began time.Time
	for f.early == "" {
		select {
		case <-f.over:
			return
		case <-f.stop:
			close(f.ending)
			return
		case <-f.died:
			close(f.ending)
			f.cancel(call.ErrInterrupted)
			return
		case now := <-tick.C:
			due := f.live.Due.Load()
			if due == 0 {
				continue
			}
			if began.IsZero() {
				began = now
			}
			f.watch.Sample(now.Sub(began), int(due), int(f.live.Done.Load()))
			f.early, _ = f.watch.Hopeless()
		}
	}
	close(f.ending)
	select {
	case <-f.over:
	case <-time.After(trial.LastGrace):
		f.cancel(call.ErrInterrupted)
	}
}
