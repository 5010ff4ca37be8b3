package client

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"

	"spate/internal/call"
	"spate/internal/judge/stats"
)

// lagProbe measures how late a reactor stamps: a kernel timer stands among its sockets, goes off at
// known times, and is stamped as they are. It fires at irregular times, so that it cannot fall in
// step with an engine's tokens.
type lagProbe struct {
	fd    int
	clock call.Clock
	base  time.Duration // CLOCK_MONOTONIC at the clock's zero
	due   time.Duration // on the run's clock

	mu   sync.Mutex
	seen *hdrhistogram.Histogram // microseconds
}

// lagEvery is the mean time between samples: seldom enough that one stream of tokens costs more than
// the probe.
const lagEvery = 50 * time.Millisecond

func newLagProbe(clock call.Clock) (*lagProbe, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("create timer: %w", err)
	}
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("read clock: %w", err)
	}
	return &lagProbe{
		fd: fd, clock: clock, base: time.Duration(ts.Nano()) - clock.Now(),
		seen: hdrhistogram.New(1, int64(time.Minute/time.Microsecond), 3),
	}, nil
}

// arm sets the next expiry.
func (p *lagProbe) arm() error {
	gap := lagEvery/2 + time.Duration(rand.Int64N(int64(lagEvery))) //nolint:gosec // spacing, not a secret
	p.due = p.clock.Now() + gap
	return unix.TimerfdSettime(p.fd, unix.TFD_TIMER_ABSTIME, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(p.base + p.due))}, nil)
}

// stamp notes that the expiry was seen at a time, and sets the next one.
func (p *lagProbe) stamp(at time.Duration) {
	var buf [8]byte
	_, _ = unix.Read(p.fd, buf[:])
	p.mu.Lock()
	_ = p.seen.RecordValue(min(max(int64((at-p.due)/time.Microsecond), 1), int64(time.Minute/time.Microsecond)))
	p.mu.Unlock()
	_ = p.arm()
}

// stampLag joins the samples of all reactors.
func (rs *reactors) stampLag() (Lag, bool) {
	all := hdrhistogram.New(1, int64(time.Minute/time.Microsecond), 3)
	for _, r := range rs.all {
		r.lag.mu.Lock()
		all.Merge(r.lag.seen)
		r.lag.mu.Unlock()
	}
	at := func(q float64) time.Duration { return time.Duration(all.ValueAtQuantile(q)) * time.Microsecond }
	sure := 100 * float64(stats.SureRank(int(all.TotalCount()), 99)) / float64(max(1, all.TotalCount()))
	return Lag{N: all.TotalCount(), P50: at(50), P99: at(99), Low: at(sure), Max: time.Duration(all.Max()) * time.Microsecond}, all.TotalCount() > 0
}

// resetLag forgets the samples taken so far.
func (rs *reactors) resetLag() {
	for _, r := range rs.all {
		r.lag.mu.Lock()
		r.lag.seen.Reset()
		r.lag.mu.Unlock()
	}
}
