package alarms

import (
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func supported() error { return nil }

// ownCores are the cores this process may use.
func ownCores() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("ask which cores there are: %w", err)
	}
	var out []int
	for i := 0; len(out) < set.Count(); i++ {
		if set.IsSet(i) {
			out = append(out, i)
		}
	}
	return out, nil
}

// startOn starts a process on some cores. A process begins on those of the thread that makes it.
func startOn(on []int, cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("ask which cores there are: %w", err)
	}
	for _, c := range on {
		set.Set(c)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("choose the cores: %w", err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // none is left behind, not even a stopped one
	err := cmd.Start()
	if back := unix.SchedSetaffinity(0, &before); back != nil && err == nil {
		err = fmt.Errorf("go back to all cores: %w", back)
	}
	return err
}

// do does to a client what is to be done, until it has ended.
func (h *harm) do(pid int, on []int, folder string, ended <-chan struct{}) {
	if h.stop == 0 && h.burners == 0 || !answered(folder, ended) {
		return
	}
	if h.burners > 0 {
		burn(h.burners, on, ended)
		return
	}
	if !wait(h.after, ended) {
		return
	}
	for {
		if unix.Kill(pid, unix.SIGSTOP) != nil {
			return
		}
		time.Sleep(h.stop)
		if unix.Kill(pid, unix.SIGCONT) != nil || h.every == 0 || !wait(h.every, ended) {
			return
		}
	}
}

// burn keeps some cores busy until the end.
func burn(n int, on []int, ended <-chan struct{}) {
	var burners []*exec.Cmd
	for range n {
		cmd := exec.Command("sh", "-c", "while :; do :; done")
		if startOn(on, cmd) == nil {
			burners = append(burners, cmd)
		}
	}
	<-ended
	for _, cmd := range burners {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}
