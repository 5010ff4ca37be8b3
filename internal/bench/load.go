package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"spate/internal/call"
	"spate/internal/call/recorder"
	"spate/internal/load/build"
	"spate/internal/load/schedule"
	"spate/internal/load/workload"
	"spate/internal/rng"
	"spate/internal/safe/infile"
	"spate/internal/send/driver"
	"spate/internal/settings/config"
)

// load is what is sent and when.
type load struct {
	source      *requests
	warmup      *driver.Warmup
	plan        schedule.Plan
	offset      time.Duration // where the measured schedule begins within the plan
	text        string        // the plan in one line
	expect      int           // measured requests, 0 when unknown
	connections int           // worth opening ahead
	ahead       int
	rate        float64 // of a warm-up ahead of the plan
	aligned     bool    // every prompt has its length by the server's own count
}

// requests is the workload with what bench adds to it: the first request can be looked at before the
// run, and adapters are mixed in.
type requests struct {
	*workload.Stream
	lora func(*call.Request)
	mute bool // nothing is to be generated

	mu   sync.Mutex
	head []call.Request // looked at, not yet handed out
}

func (r *requests) Next(ctx context.Context) (call.Request, error) {
	r.mu.Lock()
	if len(r.head) > 0 {
		req := r.head[0]
		r.head = r.head[1:]
		r.mu.Unlock()
		return req, nil
	}
	r.mu.Unlock()
	return r.make(ctx)
}

func (r *requests) make(ctx context.Context) (call.Request, error) {
	req, err := r.Stream.Next(ctx)
	if err == nil && r.lora != nil {
		r.lora(&req)
	}
	if r.mute {
		req.MaxOut = 0
	}
	return req, err
}

// Follow gives the turns an answer leads to; a conversation stays with its adapter.
func (r *requests) Follow(rec *call.Record) []workload.Turn {
	turns := r.Stream.Follow(rec)
	for i := range turns {
		turns[i].Request.Model = rec.Model
	}
	return turns
}

