package serve

import "syscall"

// sendNow writes to a socket. Windows has no non-blocking write of this kind: the pacer may wait here
// for a client that does not read.
func sendNow(fd uintptr, b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	return syscall.Write(syscall.Handle(fd), b)
}
