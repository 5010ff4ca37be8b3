//go:build unix

package coordinator

import "syscall"

// apart keeps a terminal's interrupt from workers: the coordinator tells them when to stop.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
