package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"spate/internal/bench"
	"spate/internal/call"
	"spate/internal/fleet/clock"
	"spate/internal/fleet/leftover"
	"spate/internal/fleet/link"
	"spate/internal/fleet/parcel"
	"spate/internal/fleet/wire"
	"spate/internal/load/deal"
	"spate/internal/result"
	"spate/internal/safe/secret"
	"spate/internal/send/driver"
	"spate/internal/send/protocol"
	"spate/internal/settings/config"
)

// When a worker gives up.
const (
	beatEvery    = time.Second
	clockEvery   = 5 * time.Second
	aloneAfter   = 10 * time.Second // without a word of the coordinator: nobody would know what is sent
	deliverSoon  = 20 * time.Second // for the last records; then they wait on disk
	askAgain     = 500 * time.Millisecond
	answerWithin = 2 * time.Second
)

// job is a part of a run under way.
type job struct {
	*Worker
	*wire.Job
	kept *leftover.Run // on disk; nil: nothing yet
	own  call.Clock    // this process's
	run  call.Clock    // the coordinator's, as known here

	mu     sync.Mutex
	heard  time.Time // last word of the coordinator
	start  time.Duration
	begun  chan struct{} // closed when the start is known
	stop   chan struct{} // closed to end sending
	over   chan struct{} // closed when nobody waits any more
	cut    context.CancelCauseFunc
	alone  bool
	clocks []clock.Estimate

	live driver.Live
	out  *link.Outbox
}

var (
	errAlone = errors.New("the coordinator was not heard for 10 s")
	errOver  = errors.New("the coordinator ended the run")
)

