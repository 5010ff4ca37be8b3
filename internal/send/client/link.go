package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"spate/internal/call"
)

// link is one connection. It carries one exchange at a time.
type link interface {
	// exchange writes the request and feeds x with what comes back until the response is complete,
	// the connection is lost or ctx ends. It reports whether the connection can be used again.
	exchange(ctx context.Context, x *exchange, out net.Buffers) (again bool)
	// alive reports whether a connection that has been idle for so long is still open.
	alive(idle time.Duration) bool
	close()
}

// opened is a link with how long it took to open.
type opened struct {
	link      link
	dial      time.Duration
	handshake time.Duration
	used      bool          // it has carried a request
	answers   int           // it has brought
	idleSince time.Duration // on the run's clock
}

// dialError says in which step opening a connection went wrong.
type dialError struct {
	fault call.Fault
	err   error
}

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// dialer opens links to one target.
type dialer struct {
	network, addr string
	tls           *tls.Config // nil for plain TCP
	clock         call.Clock
	reactors      *reactors // nil where the platform has none
	most          time.Duration
}

// openFor bounds how long opening a connection may take, the TLS handshake included.
const openFor = 30 * time.Second

func (d *dialer) open(ctx context.Context) (*opened, error) {
	start := d.clock.Now()
	ctx, cancel := context.WithTimeout(ctx, d.most)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, d.network, d.addr)
	if err != nil {
		return nil, dialFault(err)
	}
	o := &opened{dial: d.clock.Now() - start}
	if d.tls == nil {
		o.link, err = d.plain(conn)
		return o, err
	}
	conn = stamped(conn, d.clock)
	tc := tls.Client(conn, d.tls)
	if err := tc.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, &dialError{call.FaultTLS, fmt.Errorf("TLS handshake with %s: %w", d.addr, err)}
	}
	o.handshake = d.clock.Now() - start - o.dial
	o.link = &netLink{conn: tc, clock: d.clock, arrived: arrivalsOf(conn, d.clock)}
	return o, nil
}

// plain picks the reader of an unencrypted connection: the reactor where there is one, because one
// read per event without a goroutine switch is what keeps stamps true at many streams.
func (d *dialer) plain(conn net.Conn) (link, error) {
	if d.reactors == nil {
		return &netLink{conn: conn, clock: d.clock, arrived: d.clock.Now}, nil
	}
	l, err := d.reactors.adopt(conn)
	if err != nil {
		if e := dialFault(err); e.fault == call.FaultLocal {
			return nil, e
		}
		return nil, &dialError{call.FaultLocal, err}
	}
	return l, nil
}

// dialFault is why no connection was opened. A client without a descriptor or a port left did not reach the server:
// that is its own fault, and has a cure of its own.
func dialFault(err error) *dialError {
	switch {
	case outOfFiles(err):
		return &dialError{call.FaultLocal, fmt.Errorf("the client may open no more files: raise the limit with `ulimit -n`, or set --max-concurrency (%w)", err)}
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return &dialError{call.FaultLocal, fmt.Errorf("the client has no port left for another connection: lower the rate or set --max-concurrency (%w)", err)}
	}
	return &dialError{call.FaultConnect, err}
}

// outOfFiles also knows the words, as looking up a name does not pass the cause on.
func outOfFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || strings.Contains(err.Error(), "too many open files")
}

// readSize is the size of one read. A decode step brings a few hundred bytes; a flood fills it.
const readSize = 16 << 10

// netLink reads with a goroutine: TLS connections and platforms without a reactor.
type netLink struct {
	conn    net.Conn
	clock   call.Clock
	arrived func() time.Duration // when the bytes of the last read came in
	dead    bool
}

// arrivalsOf tells when the bytes of a connection's last read came in: as the kernel noted it where
// it does, else the time of asking.
func arrivalsOf(conn net.Conn, clock call.Clock) func() time.Duration {
	if c, ok := conn.(interface{ arrived() time.Duration }); ok {
		return c.arrived
	}
	return clock.Now
}

var longAgo = time.Unix(1, 0)

func (l *netLink) exchange(ctx context.Context, x *exchange, out net.Buffers) bool {
	stop := context.AfterFunc(ctx, func() { _ = l.conn.SetDeadline(longAgo) })
	defer stop()
	x.rec.Sent = l.clock.Now()
	if _, err := out.WriteTo(l.conn); err != nil {
		l.lost(ctx, x, err)
		return false
	}
	buf := make([]byte, readSize)
	for {
		n, err := l.conn.Read(buf)
		at := l.arrived()
		if n > 0 && x.feed(buf[:n], at) {
			return x.h1.head.keep && stop()
		}
		if err != nil {
			l.lost(ctx, x, err)
			return false
		}
	}
}

func (l *netLink) lost(ctx context.Context, x *exchange, err error) {
	if ctx.Err() != nil {
		x.fail(canceledFault(ctx), context.Cause(ctx).Error())
		return
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	x.lost(err)
}

// canceledFault tells why an exchange was given up: our own timeout, the end of the run, or the user.
func canceledFault(ctx context.Context) call.Fault {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, call.ErrTimeout):
		return call.FaultTimeout
	case errors.Is(cause, call.ErrIdle):
		return call.FaultIdle
	case errors.Is(cause, call.ErrCutoff):
		return call.FaultCutoff
	}
	return call.FaultStopped
}

// alive looks for a close by the peer without waiting: on an idle connection any readable byte or
// end of stream means that it cannot be used. The look costs up to a timer tick, so a connection
// that was busy a moment ago is taken on trust.
func (l *netLink) alive(idle time.Duration) bool {
	if l.dead || idle < 500*time.Millisecond {
		return !l.dead
	}
	_ = l.conn.SetReadDeadline(time.Now().Add(50 * time.Microsecond))
	var one [1]byte
	n, err := l.conn.Read(one[:])
	var netErr net.Error
	if n == 0 && errors.As(err, &netErr) && netErr.Timeout() {
		_ = l.conn.SetReadDeadline(time.Time{})
		return true
	}
	l.dead = true
	return false
}

func (l *netLink) close() { _ = l.conn.Close() }
