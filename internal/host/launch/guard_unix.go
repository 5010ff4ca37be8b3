//go:build unix && !linux

package launch

import (
	"os/exec"
	"syscall"
)

// guarded says whether this platform has guards.
const guarded = false

// noFollow refuses a link in the place of a file, and does not wait for the other end of a pipe.
const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// alone puts a command into a process group of its own.
func alone(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// endGroup asks a process group to end, or ends it.
func endGroup(pid int, force bool) {
	sig := syscall.SIGTERM
	if force {
		sig = syscall.SIGKILL
	}
	_ = syscall.Kill(-pid, sig) // it may be gone
}

// Guard does nothing here: only Linux lets a process become the parent of orphans.
func Guard([]string) int { return 2 }
