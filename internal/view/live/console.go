package live

import (
	"context"
	"io"
	"sync"
)

// Console is an output that messages share with a live view: while one is shown they go above it,
// else straight to the output. Several goroutines may write.
type Console struct {
	mu   sync.Mutex
	w    io.Writer
	live *Live
}

// NewConsole makes a console of w.
func NewConsole(w io.Writer) *Console { return &Console{w: w} }

// Write puts a message on the console.
func (c *Console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live != nil {
		return c.live.Write(p)
	}
	return c.w.Write(p)
}

// Show shows a live view of what snap returns until ctx is done. An error means that the output is gone.
func (c *Console) Show(ctx context.Context, snap func() Snapshot, opt Options) error {
	l := NewLive(c.w, snap, opt)
	c.set(l)
	defer c.set(nil)
	return l.Run(ctx)
}

func (c *Console) set(l *Live) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live = l
}
