// Package driver sends requests when they are due. It takes requests from a workload, due times from
// a schedule's plan, sends through a Doer (the client) and hands every record to a recorder sink. It
// owns all goroutines of a run and waits for them, and it counts the fate of every request.
//
// Read Run first, then pacer_linux.go.
package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"spate/internal/call"
	"spate/internal/call/recorder"
	"spate/internal/load/schedule"
	"spate/internal/load/workload"
)

// Doer makes one attempt at a request. A failed attempt is an outcome in the record, not an error.
type Doer interface {
	Prepare(r *call.Request) error
	Do(ctx context.Context, r *call.Request) call.Record
}

// Config is one run of the driver.
type Config struct {
	Plan    schedule.Plan
	Source  workload.Source
	Doer    Doer
	Sink    recorder.Sink
	Clock   call.Clock
	Retries int           // further attempts at a failed request
	Timeout time.Duration // of a request with all its attempts and the waits between them; 0: none
	Grace   time.Duration // for requests in flight after Plan.Until or Stop; negative means for ever
	Abort   Abort         // when failures end the run
	Ahead   int           // requests encoded ahead of their due time

	Warmup *Warmup // sent first, and handed over to the measured requests without draining

	// Stop, when closed, ends sending; requests in flight have Grace to finish. Canceling the context
	// given to Run gives those up at once.
	Stop <-chan struct{}
	// Settle, if set, completes a record before it is kept, such as counting tokens.
	Settle func(*call.Record)
	// Live, if set, is kept up to date for a progress view.
	Live *Live
	// Began, if set, is told once when Result.Start is known, or Result.Measure where that is later: with
	// a warm-up in a closed loop. Requests wait until it returns.
	Began func(at time.Duration)
	// Begin, if set, is asked for Result.Start once requests lie ready, and may wait: several drivers
	// that are to start together are given one time. It may be still to come: nothing leaves before it. After an error
	// nothing is sent.
	Begin func(context.Context) (time.Duration, error)
}

// Warmup are requests that take the first places of the plan. In an open loop there are N of them and
// the plan's first N due times are theirs; in a closed loop they end after N, or after For where that
// is set.
type Warmup struct {
	Source workload.Source
	N      int
	For    time.Duration
	// Fixed begins the time of a closed loop For after the start, and not with the first measured request, which each
	// of several drivers lets go at another moment: so that they end together.
	Fixed bool
}

// Live are counters that may be read while the driver runs.
type Live struct {
	Due, Sent, Done, Queued atomic.Int64
	InFlight, MaxInFlight   atomic.Int64
}

// Result is what the driver itself knows of a run; the rest is in the records.
type Result struct {
	Tally   call.Tally
	Start   time.Duration // just before the first dispatch
	Measure time.Duration // when the first measured request was let go; Start without a warm-up
	End     time.Duration // after the last record
	Starved int           // dispatches that had to wait for the workload to make a request
	Stopped bool          // ended by Stop or by the context, before the plan's end
	Aborted string        // why failures ended it; empty where they did not
	Refusal int           // the HTTP status of the last of those failures, 0 where it had none
}

// item is a request on its way to a worker.
type item struct {
	req        call.Request
	seq        int // how many were let go before it
	due        time.Duration
	dispatched time.Duration
}

// run is the state of one Run.
type run struct {
	cfg   Config
	live  *Live
	main  *feed
	warm  *feed           // nil without a warm-up
	queue queue           // due, waiting for a slot
	ctx   context.Context // of requests in flight
	stop  <-chan struct{} // closed when sending ends

	mu      sync.Mutex
	tally   call.Tally
	sinkErr error
	starved int
	warmed  int           // warm-up requests let go
	measure time.Duration // first measured dispatch, or call.Unset

	measuring chan struct{} // closed at the first measured dispatch
	timeUp    atomic.Bool   // sending ended because the plan's time is over

	failures failures
	aborted  chan struct{} // closed when failures end the run
	why      string        // with refusal under mu
	refusal  int
}

// feed keeps encoded requests of one source ready ahead of their due time.
type feed struct {
	source workload.Source
	limit  int               // 0 for no bound
	ready  chan call.Request // in order; closed at the end
	primed chan struct{}     // closed when the look-ahead is full or the source has ended
	err    error             // read after ready is closed

	held  atomic.Int64  // bytes encoded and not taken
	taken chan struct{} // has something when a request was taken since a look
}

