//go:build !linux

package accuracy

import (
	"context"
	"errors"
	"time"
)

// supported is nil where two processes read one clock.
func supported() error {
	return errors.New("the client can be calibrated on Linux only, where a server in another process reads the same clock")
}

func cpuTime() time.Duration { return 0 }

func peakRSS() uint64 { return 0 }

func readBare(context.Context, *order) (readerReport, error) { return readerReport{}, supported() }
