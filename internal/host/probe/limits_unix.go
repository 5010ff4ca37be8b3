//go:build linux || darwin

package probe

import (
	"fmt"
	"syscall"
)

func noFile() (soft, hard uint64) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0, 0
	}
	return l.Cur, l.Max
}

// RaiseNoFile makes room for want open files and returns how many there is room for now. Getting fewer than
// wanted is an error that says what to do about it.
func RaiseNoFile(want uint64) (got uint64, err error) {
	soft, hard := noFile()
	if soft >= want {
		return soft, nil
	}
	// Beyond the hard limit only a privileged process gets.
	if hard < want && syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: want, Max: want}) == nil {
		return want, nil
	}
	if goal := min(want, hard); goal > soft {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: goal, Max: hard}); err != nil {
			return soft, fmt.Errorf("raising the open file limit from %d to %d: %w", soft, goal, err)
		}
		soft = goal
	}
	if soft < want {
		return soft, fmt.Errorf("%d open files are needed and only %d allowed; raise the hard limit (ulimit -Hn %d, or LimitNOFILE=)", want, soft, want)
	}
	return soft, nil
}
