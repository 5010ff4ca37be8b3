package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spate/internal/call"
	"spate/internal/call/recorder"
	"spate/internal/fleet/wire"
)

// How records leave a worker.
const (
	batchAfter = 200 * time.Millisecond // no record waits longer for others: a worker that is killed takes few with it
	maxHeld    = 256 << 20              // bytes of records that are not acknowledged; more are left to the worker's log
	window     = 8                      // batches under way at a time
)

// Outbox sends the records of a part and keeps each until the broker has acknowledged it. It is a recorder.Sink: Record
// encodes and returns, a goroutine sends. While the broker cannot be reached it holds up to maxHeld bytes; from then on
// records are counted as left behind, and SendLog delivers them from the worker's own log when the load is over.
type Outbox struct {
	link    *Link
	subject string
	id      string // of its messages: no two outboxes have the same
	text    bool

	mu     sync.Mutex
	open   batch
	sealed []batch
	held   int
	made   int64
	acked  int64
	left   int64 // given up for the log
	gone   bool
	closed bool

	seq   int64
	wake  chan struct{}
	ended chan struct{}
	stop  context.CancelFunc
}

// batch is lines that travel together.
type batch struct {
	lines   []byte
	records int64
}

// NewOutbox starts sending. sender is a word that no other outbox of the part has; text says whether texts of answers go
// along.
func (l *Link) NewOutbox(run, part, sender string, text bool) *Outbox {
	ctx, cancel := context.WithCancel(context.Background())
	o := &Outbox{
		link: l, subject: wire.Records(run, part), id: run + "." + part + "." + sender, text: text,
		wake: make(chan struct{}, 1), ended: make(chan struct{}), stop: cancel,
	}
	go o.send(ctx) // Close ends it and waits
	return o
}

// Record implements recorder.Sink.
func (o *Outbox) Record(r *call.Record) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return recorder.ErrClosed
	}
	o.made++
	if o.gone || o.held > maxHeld {
		o.left++
		return nil
	}
	before := len(o.open.lines)
	o.open.lines = recorder.Append(o.open.lines, r, o.text)
	o.open.records++
	o.held += len(o.open.lines) - before
	if len(o.open.lines) >= wire.BatchBytes {
		o.seal()
	}
	return nil
}

// seal closes the open batch; o.mu is held.
func (o *Outbox) seal() {
	if o.open.records == 0 {
		return
	}
	o.sealed = append(o.sealed, o.open)
	o.open = batch{}
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// Counts are the records made, acknowledged, and left to the log.
func (o *Outbox) Counts() (made, acked, left int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.made, o.acked, o.left
}

// Flush waits until every record was acknowledged or left behind.
func (o *Outbox) Flush(ctx context.Context) error {
	for {
		o.mu.Lock()
		o.seal()
		gone, rest := o.gone, o.made-o.acked-o.left
		o.mu.Unlock()
		switch {
		case gone:
			return ErrGone
		case rest == 0:
			return nil
		case !pause(ctx, 10*time.Millisecond):
			return fmt.Errorf("%d records are not acknowledged: %w", rest, context.Cause(ctx))
		}
	}
}

// Close ends sending. What is not acknowledged is in the worker's log.
func (o *Outbox) Close() error {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.stop()
	<-o.ended
	return nil
}

func (o *Outbox) send(ctx context.Context) {
	defer close(o.ended)
	tick := time.NewTicker(batchAfter)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.wake:
		case <-tick.C:
			o.mu.Lock()
			o.seal()
			o.mu.Unlock()
		}
		for o.sendSome(ctx) {
		}
	}
}

// sendSome sends what is sealed, a few batches at a time, and reports whether there may be more.
func (o *Outbox) sendSome(ctx context.Context) bool {
	o.mu.Lock()
	some := o.sealed[:min(len(o.sealed), window)]
	o.mu.Unlock()
	if len(some) == 0 {
		return false
	}
	err := o.deliver(ctx, some)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.gone = o.gone || errors.Is(err, ErrGone)
		return false
	}
	for _, b := range some {
		o.acked += b.records
		o.held -= len(b.lines)
	}
	clear(some)
	o.sealed = o.sealed[len(some):]
	return len(o.sealed) > 0
}