// maxHeld bounds the bytes encoded ahead; one request is always kept ready, whatever its size.
const maxHeld = 256 << 20

func newFeed(src workload.Source, limit, ahead int) *feed {
	return &feed{source: src, limit: limit, ready: make(chan call.Request, ahead), primed: make(chan struct{}), taken: make(chan struct{}, 1)}
}

// Run sends the whole plan and returns when the sink has the last record.
func Run(ctx context.Context, cfg Config) (Result, error) {
	if cfg.Live == nil {
		cfg.Live = &Live{}
	}
	if cfg.Ahead <= 0 {
		cfg.Ahead = 256
	}
	flight, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &run{cfg: cfg, live: cfg.Live, ctx: flight, measure: call.Unset, measuring: make(chan struct{}), aborted: make(chan struct{})}
	r.failures.rule = cfg.Abort
	r.queue.more = sync.NewCond(&r.queue.mu)
	stopFeeds := r.startFeeds(ctx)

	res := Result{Start: cfg.Clock.Now()}
	if cfg.Begin != nil {
		var err error
		if res.Start, err = cfg.Begin(ctx); err != nil {
			return Result{}, errors.Join(err, stopFeeds())
		}
	}
	stop, disarm := r.stopper(ctx, res.Start, cancel)
	r.stop = stop
	if cfg.Plan.Due != nil || r.warm == nil {
		r.began(res.Start)
	}
	if cfg.Plan.Due == nil {
		r.closedLoop(stop, res.Start)
	} else {
		r.openLoop(stop, res.Start)
	}
	res.Stopped = disarm()
	err := stopFeeds()
	res.End = cfg.Clock.Now()
	res.Tally, res.Starved, res.Measure = r.tally, r.starved, r.measure
	res.Aborted, res.Refusal = r.why, r.refusal
	if r.warm == nil {
		res.Measure = res.Start
	}
	return res, errors.Join(err, r.sinkErr)
}

// startFeeds starts the makers of requests and waits until their look-ahead is full, so that making
// prompts does not compete with the start of the run. The returned function ends them and reports
// what went wrong in them.
func (r *run) startFeeds(ctx context.Context) (stop func() error) {
	feeding, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	r.main = newFeed(r.cfg.Source, r.cfg.Plan.N, r.cfg.Ahead)
	feeds := []*feed{r.main}
	if w := r.cfg.Warmup; w != nil {
		if r.cfg.Plan.Due != nil && r.main.limit > 0 {
			r.main.limit -= w.N
		}
		r.warm = newFeed(w.Source, w.N, r.cfg.Ahead)
		feeds = append(feeds, r.warm)
	}
	for _, f := range feeds {
		wg.Go(func() { f.fill(feeding, r.cfg.Doer) })
	}
	for _, f := range feeds {
		select {
		case <-f.primed:
		case <-ctx.Done():
		case <-r.cfg.Stop:
		}
	}
	return func() error {
		cancel()
		var errs error
		for _, f := range feeds {
			for range f.ready { // free a feed that waits for room
			}
			if f.err != nil && !errors.Is(f.err, context.Canceled) {
				errs = errors.Join(errs, fmt.Errorf("make requests: %w", f.err))
			}
		}
		wg.Wait()
		return errs
	}
}

// stopper closes the returned channel when sending must end: by the user's word, the plan's time bound
// or failures. It also ends the grace period of what is then in flight; after failures there is none.
// disarm releases it and reports whether the run was stopped by the user.
func (r *run) stopper(ctx context.Context, start time.Duration, cancel context.CancelCauseFunc) (stop chan struct{}, disarm func() bool) {
	stop = make(chan struct{})
	quit := make(chan struct{})
	var user bool
	var wg sync.WaitGroup
	wg.Go(func() {
		cause := call.ErrCutoff
		switch r.await(ctx, start, quit) {
		case overQuit:
			return
		case overUser:
			user, cause = true, call.ErrInterrupted
		case overTime:
			r.timeUp.Store(true)
		case overFailed:
			close(stop)
			cancel(call.ErrAborted)
			return
		}
		close(stop)
		var graceOver <-chan time.Time
		if r.cfg.Grace >= 0 {
			graceOver = time.After(r.cfg.Grace)
		}
		select {
		case <-quit:
		case <-r.aborted:
			cancel(call.ErrAborted)
		case <-graceOver:
			cancel(cause)
		}
	})
	return stop, func() bool {
		close(quit)
		wg.Wait()
		return user
	}
}

