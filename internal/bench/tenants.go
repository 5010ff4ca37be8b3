package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"spate/internal/call"
	"spate/internal/judge/verdict"
	"spate/internal/load/schedule"
	"spate/internal/result"
	"spate/internal/result/interop"
	"spate/internal/send/client"
	"spate/internal/send/driver"
	"spate/internal/view/live"
)

// A run of several tenants is one session for the run (folder, observers, verdict) and one below it for
// each tenant (settings, model, tokenizer, load). They share the clock, the sinks and, where they send
// the same headers, the client.

// tenant says which of a run's tenants a session is.
type tenant struct {
	lead      *session // the run
	name      string
	place, of int
	label     map[string]string // of its records
	guest     bool              // its client is another tenant's

	res   driver.Result // after the load
	start time.Duration // of the measured part, once it began; under the lead's starting
}

// voice speaks for one tenant through a client that others share.
type voice struct {
	*client.Client
	name    string
	backend client.Backend
	body    *client.Body
}

// Prepare encodes a request with the tenant's model and settings.
func (v voice) Prepare(r *call.Request) (err error) {
	r.Body, err = v.backend.Encode(nil, v.body, r)
	return err
}

// Do sends under names of conversations and groups that are the tenant's own: a router that reads them in a
// header would take those of two tenants for one.
func (v voice) Do(ctx context.Context, r *call.Request) call.Record {
	group := r.Labels["group"]
	if r.Session == "" && group == "" {
		return v.Client.Do(ctx, r)
	}
	own := *r
	if r.Session != "" {
		own.Session = v.name + "/" + r.Session
	}
	if group != "" {
		own.Labels = maps.Clone(r.Labels)
		own.Labels["group"] = v.name + "/" + group
	}
	rec := v.Client.Do(ctx, &own)
	rec.Session, rec.Labels = r.Session, r.Labels // signed later, like those of requests that never left
	return rec
}

// sign makes a record the tenant's own: under its name, and under a number and a session nobody else has.
func (t *tenant) sign(r *call.Record) {
	r.ID = r.ID*t.of + t.place
	if r.Session != "" {
		r.Session = t.name + "/" + r.Session
	}
	if len(r.Labels) == 0 {
		r.Labels = t.label
		return
	}
	r.Labels = maps.Clone(r.Labels) // a request's own, which it shares with its other attempts
	maps.Copy(r.Labels, t.label)
}

// parts are the sessions that send: the tenants', or the run's own.
func (s *session) parts() []*session {
	if s.tenants != nil {
		return s.tenants
	}
	return []*session{s}
}

// clients are those that send, each once.
func (s *session) clients() []*client.Client {
	var out []*client.Client
	for _, p := range s.parts() {
		if p.tenant == nil || !p.tenant.guest {
			out = append(out, p.client)
		}
	}
	return out
}

// arrivalStamps reports whether all clients have the kernel's arrival times.
func (s *session) arrivalStamps() bool {
	return !slices.ContainsFunc(s.clients(), func(c *client.Client) bool { return !c.ArrivalStamps() })
}

// stampLag is how late sockets were read, by the worst of the clients.
func (s *session) stampLag() (lag client.Lag, ok bool) {
	for _, c := range s.clients() {
		one, has := c.StampLag()
		if !has {
			return client.Lag{}, false
		}
		lag.N += one.N
		lag.P50, lag.P99, lag.Max = max(lag.P50, one.P50), max(lag.P99, one.P99), max(lag.Max, one.Max)
		lag.Low = max(lag.Low, one.Low)
	}
	return lag, true
}

// named says whose error it is.
func (s *session) named(err error) error {
	if err == nil || s.tenant == nil {
		return err
	}
	return fmt.Errorf("tenant %s: %w", s.tenant.name, err)
}

