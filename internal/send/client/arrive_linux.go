package client

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"spate/internal/call"
)

// Arrivals are stamped with the time at which the kernel received them, not with the time at which
// this process came to read them. A reader that is late (a busy core, a garbage collection, a
// thousand sockets ready at once) then bends no stamp: the kernel noted the time when the packet
// came in. Only where two packets of one connection wait for the same read does the first get the
// time of the second.

// receiver reads sockets together with the kernel's stamps.
type receiver struct {
	clock   call.Clock
	offset  time.Duration // wall clock minus run clock, as of the last round
	usable  bool          // the offset is known and did not change since the round before
	exact   bool          // the last read has the kernel's stamp
	header  unix.Msghdr
	vector  unix.Iovec
	control [64]byte
}

func newReceiver(clock call.Clock) *receiver {
	r := &receiver{clock: clock}
	r.header.Iov, r.header.Iovlen = &r.vector, 1
	r.header.Control = &r.control[0]
	r.round()
	return r
}

// stampArrivals asks the kernel to note when bytes of a connection come in.
func stampArrivals(fd int) error {
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
}

// stepAllowed is how far the offset between two clocks read one after the other may move without
// the wall clock having been set.
const stepAllowed = 20 * time.Microsecond

// round is called before the ready sockets are read. The kernel's stamps are on the wall clock,
// which can be set at any time: stamps of a round in which it moved against the run's clock are not
// used.
func (r *receiver) round() {
	now := time.Now()
	offset := time.Duration(now.UnixNano()) - now.Sub(r.clock.Start())
	r.usable = max(offset-r.offset, r.offset-offset) <= stepAllowed
	r.offset = offset
}

// read reads from a descriptor that never blocks and says when the last of the bytes arrived. The
// raw system call keeps the processor for the moment it takes to copy; telling the runtime of a
// blocking call and back costs more than the copy.
func (r *receiver) read(fd int, b []byte) (n int, at time.Duration, err error) {
	r.vector.Base = &b[0]
	r.vector.SetLen(len(b))
	r.header.SetControllen(len(r.control))
	got, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&r.header)), 0)
	at = r.clock.Now()
	if errno != 0 {
		return -1, at, errno
	}
	// The kernel begins to stamp a moment after the first connection of the machine asks it to.
	stamp, ok := r.stamp()
	if r.exact = ok && r.usable && stamp-r.offset < at; r.exact {
		at = stamp - r.offset
	}
	return int(got), at, nil
}

// stamp is the wall-clock time the kernel put beside the bytes.
func (r *receiver) stamp() (time.Duration, bool) {
	const head = unix.SizeofCmsghdr
	if r.header.Controllen < head+16 {
		return 0, false
	}
	h := (*unix.Cmsghdr)(unsafe.Pointer(&r.control[0]))
	if h.Level != unix.SOL_SOCKET || h.Type != unix.SCM_TIMESTAMPNS {
		return 0, false
	}
	sec := binary.NativeEndian.Uint64(r.control[head:])
	nsec := binary.NativeEndian.Uint64(r.control[head+8:])
	return time.Duration(sec)*time.Second + time.Duration(nsec), true
}

// stampedConn is a connection whose reads know when their bytes arrived. TLS reads through it: what
// is decrypted arrived when the last encrypted byte did.
type stampedConn struct {
	*net.TCPConn
	raw  syscall.RawConn
	in   *receiver
	last time.Duration
}

// stamped makes the reads of a TCP connection know when their bytes arrived. Other connections stay as they are.
func stamped(conn net.Conn, clock call.Clock) net.Conn {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return conn
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return conn
	}
	asked := error(nil)
	if err := raw.Control(func(fd uintptr) { asked = stampArrivals(int(fd)) }); err != nil || asked != nil {
		return conn
	}
	return &stampedConn{TCPConn: tcp, raw: raw, in: newReceiver(clock)}
}

// arrived is when the bytes of the last read came in.
func (c *stampedConn) arrived() time.Duration { return c.last }

func (c *stampedConn) Read(b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	waited := c.raw.Read(func(fd uintptr) bool {
		c.in.round()
		n, c.last, err = c.in.read(int(fd), b)
		return !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR)
	})
	switch {
	case waited != nil:
		return 0, waited
	case err != nil:
		return 0, os.NewSyscallError("recvmsg", err)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}
