//go:build linux

package accuracy

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// childArg makes the test binary a child process of a Lab.
const childArg = "accuracy-child"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == childArg {
		if err := Child(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // or every child sleeps a second under the race detector
	os.Exit(m.Run())
}

func lab(tb testing.TB) *Lab {
	tb.Helper()
	exe, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	return &Lab{Program: exe, Child: []string{childArg}}
}

// brief is a load like the table's, short enough for a test.
func brief(streams, requests int) Load {
	l := Timetable(streams, 1)
	l.Requests, l.Tokens, l.TTFT, l.ITL = requests, 20, 20*time.Millisecond, 5*time.Millisecond
	return l
}

// TestMeasureTwoProcesses runs each reader against a server in another process: every answer is
// joined, stamps are never before the write they stamp, and what the laws of the clock forbid does
// not come out.
func TestMeasureTwoProcesses(t *testing.T) {
	for _, by := range []Reader{Spate, Bare} {
		t.Run(string(by), func(t *testing.T) {
			t.Parallel()
			l := brief(8, 20)
			r, err := lab(t).Measure(t.Context(), l, by)
			if err != nil {
				t.Fatal(err)
			}
			if r.Reader != by || r.Streams != 8 || r.Requests != 20 || r.Failed != 0 || r.Unjoined != 0 {
				t.Errorf("reader %s, %d streams, %d requests, %d failed (%s), %d unjoined", r.Reader, r.Streams, r.Requests, r.Failed, r.Error, r.Unjoined)
			}
			if want := 20 * 22; r.Events != want {
				t.Errorf("%d events, want %d", r.Events, want)
			}
			// Pairing two clocks is exact to well under 50 us.
			if s := r.Stamp; s.Mean <= 0 || s.P50 < -0.05 || s.P99 < s.P50 || s.Max < s.P99 {
				t.Errorf("stamp errors %+v", s)
			}
			if r.TTFTTrue < 19.9 || r.TTFTReported < r.TTFTTrue || r.TTFTError < r.TTFTStamp-0.05 {
				t.Errorf("TTFT reported %v, true %v, error %v of which %v in stamping", r.TTFTReported, r.TTFTTrue, r.TTFTError, r.TTFTStamp)
			}
			if r.CPU <= 0 || r.CPUPerEvent <= 0 || r.RSS < 1<<20 || r.Wall <= 0 || r.ServerCPUPerEv <= 0 {
				t.Errorf("cpu %v s, %v us per event, server's %v, rss %d, wall %v s", r.CPU, r.CPUPerEvent, r.ServerCPUPerEv, r.RSS, r.Wall)
			}
		})
	}
}

func TestMeasureOtherLoads(t *testing.T) {
	cases := []struct {
		name string
		load Load
		by   Reader
		want func(*Row) string
	}{
		{"flood read by spate", Load{Streams: 3, Requests: 9, Tokens: 500, Flood: true}, Spate, func(r *Row) string {
			if r.Events != 9*502 || r.PerCore <= 0 {
				return fmt.Sprintf("%d events, %v per core-second", r.Events, r.PerCore)
			}
			return ""
		}},
		{"flood read bare", Load{Streams: 3, Requests: 9, Tokens: 500, Flood: true}, Bare, func(r *Row) string {
			if r.Events != 9*502 || r.PerCore <= 0 {
				return fmt.Sprintf("%d events, %v per core-second", r.Events, r.PerCore)
			}
			return ""
		}},
		{"paced", Paced(200, 500*time.Millisecond), Spate, func(r *Row) string {
			if r.Requests != 100 || r.Failed+r.Unjoined != 0 || r.SendLag.P50 <= 0 || r.SendLag.Max < r.SendLag.P99 {
				return fmt.Sprintf("%d requests, %d unjoined, send lag %+v", r.Requests, r.Unjoined, r.SendLag)
			}
			return ""
		}},
		{"fewer requests than streams", brief(12, 4), Bare, func(r *Row) string {
			if r.Events != 4*22 {
				return fmt.Sprintf("%d events", r.Events)
			}
			return ""
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, err := lab(t).Measure(t.Context(), c.load, c.by)
			if err != nil {
				t.Fatal(err)
			}
			if wrong := c.want(&r); wrong != "" {
				t.Error(wrong)
			}
		})
	}
}

func TestMeasureSaysWhatIsWrong(t *testing.T) {
	missing := &Lab{Program: "/nonexistent/spate", Child: []string{childArg}}
	// A program that is no child of a Lab: it ends without a word of the protocol.
	stranger := lab(t)
	stranger.Child = []string{"-test.run=^$"}
	cases := []struct {
		name string
		lab  *Lab
		load Load
		by   Reader
		want string
	}{
		{"no such program", missing, brief(1, 1), Spate, "start the server process"},
		{"no child", stranger, brief(1, 1), Spate, "the server process:"},
		{"no such reader", lab(t), brief(1, 1), "telepathy", `unknown role "telepathy"`},
		{"no schedule for the bare reader", lab(t), Paced(100, time.Second), Bare, "the bare reader has no schedule"},
		{"no requests", lab(t), brief(1, 0), Spate, "0 requests"},
		{"no streams", lab(t), brief(0, 5), Spate, "streams or a rate"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := c.lab.Measure(t.Context(), c.load, c.by)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestMeasureEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	l := brief(1, 1)
	l.TTFT = 24 * time.Hour // it cannot end for any other reason
	if _, err := lab(t).Measure(ctx, l, Spate); err == nil {
		t.Error("no error although the context ended")
	}
}

// TestSuite runs a whole small report in processes of their own.
func TestSuite(t *testing.T) {
	var said []string
	rep, err := lab(t).Run(t.Context(), Suite{Levels: []int{1, 4}, Rounds: 1, Repeat: 1, Say: func(s string) { said = append(said, s) }})
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Levels) != 2 || len(rep.Levels[1].Spate) != 1 || len(rep.Levels[1].Bare) != 0 || rep.Flood != nil || rep.Goals != nil {
		t.Errorf("report %+v", rep)
	}
	if r := rep.Levels[1].Spate[0]; r.Events != 4*102 || r.TTFTTrue < 49.9 {
		t.Errorf("%d events, true TTFT %v", r.Events, r.TTFTTrue)
	}
	if got := strings.Join(said, "; "); got != "1 stream; 4 streams" {
		t.Errorf("said %q", got)
	}
}
