package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"spate/internal/call"
)

func snapshot() Snapshot {
	return Snapshot{
		Phase: "measuring", Done: 412, Total: 1000, Elapsed: 32 * time.Second, Left: 46 * time.Second,
		InFlight: 64, Waiting: 12, SentRate: 12.94, DoneRate: 12.4, OutRate: 1589.2,
		TTFT:   Quantiles{N: 412, P50: 51200 * time.Microsecond, P99: 73400 * time.Microsecond},
		ITL:    Quantiles{N: 41200, P50: 10100 * time.Microsecond, P99: 11 * time.Millisecond},
		Failed: 3, Errors: []ErrorCount{{"timeout", 2}, {"HTTP 404", 1}},
		Verdict: "SUSPECT", Note: "3 requests were sent more than 1 ms late",
	}
}

func snapshots() map[string]Snapshot {
	early := Snapshot{Phase: "warm-up", Left: call.Unset, Verdict: "VALID"}
	timed := snapshot()
	timed.Total, timed.Waiting, timed.Errors, timed.Failed, timed.Verdict = 0, 0, nil, 0, ""
	hostile := snapshot()
	hostile.Note = "\x1b[31mé\n漢"
	long := snapshot()
	long.Elapsed, long.Left = 3*time.Hour+4*time.Minute+5*time.Second, call.Unset
	return map[string]Snapshot{"full": snapshot(), "early": early, "timed": timed, "hostile": hostile, "long": long}
}

func TestRenderGolden(t *testing.T) {
	var b strings.Builder
	all := snapshots()
	for _, name := range []string{"full", "early", "timed", "hostile", "long"} {
		for _, width := range []int{120, 80, 40, 12} {
			fmt.Fprintf(&b, "== %s at %d\n", name, width)
			for _, line := range Render(all[name], width, false) {
				b.WriteString(line + "|\n")
			}
		}
		fmt.Fprintf(&b, "== %s as a line\n%s\n", name, Line(all[name]))
	}
	golden(t, "live.txt", b.String())
}

// TestRenderLaws holds for every width: no line is too long, colours change nothing but colours, and
// nothing but printable ASCII and colours comes out.
func TestRenderLaws(t *testing.T) {
	sgr := regexp.MustCompile(`\x1b\[[0-9]*m`)
	for name, s := range snapshots() {
		for width := -1; width <= 200; width++ {
			bare, coloured := Render(s, width, false), Render(s, width, true)
			for i, line := range bare {
				if len(line) > max(width, 1) {
					t.Fatalf("%s at %d: %q has %d columns", name, width, line, len(line))
				}
				if strings.IndexFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) >= 0 {
					t.Fatalf("%s at %d: %q is not plain", name, width, line)
				}
				if got := sgr.ReplaceAllString(coloured[i], ""); got != line {
					t.Fatalf("%s at %d: coloured %q, plain %q", name, width, got, line)
				}
				if columns(coloured[i]) != len(line) {
					t.Fatalf("%s at %d: %q counts as %d columns", name, width, coloured[i], columns(coloured[i]))
				}
			}
		}
	}
}

// screen is a terminal of endless height that understands what Live uses.
type screen struct {
	mu     sync.Mutex
	width  int
	rows   []string
	row    int
	col    int
	cursor bool
	writes int
	fail   error
}

func newScreen(width int) *screen { return &screen{width: width, rows: []string{""}, cursor: true} }

var control = regexp.MustCompile(`^\x1b\[(\??[0-9]*)([A-Za-z])`)

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	if s.fail != nil {
		return 0, s.fail
	}
	for text := string(p); text != ""; {
		if m := control.FindStringSubmatch(text); m != nil {
			s.command(m[1], m[2])
			text = text[len(m[0]):]
			continue
		}
		s.put(text[0])
		text = text[1:]
	}
	return len(p), nil
}

func (s *screen) put(c byte) {
	switch c {
	case '\r':
		s.col = 0
		return
	case '\n':
		s.down()
		s.col = 0
		return
	}
	if s.col == s.width {
		s.down()
		s.col = 0
	}
	s.rows[s.row] = s.rows[s.row][:s.col] + string(c)
	s.col++
}

func (s *screen) down() {
	s.row++
	if s.row == len(s.rows) {
		s.rows = append(s.rows, "")
	}
}

func (s *screen) command(arg, verb string) {
	switch verb {
	case "A":
		var n int
		_, _ = fmt.Sscan(arg, &n)
		s.row = max(0, s.row-n)
	case "J":
		s.rows = append(s.rows[:s.row:s.row], s.rows[s.row][:min(s.col, len(s.rows[s.row]))])
	case "l":
		s.cursor = false
	case "h":
		s.cursor = true
	}
}

func (s *screen) text() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.rows...)
}

func TestLiveOnATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scr := newScreen(60)
		snap := snapshot()
		var mu sync.Mutex
		l := NewLive(scr, func() Snapshot { mu.Lock(); defer mu.Unlock(); return snap },
			Options{TTY: true, Color: true, Width: func() int { return 60 }, Every: time.Millisecond})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- l.Run(ctx) }()
		time.Sleep(10*time.Second + time.Millisecond)
		synctest.Wait()
		if scr.writes > 51 {
			t.Errorf("%d drawings in 10 s: more than 5 a second", scr.writes)
		}
		if scr.cursor {
			t.Error("the cursor blinks inside the view")
		}
		want := append(Render(snap, 59, false), "")
		if d := cmp.Diff(want, scr.text()); d != "" {
			t.Errorf("screen (-want +got):\n%s", d)
		}
		for _, message := range []string{"a message without an end", "another\n"} {
			if n, err := l.Write([]byte(message)); n != len(message) || err != nil {
				t.Errorf("write: %d, %v", n, err)
			}
		}
		want = append([]string{"a message without an end", "another"}, want...)
		if d := cmp.Diff(want, scr.text()); d != "" {
			t.Errorf("screen after messages (-want +got):\n%s", d)
		}
		mu.Lock()
		snap.Errors, snap.Failed, snap.Verdict = nil, 0, "" // fewer lines than before
		mu.Unlock()
		time.Sleep(time.Second)
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		got := scr.text()
		if !scr.cursor || got[0] != "a message without an end" || strings.Join(got[2:], "") != lastLine(snap) {
			t.Errorf("after the end: cursor %v, screen %q", scr.cursor, got)
		}
	})
}

// TestConsole writes messages from elsewhere before, during and after a view: none disturbs it.
func TestConsole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scr := newScreen(60)
		c := NewConsole(scr)
		say := func(text string) {
			if n, err := io.WriteString(c, text); n != len(text) || err != nil {
				t.Errorf("write: %d, %v", n, err)
			}
		}
		say("before\n")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- c.Show(ctx, snapshot, Options{TTY: true, Width: func() int { return 60 }})
		}()
		time.Sleep(time.Second)
		synctest.Wait()
		say("\ninterrupted: waiting\n")
		time.Sleep(time.Second)
		synctest.Wait()
		want := append([]string{"before", "", "interrupted: waiting"}, append(Render(snapshot(), 59, false), "")...)
		if d := cmp.Diff(want, scr.text()); d != "" {
			t.Errorf("screen (-want +got):\n%s", d)
		}
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		say("after\n")
		got := scr.text()
		if n := len(got); !scr.cursor || got[2] != "interrupted: waiting" || got[n-2] != "after" || strings.Join(got[3:n-2], "") != lastLine(snapshot()) {
			t.Errorf("after the end: cursor %v, screen %q", scr.cursor, got)
		}
	})
}

// TestLiveResize makes the window narrower between drawings: what was there must be gone.
func TestLiveResize(t *testing.T) {
	width := 100
	var b bytes.Buffer
	l := NewLive(&b, snapshot, Options{TTY: true, Width: func() int { return width }})
	if err := l.draw(); err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, line := range Render(snapshot(), 99, false) {
		rows += (len(line) + 29) / 30
	}
	width = 30
	b.Reset()
	if err := l.draw(); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("\r\x1b[%dA\x1b[J", rows); !strings.HasPrefix(b.String(), want) {
		t.Errorf("redraw begins %q, want %q", b.String()[:12], want)
	}
}

func TestLiveWithoutATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		l := NewLive(&b, snapshot, Options{})
		ctx, cancel := context.WithTimeout(t.Context(), 35*time.Second)
		defer cancel()
		if err := l.Run(ctx); err != nil {
			t.Fatal(err)
		}
		_, _ = l.Write([]byte("after\n"))
		line := Line(snapshot()) + "\n"
		if want := strings.Repeat(line, 3) + lastLine(snapshot()) + "\nafter\n"; b.String() != want { // at 10, 20, 30 s and the end
			t.Errorf("got:\n%s", b.String())
		}
		if strings.Contains(b.String(), "\x1b") {
			t.Error("control codes without a terminal")
		}
	})
}

func TestLiveOutputGone(t *testing.T) {
	scr := newScreen(80)
	scr.fail = errors.New("gone")
	l := NewLive(scr, snapshot, Options{TTY: true})
	if err := l.Run(t.Context()); !errors.Is(err, scr.fail) {
		t.Errorf("err = %v", err)
	}
}

func TestTerminalOfAFile(t *testing.T) {
	opt := Terminal(-1, func(string) string { return "" })
	if opt.TTY || opt.Color || opt.Width() != defaultWidth {
		t.Errorf("no file at all looks like %+v", opt)
	}
}

// lastLine is what a view leaves when the run is over.
func lastLine(s Snapshot) string {
	s.Left = call.Unset
	return Line(s)
}

// TestNothingIsLeftAtTheEnd: the last line tells no time that is left, however far off the end was thought to be.
func TestNothingIsLeftAtTheEnd(t *testing.T) {
	for _, tty := range []bool{false, true} {
		var out bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		snap := func() Snapshot { return Snapshot{Phase: "measuring", Done: 48, Left: 3 * time.Second} }
		if err := NewLive(&out, snap, Options{TTY: tty, Every: time.Hour}).Run(ctx); err != nil {
			t.Fatal(err)
		}
		_, last, _ := strings.Cut(out.String(), "[0:00]")
		if !strings.Contains(last, "48 done") || strings.Contains(last, " left") {
			t.Errorf("terminal %v: last line %q", tty, last)
		}
	}
}
