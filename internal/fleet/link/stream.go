package link

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spate/internal/fleet/wire"
)

// What a run keeps in the broker.
const (
	keepFor     = 7 * 24 * time.Hour // a run that nobody collected
	duplicates  = 10 * time.Minute   // within which a batch that is sent again is noticed
	createsWait = 15 * time.Second
)

// CreateRun makes the stream of a run. In a cluster of brokers it is kept three times, so that one of them may be lost.
func (l *Link) CreateRun(ctx context.Context, run string) error {
	ctx, cancel := context.WithTimeout(ctx, createsWait)
	defer cancel()
	cfg := jetstream.StreamConfig{
		Name: wire.Stream(run), Subjects: []string{wire.Kept(run)}, Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy,
		Discard: jetstream.DiscardNew, // a full disk refuses records, which stay with their worker, and deletes none
		MaxAge:  keepFor, Duplicates: duplicates, Replicas: 1,
	}
	if l.NC.ConnectedClusterName() != "" {
		cfg.Replicas = 3
	}
	_, err := l.JS.CreateStream(ctx, cfg)
	if err != nil && cfg.Replicas > 1 { // a cluster of fewer nodes
		cfg.Replicas = 1
		_, err = l.JS.CreateStream(ctx, cfg)
	}
	if errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
		return fmt.Errorf("the fleet's broker keeps nothing: start NATS with JetStream (nats-server -js), or use spate fleet serve: %w", err)
	}
	if err != nil {
		return fmt.Errorf("make the stream of the run: %w", err)
	}
	return nil
}

// DropRun deletes what a run kept.
func (l *Link) DropRun(ctx context.Context, run string) error {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	return l.JS.DeleteStream(ctx, wire.Stream(run))
}

// Runs are those of which something is kept.
func (l *Link) Runs(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	list := l.JS.StreamNames(ctx)
	var runs []string
	for name := range list.Name() {
		if run, ok := wire.StreamRun(name); ok {
			runs = append(runs, run)
		}
	}
	return runs, list.Err()
}

// Keep stores a message of a run, and returns when the broker has it.
func (l *Link) Keep(ctx context.Context, subject, id string, m wire.Message) error {
	data, err := wire.Encode(m)
	if err != nil {
		return err
	}
	for missing := 0; missing < goneAfter; {
		_, err := l.JS.Publish(ctx, subject, data, jetstream.WithMsgID(id))
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return errors.Join(context.Cause(ctx), err)
		case gone(err) && !l.exists(ctx, subject):
			missing++
		default:
			missing = 0
		}
		if !pause(ctx, retryAfter) {
			return errors.Join(context.Cause(ctx), err)
		}
	}
	return ErrGone
}

// ErrGone says that a run keeps nothing any more: it was finished without this worker.
var ErrGone = errors.New("the run is over, and nobody takes its records any more")

// gone reports an error that a stream which is not there gives, and a broker that has just come up, too.
func gone(err error) bool {
	return errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, jetstream.ErrStreamNotFound)
}

// exists asks whether a subject is kept. A broker that cannot answer may still have it.
func (l *Link) exists(ctx context.Context, subject string) bool {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	_, err := l.JS.StreamNameBySubject(ctx, subject)
	return !errors.Is(err, jetstream.ErrStreamNotFound)
}

// retryAfter is the pause before what failed is tried again.
const retryAfter = 250 * time.Millisecond

// pause waits, and reports whether there is still somebody to wait for.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
