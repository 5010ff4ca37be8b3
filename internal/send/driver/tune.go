package driver

import (
	"runtime"
	"runtime/debug"
)

// Tune prepares the runtime for keeping time: more threads than cores, so that a goroutine that
// computes never keeps a ready socket or a due request waiting, and fewer, larger garbage
// collections. The returned function puts things back.
func Tune() (restore func()) {
	procs := runtime.GOMAXPROCS(max(4, 2*runtime.NumCPU()))
	gc := debug.SetGCPercent(400)
	return func() {
		runtime.GOMAXPROCS(procs)
		debug.SetGCPercent(gc)
	}
}
