package sweep

import (
	"os/exec"
	"syscall"
)

// ownGroup puts the command into a process group of its own, and ends it when spate dies.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
