package serve

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// bursting is a timetable whose outputs are shared out among threads, as those of an engine are.
type bursting struct{ *Timetable }

func (bursting) Burst() int { return 1 << 20 }

// TestSlowClientsInBursts checks that outputs stay in order when sockets fill up and drain while
// other threads write: a stream changes hands between its writer and its pump again and again.
func TestSlowClientsInBursts(t *testing.T) {
	const streams, slow, each = 80, 4, 200
	s := start(t, Config{MaxModelLen: 1 << 24, Engine: bursting{NewTimetable(TimetableConfig{ITL: 300 * time.Microsecond, ChunkTokens: each})}})
	small := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		e := c.Control(func(fd uintptr) {
			// Small segments keep the server's send buffer small.
			err = errors.Join(
				syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, 536),
				syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096),
			)
		})
		return errors.Join(e, err)
	}}
	events := func(i int) int {
		if i < slow {
			return 4000 // more than any socket takes
		}
		return 400
	}
	conns := make([]net.Conn, streams)
	for i := range conns {
		nc, err := small.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = nc.Close() })
		if err := nc.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
			t.Fatal(err)
		}
		conns[i] = nc
	}
	for i, nc := range conns {
		sendRaw(t, nc, fmt.Sprintf(`{"prompt":"a","max_tokens":%d,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`, events(i)*each))
	}
	var wg sync.WaitGroup
	for i, nc := range conns {
		wg.Go(func() {
			if i < slow {
				await(t, "a socket is full", func() bool { return s.Stats().Jams > 0 })
			}
			if err := inOrder(nc, events(i), each, i < slow); err != nil {
				t.Errorf("stream %d: %v", i, err)
			}
		})
	}
	wg.Wait()
}

// inOrder reads an answer whose events count its tokens; slowly, it takes a few bytes at a time.
func inOrder(nc net.Conn, n, each int, slowly bool) error {
	rd := bufio.NewReader(nc)
	if slowly {
		rd = bufio.NewReaderSize(nc, 512)
	}
	resp, err := http.ReadResponse(rd, nil)
	if err != nil {
		return err
	}
	events, err := sse(resp.Body)
	if err != nil {
		return err
	}
	if len(events) != n+2 || events[n+1] != "[DONE]" {
		return fmt.Errorf("%d events, want %d", len(events), n+2)
	}
	for i, e := range events[:n] {
		if want := fmt.Sprintf(`"completion_tokens":%d`, (i+1)*each); !strings.Contains(e, want+",") && !strings.Contains(e, want+"}") {
			return fmt.Errorf("event %d is %s", i, e)
		}
	}
	return nil
}
