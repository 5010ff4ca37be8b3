package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"time"

	"spate/internal/call"
	"spate/internal/call/recorder"
	"spate/internal/load/build"
	"spate/internal/load/deal"
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
	mute bool           // nothing is to be generated
	has  func(int) bool // which of them are sent from here

	mu   sync.Mutex
	head []call.Request // looked at, not yet handed out
}

func (r *requests) Next(ctx context.Context) (call.Request, error) {
	for {
		req, err := r.next(ctx)
		if err != nil || r.has(req.Number) { // the first was made to be looked at
			return req, err
		}
	}
}

func (r *requests) next(ctx context.Context) (call.Request, error) {
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
	wcfg.Has = t.makes()
	stream, err := workload.New(wcfg, t.tokens.workload(), t.tokens.tmpl)
	if err != nil {
		return nil, err
	}
	l := &load{source: t.requests(stream, c.Load.Seed), expect: c.Load.NumPrompts}
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
	if err := t.idle(l); err != nil {
		return nil, errors.Join(err, l.close())
	}
	l.size(c)
	return l, nil
}

// requests are those of a stream, with what the settings add to them.
func (t *tenant) requests(stream *workload.Stream, seed int64) *requests {
	return &requests{Stream: stream, lora: lora(&t.Config.Model, seed), mute: t.Config.Target.Backend.Pools(), has: t.share().Has}
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
		l.connections = min(n, l.plan.Slots)
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
	drawn := 0
	return func(r *call.Request) {
		i := r.ID % len(m.LoRAModules)
		for ; drawn <= r.Number; drawn++ { // for those that others send, too
			switch {
			case len(m.LoRAWeights) > 0:
				i = weighted(m.LoRAWeights, random.Float64())
			case m.LoRAAssignment == config.AssignRandom:
				i = random.IntN(len(m.LoRAModules))
			}
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
	l.expect = t.share().Count(n)
	a, err := t.Config.Arrivals(n, l.source.Times).Arrivals()
	if err != nil {
		return err
	}
	l.plan, l.rate, l.text = a.Plan.Dealt(t.share()), a.Rate, a.Text
	if t.Part.Split() {
		l.text += ", worker " + t.Part.String()
	}
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
		l.warmup = &driver.Warmup{Source: t.requests(stream, c.Seed+1), For: c.WarmupDuration, Fixed: t.Part.Split()}
	case c.NumWarmups > 0 && !t.burst():
		first, err := l.first(ctx)
		if err != nil {
			return err
		}
		l.warmup = &driver.Warmup{Source: t.copies(first), N: c.NumWarmups}
	default:
		return nil
	}
	if l.plan.Due != nil {
		if err := l.shift(t.share()); err != nil {
			return err
		}
	}
	return l.dealWarmup(t.share())
}

// dealWarmup leaves of the warm-up what a share has of it.
func (l *load) dealWarmup(s deal.Share) error {
	w := l.warmup
	if w.N = s.Count(w.N); w.N > 0 || w.For > 0 {
		return nil
	}
	l.warmup = nil
	if r, ok := w.Source.(*requests); ok {
		return r.Close()
	}
	return nil
}

// shift puts the warm-up's due times ahead of the measured ones.
func (l *load) shift(share deal.Share) error {
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
	main, offset := l.plan.Due, l.offset
	warm = warm.First(l.warmup.N).Dealt(share)
	l.plan.Due = func(yield func(time.Duration) bool) {
		for t := range warm.Due {
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
		l.plan.N += warm.N
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
	if n <= 0 || s.Drive != nil {
		return nil
	}
	if err := s.preamble().Warmup(s.Stdout); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	for _, t := range s.tenants {
		if err := t.warmUpBurst(ctx, s.beside()); err != nil {
			return t.err(err)
		}
	}
	return s.preamble().WarmedUp(s.Stdout)
}

// warmUpBurst sends the warm-up of a burst; that of other loads goes ahead of them without a gap.
func (t *tenant) warmUpBurst(ctx context.Context, keep recorder.Sink) error {
	n := t.share().Count(t.Config.Load.NumWarmups)
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
		Plan: plan, Source: empty{}, Warmup: &driver.Warmup{Source: t.copies(first), N: n}, Doer: sender{t},
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
	of  call.Request
	has func(int) bool // which of them are sent from here
	n   int
}

func (t *tenant) copies(of call.Request) *copies { return &copies{of: of, has: t.share().Has} }

func (c *copies) Next(context.Context) (call.Request, error) {
	for !c.has(c.n) { // some are: as many as are asked for
		c.n++
	}
	r := c.of
	r.ID, r.Number, r.Name = c.n, c.n, c.named(c.n).Name
	c.n++
	return r, nil
}

func (c *copies) named(n int) call.Request {
	return call.Request{ID: n, Number: n, Name: fmt.Sprintf("%s-warmup-%d", c.of.Name, n)}
}

// Outline lists all requests, whichever worker sends them, without their prompts.
func (c *copies) Outline() iter.Seq[call.Request] {
	return func(yield func(call.Request) bool) {
		for n := 0; yield(c.named(n)); n++ {
		}
	}
}

// empty is a source without requests.
type empty struct{}

func (empty) Next(context.Context) (call.Request, error) { return call.Request{}, io.EOF }