// peek makes n requests available without handing them out.
func (r *requests) peek(ctx context.Context, n int) ([]call.Request, error) {
	for len(r.head) < n {
		req, err := r.make(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		r.head = append(r.head, req)
	}
	return r.head, nil
}

// first is a copy of the first request.
func (l *load) first(ctx context.Context) (call.Request, error) {
	head, err := l.source.peek(ctx, 1)
	if err != nil {
		return call.Request{}, fmt.Errorf("make requests: %w", err)
	}
	if len(head) == 0 {
		return call.Request{}, errors.New("the dataset gives no request")
	}
	return head[0], nil
}

func (l *load) close() error {
	err := l.source.Close()
	if l.warmup != nil {
		if w, ok := l.warmup.Source.(*requests); ok { // copies of a request have nothing to close
			err = errors.Join(err, w.Close())
		}
	}
	return err
}

// newLoad prepares the requests and the plan.
func (t *tenant) newLoad(ctx context.Context) (*load, error) {
	c := t.Config
	wcfg := t.workloadConfig()
	exact, err := t.serverWords(ctx, &wcfg)
	if err != nil {
		return nil, err
	}
	stream, err := workload.New(wcfg, t.tokens.workload(), t.tokens.tmpl)
	if err != nil {
		return nil, err
	}
	l := &load{source: &requests{Stream: stream, lora: lora(&c.Model, c.Load.Seed), mute: c.Target.Backend.Pools()}, expect: c.Load.NumPrompts}
	if !exact {
		if err := t.align(ctx, l); err != nil {
			return nil, errors.Join(err, l.close())
		}
	}
	if err := t.plan(l); err != nil {
		return nil, errors.Join(err, l.close())
	}
	if err := t.warmup(ctx, l, wcfg); err != nil {
		return nil, errors.Join(err, l.close())
	}
	l.size(c)
	return l, nil
}

// size decides how many requests and connections to have ready before the start.
func (l *load) size(c *config.Bench) {
	n := l.expect
	if n == 0 {
		n = 1024
	}
	l.ahead = min(n, 4096)
	switch {
	case c.Load.MaxConcurrency != nil:
		l.connections = min(n, *c.Load.MaxConcurrency)
	case c.Load.AtOnce() && !c.SelfTimed():
		l.connections = n
	default:
		l.connections = min(n, 16)
	}
}

// workloadConfig translates the dataset's settings.
func (t *tenant) workloadConfig() workload.Config {
	w := build.Workload(t.Config, func(p string) (workload.File, error) { return infile.Dataset(p) }, t.tokens.skipped)
	w.HF.Look(t.Getenv, t.Home)
	return w
}

// lora spreads requests over adapters, or whatever else a server has under names; nil when there are none.
func lora(m *config.Model, seed int64) func(*call.Request) {
	if len(m.LoRAModules) == 0 {
		return nil
	}
	random := rng.New(uint64(seed), "lora")
	return func(r *call.Request) {
		i := r.ID % len(m.LoRAModules)
		switch {
		case len(m.LoRAWeights) > 0:
			i = weighted(m.LoRAWeights, random.Float64())
		case m.LoRAAssignment == config.AssignRandom:
			i = random.IntN(len(m.LoRAModules))
		}
		r.Model = m.LoRAModules[i]
	}
}

// weighted is which of the weights a point between 0 and 1 falls on.
func weighted(weights []float64, point float64) int {
	total := 0.0
	for _, w := range weights {
		total += w
	}
	point *= total
	for i, w := range weights {
		if point < w {
			return i
		}
		point -= w
	}
	return len(weights) - 1 // the sum's last digit
}

// plan fixes when requests are due.
func (t *tenant) plan(l *load) error {
	n := l.source.Count() // 0 when time alone bounds the run
	l.expect = n
	a, err := t.Config.Arrivals(n, l.source.Times).Arrivals()
	if err != nil {
		return err
	}
	l.plan, l.rate, l.text = a.Plan, a.Rate, a.Text
	return nil
}

// warmup puts warm-up requests ahead of the measured ones, at the same law, so that measurement
// begins on a server that is already loaded. vLLM's warm-ups are copies of request 0.
func (t *tenant) warmup(ctx context.Context, l *load, wcfg workload.Config) error {
	c := &t.Config.Load
	switch {
	case c.WarmupDuration > 0:
		wcfg.Seed++ // other prompts than the measured ones, which stay as they would be without
		wcfg.Endless = true
		wcfg.NamePrefix += "warmup-"
		stream, err := workload.New(wcfg, t.tokens.workload(), t.tokens.tmpl)
		if err != nil {
			return err
		}
		l.warmup = &driver.Warmup{Source: t.warm(stream), For: c.WarmupDuration}
	case c.NumWarmups > 0 && !t.burst():
		first, err := l.first(ctx)
		if err != nil {
			return err
		}
		l.warmup = &driver.Warmup{Source: &copies{of: first}, N: c.NumWarmups}
	default:
		return nil
	}
	if l.plan.Due == nil {
		return nil
	}
	return l.shift()
}

// warm is a warm-up's requests: others than the measured ones, made in the same way.
func (t *tenant) warm(stream *workload.Stream) *requests {
	return &requests{Stream: stream, lora: lora(&t.Config.Model, t.Config.Load.Seed+1), mute: t.Config.Target.Backend.Pools()}
}

// shift puts the warm-up's due times ahead of the measured ones.
func (l *load) shift() error {
	warm, err := schedule.Constant(l.rate)
	if err != nil {
		return err
	}
	if l.warmup.For > 0 {
		l.offset = l.warmup.For
		l.warmup.N = warm.For(l.offset).Summary().Count
		l.warmup.For = 0
	} else {
		l.offset = time.Duration(float64(l.warmup.N) / l.rate * float64(time.Second))
	}
	main, n, offset := l.plan.Due, l.warmup.N, l.offset
	l.plan.Due = func(yield func(time.Duration) bool) {
		for t := range warm.First(n).Due {
			if !yield(min(t, offset)) {
				return
			}
		}
		for t := range main {
			if !yield(offset + t) {
				return
			}
		}
	}
	if l.plan.N > 0 {
		l.plan.N += n
	}
	if l.plan.Until > 0 {
		l.plan.Until += offset
	}
	return nil
}

// burst reports a plan that sends everything at once: there is nothing to hand a warm-up over to.
func (t *tenant) burst() bool {
	return t.Config.Load.AtOnce()
}

// warmUpDrained sends the warm-up of a burst and waits for it.
func (s *session) warmUpDrained(ctx context.Context) error {
	n := s.Config.Load.NumWarmups
	if n <= 0 {
		return nil
	}
	if err := s.preamble().Warmup(s.Stdout); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	keep := []recorder.Sink{s.memory}
	if s.folder != nil {
		keep = append(keep, s.folder.Log)
	}
	for _, t := range s.tenants {
		if err := t.warmUpBurst(ctx, recorder.Tee(keep...)); err != nil {
			return t.err(err)
		}
	}
	return s.preamble().WarmedUp(s.Stdout)
}

// warmUpBurst sends the warm-up of a burst; that of other loads goes ahead of them without a gap.
func (t *tenant) warmUpBurst(ctx context.Context, keep recorder.Sink) error {
	n := t.Config.Load.NumWarmups
	if n <= 0 || !t.burst() {
		return nil
	}
	first, err := t.load.first(ctx)
	if err != nil {
		return err
	}
	plan, err := schedule.Closed(n, n)
	if err != nil {
		return err
	}
	t.hold()
	res, err := driver.Run(ctx, driver.Config{
		Plan: plan, Source: empty{}, Warmup: &driver.Warmup{Source: &copies{of: first}, N: n}, Doer: sender{t},
		Sink: keep, Clock: t.clock, Stop: t.Stop, Settle: t.settle, Grace: t.Config.Load.GracePeriod,
		Abort: driver.Abort(t.Config.Load.AbortOnError),
	})
	if err == nil && res.Aborted != "" {
		err = fmt.Errorf("warm-up: %s", t.whyAborted(res.Aborted, res.Refusal))
	}
	return err
}

// copies hands out one request again and again.
type copies struct {
	of call.Request
	n  int
}

func (c *copies) Next(context.Context) (call.Request, error) {
	r := c.of
	r.Name = fmt.Sprintf("%s-warmup-%d", r.Name, c.n)
	r.ID = c.n
	c.n++
	return r, nil
}

// empty is a source without requests.
type empty struct{}

func (empty) Next(context.Context) (call.Request, error) { return call.Request{}, io.EOF }
