package serve

import (
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	futexWaitBitset = 9 | 128 // FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG: its timeout is an absolute CLOCK_MONOTONIC time
	futexWake       = 1 | 128
	futexMatchAny   = 0xffffffff
)

func osMono() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return ts.Nano()
}

// alarm puts one thread to sleep until an absolute time or until another goroutine rings it. A Go
// timer would be up to a millisecond late on an idle machine; a futex with an absolute timeout is
// as exact as clock_nanosleep and can be cut short.
type alarm struct {
	rings    atomic.Uint32
	sleeping atomic.Bool
}

func newAlarm() *alarm { return &alarm{} }

// lockThread binds the caller to its thread for good.
func lockThread() { runtime.LockOSThread() }

// count returns the number of rings so far; sleep returns at once if it has changed since.
func (a *alarm) count() uint32 { return a.rings.Load() }

func (a *alarm) sleep(seen uint32, until int64) {
	a.sleeping.Store(true)
	defer a.sleeping.Store(false)
	if a.rings.Load() != seen {
		return
	}
	var timeout unsafe.Pointer
	ts := unix.NsecToTimespec(until)
	if until != Never {
		timeout = unsafe.Pointer(&ts)
	}
	// An early return (signal, value changed) is fine: the caller looks at the clock again.
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&a.rings)), futexWaitBitset,
		uintptr(seen), uintptr(timeout), 0, futexMatchAny)
}

func (a *alarm) ring() {
	a.rings.Add(1)
	if a.sleeping.Load() {
		_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&a.rings)), futexWake, 1, 0, 0, 0)
	}
}

// sendNow writes to a socket without ever blocking. The raw system call keeps the processor while
// the kernel copies a few hundred bytes, which is cheaper than handing it over and back.
func sendNow(fd uintptr, b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
			unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return 0, nil
		default:
			return 0, errno
		}
	}
}
