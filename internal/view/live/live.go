// Package live is the view of a run in progress: what is counted while requests go (progress.go), how it is drawn
// (snapshot.go), the output it shares with messages (console.go) and the lines vLLM prints ahead of its block
// (preamble.go). Package bench feeds it; views of finished runs are in package report. Read this file first.
package live

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"spate/internal/call"
)

// Options say what the output of a live view can do.
type Options struct {
	TTY   bool
	Color bool
	Width func() int    // asked before each drawing, so that a resized window is followed; nil means 80
	Every time.Duration // between drawings; 200 ms on a terminal and 10 s elsewhere when 0
}

// Terminal finds out what the file of this descriptor can do. getenv is asked for NO_COLOR and TERM.
func Terminal(fd int, getenv func(string) string) Options {
	tty := term.IsTerminal(fd) && getenv("TERM") != "dumb"
	return Options{
		TTY:   tty,
		Color: tty && getenv("NO_COLOR") == "",
		Width: func() int {
			w, _, err := term.GetSize(fd)
			if err != nil || w <= 0 {
				return defaultWidth
			}
			return w
		},
	}
}

const (
	defaultWidth = 80
	fastest      = 200 * time.Millisecond
	plainEvery   = 10 * time.Second

	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	clearBelow = "\x1b[J"
)

// Live shows a run in progress: on a terminal a few lines drawn over themselves, elsewhere one line
// now and then. Whatever else goes to the same output during the run must go through Write, which
// keeps it above the view.
type Live struct {
	opt  Options
	snap func() Snapshot

	mu    sync.Mutex
	w     io.Writer
	drawn []int // columns of each line on the screen
	on    bool
}

// NewLive makes a view of what snap returns.
func NewLive(w io.Writer, snap func() Snapshot, opt Options) *Live {
	if opt.Width == nil {
		opt.Width = func() int { return defaultWidth }
	}
	switch {
	case opt.TTY:
		opt.Every = max(opt.Every, fastest)
	case opt.Every <= 0:
		opt.Every = plainEvery
	}
	return &Live{opt: opt, snap: snap, w: w}
}

// Run draws until ctx is done, then takes the view away, gives the cursor back and leaves one line of
// where the run stood. An error means that the output is gone; the run goes on without a view.
func (l *Live) Run(ctx context.Context) error {
	tick := time.NewTicker(l.opt.Every)
	defer tick.Stop()
	err := l.start()
	for err == nil {
		select {
		case <-ctx.Done():
			return l.stop()
		case <-tick.C:
			err = l.draw()
		}
	}
	return fmt.Errorf("draw the live view: %w", err)
}

// Write puts p above the view.
func (l *Live) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.on || !l.opt.TTY {
		return l.w.Write(p)
	}
	var b bytes.Buffer
	l.erase(&b)
	b.Write(p)
	if len(p) > 0 && p[len(p)-1] != '\n' {
		b.WriteByte('\n')
	}
	l.frame(&b)
	if _, err := l.w.Write(b.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (l *Live) start() error {
	l.mu.Lock()
	l.on = true
	l.mu.Unlock()
	if l.opt.TTY {
		return l.draw()
	}
	return nil
}

// draw replaces the view on the screen, in one write so that it does not flicker.
func (l *Live) draw() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b bytes.Buffer
	if l.opt.TTY {
		l.erase(&b)
		l.frame(&b)
	} else {
		b.WriteString(Line(l.snap()) + "\n")
	}
	_, err := l.w.Write(b.Bytes())
	return err
}

func (l *Live) stop() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.on = false
	var b bytes.Buffer
	if l.opt.TTY {
		l.erase(&b)
		b.WriteString(showCursor)
	}
	last := l.snap()
	last.Left = call.Unset // it is over
	b.WriteString(Line(last) + "\n")
	_, err := l.w.Write(b.Bytes())
	return err
}

// erase goes back to where the view begins and clears from there. A window made narrower has broken
// the old lines into several rows each.
func (l *Live) erase(b *bytes.Buffer) {
	if len(l.drawn) == 0 {
		return
	}
	width, rows := max(l.opt.Width(), 1), 0
	for _, n := range l.drawn {
		rows += max(1, (n+width-1)/width)
	}
	fmt.Fprintf(b, "\r\x1b[%dA%s", rows, clearBelow)
	l.drawn = l.drawn[:0]
}

// frame draws the view below what is there. The last column stays free: some terminals break the
// line when it is used.
func (l *Live) frame(b *bytes.Buffer) {
	b.WriteString(hideCursor)
	for _, line := range Render(l.snap(), l.opt.Width()-1, l.opt.Color) {
		b.WriteString(line + "\r\n")
		l.drawn = append(l.drawn, columns(line))
	}
}

// columns counts what a line takes on the screen: everything but its colours.
func columns(line string) int {
	n := 0
	for line != "" {
		if rest, ok := strings.CutPrefix(line, "\x1b["); ok {
			_, line, _ = strings.Cut(rest, "m")
			continue
		}
		n, line = n+1, line[1:]
	}
	return n
}
