package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"spate/internal/call"
)

// reactors read many connections with epoll, each in one goroutine. Against one goroutine per
// connection this saves a second read call and two scheduler switches per event, and a batch of ready
// sockets is read before any of it is parsed: reads stay close to arrival when an engine flushes the
// tokens of one step to all its streams at once.
type reactors struct {
	all  []*reactor
	next atomic.Uint32
}

func newReactors(clock call.Clock) (*reactors, error) {
	n := min(runtime.NumCPU(), max(2, runtime.NumCPU()/2))
	rs := &reactors{}
	for range n {
		r, err := newReactor(clock)
		if err != nil {
			rs.close()
			return nil, err
		}
		rs.all = append(rs.all, r)
	}
	return rs, nil
}

func (rs *reactors) adopt(conn net.Conn) (link, error) {
	r := rs.all[int(rs.next.Add(1))%len(rs.all)]
	return r.adopt(conn)
}

func (rs *reactors) close() {
	for _, r := range rs.all {
		r.close()
	}
}

// readable is what links are watched for: each arrival once. Told again and again until all is read,
// the kernel would look at every connection twice per event.
const readable = unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLET

const (
	batch     = 256
	arenaSize = 1 << 20
)

type reactor struct {
	clock  call.Clock
	epoll  int
	file   *os.File        // the epoll descriptor, for the runtime's own poller
	poll   syscall.RawConn // of file
	wakeup int             // eventfd that ends the loop
	lag    *lagProbe
	done   chan struct{}

	mu    sync.Mutex
	links map[int32]*fdLink // by file descriptor
}

func newReactor(clock call.Clock) (*reactor, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create epoll: %w", err)
	}
	ev, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		_ = unix.Close(ep)
		return nil, fmt.Errorf("create eventfd: %w", err)
	}
	r := &reactor{clock: clock, epoll: ep, wakeup: ev, done: make(chan struct{}), links: map[int32]*fdLink{}}
	if r.lag, err = newLagProbe(clock); err == nil {
		err = errors.Join(r.register(), r.watch(ev), r.watch(r.lag.fd), r.lag.arm())
	}
	if err != nil {
		r.closeOwn()
		return nil, err
	}
	go r.loop()
	return r, nil
}

// register hands the epoll descriptor to the runtime's poller, which takes only those that do not block.
func (r *reactor) register() error {
	if err := unix.SetNonblock(r.epoll, true); err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	r.file = os.NewFile(uintptr(r.epoll), "epoll")
	var err error
	r.poll, err = r.file.SyscallConn()
	return err
}