// over says why waiting for the end of sending ended.
type over int

const (
	overTime over = iota
	overUser
	overFailed
	overQuit
)

// await waits for the end of sending. A closed loop's time begins with its first measured request,
// so that a warm-up takes nothing from it; an open loop's warm-up is part of its schedule.
func (r *run) await(ctx context.Context, start time.Duration, quit <-chan struct{}) over {
	var begin <-chan struct{}
	var until <-chan time.Time
	arm := func() {
		if r.cfg.Plan.Until > 0 {
			until = time.After(start + r.cfg.Plan.Until - r.cfg.Clock.Now())
		}
	}
	w := r.cfg.Warmup
	switch {
	case r.cfg.Plan.Due != nil || w == nil:
		arm()
	case w.Fixed:
		start += w.For
		arm()
	default:
		begin = r.measuring
	}
	for {
		select {
		case <-begin:
			r.mu.Lock()
			begin, start = nil, r.measure
			r.mu.Unlock()
			arm()
		case <-quit:
			return overQuit
		case <-ctx.Done():
			return overUser
		case <-r.cfg.Stop:
			return overUser
		case <-r.aborted:
			return overFailed
		case <-until:
			return overTime
		}
	}
}

func (f *feed) fill(ctx context.Context, doer Doer) {
	defer close(f.ready)
	prime := sync.OnceFunc(func() { close(f.primed) })
	defer prime()
	for n := 0; f.limit == 0 || n < f.limit; n++ {
		if n == cap(f.ready) {
			prime()
		}
		req, err := f.source.Next(ctx)
		if err == nil {
			err = doer.Prepare(&req)
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			f.err = err
			return
		}
		f.held.Add(int64(len(req.Body)))
		select {
		case f.ready <- req:
		case <-ctx.Done():
			return
		}
		for f.held.Load() >= maxHeld {
			prime()
			select {
			case <-f.taken:
			case <-ctx.Done():
				return
			}
		}
	}
}

// took counts a request that was taken out of ready.
func (f *feed) took(req *call.Request) {
	f.held.Add(-int64(len(req.Body)))
	select {
	case f.taken <- struct{}{}:
	default:
	}
}

