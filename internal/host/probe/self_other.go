//go:build !linux

package probe

import "time"

func newLagSource() lagSource { return newTimerLags() }

func readTicks() ticks { return ticks{} }

func readThrottled() time.Duration { return 0 }

func residentBytes() uint64 { return 0 }
