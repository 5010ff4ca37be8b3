package console

import (
	"fmt"
	"io"
	"sync"
	"time"

	"spate/internal/settings/config"
)

// Waiting tells on standard error what a command does while it takes long: on a terminal one line that is written
// again and again and goes away in the end, elsewhere a line after two seconds and then few.
type Waiting struct {
	mu    sync.Mutex
	text  string
	quit  chan struct{}
	ended sync.WaitGroup
}

// How often is told.
const (
	waitLive  = 500 * time.Millisecond
	waitPlain = 2 * time.Second
	waitMore  = 10 * time.Second
)

// Wait begins to show progress; nothing else may be written until End.
func (p Process) Wait(format string, args ...any) *Waiting {
	opt := p.View(config.UIAuto)
	width := 0
	if opt.TTY {
		width = opt.Width()
	}
	return newWaiting(p.Stderr, width, fmt.Sprintf(format, args...))
}

// newWaiting tells on w; a width says that it is a terminal.
func newWaiting(w io.Writer, width int, text string) *Waiting {
	v := &Waiting{text: text, quit: make(chan struct{})}
	v.ended.Go(func() { v.tell(w, width) })
	return v
}

// Now changes the text that is shown.
func (v *Waiting) Now(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.text = fmt.Sprintf(format, args...)
}

// End stops showing progress and removes the line from the terminal.
func (v *Waiting) End() {
	close(v.quit)
	v.ended.Wait()
}

func (v *Waiting) tell(w io.Writer, width int) {
	began, next := time.Now(), waitPlain
	if width > 0 {
		next = waitLive
	}
	for told := false; ; told = true {
		select {
		case <-v.quit:
			if told && width > 0 {
				_, _ = io.WriteString(w, "\r\x1b[K") // nothing can be told of a standard error that is closed
			}
			return
		case <-time.After(next):
		}
		v.mu.Lock()
		line := fmt.Sprintf("%s, %d s so far", v.text, int(time.Since(began).Seconds()))
		v.mu.Unlock()
		if width == 0 {
			Say(w, "%s\n", line)
			next = waitMore
			continue
		}
		if runes := []rune(line); len(runes) >= width {
			line = string(runes[:width-1])
		}
		_, _ = io.WriteString(w, "\r\x1b[K")
		Say(w, "%s", line)
	}
}

// Reading is Wait for a command that reads the results that its arguments name.
func (p Process) Reading(names []string) *Waiting {
	what := names[0]
	switch {
	case len(names) > 1:
		what = fmt.Sprintf("%s and %d more", names[0], len(names)-1)
	case names[0] == "-":
		what = "standard input"
	}
	return p.Wait("reading %s", what)
}
