//go:build !unix

package coordinator

import "syscall"

// apart keeps a terminal's interrupt from workers, where there are groups of processes.
func apart() *syscall.SysProcAttr { return nil }
