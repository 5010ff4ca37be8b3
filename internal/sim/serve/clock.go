package serve

import "time"

// Never is the deadline of an engine with nothing to do.
const Never = int64(1<<63 - 1)

// clockBase pairs one reading of Go's monotonic clock with the same instant of the operating
// system's, so that Mono costs one vDSO read instead of a system call.
var clockBase, clockBaseNs = pairClocks()

// Mono returns the operating system's monotonic clock in nanoseconds. On Linux this is
// CLOCK_MONOTONIC, which every process on the host reads alike: a client in another process can
// subtract a stamp taken here from its own.
func Mono() int64 { return clockBaseNs + int64(time.Since(clockBase)) }

// pairClocks reads both clocks several times and keeps the pair read closest together.
func pairClocks() (time.Time, int64) {
	var base time.Time
	var ns int64
	best := time.Duration(1<<63 - 1)
	for range 32 {
		before := time.Now()
		os := osMono()
		gap := time.Since(before)
		if gap < best {
			best, base, ns = gap, before.Add(gap/2), os
		}
	}
	return base, ns
}