// addTenants makes the sessions of the tenants.
func (s *session) addTenants() {
	for i, t := range s.Config.Tenants {
		one := &session{Job: s.Job, clock: s.clock, console: s.console}
		one.Config = s.Config.Tenant(i)
		one.tenant = &tenant{
			lead: s, name: t.Name, place: i, of: len(s.Config.Tenants), start: call.Unset,
			label: map[string]string{result.TenantLabel: t.Name},
		}
		s.tenants = append(s.tenants, one)
	}
}

// assembleTenants is assemble for every tenant; the run itself takes what they have in common.
func (s *session) assembleTenants(ctx context.Context) error {
	s.addTenants()
	for i, t := range s.tenants {
		if err := t.meet(ctx); err != nil {
			return t.named(err)
		}
		if err := t.shareClient(s.tenants[:i]); err != nil {
			return t.named(err)
		}
		var err error
		if t.load, err = t.newLoad(ctx); err != nil {
			return t.named(err)
		}
		s.say("tenant %s: %s, %s", t.tenant.name, t.Config.Dataset.Name, t.load.text)
	}
	first := s.tenants[0]
	joined := *first.target
	joined.model, joined.served = s.joinNames(func(t *session) string { return t.target.model }), s.joinNames((*session).asksFor)
	s.target, s.control, s.tokens, s.client, s.load = &joined, first.control, first.tokens, first.client, s.joinLoads()
	return nil
}

// shareClient takes the client of an earlier tenant that sends the same headers, or makes one.
func (s *session) shareClient(earlier []*session) (err error) {
	lead := s.tenant.lead.Config
	for _, e := range earlier {
		if reflect.DeepEqual(e.target.client.Header, s.target.client.Header) {
			s.client, s.tenant.guest = e.client, true
			return nil
		}
	}
	cfg := s.target.client
	cfg.Pulse = &s.tenant.lead.pulse
	cfg.Secrets, cfg.MaxConns = lead.Secrets(), 0
	if lead.Load.MaxConcurrency != nil {
		cfg.MaxConns = *lead.Load.MaxConcurrency
	}
	s.client, err = client.New(cfg)
	return err
}

// asksFor is what the session's requests ask for.
func (s *session) asksFor() string {
	if names := s.Config.Model.LoRAModules; len(names) > 0 {
		return strings.Join(names, "+")
	}
	return s.target.served
}

// modelName is what results call the tenant's model: as they call that of a run of its own, unless the
// tenant asks for something by another name.
func (s *session) modelName() string {
	if m := &s.Config.Model; len(m.LoRAModules) > 0 || m.ServedName != "" {
		return s.asksFor()
	}
	return s.target.model
}