// watch adds one of the reactor's own descriptors.
func (r *reactor) watch(fd int) error {
	err := unix.EpollCtl(r.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
	return os.NewSyscallError("epoll_ctl", err)
}

func (r *reactor) closeOwn() {
	if r.file != nil {
		_ = r.file.Close() // closes the descriptor
	} else {
		_ = unix.Close(r.epoll)
	}
	_ = unix.Close(r.wakeup)
	if r.lag != nil {
		_ = unix.Close(r.lag.fd)
	}
}

// adopt takes a connection out of the Go poller: its descriptor is duplicated and the original
// closed, so that only this reactor is woken for it.
func (r *reactor) adopt(conn net.Conn) (link, error) {
	defer func() { _ = conn.Close() }()
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("connection %T has no descriptor", conn)
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	var dupErr error
	if err := rc.Control(func(s uintptr) { fd, dupErr = unix.FcntlInt(s, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return nil, err
	}
	if dupErr != nil {
		return nil, fmt.Errorf("duplicate descriptor: %w", dupErr)
	}
	if err := stampArrivals(fd); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("ask for arrival times: %w", err)
	}
	l := &fdLink{reactor: r, fd: fd, done: make(chan struct{}, 1)}
	l.open.Store(true)
	r.mu.Lock()
	r.links[int32(fd)] = l
	r.mu.Unlock()
	ev := unix.EpollEvent{Events: readable, Fd: int32(fd)}
	if err := unix.EpollCtl(r.epoll, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		r.drop(l)
		return nil, fmt.Errorf("watch connection: %w", err)
	}
	return l, nil
}

// drop closes a link's descriptor. Only the loop calls it once the link is watched, so a descriptor
// number is never reused while a read on it is under way.
func (r *reactor) drop(l *fdLink) {
	r.mu.Lock()
	delete(r.links, int32(l.fd))
	r.mu.Unlock()
	l.wmu.Lock() // a writer must not meet the number of a closed descriptor
	defer l.wmu.Unlock()
	l.open.Store(false)
	_ = unix.Close(l.fd)
}

// lose drops a link and ends the exchange on it, if there is one. The exchange is looked up after
// the link is marked closed: whoever starts one at this moment sees the mark or is seen here.
func (r *reactor) lose(l *fdLink, cause error) {
	r.drop(l)
	if x := l.current.Swap(nil); x != nil {
		x.lost(cause)
		l.finish(false)
	}
}

func (r *reactor) close() {
	one := [8]byte{1}
	_, _ = unix.Write(r.wakeup, one[:])
	<-r.done
}

// arrival is one stamped read, waiting to be parsed.
type arrival struct {
	link *fdLink
	data []byte
	at   time.Duration
	err  error // nil with no data: the peer closed
}

func (r *reactor) loop() {
	defer close(r.done)
	events := make([]unix.EpollEvent, batch)
	ready := make([]*fdLink, 0, batch)
	arena := make([]byte, arenaSize)
	arrivals := make([]arrival, 0, batch)
	in := newReceiver(r.clock)
	for {
		n, err := r.wait(events)
		if err != nil {
			r.shutdown(fmt.Errorf("epoll: %w", err))
			return
		}
		in.round()
		stop, tick := false, false
		ready = ready[:0]
		r.mu.Lock()
		for i := range n {
			switch events[i].Fd {
			case int32(r.wakeup):
				stop = true
				continue
			case int32(r.lag.fd):
				tick = true
				continue
			}
			if l := r.links[events[i].Fd]; l != nil {
				l.writable = events[i].Events&unix.EPOLLOUT != 0
				l.ending = events[i].Events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0
				ready = append(ready, l)
			}
		}
		r.mu.Unlock()
		if stop {
			r.shutdown(net.ErrClosed)
			return
		}
		for len(ready) > 0 || tick {
			ready, arrivals = r.read(in, ready, arena, arrivals[:0])
			if tick { // after the sockets of this round, so that the lag is that of the last of them
				r.lag.stamp(r.clock.Now())
				tick = false
			}
			for i := range arrivals {
				r.deliver(&arrivals[i])
			}
		}
	}
}

// wait fills events with what is ready, and parks the goroutine until something is. The runtime
// watches the epoll descriptor itself: a thread that blocks in a system call of its own would be
// looked at by the runtime's monitor every 20 us, which costs more than a slow stream does.
func (r *reactor) wait(events []unix.EpollEvent) (n int, err error) {
	parked := r.poll.Read(func(fd uintptr) bool {
		got, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, fd, uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
		switch errno {
		case 0:
			n = int(got)
			return n > 0
		case unix.EINTR:
			return false
		}
		err = errno
		return true
	})
	return n, errors.Join(err, parked)
}

// read takes one read from each ready link into the arena, stamping each, until the arena is full;
// it returns the links that are to be read again: those it did not come to, and those that may hold
// more, because epoll tells of each arrival only once.
func (r *reactor) read(in *receiver, ready []*fdLink, arena []byte, arrivals []arrival) ([]*fdLink, []arrival) {
	off, again := 0, ready[:0]
	for i, l := range ready {
		if len(arena)-off < readSize {
			return append(again, ready[i:]...), arrivals
		}
		if !l.open.Load() { // lost since epoll told of it: the descriptor may be another's by now
			continue
		}
		if l.writable {
			l.continueWrite()
		}
		n, at, err := in.read(l.fd, arena[off:off+readSize])
		switch {
		case n > 0:
			arrivals = append(arrivals, arrival{link: l, data: arena[off : off+n], at: at})
			off += n
			if n == readSize || l.ending {
				again = append(again, l)
			}
		case n == 0:
			arrivals = append(arrivals, arrival{link: l, at: at})
		case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		default:
			arrivals = append(arrivals, arrival{link: l, at: at, err: os.NewSyscallError("recvmsg", err)})
		}
	}
	return again, arrivals
}

// deliver parses one arrival and finishes the exchange it completes.
func (r *reactor) deliver(a *arrival) {
	l := a.link
	x := l.current.Load()
	if a.data == nil || x == nil { // closed, or bytes nobody asked for: the link is of no more use
		r.lose(l, a.err)
		return
	}
	if x.feed(a.data, a.at) {
		l.finish(x.h1.head.keep)
	}
}

func (r *reactor) shutdown(cause error) {
	r.mu.Lock()
	links := make([]*fdLink, 0, len(r.links))
	for _, l := range r.links {
		links = append(links, l)
	}
	r.mu.Unlock()
	for _, l := range links {
		r.lose(l, cause)
	}
	r.closeOwn()
}

// fdLink is a connection read by a reactor.
type fdLink struct {
	reactor *reactor
	fd      int
	open    atomic.Bool
	current atomic.Pointer[exchange]
	done    chan struct{} // the loop's word that the current exchange is over
	keep    bool          // set by the loop before done

	writable bool // touched by the loop only
	ending   bool // likewise: the peer has closed, so the end is behind what can be read
	wmu      sync.Mutex
	rest     net.Buffers // what the socket did not take at once
}

// alive asks the socket itself: the loop may not have come to a close that has arrived already.
func (l *fdLink) alive(time.Duration) bool {
	l.wmu.Lock() // the descriptor stays this connection's while it is asked
	defer l.wmu.Unlock()
	return l.open.Load() && quiet(l.fd)
}

// quiet reports whether a connection has neither ended nor bytes that nobody asked for. One system call, which does
// not wait.
func quiet(fd int) bool {
	var b [1]byte
	_, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), 1, unix.MSG_PEEK|unix.MSG_DONTWAIT, 0, 0)
	return errno == unix.EAGAIN || errno == unix.EINTR
}

