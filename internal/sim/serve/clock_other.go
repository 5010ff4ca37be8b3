//go:build !linux

package serve

import (
	"runtime"
	"sync/atomic"
	"time"
)

var processStart = time.Now()

func osMono() int64 { return int64(time.Since(processStart)) + 1 }

// alarm is the portable form: a channel and a Go timer, about a millisecond coarse.
type alarm struct {
	rings atomic.Uint32
	bell  chan struct{}
}

func newAlarm() *alarm { return &alarm{bell: make(chan struct{}, 1)} }

func lockThread() { runtime.LockOSThread() }

func (a *alarm) count() uint32 { return a.rings.Load() }

func (a *alarm) sleep(seen uint32, until int64) {
	if a.rings.Load() != seen {
		return
	}
	if until == Never {
		<-a.bell
		return
	}
	t := time.NewTimer(time.Duration(until - Mono()))
	defer t.Stop()
	select {
	case <-a.bell:
	case <-t.C:
	}
}

func (a *alarm) ring() {
	a.rings.Add(1)
	select {
	case a.bell <- struct{}{}:
	default:
	}
}
