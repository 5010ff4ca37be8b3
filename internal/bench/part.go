package bench

import (
	"context"
	"errors"
	"time"

	"spate/internal/call"
	"spate/internal/call/recorder"
	"spate/internal/load/deal"
	"spate/internal/result"
	"spate/internal/send/driver"
	"spate/internal/send/protocol"
	"spate/internal/view/live"
)

// A load can be sent by several processes. Each worker makes a run of its part of the load (Job.Part), on the clock of
// the coordinator (Job.Clock) and from a start that all were given (Job.Begin). The coordinator makes a run of the
// whole in which others send (Job.Drive): its folder, figures and verdict are those of any run.

// ErrIdle is the error of a worker's run that has nothing to send: there are more workers than slots or requests.
var ErrIdle = errors.New("this worker has nothing to send")

// Workers are the parts of a Job that make it one of several.
type Workers struct {
	// Part is the worker's part of the load; the zero value is a run that is not split.
	Part deal.Part
	// Worker is its name, on each of its records.
	Worker string
	// Clock, where it is not zero, is what all times count on: the coordinator's, as this host knows it.
	Clock call.Clock
	// Begin, where set, is called once connections are open and requests lie ready. It may wait, and returns the start
	// on Clock: the first request leaves then and not before. An error ends the run with nothing sent.
	Begin func(context.Context) (start time.Duration, err error)
	// Bodies, where set, are how to ask, for each tenant, as the coordinator has learned it from the server.
	Bodies []protocol.Body
	// Drive, where set, sends the load in place of this process.
	Drive func(context.Context, DriveInput) (Driven, error)
}

// DriveInput is what a coordinator gives to whoever has the load sent.
type DriveInput struct {
	Clock  call.Clock                // of the run: every time in a record counts on it
	Sink   recorder.Sink             // takes every record of every worker, once; of any goroutine; never to be closed
	Live   *driver.Live              // the sums over all workers, for the live view
	Row    func(live.Worker)         // shows a worker as it stands; of any goroutine
	Stop   <-chan struct{}           // the user's word: send no more; what is in flight has Grace to finish
	Began  func(start time.Duration) // to be told the start, once, when it is known
	Until  time.Duration             // sending ends so long after the start; 0: when all is sent
	Grace  time.Duration             // for what is in flight then; negative: for ever
	Bodies []protocol.Body           // for the workers' Job
	// Idle reports a part that has nothing to send.
	Idle func(deal.Part) bool
	// Lost are the records of what was due from a worker that is gone, and of which no record came.
	Lost func(context.Context, Gone) ([]call.Record, error)
}

// Gone is a worker that is not heard of any more.
type Gone struct {
	Part  deal.Part
	Name  string
	Start time.Duration // of the run
	At    time.Duration // when it was given up: what was due later is not its loss
	Sent  int           // requests it had let go, as far as it said, for closed loops, where none is due by the clock
	// Have reports whether a record of a request came, by its phase and number.
	Have func(call.Phase, int) bool
}

// Driven is what came of a load that others sent. The fates of requests are in the records.
type Driven struct {
	Start, End time.Duration // the common start; after the last record
	Stopped    bool          // by the user
	Aborted    string        // why failures ended it, and whose; empty where they did not
	Refusal    int           // the HTTP status of the last of those failures
	Workers    []result.Worker
}

// beginning is who says when the run starts: at once, unless others are to start with it.
func (s *session) beginning() func(context.Context) (time.Duration, error) {
	if s.Begin != nil {
		return s.Begin
	}
	return func(context.Context) (time.Duration, error) { return s.clock.Now(), nil }
}
