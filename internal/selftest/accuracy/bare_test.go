//go:build linux

package accuracy

import (
	"strings"
	"testing"
	"time"

	"spate/internal/sim/serve"
)

// TestBareCountsExactly reads from a server in this process and holds its stamps against the
// server's own log, event by event.
func TestBareCountsExactly(t *testing.T) {
	l := brief(5, 12)
	s, err := serve.Start(t.Context(), l.server())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Stop() }()
	rep, err := readBare(t.Context(), &order{Load: l, Addr: s.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	if want := 12 * 22; rep.Events != want || len(rep.Seen) != 12 {
		t.Fatalf("%d events of %d answers, want %d of 12", rep.Events, len(rep.Seen), want)
	}
	if st := s.Stats(); st.Connections != 5 || st.Requests != 12 || st.Tokens != 12*20 {
		t.Errorf("the server saw %d connections, %d requests and wrote %d tokens", st.Connections, st.Requests, st.Tokens)
	}
	for end := time.Now().Add(30 * time.Second); s.Stats().Active > 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		// The end of an answer may be seen a moment before the server has noted it.
	}
	for _, a := range rep.Seen {
		truth := s.Truth().Find(a.ID)
		if truth == nil {
			t.Fatalf("answer %q is not the server's", a.ID)
		}
		did := servedOf(truth)
		if len(a.At) != 20 || len(did.At) != 20 {
			t.Fatalf("answer %s: %d stamps of %d tokens", a.ID, len(a.At), len(did.At))
		}
		if a.Sent > did.Arrived {
			t.Errorf("answer %s: arrived %d ns before it was sent", a.ID, a.Sent-did.Arrived)
		}
		for k := range a.At {
			if a.At[k] < did.At[k] {
				t.Errorf("answer %s, token %d: stamped %d ns before it was written", a.ID, k, did.At[k]-a.At[k])
			}
		}
	}
}

// TestBareCountsAcrossReads cuts an answer at every byte.
func TestBareCountsAcrossReads(t *testing.T) {
	head := "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
	wire := head + "a\r\ndata: {1}\n\n\r\n14\r\ndata: {2}\n\ndata: {3}\n\n\r\n" + "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
	for cut := 1; cut < len(wire); cut++ {
		b := &bare{load: &Load{Tokens: 2}}
		c := &bareConn{answer: &Seen{At: []int64{}}}
		for i, piece := range []string{wire[:cut], wire[cut:]} {
			b.count(c, []byte(piece), int64(i+1))
			if ended := c.ended([]byte(piece)); ended != (i == 1) {
				t.Fatalf("cut at %d, piece %d: ended is %v", cut, i, ended)
			}
		}
		if c.events != 4 || b.events != 4 || len(c.answer.At) != 4 {
			t.Fatalf("cut at %d: %d events, %d stamps, want 4", cut, c.events, len(c.answer.At))
		}
		// An event is stamped by the read that brought its last byte.
		if want := strings.Count(wire[:cut], "\n\n"); count1(c.answer.At) != want {
			t.Fatalf("cut at %d: %d events stamped by the first read, want %d", cut, count1(c.answer.At), want)
		}
	}
}

func count1(at []int64) int {
	n := 0
	for _, t := range at {
		if t == 1 {
			n++
		}
	}
	return n
}