// work does a job. Whatever goes wrong is told the coordinator.
func (w *Worker) work(ctx context.Context, j *wire.Job) {
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	t := &job{
		Worker: w, Job: j, own: call.NewClock(), heard: time.Now(), cut: cut,
		begun: make(chan struct{}), stop: make(chan struct{}), over: make(chan struct{}),
	}
	w.Note("run %s: part %d of %d", j.Run, j.Part+1, j.Of)
	sub, err := w.Link.NC.Subscribe(wire.Pulses(j.Run), t.pulse)
	if err != nil {
		w.Note("run %s: %v", j.Run, err)
		return
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection ends it, too
	beating, quiet := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer quiet()
	wg.Go(func() { every(beating, beatEvery, t.beat) })
	defer func() {
		if t.kept != nil {
			t.kept.Release()
		}
	}()
	if err := t.do(ctx); err != nil {
		w.Note("run %s: %v", j.Run, err)
		return
	}
	w.Note("run %s: done", j.Run)
}

// do prepares, runs and delivers.
func (t *job) do(ctx context.Context) error {
	cfg, bodies, err := t.prepare(ctx)
	if err != nil {
		return t.refuse(ctx, err)
	}
	t.out = t.Link.NewOutbox(t.Run, wire.Part(t.Part), t.sender(), cfg.Output.SaveDetailed)
	out, err := bench.Run(ctx, bench.Job{
		Config: cfg, Command: []string{"spate", "worker"}, Version: t.Version, Getenv: t.Getenv, Home: t.Home,
		Stdout: io.Discard, Stderr: io.Discard, Stop: t.stop, Live: &t.live, Sink: t.out,
		Workers: bench.Workers{Part: t.part(), Worker: t.Job.Worker, Clock: t.run, Begin: t.begin, Bodies: bodies},
	})
	if out == nil {
		_ = t.out.Close() // nothing was sent
		if errors.Is(err, bench.ErrIdle) {
			err = nil
		}
		select {
		case <-t.begun:
			return errors.Join(err, t.finish(nil, err))
		default:
			return t.refuse(ctx, err)
		}
	}
	defer func() { _ = out.Close() }() // nothing of it is needed any more
	own := out.Worker()
	return errors.Join(err, t.finish(&own, nil))
}

func (t *job) part() deal.Part { return deal.Part{Index: t.Part, Of: t.Of} }

// sender is a word for this process's messages.
func (t *job) sender() string { return fmt.Sprintf("%d-%d", os.Getpid(), t.own.Start().UnixNano()) }

// prepare makes the job's settings those of a run here, and sets the clock.
func (t *job) prepare(ctx context.Context) (*config.Bench, []protocol.Body, error) {
	est, err := t.Link.AskTime(ctx, t.Run, t.own.Now)
	if err != nil {
		return nil, nil, fmt.Errorf("the coordinator does not tell the time: %w", err)
	}
	t.clocks = append(t.clocks, est)
	t.run = call.ClockAt(t.own.Start().Add(-est.Offset))
	sealed, err := t.unseal(ctx)
	if err != nil {
		return nil, nil, err
	}
	cfg, err := parcel.Unpack(t.Config, sealed)
	if err != nil {
		return nil, nil, err
	}
	if t.OwnKey {
		if err := parcel.TakeKey(cfg, t.Getenv(parcel.KeyVariable)); err != nil {
			return nil, nil, err
		}
	}
	if t.kept, err = leftover.Keep(t.Dir, t.Job); err != nil {
		return nil, nil, err
	}
	if err := parcel.Fetch(ctx, t.Link, cfg, t.Files, filepath.Join(t.Dir, "files"), filepath.Join(t.kept.Dir, "files")); err != nil {
		return nil, nil, err
	}
	cfg.Output.UI, cfg.Output.NoOutput, cfg.Output.OutputDir = config.UINone, false, t.kept.Output()
	cfg.Output.SaveResult, cfg.Output.AppendResult, cfg.Output.PlotTimeline, cfg.Output.PlotDatasetStats = false, false, false, false
	return cfg, sealed.Bodies(), nil
}

// unseal gets what must not be kept: from this host's environment, or from the coordinator.
func (t *job) unseal(ctx context.Context) (*parcel.Sealed, error) {
	var s parcel.Sealed
	if !t.Secrets {
		if err := json.Unmarshal(t.Sealed, &s); err != nil {
			return nil, fmt.Errorf("the job: %w", err)
		}
		return &s, nil
	}
	if !t.Link.Private() {
		return nil, errors.New("the settings hold a key, and this worker's connection to the broker is not encrypted: join with tls://")
	}
	ctx, cancel := context.WithTimeout(ctx, aloneAfter)
	defer cancel()
	if err := link.Ask(ctx, t.Link, wire.Secrets(t.Run), &wire.Answer{OK: true}, &s); err != nil {
		return nil, fmt.Errorf("ask for the key: %w", err)
	}
	if s.No != "" {
		return nil, errors.New(s.No)
	}
	return &s, nil
}

// begin says that the part is ready, and waits for the common start.
func (t *job) begin(ctx context.Context) (time.Duration, error) {
	if est, err := t.Link.AskTime(ctx, t.Run, t.own.Now); err == nil {
		t.addClock(est)
	}
	ready := &wire.Ready{Worker: t.Job.Worker, Clock: t.clocks[0]}
	if err := t.tell(ctx, ready); err != nil {
		return 0, err
	}
	select {
	case <-t.begun:
	case <-t.over:
		return 0, errOver
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.start, nil
}

// tell repeats a Ready until the coordinator has it.
func (t *job) tell(ctx context.Context, r *wire.Ready) error {
	for {
		ask, cancel := context.WithTimeout(ctx, answerWithin)
		var a wire.Answer
		err := link.Ask(ask, t.Link, wire.Readies(t.Run, wire.Part(t.Part)), r, &a)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.over:
			return errOver
		case <-time.After(askAgain):
		}
		t.mu.Lock()
		silent := time.Since(t.heard)
		t.mu.Unlock()
		if silent > aloneAfter {
			return errAlone
		}
	}
}

// refuse says that a part cannot be made.
func (t *job) refuse(ctx context.Context, why error) error {
	if t.kept != nil {
		t.kept.Remove() // nothing was sent
	}
	if errors.Is(why, errOver) || errors.Is(why, errAlone) || ctx.Err() != nil {
		return why
	}
	text := secret.Text(bounded(why))
	return errors.Join(why, t.tell(ctx, &wire.Ready{Worker: t.Job.Worker, Why: text[:min(len(text), wire.MaxText)]}))
}

// pulse takes the coordinator's word on how the run stands.
func (t *job) pulse(m *nats.Msg) {
	var p wire.Pulse
	if wire.Decode(m.Data, &p) != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lonely() // words that waited while this process stood still do not make up for the time
	t.heard = time.Now()
	if p.Start != nil && !closed(t.begun) {
		t.start = *p.Start
		close(t.begun)
	}
	if p.Stop {
		shut(t.stop)
	}
	if p.Over {
		shut(t.over)
	}
	if p.Cut || p.Over {
		t.cut(call.ErrInterrupted)
	}
}

// beat says how the part goes, compares clocks now and then, and stops a part that nobody listens to.
func (t *job) beat() {
	b := &wire.Beat{
		Worker: t.Job.Worker, Due: t.live.Due.Load(), Sent: t.live.Sent.Load(), Done: t.live.Done.Load(), Queued: t.live.Queued.Load(),
		InFlight: max(0, t.live.InFlight.Load()),
	}
	t.mu.Lock()
	t.lonely()
	asked := time.Duration(-1)
	if n := len(t.clocks); n > 0 && closed(t.begun) && t.own.Now()-t.clocks[n-1].At > clockEvery {
		asked = t.clocks[n-1].At
	}
	t.mu.Unlock()
	_ = t.Link.Tell(wire.Beats(t.Run, wire.Part(t.Part)), b) // the next one says the same
	if asked < 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), beatEvery)
	defer cancel()
	if est, err := t.Link.AskTime(ctx, t.Run, t.own.Now); err == nil {
		t.addClock(est)
	}
}

