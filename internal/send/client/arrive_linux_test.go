package client

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"spate/internal/call"
)

// dialed is both ends of a loopback connection.
func dialed(t *testing.T) (here, there net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	here, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	there, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = here.Close(), there.Close() })
	return here, there
}

// waitReadable returns once bytes lie ready, without taking any.
func waitReadable(t *testing.T, c *stampedConn) {
	t.Helper()
	var err error
	if e := c.raw.Control(func(fd uintptr) {
		for {
			_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
			if !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}); e != nil || err != nil {
		t.Fatal(e, err)
	}
}

// TestArrival: bytes that a late reader takes are stamped with the time they came in.
func TestArrival(t *testing.T) {
	here, there := dialed(t)
	clock := call.NewClock()
	c, ok := stamped(here, clock).(*stampedConn)
	if !ok {
		t.Fatal("the connection is not stamped")
	}
	b := make([]byte, 16)
	for good := 0; good < 5; {
		before := clock.Now()
		if _, err := there.Write([]byte("token")); err != nil {
			t.Fatal(err)
		}
		waitReadable(t, c)
		ready := clock.Now()
		time.Sleep(20 * time.Millisecond) // the reader is late
		n, err := c.Read(b)
		if err != nil || string(b[:n]) != "token" {
			t.Fatal(n, err)
		}
		if !c.in.exact { // not stamped yet, or the two clocks were not read at one moment: then the time of the read is taken
			continue
		}
		good++
		if at := c.arrived(); at < before-stepAllowed || at > ready+stepAllowed {
			t.Errorf("stamped %v, written after %v and ready by %v", at, before, ready)
		}
	}
	_ = there.Close()
	if _, err := c.Read(b); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

// TestArrivalClockSet: when the wall clock is set between arrival and read, the kernel's stamp says
// nothing, and the time of the read is taken.
func TestArrivalClockSet(t *testing.T) {
	here, there := dialed(t)
	clock := call.NewClock()
	c, ok := stamped(here, clock).(*stampedConn)
	if !ok {
		t.Fatal("the connection is not stamped")
	}
	for _, step := range []time.Duration{-time.Hour, -time.Millisecond, time.Millisecond, time.Hour} {
		if _, err := there.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		waitReadable(t, c)
		ready := clock.Now()
		c.in.offset += step // as if the clock had been set back or forth since the last round
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if at := c.arrived(); at < ready || at > clock.Now() {
			t.Errorf("clock set by %v: stamped %v, read after %v", step, at, ready)
		}
	}
}