// deliver returns when all batches are acknowledged; those that fail are sent again for as long as it takes.
func (o *Outbox) deliver(ctx context.Context, some []batch) error {
	var rest []*nats.Msg
	for _, b := range some {
		if len(b.lines) <= o.link.most() {
			rest = append(rest, o.message(b.lines, ""))
			continue
		}
		if err := o.publish(ctx, rest); err != nil {
			return err
		}
		rest = nil
		if err := o.long(ctx, b.lines); err != nil {
			return err
		}
	}
	return o.publish(ctx, rest)
}

// most is how much a message may carry.
func (l *Link) most() int {
	return int(min(wire.MaxMessage, max(l.NC.MaxPayload(), 64<<10)-4096))
}

// long sends lines that are too much for one message: each by itself, and those that are still too long in pieces, one
// after the other.
func (o *Outbox) long(ctx context.Context, lines []byte) error {
	for line := range bytes.Lines(lines) {
		if len(line) <= o.link.most() {
			if err := o.publish(ctx, []*nats.Msg{o.message(line, "")}); err != nil {
				return err
			}
			continue
		}
		pieces, header := wire.Pieces(line, o.link.most())
		for i, p := range pieces {
			if err := o.publish(ctx, []*nats.Msg{o.message(p, header(i))}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *Outbox) message(data []byte, piece string) *nats.Msg {
	m := nats.NewMsg(o.subject)
	m.Data = data
	o.seq++
	m.Header.Set(jetstream.MsgIDHeader, fmt.Sprintf("%s.%d", o.id, o.seq))
	if piece != "" {
		m.Header.Set(wire.PieceHeader, piece)
	}
	return m
}

// publish sends messages until each is acknowledged.
func (o *Outbox) publish(ctx context.Context, msgs []*nats.Msg) error {
	missing := 0 // how often in a row the broker said that it has no such run
	for len(msgs) > 0 {
		futures := make([]jetstream.PubAckFuture, len(msgs))
		var failed []*nats.Msg
		var last error
		for i, m := range msgs {
			f, err := o.link.JS.PublishMsgAsync(m)
			if err != nil {
				last = err
			}
			futures[i] = f
		}
		for i, f := range futures {
			if err := acknowledged(ctx, f); err != nil {
				failed = append(failed, msgs[i])
				last = err
			}
		}
		if msgs = failed; len(msgs) == 0 {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if gone(last) && !o.link.exists(ctx, o.subject) {
			if missing++; missing >= goneAfter {
				return ErrGone
			}
		} else {
			missing = 0
		}
		if !pause(ctx, retryAfter) {
			return context.Cause(ctx)
		}
	}
	return nil
}

// goneAfter is how often a broker must deny a run: one that has just come up may not know it yet.
const goneAfter = 8

var errUnsent = errors.New("not sent")

func acknowledged(ctx context.Context, f jetstream.PubAckFuture) error {
	if f == nil {
		return errUnsent
	}
	select {
	case <-f.Ok():
		return nil
	case err := <-f.Err():
		return err
	case <-time.After(ackWithin + time.Second): // the connection may have been lost with the message
		return errUnsent
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// SendLog delivers a whole log. The coordinator knows what it has already.
func (l *Link) SendLog(ctx context.Context, run, part, sender string, log io.Reader) (records int64, err error) {
	o := l.NewOutbox(run, part, sender, true) // the log has no texts unless they were asked for
	defer func() { err = errors.Join(err, o.Close()) }()
	_, err = recorder.Scan(log, func(r *call.Record) error {
		for {
			if _, _, left := o.Counts(); left > 0 {
				return ErrGone
			}
			o.mu.Lock()
			full := o.held > maxHeld/4
			o.mu.Unlock()
			if !full {
				break
			}
			if !pause(ctx, 10*time.Millisecond) {
				return context.Cause(ctx)
			}
		}
		records++
		return o.Record(r)
	})
	if err != nil {
		return records, err
	}
	return records, o.Flush(ctx)
}
