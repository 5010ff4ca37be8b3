// Package worker sends the parts of runs that coordinators hand out. It dials out to the broker, says who it is when
// asked, takes one job at a time, makes an ordinary run of its part with package bench, and delivers the records.
//
// Read Serve first, then job.go, which follows one job from its settings to its end.
package worker

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"spate/internal/fleet/leftover"
	"spate/internal/fleet/link"
	"spate/internal/fleet/wire"
	"spate/internal/host/probe"
)

// Options are what a worker is.
type Options struct {
	Link    *link.Link
	Name    string // no other worker of the fleet has it
	Host    string
	Version string // of spate
	Dir     string // where it keeps logs and files
	Getenv  func(string) string
	Home    string
	Note    func(format string, args ...any) // told what happens
}

// Worker serves a fleet.
type Worker struct {
	Options
	mu       sync.Mutex
	run      string // it works on; empty: none
	runs     int    // finished
	waiting  int    // that could not be delivered yet
	draining bool
	drained  chan struct{} // closed when it is to end after its job
	wait     sync.WaitGroup
}

// Serve works until the context ends, or until it was drained.
func Serve(ctx context.Context, opt Options) error {
	w := &Worker{Options: opt, drained: make(chan struct{})}
	if err := os.MkdirAll(w.Dir, 0o700); err != nil {
		return fmt.Errorf("make the worker's folder: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer w.wait.Wait()
	defer cancel()
	var subs []*nats.Subscription
	defer func() {
		for _, s := range subs {
			_ = s.Unsubscribe() // the connection ends it, too
		}
	}()
	for subject, answer := range map[string]nats.MsgHandler{
		wire.Who:                 func(m *nats.Msg) { link.Reply(m, w.hello()) },
		wire.WorkerJob(w.Name):   func(m *nats.Msg) { w.offer(ctx, m) },
		wire.WorkerClock(w.Name): link.TellWallClock,
		wire.WorkerDrain(w.Name): w.drain,
	} {
		sub, err := w.Link.NC.Subscribe(subject, answer)
		if err != nil {
			return fmt.Errorf("listen for work: %w", err)
		}
		subs = append(subs, sub)
	}
	w.wait.Go(func() { w.deliverLeftovers(ctx) })
	select {
	case <-ctx.Done():
	case <-w.drained:
	}
	return nil
}

func (w *Worker) hello() *wire.Hello {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := &wire.Hello{
		Worker: w.Name, Host: w.Host, Version: w.Version, Protocol: wire.Protocol, Cores: runtime.NumCPU(), PID: os.Getpid(),
		Run: w.run, Draining: w.draining, Runs: w.runs, Waiting: w.waiting,
	}
	if load, ok := probe.LoadAverage(); ok {
		h.Load = &load
	}
	return h
}

// drain takes no further jobs, and ends the worker when it has none. It answers first: who asked must hear it.
func (w *Worker) drain(m *nats.Msg) {
	w.mu.Lock()
	first := !w.draining
	idle := w.run == ""
	w.draining = true
	w.mu.Unlock()
	link.Reply(m, w.hello())
	if !first {
		return
	}
	w.Note("draining: no further runs are taken")
	if idle { // and stays so: it takes no job any more
		close(w.drained)
	}
}

// offer takes a job, or says why not.
func (w *Worker) offer(ctx context.Context, m *nats.Msg) {
	var j wire.Job
	if err := wire.Decode(m.Data, &j); err != nil {
		link.Reply(m, &wire.Answer{Why: bounded(err)})
		return
	}
	if why := w.take(&j); why != "" {
		link.Reply(m, &wire.Answer{Why: why})
		return
	}
	link.Reply(m, &wire.Answer{OK: true})
	w.wait.Go(func() {
		defer w.free()
		w.work(ctx, &j)
	})
}

// take makes a job the worker's own; why is why it does not.
func (w *Worker) take(j *wire.Job) (why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case j.Protocol != wire.Protocol || j.Version != w.Version:
		return fmt.Sprintf("worker %s is spate %s (protocol %d) and the coordinator is spate %s (protocol %d): use the same release on every host", w.Name, w.Version, wire.Protocol, j.Version, j.Protocol)
	case j.Worker != w.Name:
		return fmt.Sprintf("the job is for worker %s", j.Worker)
	case w.draining:
		return "it is draining"
	case w.run != "":
		return "it works on run " + w.run
	}
	w.run = j.Run
	return ""
}

func (w *Worker) free() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.run = ""
	w.runs++
	if w.draining {
		close(w.drained)
	}
}

// leftoverEvery is how often the worker looks for what it could not deliver.
const leftoverEvery = 2 * time.Second

// deliverLeftovers delivers what earlier connections and processes could not, when the broker is there.
func (w *Worker) deliverLeftovers(ctx context.Context) {
	look := func() {
		n, err := leftover.Deliver(ctx, w.Link, w.Dir, w.busyWith)
		if err != nil && ctx.Err() == nil {
			w.Note("records of earlier runs: %v", err)
		}
		w.mu.Lock()
		w.waiting = n
		w.mu.Unlock()
	}
	look()
	every(ctx, leftoverEvery, look)
}

// busyWith reports the run that is under way: its records are not left over.
func (w *Worker) busyWith(run string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.run == run
}

// bounded is an error as a message may carry it.
func bounded(err error) string {
	text := err.Error()
	return text[:min(len(text), wire.MaxText)]
}

// every calls f again and again until the context ends.
func every(ctx context.Context, d time.Duration, f func()) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f()
		}
	}
}
