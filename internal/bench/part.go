package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"spate/internal/call"
	"spate/internal/call/recorder"
	"spate/internal/host/probe"
	"spate/internal/judge/metrics"
	"spate/internal/load/deal"
	"spate/internal/load/schedule"
	"spate/internal/result"
	"spate/internal/send/driver"
	"spate/internal/send/protocol"
	"spate/internal/settings/config"
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

// DriveInput is what a coordinator gives to the function that has the load sent.
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
	Folder string                    // of the run; empty: it has none
	// Idle reports a part that has nothing to send.
	Idle func(deal.Part) bool
	// Lost are the records of what was due from a worker that is gone, and of which no record came.
	Lost func(context.Context, Gone) ([]call.Record, error)
}

// Gone is a worker that no longer answers.
type Gone struct {
	Part  deal.Part
	Name  string
	Start time.Duration // of the run
	At    time.Duration // when it was given up: what was due later is not its loss
	Sent  int           // requests it had let go, as far as it said, for closed loops, where none is due by the clock
	// Have reports whether a record of a request came, by its phase and number.
	Have func(call.Phase, int) bool
}

// Driven is the outcome of a load that others sent. How each request ended is in the records.
type Driven struct {
	Start, End time.Duration // the common start; after the last record
	Stopped    bool          // by the user
	Aborted    string        // why failures ended it, and whose; empty where they did not
	Refusal    int           // the HTTP status of the last of those failures
	Workers    []result.Worker
}

// newSession is a run to do. A worker leaves to the coordinator what is done once for all: asking the server, watching
// it, and writing other tools' files.
func newSession(job Job) (*session, error) {
	if err := job.Part.Check(); err != nil {
		return nil, err
	}
	if err := Splits(job.Config, job.Part.Of); err != nil {
		return nil, err
	}
	if job.Part.Split() {
		c := *job.Config
		c.Target.ReadyTimeout, c.Target.ResetPrefixCache, c.Target.Profile = 0, false, false
		c.Observe.Off, c.Observe.ServerMetrics, c.Observe.ServerLog = true, "off", ""
		c.Output.SaveResult, c.Output.AppendResult, c.Output.PlotTimeline, c.Output.PlotDatasetStats = false, false, false, false
		if job.Part.Index > 0 {
			c.Load.ProbeRate = 0
		}
		job.Config = &c
	}
	s := &session{Job: job, clock: job.Clock}
	if s.clock.IsZero() {
		s.clock = call.NewClock()
	}
	return s, nil
}

// Splits says why a load cannot be split among this many workers; nil where it can.
func Splits(c *config.Bench, workers int) error {
	if workers < 2 {
		return nil
	}
	for name, one := range c.Each() {
		if name != "" {
			return nil // each tenant is one worker's
		}
		l := &one.Load
		closed := l.RequestRate.Inf() && l.MaxConcurrency != nil && l.RampUp == "" && len(l.Stages) == 0 && !one.SelfTimed()
		switch {
		case l.Pacing == schedule.PacingSlept:
			return errors.New("--pacing slept cannot be split among workers: each gap begins when the request before was let go, which is another worker's; leave it out")
		case closed && l.NumWarmups > 0 && l.Duration > 0:
			return errors.New("--num-warmups with --max-concurrency and --duration cannot be split among workers: the duration begins after the warm-up, which ends at another moment on each; " +
				"use --warmup-duration")
		}
	}
	return nil
}

// beginning is who says when the run starts: at once, unless others are to start with it.
func (s *session) beginning() func(context.Context) (time.Duration, error) {
	if s.Begin != nil {
		return s.Begin
	}
	return func(context.Context) (time.Duration, error) { return s.clock.Now(), nil }
}

// share is what is sent of the tenant's load: all of it, unless it is dealt out. A tenant of several is one worker's, and
// who has the load sent plans all of it.
func (t *tenant) share() deal.Share {
	part := t.Part
	if t.name != "" || t.Drive != nil {
		part = deal.Part{}
	}
	return part.Share(t.slots())
}

func (t *tenant) slots() int {
	if c := t.Config.Load.MaxConcurrency; c != nil {
		return *c
	}
	return 0
}

// ownPart makes what the figures rest on that of a worker's part.
func (t *tenant) ownPart(run *metrics.Run) {
	if !t.Part.Split() || t.name != "" {
		return
	}
	const many = 1 << 20
	run.Requested, run.MaxConcurrency = t.load.expect, t.load.plan.Slots
	run.RequestRate *= float64(t.share().Count(many)) / many
}

// makes says which requests are made here; nil means all.
func (t *tenant) makes() func(int) bool {
	switch {
	case t.Drive != nil:
		return deal.Nobody().Has
	case t.Part.Split() && t.name == "":
		return t.share().Has
	}
	return nil
}

// dealTenants leaves the tenants that are this worker's.
func (s *session) dealTenants() {
	if s.Part.Split() {
		s.tenants = slices.DeleteFunc(s.tenants, func(t *tenant) bool { return !s.Part.Share(0).Has(t.place) })
	}
}

// idle is ErrIdle where this worker has none of the load's requests.
func (t *tenant) idle(l *load) error {
	if n := l.source.Count(); t.nothing(t.share(), n) {
		return fmt.Errorf("%w: it is worker %s, of %d requests and %d slots (0: no bound)", ErrIdle, t.Part, n, t.slots())
	}
	return nil
}

// nothing reports whether a share has none of n requests, 0 being no bound, and none of the warm-ups.
func (t *tenant) nothing(s deal.Share, n int) bool {
	return s.Idle() || n > 0 && s.Count(n) == 0 && s.Count(t.Config.Load.NumWarmups) == 0
}

// taught takes from the coordinator how the server wants to be asked.
func (s *session) taught() error {
	if s.Bodies == nil {
		return nil
	}
	for _, t := range s.tenants {
		if t.place >= len(s.Bodies) {
			return fmt.Errorf("the coordinator says how to ask for %d tenants, and this is number %d", len(s.Bodies), t.place+1)
		}
		t.target.client.Body = s.Bodies[t.place]
		t.client.SetBody(t.target.client.Body)
	}
	return nil
}

// Worker is what a worker's run says of itself; its figures come from the records.
func (o *Outcome) Worker() result.Worker { return o.worker }

// worker sums up how this process fared as one of several.
func (s *session) worker(res driver.Result) result.Worker {
	host := probe.ReadHost(s.Version)
	w := result.Worker{
		Name: s.Worker, Host: host.Name, Version: s.Version, Cores: host.Cores, Part: s.Part, State: result.WorkerFinished,
		Start: call.Unset, Measure: call.Unset, End: res.End, Stopped: res.Stopped, Aborted: res.Aborted, Refusal: res.Refusal,
	}
	for _, t := range s.tenants {
		w.Start, w.Refusal = t.res.Start, cmp.Or(w.Refusal, t.res.Refusal)
		w.Starved += t.res.Starved
		if m := t.res.Measure; m != call.Unset && (w.Measure == call.Unset || m < w.Measure) {
			w.Measure = m
		}
	}
	if res.Stopped || res.Aborted != "" {
		w.State = result.WorkerStopped
	}
	w.Skew, w.Self = s.skew(), s.self
	return w
}

// skew is how late the first request left.
func (s *session) skew() (late time.Duration) {
	first := time.Duration(math.MaxInt64)
	for r := range s.memory.All() {
		if r.Phase != call.Probe && r.Dispatched != call.Unset && r.Due >= s.tenants[0].res.Start && r.Due < first {
			first, late = r.Due, r.Dispatched-r.Due
		}
	}
	return late
}