// joinNames lists what the tenants call something, each name once.
func (s *session) joinNames(name func(*session) string) string {
	var out []string
	for _, t := range s.tenants {
		if n := name(t); !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return strings.Join(out, "+")
}

// joinLoads is what the tenants' loads amount to, as far as a view of the whole run asks.
func (s *session) joinLoads() *load {
	out := &load{aligned: true}
	var texts []string
	counted, timed := true, true
	for _, t := range s.tenants {
		l := t.load
		texts = append(texts, t.tenant.name+": "+l.text)
		counted, out.expect = counted && l.expect > 0, out.expect+l.expect
		timed, out.plan.Until = timed && l.plan.Until > 0, max(out.plan.Until, l.plan.Until)
	}
	if !counted {
		out.expect = 0
	}
	if !timed {
		out.plan = schedule.Plan{}
	}
	out.text = fmt.Sprintf("%d tenants; %s", len(s.tenants), strings.Join(texts, "; "))
	return out
}

// joinedSettings are the choices the verdict on the whole run depends on: a check that holds for requests
// of one kind is made only where it cannot blame others.
func (s *session) joinedSettings() verdict.Settings {
	out := verdict.Settings{IgnoreEOS: true}
	burst := false
	for _, t := range s.tenants {
		one := t.settings()
		out.OpenLoop = out.OpenLoop || one.OpenLoop
		out.IgnoreEOS = out.IgnoreEOS && one.IgnoreEOS
		out.SharedPrefix = out.SharedPrefix || one.SharedPrefix
		out.Guessed = out.Guessed || one.Guessed
		out.Percentiles = one.Percentiles
		burst = burst || t.burst()
	}
	out.OpenLoop = out.OpenLoop && !burst
	return out
}

// openTenants writes the tenants' plans down with the run's, so that a killed run has them.
func (s *session) openTenants() {
	for _, t := range s.tenants {
		one := result.Tenant{
			Name: t.tenant.name, Model: t.modelName(), Dataset: t.Config.Dataset.Name, Plan: result.NewPlan(t.metricsRun(), t.load.text),
		}
		one.Plan.Judge = t.settings()
		for _, o := range t.Config.Check.SLO {
			one.SLO = append(one.SLO, o.Text)
		}
		s.run.Tenants = append(s.run.Tenants, one)
	}
}

// driveTenants drives all tenants at once, from one moment on.
func (s *session) driveTenants(ctx context.Context, cfg driver.Config, progress *live.Progress) (driver.Result, error) {
	stop, halt, done := s.haltable()
	defer done()
	start := &startLine{left: len(s.tenants), clock: s.clock, open: make(chan struct{})}
	cfg.Stop, cfg.Begin = stop, start.wait
	errs := make([]error, len(s.tenants))
	var wg sync.WaitGroup
	for i, t := range s.tenants {
		wg.Go(func() {
			t.tenant.res, errs[i] = t.drive(ctx, cfg, progress)
			if errs[i] = t.named(errs[i]); errs[i] != nil || t.tenant.res.Aborted != "" {
				halt() // the others without it would be another load than was asked for
			}
		})
	}
	wg.Wait()
	res := s.tenants[0].tenant.res
	if res.Aborted != "" {
		res.Aborted = "tenant " + s.tenants[0].tenant.name + ": " + res.Aborted
	}
	for _, t := range s.tenants[1:] {
		one := t.tenant.res
		res.End, res.Stopped = max(res.End, one.End), res.Stopped || one.Stopped
		res.Starved += one.Starved
		if one.Aborted != "" && res.Aborted == "" {
			res.Aborted, res.Refusal = "tenant "+t.tenant.name+": "+one.Aborted, one.Refusal
		}
		res.Tally = add(res.Tally, one.Tally)
	}
	return res, errors.Join(errs...)
}

func add(a, b call.Tally) call.Tally {
	return call.Tally{
		Due: a.Due + b.Due, OK: a.OK + b.OK, Failed: a.Failed + b.Failed, Dropped: a.Dropped + b.Dropped,
		Canceled: a.Canceled + b.Canceled, Attempts: a.Attempts + b.Attempts,
	}
}

// haltable is the user's word to stop, which halt gives too.
func (s *session) haltable() (stop chan struct{}, halt, done func()) {
	stop, quit := make(chan struct{}), make(chan struct{})
	halt = sync.OnceFunc(func() { close(stop) })
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-s.Stop:
			halt()
		case <-quit:
		}
	})
	return stop, halt, func() {
		close(quit)
		wg.Wait()
	}
}

// startLine lets several drivers go at the same time, when the last of them is ready.
type startLine struct {
	clock call.Clock
	open  chan struct{}

	mu   sync.Mutex
	left int
	at   time.Duration
}

func (l *startLine) wait() time.Duration {
	l.mu.Lock()
	if l.left--; l.left == 0 {
		l.at = l.clock.Now()
		close(l.open)
	}
	l.mu.Unlock()
	<-l.open
	return l.at
}

// tenantBegan keeps when a tenant's measured part began, beside the run.
func (s *session) tenantBegan(place int, at time.Duration) {
	s.starting.Lock()
	s.tenants[place].tenant.start = at
	s.starting.Unlock()
	if s.folder == nil {
		return
	}
	s.writing.Go(func() {
		s.planning.Lock() // one file at a time, and the last one to write knows all
		defer s.planning.Unlock()
		planned, first := s.begunPlan()
		if err := s.folder.Began(planned, first); err != nil {
			s.say("note: %v", err)
		}
	})
}

