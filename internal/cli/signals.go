package cli

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"spate/internal/call"
)

// How long a command may take to end once everything is given up and nothing is left to write: one that
// only prepares, and one that may have servers to end.
const (
	forceSoon  = 2 * time.Second
	forceAfter = 30 * time.Second
)

// signals turns interrupts and termination signals into the two steps of stopping, for every command. The
// first lets requests in flight finish, for as long as --grace-period says; the second gives them up. Both
// still write everything. While there is nothing to write, in preparation and while files are read, the
// first (eager) or the second ends the process, also where something does not listen. A third always does.
type signals struct {
	ctx   context.Context // ends when everything is given up
	stop  chan struct{}   // closed at the first signal
	first string          // what is done at it, in words
	eager bool            // while nothing is at stake, the first signal is enough

	p      Process
	cancel context.CancelCauseFunc
	count  atomic.Int32
	held   atomic.Int32 // of what must be written before the process ends
	over   chan struct{}
	done   func() // ends the handling of signals
}

// interrupts handles the signals of a command that measures; done must be called at its end.
func interrupts(ctx context.Context, p Process) (run context.Context, stop <-chan struct{}, was func() bool, done func()) {
	s := newSignals(ctx, p, draining)
	return s.ctx, s.stop, s.was, s.done
}

const draining = "waiting for requests in flight, at most --grace-period (interrupt again to give them up)"

// newSignals handles signals until done is called; first says what the first of them does.
func newSignals(ctx context.Context, p Process, first string) *signals {
	s := &signals{stop: make(chan struct{}), over: make(chan struct{}), first: first, p: p}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	if p.Interrupts == nil {
		s.done = func() { s.cancel(nil) }
		return s
	}
	arriving, quiet := p.Interrupts()
	var wg sync.WaitGroup
	wg.Go(func() { s.listen(arriving) })
	s.done = func() {
		quiet()
		close(s.over)
		wg.Wait()
		s.cancel(nil)
	}
	return s
}

// hold says that there is something to write now; release says that it is written.
func (s *signals) hold() (release func()) {
	s.held.Add(1)
	return sync.OnceFunc(func() { s.held.Add(-1) })
}

// was reports whether a signal came.
func (s *signals) was() bool { return s.count.Load() > 0 }

func (s *signals) listen(arriving <-chan os.Signal) {
	var force <-chan time.Time
	idle := false // when force was set: who has just written everything gets its time, too
	for {
		select {
		case <-s.over:
			return
		case <-force:
			if idle && s.held.Load() == 0 {
				s.exit("ended while it was busy; there was nothing to write")
			}
			force, idle = s.patience(), s.held.Load() == 0
		case <-arriving:
			if s.signal(s.count.Add(1)) {
				force, idle = s.patience(), s.held.Load() == 0
			}
		}
	}
}

func (s *signals) patience() <-chan time.Time {
	if s.eager {
		return time.After(forceSoon)
	}
	return time.After(forceAfter)
}

// signal acts on the n-th signal, and reports whether everything is given up with it.
func (s *signals) signal(n int32) (givenUp bool) {
	idle := s.held.Load() == 0
	switch {
	case n == 1 && s.eager && idle:
		say(s.p.Stderr, "\ninterrupted\n")
		close(s.stop)
	case n == 1:
		say(s.p.Stderr, "\ninterrupted: %s\n", s.first)
		close(s.stop)
		return false
	case n == 2:
		say(s.p.Stderr, "giving up; what has finished is written (once more ends without that)\n")
	default:
		s.exit("ended without writing everything")
	}
	s.cancel(call.ErrInterrupted)
	return true
}

// exit ends the process as it is. The record log is written as requests end, so that what is lost is the
// summary, which `spate report` makes again.
func (s *signals) exit(why string) {
	if s.p.Exit == nil {
		return
	}
	say(s.p.Stderr, "%s\n", why)
	s.p.Exit(ExitInterrupted)
}
