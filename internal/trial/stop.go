package trial

import (
	"context"
	"time"
)

// Stopped reports whether no more run is to be made: the user said so, or everything is given up.
func Stopped(ctx context.Context, stop <-chan struct{}) bool {
	select {
	case <-stop:
		return true
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

// Pause lets the server settle between two runs. The user's word ends it.
func Pause(ctx context.Context, stop <-chan struct{}, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-stop:
	}
}