// begunPlan is the run as planned with what is known of the tenants' beginnings, and the first of them.
func (s *session) begunPlan() (*result.Run, time.Duration) {
	s.starting.Lock() // never held while a file is written: requests wait for it
	defer s.starting.Unlock()
	planned, first := *s.run, call.Unset
	planned.Tenants = slices.Clone(s.run.Tenants)
	for i, t := range s.tenants {
		if at := t.tenant.start; at != call.Unset {
			planned.Tenants[i].Plan.Start = at
			if first == call.Unset || at < first {
				first = at
			}
		}
	}
	return &planned, first
}

// firstTenantFrom is where the measured part of the run begins: with that of the first tenant to begin.
func (s *session) firstTenantFrom() time.Duration {
	first := time.Duration(math.MaxInt64)
	for _, t := range s.tenants {
		first = min(first, t.measuredFrom(t.tenant.res))
	}
	return first
}

// boundTenants sets each tenant's measured part.
func (s *session) boundTenants(recs call.Set) {
	for i, t := range s.tenants {
		row := &s.run.Tenants[i]
		row.Plan.Start = t.measuredFrom(t.tenant.res)
		row.Plan.End = result.LastEnd(row.Of(recs), row.Plan.Start)
		row.Plan.Due = 0
	}
}

// unmetTenants lists the objectives of tenants that were not met.
func unmetTenants(r *result.Run) []string {
	var out []string
	for i := range r.Tenants {
		t := &r.Tenants[i]
		for _, c := range t.Missed() {
			out = append(out, "tenant "+t.Name+": "+notMet(c.Text, c.Key, float64(c.Value), t.Lack(c)))
		}
	}
	return out
}

// encodeVLLM is vLLM's result file; that of several tenants has one more key, an object for each with
// vLLM's names.
func (s *session) encodeVLLM(v *interop.VLLM) ([]byte, error) {
	if s.tenants == nil {
		return v.Encode()
	}
	o, err := v.Object()
	if err != nil {
		return nil, err
	}
	rows := make([]interop.Object, 0, len(s.tenants))
	for i, t := range s.tenants {
		one := interop.VLLM{
			Date: v.Date, Backend: v.Backend, ModelID: s.Config.Scrub(t.modelName()), TokenizerID: s.Config.Scrub(t.tokens.id), RequestRate: float64(t.Config.Load.RequestRate),
			Burstiness: float64(t.Config.Load.Burstiness), MaxConcurrency: t.Config.Load.MaxConcurrency,
		}
		one.NumPrompts = numPrompts(t.Config.Load.NumPrompts, s.run.Tenants[i].Tally.Due)
		one.Fill(&s.run.Tenants[i].Summary, s.run.Block.Metrics, s.Config.Output.Percentiles)
		row, err := one.Object()
		if err != nil {
			return nil, err
		}
		for _, of := range []string{"date", "endpoint_type", "backend", "label"} { // the run has them
			row.Delete(of)
		}
		rows = append(rows, append(interop.Object{{Key: "name", Value: t.tenant.name}}, row...))
	}
	o.Set("tenants", rows)
	return interop.AppendPython(nil, o)
}

// dryRunTenants prints what each tenant would do.
func (s *session) dryRunTenants(ctx context.Context) error {
	s.addTenants()
	if _, err := fmt.Fprintf(s.Stdout, "Plan of %d tenants, which start together (nothing was sent)\n", len(s.tenants)); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	for _, t := range s.tenants {
		lengths, err := t.rehearse(ctx)
		if err != nil {
			return t.named(err)
		}
		if _, err := io.WriteString(s.Stdout, "\n"); err != nil {
			return fmt.Errorf("write to standard output: %w", err)
		}
		t.notes, s.notes = s.notes, nil
		if err := t.printPlan(s.Stdout, "Tenant "+t.tenant.name, lengths); err != nil {
			return err
		}
	}
	return nil
}
