package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"spate/internal/bench"
	"spate/internal/call"
	"spate/internal/fleet/link"
	"spate/internal/fleet/parcel"
	"spate/internal/fleet/wire"
	"spate/internal/load/deal"
	"spate/internal/result"
	"spate/internal/settings/config"
	"spate/internal/view/live"
)

// run is a load that is being sent.
type run struct {
	*Fleet
	id    string
	cfg   *config.Bench
	in    bench.DriveInput
	parts []*part
	inbox *link.Inbox
	seen  *seen

	settings json.RawMessage
	sealed   *parcel.Sealed

	mu      sync.Mutex
	pulse   wire.Pulse
	changed chan struct{} // has something when a part changed
	refused atomic.Int64  // what workers sent that is no record
}

// part is a worker's part as the coordinator sees it.
type part struct {
	hello wire.Hello
	index deal.Part
	state string
	ready bool
	idle  bool
	lost  bool
	trip  time.Duration // the worker's round trip
	heard time.Time
	beat  wire.Beat
	done  *wire.Done
	why   string
}

// Stages of a part, as the live view shows them.
const (
	preparing = "preparing"
	ready     = "ready"
	sending   = "sending"
	suspected = "not heard"
	lost      = "lost"
	finished  = "done"
	idle      = "idle"
)

// Drive has the load of a run sent by the fleet's workers. It is bench.Workers.Drive for the run with these settings.
func (f *Fleet) Drive(cfg *config.Bench) func(context.Context, bench.DriveInput) (bench.Driven, error) {
	return func(ctx context.Context, in bench.DriveInput) (bench.Driven, error) {
		r := &run{Fleet: f, id: runID(), cfg: cfg, in: in, seen: newSeen(), changed: make(chan struct{}, 1)}
		return r.drive(ctx)
	}
}

func (r *run) drive(ctx context.Context) (bench.Driven, error) {
	starting, cancel := untilStopped(ctx, r.in.Stop)
	defer cancel()
	if err := r.gather(starting); err != nil {
		return bench.Driven{}, err
	}
	done, err := r.listen(ctx)
	if err != nil {
		return bench.Driven{}, err
	}
	defer done()
	start, err := r.launch(starting)
	if err != nil {
		r.say(func(p *wire.Pulse) { p.Over = true })
		return bench.Driven{}, errors.Join(err, r.link.DropRun(context.WithoutCancel(ctx), r.id))
	}
	return r.follow(ctx, start)
}

// untilStopped is a context that the user's word ends, too.
func untilStopped(ctx context.Context, stop <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-stop:
			cancel(call.ErrInterrupted)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// gather chooses the workers.
func (r *run) gather(ctx context.Context) error {
	workers, err := r.choose(ctx)
	if err != nil {
		return err
	}
	for i, h := range workers {
		p := &part{hello: h, index: deal.Part{Index: i, Of: len(workers)}, state: preparing, heard: time.Now()}
		if r.in.Idle != nil && r.in.Idle(p.index) {
			p.idle, p.state = true, idle
		}
		r.parts = append(r.parts, p)
	}
	return r.link.CreateRun(ctx, r.id)
}

// listen answers for the time and for secrets, and takes what workers say, until done is called.
func (r *run) listen(ctx context.Context) (done func(), err error) {
	settings, sealed, err := parcel.Pack(r.cfg, r.in.Bodies)
	if err != nil {
		return nil, err
	}
	r.settings, r.sealed = settings, sealed
	var subs []*nats.Subscription
	end := func() {
		for _, s := range subs {
			_ = s.Unsubscribe() // the connection ends it, too
		}
	}
	for subject, take := range map[string]nats.MsgHandler{
		wire.Secrets(r.id): r.tellSecrets, wire.Readies(r.id, "*"): r.takeReady, wire.Beats(r.id, "*"): r.takeBeat,
	} {
		s, err := r.link.NC.Subscribe(subject, take)
		if err != nil {
			end()
			return nil, fmt.Errorf("listen to workers: %w", err)
		}
		subs = append(subs, s)
	}
	quiet, err := r.link.TellTime(r.id, r.in.Clock)
	if err != nil {
		end()
		return nil, err
	}
	names := make([]string, len(r.parts))
	for i, p := range r.parts {
		names[i] = p.hello.Worker
	}
	r.inbox, err = r.link.OpenInbox(ctx, r.id, link.Arrivals{Names: names, Record: r.takeRecord, Done: r.takeDone, Bad: r.takeBad})
	if err != nil {
		end()
		quiet()
		return nil, err
	}
	beating, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { r.beat(beating) })
	return func() {
		stop()
		wg.Wait()
		quiet()
		end()
		r.inbox.Close()
	}, nil
}

// launch hands the parts out, waits until all are ready, and gives them one start.
func (r *run) launch(ctx context.Context) (start time.Duration, err error) {
	if err := r.keepPlan(ctx); err != nil {
		return 0, err
	}
	if err := r.handOut(ctx); err != nil {
		return 0, err
	}
	if err := r.untilReady(ctx); err != nil {
		return 0, err
	}
	start = r.in.Clock.Now() + r.lead()
	r.in.Began(start)
	r.say(func(p *wire.Pulse) { p.Start = &start })
	return start, nil
}

// How far ahead the start is: enough for the word of it to come everywhere, several times over.
const (
	leastLead = 300 * time.Millisecond
	leadTrips = 10
)

func (r *run) lead() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	lead := leastLead
	for _, p := range r.parts {
		lead = max(lead, leadTrips*p.trip)
	}
	return lead
}

