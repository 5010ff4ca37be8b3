//go:build unix

package trial

import (
	"os"
	"syscall"
)

// lock takes the file for this process; the system lets go of it however the process ends.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
