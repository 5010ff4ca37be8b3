package accuracy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"spate/internal/call"
	"spate/internal/sim/serve"
)

// bareRead is the size of one read, as the client's.
const bareRead = 16 << 10

// bareConn is one raw connection with an answer on it.
type bareConn struct {
	fd      int
	answer  *Seen
	events  int  // of the answer so far
	newline bool // the last read ended in one
	tail    [len(bareEnd)]byte
}

// bareEnd is how the last chunk of an answer ends on the wire.
const bareEnd = "\r\n0\r\n\r\n"

// bare is the limit: one thread that reads what is ready, stamps it, counts blank lines and writes
// the next request when the bytes that end an answer went by. It knows nothing of HTTP, events or
// JSON.
type bare struct {
	load    *Load
	addr    string
	epoll   int
	conns   map[int32]*bareConn
	answers []Seen
	next    int // request to send
	done    int
	events  int
	out     []byte
	prefix  []byte // of every request
	body    []byte
}

func readBare(ctx context.Context, o *order) (readerReport, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if o.Load.Rate > 0 {
		return readerReport{}, errors.New("the bare reader has no schedule")
	}
	if err := openFiles(o.Load.Streams); err != nil {
		return readerReport{}, err
	}
	b := &bare{load: &o.Load, addr: o.Addr, conns: make(map[int32]*bareConn, o.Load.Streams)}
	if err := b.prepare(o); err != nil {
		return readerReport{}, err
	}
	defer b.close()
	for range o.Load.Streams {
		if err := b.open(ctx); err != nil {
			return readerReport{}, err
		}
	}
	cpu, begun := cpuTime(), serve.Mono()
	if err := b.run(ctx); err != nil {
		return readerReport{}, err
	}
	rep := readerReport{Wall: time.Duration(serve.Mono() - begun), CPU: cpuTime() - cpu, RSS: peakRSS(), Events: b.events}
	if !o.Load.Flood {
		rep.Seen = b.answers
	}
	return rep, nil
}

// prepare builds the bytes of a request, which are those spate's client writes, and room for stamps.
func (b *bare) prepare(o *order) error {
	c, err := newClient(o, call.NewClock())
	if err != nil {
		return err
	}
	defer c.Close()
	req, _ := (&questions{n: 1, tokens: o.Load.Tokens}).Next(context.Background())
	if err := c.Prepare(&req); err != nil {
		return err
	}
	b.body = req.Body
	b.prefix = []byte("POST /v1/completions HTTP/1.1\r\nHost: " + o.Addr + "\r\n" +
		"Accept: text/event-stream, application/json\r\nUser-Agent: spate\r\nContent-Type: application/json\r\nx-request-id: ")
	b.answers = make([]Seen, o.Load.Requests)
	if b.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("create epoll: %w", err)
	}
	return nil
}

// open dials one connection and takes its descriptor out of the Go poller.
func (b *bare) open(ctx context.Context) error {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", b.addr)
	if err != nil {
		return err
	}
	defer func() { _ = nc.Close() }()
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return fmt.Errorf("connection %T has no descriptor", nc)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return err
	}
	fd := -1
	var dupErr error
	if err := raw.Control(func(s uintptr) { fd, dupErr = unix.FcntlInt(s, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return err
	}
	if dupErr != nil {
		return fmt.Errorf("duplicate descriptor: %w", dupErr)
	}
	b.conns[int32(fd)] = &bareConn{fd: fd}
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
	if err := unix.EpollCtl(b.epoll, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		return fmt.Errorf("watch connection: %w", err)
	}
	return nil
}

func (b *bare) close() {
	for _, c := range b.conns {
		_ = unix.Close(c.fd)
	}
	_ = unix.Close(b.epoll)
}

// run sends the first requests and reads until every answer has come.
func (b *bare) run(ctx context.Context) error {
	for _, c := range b.conns {
		if err := b.send(c); err != nil {
			return err
		}
	}
	events := make([]unix.EpollEvent, 256)
	buf := make([]byte, bareRead)
	for b.done < b.load.Requests {
		n, err := unix.EpollWait(b.epoll, events, 1000)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("epoll: %w", err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		for i := range max(0, n) {
			if err := b.read(b.conns[events[i].Fd], buf); err != nil {
				return err
			}
		}
	}
	return nil
}

// send writes the next request, if there is one.
func (b *bare) send(c *bareConn) error {
	c.answer = nil
	if b.next >= b.load.Requests {
		return nil
	}
	id := b.next
	b.next++
	c.answer, c.events, c.newline, c.tail = &b.answers[id], 0, false, [len(bareEnd)]byte{}
	c.answer.ID = name(id)
	if !b.load.Flood {
		c.answer.At = make([]int64, 0, b.load.eventsEach())
	}
	b.out = append(append(b.out[:0], b.prefix...), c.answer.ID...)
	b.out = append(b.out, "\r\nContent-Length: "...)
	b.out = strconv.AppendInt(b.out, int64(len(b.body)), 10)
	b.out = append(append(b.out, "\r\n\r\n"...), b.body...)
	c.answer.Sent = serve.Mono()
	if n, err := unix.Write(c.fd, b.out); err != nil || n != len(b.out) {
		return fmt.Errorf("write request %d: %d of %d bytes: %w", id, n, len(b.out), err)
	}
	return nil
}

// read takes what one ready connection has.
func (b *bare) read(c *bareConn, buf []byte) error {
	// The descriptor does not block, so the runtime need not be told of the call.
	r, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(c.fd), uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)))
	at := serve.Mono()
	if errno == unix.EAGAIN || errno == unix.EINTR {
		return nil
	}
	if errno != 0 || r == 0 || c.answer == nil {
		return fmt.Errorf("connection lost with %d of %d answers read: %w", b.done, b.load.Requests, errno)
	}
	got := buf[:r]
	b.count(c, got, at)
	if !c.ended(got) {
		return nil
	}
	if c.events != b.load.eventsEach() {
		return fmt.Errorf("an answer had %d events where %d were asked for", c.events, b.load.eventsEach())
	}
	if c.answer.At != nil {
		c.answer.At = c.answer.At[:b.load.Tokens] // without usage and the end marker
	}
	b.done++
	return b.send(c)
}

// count finds the blank lines that end events, and stamps one event for each.
func (b *bare) count(c *bareConn, got []byte, at int64) {
	n := 0
	if c.newline && got[0] == '\n' {
		n++
	}
	c.newline = got[len(got)-1] == '\n'
	for rest := got; ; n++ {
		i := bytes.Index(rest, []byte("\n\n"))
		if i < 0 {
			break
		}
		rest = rest[i+2:]
	}
	c.events += n
	b.events += n
	if c.answer.At == nil {
		return
	}
	for range n {
		c.answer.At = append(c.answer.At, at)
	}
}

// ended reports whether the bytes read so far end with those that end an answer.
func (c *bareConn) ended(got []byte) bool {
	if len(got) >= len(c.tail) {
		copy(c.tail[:], got[len(got)-len(c.tail):])
	} else {
		copy(c.tail[:], c.tail[len(got):])
		copy(c.tail[len(c.tail)-len(got):], got)
	}
	return string(c.tail[:]) == bareEnd
}
