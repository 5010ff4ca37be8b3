//go:build unix

package media

import "syscall"

const nonBlocking = syscall.O_NONBLOCK
