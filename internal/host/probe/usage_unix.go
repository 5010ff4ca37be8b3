//go:build linux || darwin

package probe

import (
	"runtime"
	"syscall"
	"time"
)

func readUsage() usage {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return usage{}
	}
	u := usage{
		user:    time.Duration(r.Utime.Nano()),
		sys:     time.Duration(r.Stime.Nano()),
		willing: int64(r.Nvcsw),  //nolint:unconvert // 32 bits on some platforms
		forced:  int64(r.Nivcsw), //nolint:unconvert // likewise
		maxRSS:  uint64(r.Maxrss),
	}
	if runtime.GOOS == "linux" {
		u.maxRSS <<= 10 // in KiB there, in bytes on macOS
	}
	return u
}
