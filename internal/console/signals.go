package console

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

// Signals turns interrupts and termination signals into the two steps of stopping, for every command. The
// first lets requests in flight finish, for as long as --grace-period says; the second gives them up. Both
// still write everything. While there is nothing to write, in preparation and while files are read, the
// first (eager) or the second ends the process, also where something does not listen. A third always does.
type Signals struct {
	Context context.Context // ends when everything is given up
	Stop    chan struct{}   // closed at the first signal
	Done    func()          // ends the handling of signals

	p      Process
	first  string // what is done at the first signal, in words
	eager  bool   // while nothing is at stake, the first signal is enough
	cancel context.CancelCauseFunc
	count  atomic.Int32
	held   atomic.Int32 // of what must be written before the process ends
	over   chan struct{}
}

const draining = "waiting for requests in flight, at most --grace-period (interrupt again to cancel them)"

// Draining handles the signals of a command that measures: the first of them lets requests in flight finish.
func (p Process) Draining(ctx context.Context) *Signals { return p.signals(ctx, draining, false) }

// Eager is Draining for a command that ends at the first signal while it has nothing to write.
func (p Process) Eager(ctx context.Context) *Signals { return p.signals(ctx, draining, true) }

// Signals handles signals until Done is called; first says what the first of them does.
func (p Process) Signals(ctx context.Context, first string) *Signals {
	return p.signals(ctx, first, false)
}

func (p Process) signals(ctx context.Context, first string, eager bool) *Signals {
	s := &Signals{Stop: make(chan struct{}), over: make(chan struct{}), first: first, eager: eager, p: p}
	s.Context, s.cancel = context.WithCancelCause(ctx)
	if p.Interrupts == nil {
		s.Done = func() { s.cancel(nil) }
		return s
	}
	arriving, quiet := p.Interrupts()
	var wg sync.WaitGroup
	wg.Go(func() { s.listen(arriving) })
	s.Done = func() {
		quiet()
		close(s.over)
		wg.Wait()
		s.cancel(nil)
	}
	return s
}

// Hold says that there is something to write now; release says that it is written.
func (s *Signals) Hold() (release func()) {
	s.held.Add(1)
	return sync.OnceFunc(func() { s.held.Add(-1) })
}

// Was reports whether a signal came.
func (s *Signals) Was() bool { return s.count.Load() > 0 }

func (s *Signals) listen(arriving <-chan os.Signal) {
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

func (s *Signals) patience() <-chan time.Time {
	if s.eager {
		return time.After(forceSoon)
	}
	return time.After(forceAfter)
}

// signal acts on the n-th signal, and reports whether everything is given up with it.
func (s *Signals) signal(n int32) (givenUp bool) {
	idle := s.held.Load() == 0
	switch {
	case n == 1 && s.eager && idle:
		s.p.Say("\ninterrupted\n")
		close(s.Stop)
	case n == 1:
		s.p.Say("\ninterrupted: %s\n", s.first)
		close(s.Stop)
		return false
	case n == 2:
		s.p.Say("canceling requests; finished ones are written (interrupt once more to end without writing)\n")
	default:
		s.exit("ended without writing everything")
	}
	s.cancel(call.ErrInterrupted)
	return true
}

// exit ends the process as it is. The record log is written as requests end, so that what is lost is the
// summary, which `spate report` makes again.
func (s *Signals) exit(why string) {
	if s.p.Exit == nil {
		return
	}
	s.p.Say("%s\n", why)
	s.p.Exit(ExitInterrupted)
}
