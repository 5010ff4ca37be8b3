//go:build !linux

package serve

import (
	"errors"
	"runtime"
	"sync/atomic"
	"syscall"
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

// sendNow writes to a socket the runtime has already made non-blocking.
func sendNow(fd uintptr, b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, err := syscall.Write(int(fd), b)
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR) {
		return 0, nil
	}
	return n, err
}
