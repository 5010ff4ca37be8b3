package call

import "time"

// Clock is the run's one clock: every stamp is an offset from its start, on the monotonic clock.
type Clock struct{ start time.Time }

// NewClock starts a clock.
func NewClock() Clock { return Clock{start: time.Now()} }

// ClockAt is a clock whose offset zero is at start, which must have a monotonic reading, as times made from
// time.Now have: a worker's clock shows the time of the run it is part of.
func ClockAt(start time.Time) Clock { return Clock{start: start} }

// IsZero reports a clock that was never started.
func (c Clock) IsZero() bool { return c.start.IsZero() }

// Now is the time since the start.
func (c Clock) Now() time.Duration { return time.Since(c.start) }

// Start is the wall-clock time of offset zero.
func (c Clock) Start() time.Time { return c.start }

// Millis is a time in milliseconds, with its fraction.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
