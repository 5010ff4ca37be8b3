// Package coordinator has a load sent by the workers of a fleet. Open finds them, or starts them on this host with a
// broker of its own; Drive takes the place of the driver in package bench: it hands out the parts, gives them one
// start, puts their records into the run, and says what of a lost worker is missing.
//
// Read Open, then drive.go; watch.go decides who is lost, collect.go finishes the run of a coordinator that died. serve.go
// and ask.go are the commands of `spate fleet`.
package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"spate/internal/fleet/broker"
	"spate/internal/fleet/link"
	"spate/internal/fleet/wire"
	"spate/internal/safe/secret"
	"spate/internal/token/tokenizer"
)

// Options say who works.
type Options struct {
	Join    *link.Join // the fleet's broker; nil: one in this process, with workers here
	Workers int        // how many
	Version string     // of spate
	Dir     string     // where an own broker and own workers keep what they have
	Host    string
	Program []string // starts a worker: the words before its flags
	Env     []string // of workers that are started
	Places  tokenizer.Places
	Note    func(format string, args ...any)
}

// Fleet is workers that are there for one or several runs.
type Fleet struct {
	Options
	link   *link.Link
	broker *broker.Broker
	join   link.Join
	own    []*process // workers of this host
	mu     sync.Mutex
	up     time.Time // since when the connection stands

	incomplete atomic.Bool // a run of it ended without all of its workers
}

// Open connects to a fleet, or makes one here.
func Open(ctx context.Context, opt Options) (*Fleet, error) {
	f := &Fleet{Options: opt, up: time.Now()}
	if opt.Join != nil {
		f.join = *opt.Join
		return f, f.dial()
	}
	if err := f.begin(ctx); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (f *Fleet) dial() (err error) {
	f.link, err = link.Dial(link.Options{Join: f.join, Name: "coordinator on " + f.Host, Told: func(connected bool, err error) {
		f.mu.Lock()
		f.up = time.Now()
		f.mu.Unlock()
		switch {
		case connected:
			f.Note("the fleet's broker is there again")
		case err != nil:
			f.Note("the fleet's broker cannot be reached (%v): trying again", err)
		}
	}})
	return err
}

// begin starts a broker and workers on this host.
func (f *Fleet) begin(ctx context.Context) error {
	token := broker.NewToken()
	var err error
	if f.broker, err = broker.Start(broker.Options{Listen: "127.0.0.1:0", Dir: f.storeDir(), Token: token}); err != nil {
		return err
	}
	f.join = link.Join{URL: f.broker.URL(), Token: secret.Value(token)}
	if err := f.dial(); err != nil {
		return err
	}
	join, err := f.writeJoin()
	if err != nil {
		return err
	}
	for i := range f.Workers {
		p, err := f.start(ctx, fmt.Sprintf("w%d", i+1), join)
		if err != nil {
			return err
		}
		f.own = append(f.own, p)
	}
	return nil
}

// Close lets go of the fleet: own workers and an own broker end.
func (f *Fleet) Close() {
	for _, p := range f.own {
		p.end()
	}
	for _, p := range f.own {
		<-p.gone
	}
	if f.link != nil {
		f.link.Close()
	}
	if f.broker != nil {
		f.broker.Close()
	}
}

// How long workers have to say that they are there.
const (
	answerWithin = 2 * time.Second
	startWithin  = 60 * time.Second // a process of this host: many at once on few cores take their time
	askAgain     = 300 * time.Millisecond
)

// Who are the workers that are there. It waits for n of them, or until nobody answered for a while.
func Who(ctx context.Context, l *link.Link, n int, wait time.Duration) ([]wire.Hello, error) {
	box := nats.NewInbox()
	answers := make(chan *nats.Msg, 4096)
	sub, err := l.NC.ChanSubscribe(box, answers)
	if err != nil {
		return nil, fmt.Errorf("ask who is there: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection ends it, too
	if err := l.NC.PublishRequest(wire.Who, box, nil); err != nil {
		return nil, fmt.Errorf("ask who is there: %w", err)
	}
	over := time.After(wait)
	seen := map[string]wire.Hello{}
	for n <= 0 || len(seen) < n {
		select {
		case m := <-answers:
			var h wire.Hello
			if m.Header.Get("Status") == "" && wire.Decode(m.Data, &h) == nil && len(seen) < wire.MaxWorkers {
				seen[h.Worker] = h
			}
			if m.Header.Get("Status") == "503" {
				return nil, nil // nobody listens
			}
			continue
		case <-over:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		break
	}
	out := make([]wire.Hello, 0, len(seen))
	for _, h := range seen {
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b wire.Hello) int { return natural(a.Worker, b.Worker) })
	return out, nil
}

// natural puts w2 before w10.
func natural(a, b string) int {
	if len(a) != len(b) && strings.TrimRight(a, "0123456789") == strings.TrimRight(b, "0123456789") {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// choose waits until enough workers are free, and takes them in the order of their names.
func (f *Fleet) choose(ctx context.Context) ([]wire.Hello, error) {
	wait := answerWithin
	if f.broker != nil {
		wait = startWithin
	}
	until := time.Now().Add(wait)
	for {
		all, err := Who(ctx, f.link, f.expected(), min(answerWithin, time.Until(until)))
		if err != nil {
			return nil, err
		}
		free, why := f.sort(all)
		if len(free) >= f.Workers {
			return free[:f.Workers], nil
		}
		if f.dead() != "" {
			return nil, fmt.Errorf("worker %s ended before the run: %s", f.dead(), f.log(f.dead()))
		}
		if time.Now().After(until) {
			return nil, f.tooFew(free, why)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(askAgain):
		}
	}
}

// expected is how many answers are all there can be; 0: nobody knows.
func (f *Fleet) expected() int {
	if f.broker != nil {
		return f.Workers
	}
	return 0
}

// sort tells who can work from who cannot, and why.
func (f *Fleet) sort(all []wire.Hello) (free []wire.Hello, why []string) {
	for _, h := range all {
		switch err := h.Fits(f.Version); {
		case err != nil:
			why = append(why, err.Error())
		case h.Draining:
			why = append(why, fmt.Sprintf("worker %s is draining", h.Worker))
		case h.Run != "":
			why = append(why, fmt.Sprintf("worker %s works on run %s", h.Worker, h.Run))
		default:
			free = append(free, h)
		}
	}
	return free, why
}

func (f *Fleet) tooFew(free []wire.Hello, why []string) error {
	names := make([]string, len(free))
	for i, h := range free {
		names[i] = h.Worker
	}
	text := fmt.Sprintf("--workers %d: %d are there and free", f.Workers, len(free))
	if len(names) > 0 {
		text += " (" + strings.Join(names, ", ") + ")"
	}
	text += "; start more with: spate worker --join " + f.join.URL
	err := errors.New(text)
	for _, w := range why[:min(len(why), 10)] {
		err = errors.Join(err, errors.New(w))
	}
	return err
}

// runID is a name for a run.
func runID() string { return time.Now().UTC().Format("20060102-150405") + "-" + broker.NewToken()[:8] }

func (f *Fleet) upSince() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.link.NC.IsConnected() {
		return time.Now()
	}
	return f.up
}
