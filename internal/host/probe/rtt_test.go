package probe

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// listen accepts and closes connections until the test ends, and returns how many came.
func listen(t *testing.T, network, address string) (net.Addr, func() int) {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	count := 0
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			count++
			_ = conn.Close()
		}
	})
	stop := sync.OnceFunc(func() {
		_ = l.Close()
		wg.Wait()
	})
	t.Cleanup(stop)
	return l.Addr(), func() int { stop(); return count }
}

func TestMeasureRTT(t *testing.T) {
	cases := []struct{ name, network, address string }{
		{"tcp", "tcp", "127.0.0.1:0"},
		{"unix", "unix", filepath.Join(t.TempDir(), "s")},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			addr, count := listen(t, c.network, c.address)
			begun := time.Now()
			r, err := MeasureRTT(t.Context(), c.network, addr.String(), 5)
			took := time.Since(begun)
			if err != nil {
				t.Fatal(err)
			}
			if r.N != 5 || r.Failed != 0 || r.Address != addr.String() {
				t.Errorf("result %+v", r)
			}
			if r.Min <= 0 || r.Min > r.Median || r.Median > r.Max || r.Max > took {
				t.Errorf("times %+v, all within %v", r, took)
			}
			if n := count(); n > 5 {
				t.Errorf("%d connections for 5 samples", n)
			}
		})
	}
}

// A name may have addresses nobody listens on, as localhost's ::1 often.
func TestMeasureRTTTriesEveryAddress(t *testing.T) {
	addr, _ := listen(t, "tcp", "127.0.0.1:0")
	_, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		t.Fatal(err)
	}
	r, err := MeasureRTT(t.Context(), "tcp", net.JoinHostPort("localhost", port), 3)
	if err != nil || r.N != 3 || r.Address != addr.String() {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestMeasureRTTErrors(t *testing.T) {
	// Bound and never listened on, the port refuses, and nobody else can take it.
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(fd) }()
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	addr, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	refused := fmt.Sprintf("127.0.0.1:%d", addr.(*syscall.SockaddrInet4).Port)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	cases := []struct {
		name    string
		ctx     context.Context
		address string
		n       int
		want    string
	}{
		{"refused", t.Context(), refused, 3, "connecting to " + refused},
		{"no port", t.Context(), "127.0.0.1", 3, "resolving"},
		{"no samples", t.Context(), refused, 0, "at least 1"},
		{"canceled", canceled, refused, 3, "canceled"},
	}
	for _, c := range cases {
		if _, err := MeasureRTT(c.ctx, "tcp", c.address, c.n); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}
