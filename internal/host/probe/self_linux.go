package probe

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// pollerLags measures the lag on the very path a socket's bytes take: a kernel timer makes a descriptor
// readable at a known instant, the runtime's network poller notices and the reading goroutine runs. Unlike a
// thread that sleeps and then signals, the kernel's timer needs no part of the runtime to go off, so nothing
// the runtime is late with is left out.
type pollerLags struct {
	file *os.File
	gap  weyl
	next int64 // on the kernel's monotonic clock, ns

	// One instant on both clocks.
	anchor     time.Time
	anchorMono int64
}

func newLagSource() lagSource {
	p, err := newPollerLags()
	if err != nil {
		return newTimerLags()
	}
	return p
}

func newPollerLags() (*pollerLags, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making a timer descriptor: %w", err)
	}
	p := &pollerLags{file: os.NewFile(uintptr(fd), "timer")}
	if err := p.align(); err != nil {
		p.close()
		return nil, err
	}
	// Only a descriptor in the poller takes deadlines; without it reads would fail at once.
	if err := p.file.SetReadDeadline(time.Time{}); err != nil {
		p.close()
		return nil, fmt.Errorf("polling a timer descriptor: %w", err)
	}
	p.next = p.anchorMono
	return p, nil
}

// align reads both clocks as close together as a few tries get.
func (p *pollerLags) align() error {
	best := time.Duration(1<<63 - 1)
	for range 8 {
		var ts unix.Timespec
		a := time.Now()
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
			return fmt.Errorf("reading the monotonic clock: %w", err)
		}
		if d := time.Since(a); d < best {
			best, p.anchor, p.anchorMono = d, a.Add(d/2), ts.Nano()
		}
	}
	return nil
}

func (p *pollerLags) path() string { return "poller" }
func (p *pollerLags) close()       { _ = p.file.Close() } // makes the read return

// wait never skips an instant: after a stall the instants missed count with their full lag.
func (p *pollerLags) wait() (time.Duration, bool) {
	p.next += int64(p.gap.next())
	conn, err := p.file.SyscallConn()
	if err != nil {
		return 0, false
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(p.next)}
	var armErr error
	err = conn.Control(func(fd uintptr) {
		armErr = unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME, &spec, nil)
	})
	if err != nil || armErr != nil {
		return 0, false
	}
	var expirations [8]byte
	_, err = p.file.Read(expirations[:])
	now := time.Now()
	if err != nil {
		return 0, false
	}
	lag := now.Sub(p.anchor) - time.Duration(p.next-p.anchorMono)
	return max(lag, 0), true
}

func readTicks() ticks {
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return ticks{}
	}
	return parseTicks(string(raw))
}

func readThrottled() time.Duration {
	root := os.DirFS("/")
	return time.Duration(readGroups(root).throttled(root)) * time.Microsecond
}

// residentBytes is the memory the process holds now.
func residentBytes() uint64 {
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(raw))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * uint64(os.Getpagesize())
}