func stopped(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// closedLoop keeps every slot busy: a request is due when its slot is free.
func (r *run) closedLoop(stop <-chan struct{}, start time.Duration) {
	if !r.reach(start, stop) {
		return
	}
	slots := max(1, r.cfg.Plan.Slots)
	var wg sync.WaitGroup
	for range slots {
		wg.Go(func() {
			for due := start; ; {
				req, ok := r.next(stop, start)
				if !ok {
					return
				}
				now := r.cfg.Clock.Now()
				if r.expired(&req, start, now) {
					return
				}
				due = r.serve(item{req: req, seq: r.noteDue(&req, now), due: due, dispatched: now})
			}
		})
	}
	wg.Wait()
}

// reach waits for a start that is still to come; false means that sending ended first.
func (r *run) reach(start time.Duration, stop <-chan struct{}) bool {
	if r.cfg.Clock.Now() >= start {
		return true
	}
	pace := newPacer(r.cfg.Clock)
	defer pace.close()
	return pace.until(start, stop)
}

// openLoop lets requests go at their due times, whatever the server does; a cap makes them wait in
// the client's queue, in order.
func (r *run) openLoop(stop <-chan struct{}, start time.Duration) {
	var wg sync.WaitGroup
	for range r.cfg.Plan.Slots {
		wg.Go(r.slot)
	}
	late := r.letGo(&wg, stop, start)
	r.dropAll(late, call.FaultCutoff, "the run's time was over before the client let it go")
	if stopped(stop) {
		r.dropQueued()
	} else {
		done := make(chan struct{})
		var watch sync.WaitGroup
		watch.Go(func() { // sending may still be stopped while queued requests wait for slots
			select {
			case <-stop:
				r.dropQueued()
			case <-done:
			}
		})
		r.queue.close(false)
		wg.Wait()
		close(done)
		watch.Wait()
	}
	wg.Wait()
}

// letGo follows the schedule to its end. What was due within the plan's time is due, also when the client
// was too late to let it go: that is returned. The user's word ends the schedule where it is. Where gaps are
// slept, lateness moves everything that follows, as it does in clients that sleep between two sends.
func (r *run) letGo(wg *sync.WaitGroup, stop <-chan struct{}, start time.Duration) (late []item) {
	pace := newPacer(r.cfg.Clock)
	defer pace.close()
	var drift time.Duration
	for due := range r.cfg.Plan.Due {
		due += start + drift
		if drift > 0 && r.cfg.Plan.Until > 0 && due >= start+r.cfg.Plan.Until {
			break // it would have been due in time, had nothing been late
		}
		req, ok := r.draw(stop, start)
		if !ok {
			break
		}
		let := pace.until(due, stop)
		if !let && !r.timeUp.Load() {
			break
		}
		now := r.cfg.Clock.Now()
		if r.cfg.Plan.Slept {
			drift += now - due
		}
		it := item{req: req, seq: r.noteDue(&req, now), due: due, dispatched: now}
		switch {
		case !let:
			late = append(late, it)
		case r.cfg.Plan.Slots > 0:
			r.live.Queued.Add(1)
			r.queue.push(it)
		default:
			wg.Go(func() { r.serve(it) })
		}
	}
	return late
}

// next takes the next encoded request, from the warm-up while that lasts; it counts when there was
// none ready.
func (r *run) next(stop <-chan struct{}, start time.Duration) (call.Request, bool) {
	if stopped(stop) || stopped(r.aborted) {
		return call.Request{}, false
	}
	return r.draw(stop, start)
}

// draw is next, without a look at stop unless it would have to wait.
func (r *run) draw(stop <-chan struct{}, start time.Duration) (call.Request, bool) {
	if r.warming(start) {
		if req, ok := r.take(r.warm, stop); ok || stopped(stop) {
			req.Phase = call.Warmup
			return req, ok
		}
	}
	req, ok := r.take(r.main, stop)
	req.Phase = call.Measure
	return req, ok
}

// warming claims a warm-up request, if one is still to be sent.
func (r *run) warming(start time.Duration) bool {
	w := r.cfg.Warmup
	if w == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.N > 0 && r.warmed >= w.N || w.For > 0 && r.cfg.Clock.Now()-start >= w.For {
		return false
	}
	r.warmed++
	return true
}

func (r *run) take(f *feed, stop <-chan struct{}) (call.Request, bool) {
	select {
	case req, ok := <-f.ready:
		f.took(&req)
		return req, ok
	default:
	}
	r.mu.Lock()
	r.starved++
	r.mu.Unlock()
	select {
	case req, ok := <-f.ready:
		f.took(&req)
		return req, ok
	case <-stop:
		return call.Request{}, false
	}
}

// expired reports whether a closed loop's time is over. Whoever ends sending then may wake late, and
// no request is let go for that.
func (r *run) expired(req *call.Request, start, now time.Duration) bool {
	if r.cfg.Plan.Until <= 0 || req.Phase != call.Measure {
		return false
	}
	switch w := r.cfg.Warmup; {
	case w != nil && w.Fixed:
		start += w.For
	case w != nil:
		r.mu.Lock()
		defer r.mu.Unlock()
		if start = r.measure; start == call.Unset {
			return false
		}
	}
	return now >= start+r.cfg.Plan.Until
}

// noteDue counts a request that is let go, and returns how many were before it.
func (r *run) noteDue(req *call.Request, now time.Duration) (before int) {
	r.live.Due.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	before = r.tally.Due
	r.tally.Due++
	if req.Phase != call.Measure {
		return before
	}
	if r.measure == call.Unset {
		close(r.measuring)
		r.measure = now
		if r.cfg.Plan.Due == nil && r.warm != nil {
			r.began(now)
		}
	}
	r.measure = min(r.measure, now)
	return before
}

func (r *run) began(at time.Duration) {
	if r.cfg.Began != nil {
		r.cfg.Began(at)
	}
}

// slot serves queued requests one after the other.
func (r *run) slot() {
	for {
		it, ok := r.queue.pop()
		if !ok {
			return
		}
		r.live.Queued.Add(-1)
		r.serve(it)
	}
}

// maxRetryWait bounds how long a server's Retry-After delays the next attempt.
const maxRetryWait = 30 * time.Second

// send sends one request, and again while it fails and attempts and time are left; each attempt is a
// record. It returns when the last one ended, and what the answer leads to.
func (r *run) send(it item) (end time.Duration, turns []workload.Turn) {
	n := r.live.InFlight.Add(1)
	for m := r.live.MaxInFlight.Load(); n > m && !r.live.MaxInFlight.CompareAndSwap(m, n); m = r.live.MaxInFlight.Load() {
	}
	defer r.live.InFlight.Add(-1)
	ctx, giveUp := r.ctx, func() {}
	if r.cfg.Retries > 0 {
		var cancel context.CancelFunc
		ctx, cancel, giveUp = r.bounded()
		defer cancel()
	}
	for attempt := 0; ; attempt++ {
		it.req.Attempt = attempt
		started := r.cfg.Clock.Now()
		r.live.Sent.Add(1)
		rec := r.cfg.Doer.Do(ctx, &it.req)
		rec.Due, rec.Dispatched, rec.Started = it.due, it.dispatched, started
		wait := min(rec.RetryWait, maxRetryWait)
		rec.Retried = rec.Outcome == call.Failed && attempt < r.cfg.Retries && ctx.Err() == nil && inTime(ctx, &rec, wait)
		again := rec.Retried
		end = rec.End
		turns = r.follow(&rec) // before the text is let go
		r.keep(&rec)
		r.look(it.seq, &rec)
		if !again {
			return end, turns
		}
		select {
		case <-time.After(wait):
		case <-r.stop: // the attempt that was promised becomes the record of being given up
			giveUp()
		case <-ctx.Done():
		}
	}
}

// bounded is the context of one request with all its attempts and the waits between them. giveUp ends it
// for the reason that sending has ended.
func (r *run) bounded() (ctx context.Context, cancel context.CancelFunc, giveUp func()) {
	ctx, end := context.WithCancelCause(r.ctx)
	cancel = func() { end(nil) }
	giveUp = func() {
		if r.timeUp.Load() {
			end(call.ErrCutoff)
		}
		end(call.ErrInterrupted)
	}
	if r.cfg.Timeout <= 0 {
		return ctx, cancel, giveUp
	}
	ctx, stop := context.WithTimeoutCause(ctx, r.cfg.Timeout, fmt.Errorf("%w after %v with all its attempts (--request-timeout)", call.ErrTimeout, r.cfg.Timeout))
	return ctx, func() { stop(); end(nil) }, giveUp
}

// inTime reports whether the time of a request allows for another attempt after a wait, and says so in
// the record where it does not.
func inTime(ctx context.Context, rec *call.Record, wait time.Duration) bool {
	deadline, ok := ctx.Deadline()
	if !ok || time.Until(deadline) > wait {
		return true
	}
	rec.Err += fmt.Sprintf(" (not sent again: a wait of %v is beyond --request-timeout)", wait)
	return false
}

// look ends the run when too much has failed.
func (r *run) look(seq int, rec *call.Record) {
	why := r.failures.add(seq, rec)
	if why == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.why == "" {
		r.why, r.refusal = why, rec.Status
		close(r.aborted)
	}
}

// dropQueued drops what waits for a slot.
func (r *run) dropQueued() {
	items := r.queue.close(true)
	r.live.Queued.Add(int64(-len(items)))
	if r.timeUp.Load() {
		r.dropAll(items, call.FaultCutoff, "the run's time was over while it waited for a concurrency slot")
		return
	}
	r.dropAll(items, call.FaultStopped, "not sent: the run was stopped while it waited for a concurrency slot")
}

// dropAll records requests that were due and never left.
func (r *run) dropAll(items []item, fault call.Fault, why string) {
	now := r.cfg.Clock.Now()
	for _, it := range items {
		rec := call.NewRecord(&it.req)
		rec.Due, rec.Dispatched, rec.End = it.due, it.dispatched, now
		rec.Outcome, rec.Fault, rec.Err = call.Dropped, fault, why
		r.keep(&rec)
	}
}

// keep hands a record on and counts its fate.
func (r *run) keep(rec *call.Record) {
	if r.cfg.Settle != nil {
		r.cfg.Settle(rec)
	}
	r.live.Done.Add(1)
	err := r.cfg.Sink.Record(rec)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tally.Add(rec)
	if err != nil && r.sinkErr == nil {
		r.sinkErr = fmt.Errorf("keep records: %w", err)
	}
}