// lonely stops a part whose coordinator was not heard for too long. t.mu is held.
func (t *job) lonely() {
	if time.Since(t.heard) <= aloneAfter || t.alone {
		return
	}
	t.alone = true
	shut(t.stop)
	if !closed(t.begun) {
		t.cut(errAlone)
	}
}

// addClock keeps an estimate. The first is the one the run's clock was set by.
func (t *job) addClock(e clock.Estimate) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clocks = append(t.clocks, e)
}

// finish delivers what is left and says that the part is over. What cannot be delivered now stays on disk.
func (t *job) finish(own *result.Worker, failed error) error {
	ctx, cancel := context.WithTimeout(context.Background(), deliverSoon)
	defer cancel()
	go func() { // the wait for a coordinator that is gone is short
		select {
		case <-t.over:
			cancel()
		case <-ctx.Done():
		}
	}()
	d := t.ending(ctx, own, failed)
	if err := t.kept.End(d); err != nil {
		t.Note("run %s: %v", t.Run, err)
	}
	err := t.out.Flush(ctx)
	_, _, left := t.out.Counts()
	_ = t.out.Close() // its error is Flush's
	if err == nil && left > 0 {
		_, err = t.kept.SendLog(ctx, t.Link, t.sender()+"-log")
	}
	if err == nil {
		err = t.kept.Done(ctx, t.Link, d)
	}
	if err == nil || errors.Is(err, link.ErrGone) {
		t.kept.Remove()
		return err
	}
	t.Note("run %s: its records wait in %s until they can be delivered (%v)", t.Run, t.kept.Dir, err)
	return nil
}

// ending is what is said of the part.
func (t *job) ending(ctx context.Context, own *result.Worker, failed error) *wire.Done {
	if est, err := t.Link.AskTime(ctx, t.Run, t.own.Now); err == nil {
		t.addClock(est)
	}
	made, _, _ := t.out.Counts()
	t.mu.Lock()
	defer t.mu.Unlock()
	d := &wire.Done{Worker: t.Job.Worker, Records: made, Alone: t.alone, Clock: clock.Judge(t.clocks)}
	if failed != nil {
		d.Why = bounded(failed)
	}
	if own != nil {
		own.Host, own.Version, own.Part = t.Host, t.Version, t.part()
		own.Cores = runtime.NumCPU()
		own.Clock = &result.WorkerClock{Offset: -d.Clock.Offset, DriftPPM: -d.Clock.Drift, Uncertainty: d.Clock.Uncertainty, Samples: d.Clock.Exchanges}
		d.Stopped = own.Stopped
		d.Report, _ = json.Marshal(own) // numbers and words
	}
	return d
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// shut closes a channel once; its owner's lock is held.
func shut(c chan struct{}) {
	if !closed(c) {
		close(c)
	}
}
