package link

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spate/internal/call"
	"spate/internal/fleet/wire"
)

// How much of a run's records lies in memory between broker and sink: ahead messages, each at most wire.MaxMessage, and
// as many again in the lanes.
const (
	ahead    = 32
	laneDeep = 4
)

// Arrivals are told of what comes. Record and Done are called from several goroutines, but in order for each part.
type Arrivals struct {
	Names  []string // of workers, by part
	Record func(part int, r *call.Record) error
	Done   func(part int, d *wire.Done)
	Bad    func(part int, err error) // something that is no record
}

// Inbox reads what a run keeps, from its beginning, and comes back after every interruption where it left off.
type Inbox struct {
	link    *Link
	run     string
	to      Arrivals
	lanes   []chan arrival
	consume jetstream.ConsumeContext
	wait    sync.WaitGroup
	seen    atomic.Uint64 // sequence of the last message that was handed to a lane
	pending atomic.Int64  // messages in lanes
	failed  atomic.Pointer[error]
}

type arrival struct {
	part int
	msg  jetstream.Msg
}

// OpenInbox starts reading.
func (l *Link) OpenInbox(ctx context.Context, run string, to Arrivals) (*Inbox, error) {
	b := &Inbox{link: l, run: run, to: to}
	consumer, err := l.JS.OrderedConsumer(ctx, wire.Stream(run), jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{wire.Records(run, "*"), wire.Dones(run, "*")}, DeliverPolicy: jetstream.DeliverAllPolicy,
	})
	if err != nil {
		return nil, fmt.Errorf("read the records of run %s: %w", run, err)
	}
	for range max(2, runtime.NumCPU()) {
		lane := make(chan arrival, laneDeep)
		b.lanes = append(b.lanes, lane)
		b.wait.Go(func() { b.work(lane) })
	}
	b.consume, err = consumer.Consume(b.take, jetstream.PullMaxMessages(ahead), jetstream.PullHeartbeat(2*time.Second), jetstream.PullExpiry(5*time.Second))
	if err != nil {
		b.Close()
		return nil, fmt.Errorf("read the records of run %s: %w", run, err)
	}
	return b, nil
}

// take hands a message to the lane of its part.
func (b *Inbox) take(m jetstream.Msg) {
	part, err := wire.PartOf(m.Subject())
	if err == nil && part < len(b.to.Names) {
		b.pending.Add(1)
		b.lanes[part%len(b.lanes)] <- arrival{part, m}
	}
	if meta, err := m.Metadata(); err == nil {
		b.seen.Store(meta.Sequence.Stream)
	}
}

func (b *Inbox) work(lane chan arrival) {
	long := map[int]*wire.Assembler{}
	for a := range lane {
		if long[a.part] == nil {
			long[a.part] = &wire.Assembler{}
		}
		b.read(a, long[a.part])
		b.pending.Add(-1)
	}
}

func (b *Inbox) read(a arrival, long *wire.Assembler) {
	name := b.to.Names[a.part]
	if a.msg.Subject() == wire.Dones(b.run, wire.Part(a.part)) {
		var d wire.Done
		if err := wire.Decode(a.msg.Data(), &d); err != nil || d.Worker != name {
			b.to.Bad(a.part, errors.Join(err, errors.New("the end of a part cannot be read")))
			return
		}
		b.to.Done(a.part, &d)
		return
	}
	lines, err := long.Add(a.msg.Headers().Get(wire.PieceHeader), a.msg.Data())
	if err == nil {
		err = wire.Lines(lines, name, func(r *call.Record) error {
			if err := b.to.Record(a.part, r); err != nil {
				b.failed.CompareAndSwap(nil, &err)
			}
			return nil
		})
	}
	if err != nil {
		b.to.Bad(a.part, err)
	}
}

// Err is the first error of the sink.
func (b *Inbox) Err() error {
	if err := b.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// CatchUp waits until everything that the broker has at this moment was read.
func (b *Inbox) CatchUp(ctx context.Context) error {
	var last uint64
	for {
		ask, cancel := context.WithTimeout(ctx, askWithin)
		s, err := b.link.JS.Stream(ask, wire.Stream(b.run))
		cancel()
		if err == nil {
			last = s.CachedInfo().State.LastSeq
			break
		}
		if !pause(ctx, retryAfter) {
			return errors.Join(context.Cause(ctx), err)
		}
	}
	for b.seen.Load() < last || b.pending.Load() > 0 {
		if !pause(ctx, 5*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
	return nil
}

// Close ends reading, after what has arrived was read.
func (b *Inbox) Close() {
	if b.consume != nil {
		b.consume.Stop()
		<-b.consume.Closed()
	}
	for _, lane := range b.lanes {
		close(lane)
	}
	b.wait.Wait()
}
