package client

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"spate/internal/call"
)

// TestQuiet: a connection is quiet until its peer writes or closes.
func TestQuiet(t *testing.T) {
	for name, act := range map[string]func(fd int) error{
		"closed":  unix.Close,
		"written": func(fd int) error { _, err := unix.Write(fd, []byte("x")); return err },
	} {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		if !quiet(pair[0]) {
			t.Errorf("%s: not quiet before", name)
		}
		if err := act(pair[1]); err != nil {
			t.Fatal(err)
		}
		if quiet(pair[0]) {
			t.Errorf("%s: quiet after", name)
		}
		_ = unix.Close(pair[0])
		if name != "closed" {
			_ = unix.Close(pair[1])
		}
	}
}

// BenchmarkAlive is what asking the socket costs a request, against asking the loop's mark.
func BenchmarkAlive(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	r, err := newReactors(call.NewClock())
	if err != nil {
		b.Fatal(err)
	}
	defer r.close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	opened, err := r.adopt(conn)
	if err != nil {
		b.Fatal(err)
	}
	link, ok := opened.(*fdLink)
	if !ok {
		b.Fatalf("%T", opened)
	}
	b.Run("mark", func(b *testing.B) {
		for b.Loop() {
			if !link.open.Load() {
				b.Fatal("closed")
			}
		}
	})
	b.Run("socket", func(b *testing.B) {
		for b.Loop() {
			if !link.alive(time.Second) {
				b.Fatal("closed")
			}
		}
	})
}
