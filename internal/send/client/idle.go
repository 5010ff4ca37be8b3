package client

import (
	"context"
	"sync"
	"time"
)

// idleWatch gives an exchange up whose stream stands still. It looks once in a while instead of setting a timer at each
// read, so that a read costs it one store.
type idleWatch struct {
	client *Client
	x      *exchange
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu    sync.Mutex // guards timer, which may fire before it is set
	timer *time.Timer
}

// watchIdle returns a context that ends when nothing has come for too long after the first token. How long a request
// waits for its first token is the queue's length, and no sign that it was forgotten.
func (c *Client) watchIdle(ctx context.Context, x *exchange) (_ context.Context, stop func()) {
	w := &idleWatch{client: c, x: x}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(c.cfg.Idle, w.look)
	return w.ctx, func() {
		w.cancel(nil) // first: a look that is under way sees it, and is the last
		w.timer.Stop()
	}
}

func (w *idleWatch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil {
		return
	}
	quiet := time.Duration(0)
	if heard := w.x.heard.Load(); heard > 0 {
		quiet = w.client.cfg.Clock.Now() - time.Duration(heard)
	}
	if quiet >= w.client.cfg.Idle {
		w.cancel(w.client.still)
		return
	}
	w.timer.Reset(w.client.cfg.Idle - quiet)
}
