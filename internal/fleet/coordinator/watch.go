package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"spate/internal/bench"
	"spate/internal/call"
	"spate/internal/fleet/link"
	"spate/internal/fleet/parcel"
	"spate/internal/fleet/wire"
)

// When a worker is given up.
const (
	pulseEvery   = 500 * time.Millisecond
	lookEvery    = 200 * time.Millisecond
	suspectAfter = 3 * time.Second
	lostAfter    = 10 * time.Second
	lastWait     = 30 * time.Second // for what the broker has, at the end
)

// follow waits for the end of all parts. A worker that is lost is not waited for; one that comes back in time is.
func (r *run) follow(ctx context.Context, start time.Duration) (bench.Driven, error) {
	stop, canceled := r.in.Stop, ctx.Done()
	stopped := false
	for !r.look() {
		select {
		case <-r.changed:
		case <-time.After(lookEvery):
		case <-stop:
			stop, stopped = nil, true
			r.say(func(p *wire.Pulse) { p.Stop = true })
		case <-canceled:
			canceled, stopped = nil, true
			r.say(func(p *wire.Pulse) { p.Stop, p.Cut = true, true })
		}
	}
	return r.settle(context.WithoutCancel(ctx), start, stopped)
}

// look judges every part, shows it, and reports whether the run is over.
func (r *run) look() bool {
	since := r.upSince()
	r.mu.Lock()
	defer r.mu.Unlock()
	over, aborted := true, false
	var due, sent, done, queued, flight int64
	for _, p := range r.parts {
		if r.judge(p, since) {
			over = false
		}
		aborted = aborted || p.done != nil && !p.done.Alone && p.report(0).Aborted != ""
		due, sent, done, queued, flight = due+p.beat.Due, sent+p.beat.Sent, done+p.beat.Done, queued+p.beat.Queued, flight+p.beat.InFlight
		r.row(p)
	}
	l := r.in.Live
	l.Due.Store(due)
	l.Sent.Store(sent)
	l.Done.Store(done)
	l.Queued.Store(queued)
	l.InFlight.Store(flight)
	l.MaxInFlight.Store(max(flight, l.MaxInFlight.Load()))
	if aborted && !r.pulse.Cut { // failures that end a part end the run
		r.pulse.Stop, r.pulse.Cut = true, true
	}
	return over
}

// judge says where a part stands, and reports whether it is waited for.
func (r *run) judge(p *part, since time.Time) bool {
	switch {
	case p.idle:
		return false
	case p.done != nil:
		p.state, p.lost = finished, p.missing()
		p.beat.InFlight, p.beat.Queued = 0, 0
		return false
	case r.gone(p, since):
		if !p.lost {
			p.lost, p.state = true, lost
			r.tellLost(p)
		}
		return false
	case time.Since(later(p.heard, since)) > suspectAfter:
		p.state = suspected
		return true
	}
	if p.lost {
		r.Note("worker %s is back", p.hello.Worker)
	}
	p.state, p.lost = sending, false
	return true
}

func (r *run) tellLost(p *part) {
	if r.deadWorker(p.hello.Worker) {
		r.Note("worker %s is lost: its process has ended. %s", p.hello.Worker, r.log(p.hello.Worker))
		return
	}
	r.Note("worker %s is lost: nothing was heard of it for %v", p.hello.Worker, time.Since(p.heard).Round(time.Second))
}

