package link

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"spate/internal/call"
	"spate/internal/fleet/clock"
	"spate/internal/fleet/wire"
)

// Exchanges is how often the time is asked for in one go.
const Exchanges = 24

// exchangeWithin is how long one answer may take; slower ones say little.
const exchangeWithin = time.Second

// TellTime answers questions for the time of a run until the returned function is called.
func (l *Link) TellTime(run string, c call.Clock) (stop func(), err error) {
	sub, err := l.NC.Subscribe(wire.ClockOf(run), func(m *nats.Msg) {
		_ = m.Respond(strconv.AppendInt(nil, int64(c.Now()), 10)) // who asked may be gone
	})
	if err != nil {
		return nil, fmt.Errorf("answer for the time: %w", err)
	}
	return func() { _ = sub.Unsubscribe() }, nil
}

// AskTime compares the own clock with that of a run's coordinator.
func (l *Link) AskTime(ctx context.Context, run string, now func() time.Duration) (clock.Estimate, error) {
	return l.askTime(ctx, question{wire.ClockOf(run), "the coordinator", call.MaxTime}, now)
}

// TellWallClock answers one question for this host's wall clock.
func TellWallClock(m *nats.Msg) {
	_ = m.Respond(strconv.AppendInt(nil, time.Now().UnixNano(), 10)) // who asked may be gone
}

// AskWallClock compares this host's wall clock with that of a worker.
func (l *Link) AskWallClock(ctx context.Context, worker string) (clock.Estimate, error) {
	began := time.Now() // read once: a step of the clock between question and answer would look like a round trip
	now := func() time.Duration { return time.Duration(began.UnixNano()) + time.Since(began) }
	return l.askTime(ctx, question{wire.WorkerClock(worker), "worker " + worker, math.MaxInt64}, now)
}

// question is where to ask for a time, who answers, and the latest time that can be true.
type question struct {
	subject, who string
	most         time.Duration
}

func (l *Link) askTime(ctx context.Context, q question, now func() time.Duration) (clock.Estimate, error) {
	var all []clock.Exchange
	var last error
	for range Exchanges {
		e, err := l.exchange(ctx, q, now)
		if ctx.Err() != nil {
			return clock.Estimate{}, context.Cause(ctx)
		}
		if err != nil {
			if last = err; len(all) == 0 {
				break // nobody answers
			}
			continue
		}
		all = append(all, e)
	}
	est, err := clock.Best(all)
	if err != nil && last != nil {
		err = fmt.Errorf("%w: %w", err, last)
	}
	return est, err
}

func (l *Link) exchange(ctx context.Context, q question, now func() time.Duration) (clock.Exchange, error) {
	ctx, cancel := context.WithTimeout(ctx, exchangeWithin)
	defer cancel()
	e := clock.Exchange{Asked: now()}
	m, err := l.NC.RequestWithContext(ctx, q.subject, nil)
	e.Answered = now()
	if err != nil {
		return e, err
	}
	theirs, err := strconv.ParseInt(string(m.Data[:min(len(m.Data), 32)]), 10, 64)
	if err != nil || theirs < 0 || time.Duration(theirs) > q.most {
		return e, fmt.Errorf("the time of %s is %.32q", q.who, m.Data)
	}
	e.Theirs = time.Duration(theirs)
	return e, nil
}