// close makes the loop see the end of the connection and close the descriptor itself.
func (l *fdLink) close() {
	l.reactor.mu.Lock()
	defer l.reactor.mu.Unlock()
	if l.reactor.links[int32(l.fd)] == l {
		_ = unix.Shutdown(l.fd, unix.SHUT_RDWR)
	}
}

func (l *fdLink) finish(keep bool) {
	l.keep = keep
	l.current.Store(nil)
	l.done <- struct{}{}
}

func (l *fdLink) exchange(ctx context.Context, x *exchange, out net.Buffers) bool {
	x.rec.Sent = l.reactor.clock.Now()
	l.current.Store(x)
	if !l.open.Load() && l.current.CompareAndSwap(x, nil) { // closed since alive, and the loop did not see x
		x.lost(nil)
		return false
	}
	l.write(out)
	select {
	case <-l.done:
		return l.keep && l.written()
	case <-ctx.Done():
	}
	l.close()
	<-l.done
	if x.broken || x.fault == call.NoFault && !x.h1.done() { // else it had ended, well or not, before it was given up
		x.fault, x.err = canceledFault(ctx), context.Cause(ctx).Error()
	}
	return false
}

// write hands the request to the socket; what does not fit is continued by the loop.
func (l *fdLink) write(out net.Buffers) {
	l.wmu.Lock()
	defer l.wmu.Unlock()
	l.rest = out
	if l.push() {
		return
	}
	l.watch(readable | unix.EPOLLOUT)
}

// written reports whether all of the request left. A server may answer before it has read it all; the
// rest would stand before the next request.
func (l *fdLink) written() bool {
	l.wmu.Lock()
	defer l.wmu.Unlock()
	return len(l.rest) == 0
}

// continueWrite goes on with a request the socket did not take whole.
func (l *fdLink) continueWrite() {
	l.wmu.Lock()
	defer l.wmu.Unlock()
	if l.push() {
		l.watch(readable)
	}
}

// push writes as much as the socket takes and reports whether nothing is left to write. A write
// error is not reported here: the loop meets it as the end of the connection.
func (l *fdLink) push() bool {
	for len(l.rest) > 0 && l.open.Load() {
		n, err := unix.Writev(l.fd, l.rest)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, unix.EAGAIN) {
			return false
		}
		if err != nil {
			l.rest = nil
			return true
		}
		l.rest = consume(l.rest, n)
	}
	return true
}

func consume(bufs net.Buffers, n int) net.Buffers {
	for len(bufs) > 0 && n >= len(bufs[0]) {
		n -= len(bufs[0])
		bufs = bufs[1:]
	}
	if len(bufs) > 0 {
		bufs[0] = bufs[0][n:]
	}
	return bufs
}

func (l *fdLink) watch(events uint32) {
	l.reactor.mu.Lock()
	defer l.reactor.mu.Unlock()
	if l.reactor.links[int32(l.fd)] == l {
		_ = unix.EpollCtl(l.reactor.epoll, unix.EPOLL_CTL_MOD, l.fd, &unix.EpollEvent{Events: events, Fd: int32(l.fd)})
	}
}
