package driver

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"spate/internal/call"
)

// pacer waits for absolute times on an operating-system thread of its own. The Go runtime's timers
// are only as fine as its poller's millisecond and wait behind busy goroutines; the kernel's are not.
type pacer struct {
	clock call.Clock
	base  time.Duration // CLOCK_MONOTONIC at the clock's zero
}

func newPacer(clock call.Clock) *pacer {
	runtime.LockOSThread()
	// The default slack of 50 us would be added to every wait. An error leaves the default.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	return &pacer{clock: clock, base: monotonic() - clock.Now()}
}

func (p *pacer) close() { runtime.UnlockOSThread() }

func monotonic() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return time.Duration(ts.Nano())
}

// patience bounds one wait, so that a stop is noticed.
const patience = 20 * time.Millisecond

// until waits for a time on the run's clock; false means that stop came first.
func (p *pacer) until(due time.Duration, stop <-chan struct{}) bool {
	for {
		if stopped(stop) {
			return false
		}
		now := p.clock.Now()
		if now >= due {
			return true
		}
		ts := unix.NsecToTimespec(int64(p.base + min(due, now+patience)))
		_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &ts, nil)
	}
}
