//go:build unix && !linux

package serve

import (
	"errors"
	"syscall"
)

// sendNow writes to a socket the runtime has already made non-blocking.
func sendNow(fd uintptr, b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, err := syscall.Write(int(fd), b)
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR) {
		return 0, nil
	}
	return n, err
}
