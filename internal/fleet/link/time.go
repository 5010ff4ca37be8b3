package link

import (
	"context"
	"fmt"
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
	var all []clock.Exchange
	var last error
	for range Exchanges {
		e, err := l.exchange(ctx, run, now)
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

func (l *Link) exchange(ctx context.Context, run string, now func() time.Duration) (clock.Exchange, error) {
	ctx, cancel := context.WithTimeout(ctx, exchangeWithin)
	defer cancel()
	e := clock.Exchange{Asked: now()}
	m, err := l.NC.RequestWithContext(ctx, wire.ClockOf(run), nil)
	e.Answered = now()
	if err != nil {
		return e, err
	}
	theirs, err := strconv.ParseInt(string(m.Data[:min(len(m.Data), 32)]), 10, 64)
	if err != nil || theirs < 0 || time.Duration(theirs) > call.MaxTime {
		return e, fmt.Errorf("the coordinator's time is %.32q", m.Data)
	}
	e.Theirs = time.Duration(theirs)
	return e, nil
}
