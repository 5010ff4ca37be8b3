//go:build unix

package leftover

import (
	"os"
	"syscall"
)

// lock takes the file, unless another process has it.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