// handOut gives every worker its part.
func (r *run) handOut(ctx context.Context) error {
	files, err := r.files(ctx)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make([]error, len(r.parts))
	for i, p := range r.parts {
		if p.idle {
			continue
		}
		j := &wire.Job{
			Run: r.id, Version: r.Version, Protocol: wire.Protocol, Part: i, Of: len(r.parts), Worker: p.hello.Worker,
			Config: r.settings, Files: files,
		}
		if err := r.seal(j); err != nil {
			return err
		}
		wg.Go(func() { errs[i] = r.offer(ctx, j) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// seal says how a worker gets what must not be kept: it asks, or has a key of its own where others could read the answer.
func (r *run) seal(j *wire.Job) (err error) {
	open := r.sealed
	if parcel.Secret(r.cfg) {
		if j.Secrets = r.link.Private(); j.Secrets {
			return nil
		}
		if open, err = parcel.WithoutKey(r.cfg, r.sealed); err != nil {
			return err
		}
		j.OwnKey = true
	}
	j.Sealed, err = json.Marshal(open) //nolint:gosec // no secret is in it
	return err
}

// offer gives a worker its job.
func (r *run) offer(ctx context.Context, j *wire.Job) error {
	ctx, cancel := context.WithTimeout(ctx, lostAfter)
	defer cancel()
	var a wire.Answer
	if err := link.Ask(ctx, r.link, wire.WorkerJob(j.Worker), j, &a); err != nil {
		return fmt.Errorf("worker %s does not take its part: %w", j.Worker, err)
	}
	if !a.OK {
		return fmt.Errorf("worker %s does not take its part: %s", j.Worker, a.Why)
	}
	return nil
}

// files are those that the settings name, for workers of other hosts.
func (r *run) files(ctx context.Context) ([]wire.File, error) {
	if r.broker != nil {
		return nil, nil // the same disk
	}
	return parcel.Files(ctx, r.link, r.cfg, r.Places)
}

// untilReady waits for all parts; one that cannot be made ends the run.
func (r *run) untilReady(ctx context.Context) error {
	for {
		if wait, err := r.lookReady(); err != nil || !wait {
			return err
		}
		select {
		case <-r.changed:
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (r *run) lookReady() (wait bool, err error) {
	since := r.upSince()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.parts {
		switch {
		case p.idle || p.ready:
		case p.why != "":
			return false, fmt.Errorf("worker %s: %s", p.hello.Worker, p.why)
		case r.gone(p, since):
			return false, fmt.Errorf("worker %s was lost before the start", p.hello.Worker)
		default:
			wait = true
		}
		r.row(p)
	}
	return wait, nil
}

// keepPlan stores what the run is, for spate fleet collect.
func (r *run) keepPlan(ctx context.Context) error {
	p := &wire.Plan{Run: r.id, Version: r.Version, Of: len(r.parts), Host: r.Host}
	for _, one := range r.parts {
		p.Workers = append(p.Workers, one.hello.Worker)
	}
	var err error
	if p.Result, err = r.leave(); err != nil {
		return err
	}
	if p.Folder = r.in.Folder; p.Folder != "" {
		if abs, err := filepath.Abs(p.Folder); err == nil {
			p.Folder = abs
		}
	}
	return r.link.Keep(ctx, wire.PlanOf(r.id), r.id+".plan", p)
}

// say changes what the pulse says, and says it at once.
func (r *run) say(change func(*wire.Pulse)) {
	r.mu.Lock()
	change(&r.pulse)
	p := r.pulse
	r.mu.Unlock()
	_ = r.link.Tell(wire.Pulses(r.id), &p) // said again in a moment
}

// beat says how the run stands, again and again.
func (r *run) beat(ctx context.Context) {
	tick := time.NewTicker(pulseEvery)
	defer tick.Stop()
	for {
		r.say(func(*wire.Pulse) {})
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// row shows a part in the live view; r.mu is held.
func (r *run) row(p *part) {
	if r.in.Row == nil {
		return
	}
	r.in.Row(live.Worker{
		Name: p.hello.Worker, State: p.state, Due: int(p.beat.Due), Sent: int(p.beat.Sent), Done: int(p.beat.Done), InFlight: int(p.beat.InFlight),
	})
}

// conclude is what the run came to.
func (r *run) conclude(start time.Duration, stopped bool) bench.Driven {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := bench.Driven{Start: start, End: r.in.Clock.Now(), Stopped: stopped}
	for _, p := range r.parts {
		w := p.report(start)
		d.Workers = append(d.Workers, w)
		if w.Aborted != "" && d.Aborted == "" {
			d.Aborted, d.Refusal = fmt.Sprintf("worker %s: %s", w.Name, w.Aborted), w.Refusal
		}
	}
	return d
}

// report is a part as the result has it.
func (p *part) report(start time.Duration) result.Worker {
	w := result.Worker{
		Name: p.hello.Worker, Host: p.hello.Host, Version: p.hello.Version, Cores: p.hello.Cores, Part: p.index,
		State: result.WorkerFinished, Start: start, Measure: call.Unset, End: call.Unset,
	}
	if p.done != nil && len(p.done.Report) > 0 {
		var own result.Worker
		if json.Unmarshal(p.done.Report, &own) == nil {
			own.Name, own.Host, own.Version, own.Cores, own.Part = w.Name, w.Host, w.Version, w.Cores, w.Part // the coordinator's word
			w = own
		}
	}
	switch {
	case p.idle:
		w.State = result.WorkerIdle
	case p.missing():
		w.State = result.WorkerLost
	}
	return w
}

// missing reports a part of which requests may be lost: its worker is gone, or stopped by itself.
func (p *part) missing() bool {
	return !p.idle && (p.done == nil || p.done.Alone || p.done.Why != "" || p.done.Missing > 0)
}
