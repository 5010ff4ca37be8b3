//go:build !linux

package driver

import (
	"time"

	"spate/internal/call"
)

// pacer waits for absolute times with the runtime's timers.
type pacer struct{ clock call.Clock }

func newPacer(clock call.Clock) *pacer { return &pacer{clock: clock} }

func (*pacer) close() {}

// until waits for a time on the run's clock; false means that stop came first.
func (p *pacer) until(due time.Duration, stop <-chan struct{}) bool {
	t := time.NewTimer(due - p.clock.Now())
	defer t.Stop()
	select {
	case <-t.C:
		return !stopped(stop)
	case <-stop:
		return false
	}
}