// gone reports a worker that is not heard any more. While the coordinator itself is cut off, nobody is.
func (r *run) gone(p *part, since time.Time) bool {
	return r.deadWorker(p.hello.Worker) || time.Since(later(p.heard, since)) > lostAfter
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// settle reads what the broker still has, and gives every request that is missing its fate.
func (r *run) settle(ctx context.Context, start time.Duration, stopped bool) (bench.Driven, error) {
	reading, cancel := context.WithTimeout(ctx, lastWait)
	defer cancel()
	err := r.inbox.CatchUp(reading)
	if err != nil {
		err = fmt.Errorf("the broker could not be read to the end: %w", err)
	}
	whole := true
	for _, p := range r.parts {
		r.mu.Lock()
		missing, sent := p.missing(), int(p.beat.Due)
		r.mu.Unlock()
		if !missing {
			continue
		}
		whole = false
		err = errors.Join(err, r.lose(ctx, p, start, sent))
	}
	out := r.conclude(start, stopped)
	if n := r.refused.Load(); n > 0 {
		r.Note("%d messages of workers were no records, and were left out", n)
	}
	r.say(func(p *wire.Pulse) { p.Over = true })
	if whole && err == nil {
		err = r.link.DropRun(ctx, r.id)
		r.forget()
	} else {
		r.left()
	}
	return out, errors.Join(err, r.inbox.Err())
}

// left says how to get what lost workers still deliver.
func (r *run) left() {
	r.incomplete.Store(true)
	switch {
	case r.broker == nil:
		r.Note("what lost workers still deliver is kept for a week: spate fleet collect %s --fleet URL", r.id)
	case r.in.Folder != "":
		r.Note("what lost workers have on disk can be added to the run: spate fleet collect %s", r.in.Folder)
	}
}

// lose records the requests of a lost worker that have no fate.
func (r *run) lose(ctx context.Context, p *part, start time.Duration, sent int) error {
	recs, err := r.in.Lost(ctx, bench.Gone{
		Part: p.index, Name: p.hello.Worker, Start: start, At: r.in.Clock.Now(), Sent: sent, Have: r.seen.has,
	})
	if err != nil {
		return fmt.Errorf("what worker %s did not do: %w", p.hello.Worker, err)
	}
	for i := range recs {
		if !r.seen.add(&recs[i]) {
			continue
		}
		if err := r.in.Sink.Record(&recs[i]); err != nil {
			return err
		}
	}
	return nil
}

// partOf is the part a message speaks for, if its sender may.
func (r *run) partOf(subject, worker string) *part {
	n, err := wire.PartOf(subject)
	if err != nil || n >= len(r.parts) || r.parts[n].hello.Worker != worker {
		r.refused.Add(1)
		return nil
	}
	return r.parts[n]
}

func (r *run) takeReady(m *nats.Msg) {
	var w wire.Ready
	if wire.Decode(m.Data, &w) != nil {
		r.refused.Add(1)
		return
	}
	p := r.partOf(m.Subject, w.Worker)
	if p == nil {
		return
	}
	r.mu.Lock()
	p.heard, p.trip, p.why, p.ready = time.Now(), w.Clock.RoundTrip, w.Why, w.Why == ""
	if p.ready {
		p.state = ready
	}
	r.mu.Unlock()
	link.Reply(m, &wire.Answer{OK: true})
	r.nudge()
}

func (r *run) takeBeat(m *nats.Msg) {
	var b wire.Beat
	if wire.Decode(m.Data, &b) != nil {
		r.refused.Add(1)
		return
	}
	if p := r.partOf(m.Subject, b.Worker); p != nil {
		r.mu.Lock()
		p.heard, p.beat = time.Now(), b
		r.mu.Unlock()
	}
}

func (r *run) takeRecord(_ int, rec *call.Record) error {
	if !r.seen.add(rec) {
		return nil
	}
	return r.in.Sink.Record(rec)
}

func (r *run) takeDone(n int, d *wire.Done) {
	if d.Why != "" {
		r.Note("worker %s ended without a result: %s", d.Worker, d.Why)
	}
	r.mu.Lock()
	r.parts[n].done, r.parts[n].heard = d, time.Now()
	r.mu.Unlock()
	r.nudge()
}

func (r *run) takeBad(n int, err error) {
	if r.refused.Add(1) == 1 {
		r.Note("worker %s: %v", r.parts[n].hello.Worker, err)
	}
}

func (r *run) nudge() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// tellSecrets answers a worker that asks for the key. A connection that others can read gets none.
func (r *run) tellSecrets(m *nats.Msg) {
	s := r.sealed
	if !r.link.Private() {
		s = &parcel.Sealed{No: "the coordinator's connection to the broker is not encrypted, so the server's key is not sent: use tls://, or set " + parcel.KeyVariable + " where the workers run"}
	}
	link.Reply(m, s)
}
