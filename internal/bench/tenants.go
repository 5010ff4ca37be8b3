package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	"spate/internal/settings/config"
	"spate/internal/view/live"
)

// tenant is one workload of a run: its settings, model, tokenizer and load. A run has one or more of them, which start
// together; a plain run has one, without a name. They share the run's clock and sinks and, where they send the same
// headers, the client. What a tenant sends and when is its load, a value; drive sends it.
type tenant struct {
	*session               // the run
	Config   *config.Bench // as those of a run of its own

	name      string            // empty in a plain run
	title     string            // of its plan
	mark      string            // before what is said of it, such as "tenant chat: "
	prefix    string            // of its conversations and groups, such as "chat/"
	label     map[string]string // of its records
	place, of int

	target  *target
	control *client.Control
	tokens  *tokens
	client  *client.Client
	guest   bool // its client is another tenant's
	load    *load

	res   driver.Result // after the load
	start time.Duration // of the measured part, once it began; under the run's starting
}

// newTenants turns the settings into tenants.
func (s *session) newTenants() {
	for name, c := range s.Config.Each() {
		s.tenants = append(s.tenants, &tenant{
			session: s, Config: c, name: name, mark: config.Mark(name), title: "Plan (nothing was sent)", place: len(s.tenants), of: max(1, len(s.Config.Tenants)), start: call.Unset,
		})
	}
	if len(s.Config.Tenants) == 0 {
		return
	}
	s.dealTenants()
	s.named = s.tenants
	s.heading = fmt.Sprintf("Plan of %d tenants, which start together (nothing was sent)\n", len(s.named))
	for _, t := range s.named {
		t.title, t.prefix = "\nTenant "+t.name, t.name+"/"
		t.label = map[string]string{result.TenantLabel: t.name}
	}
}

// join makes what is asked, shown and judged once. A plain run is its only tenant.
func (s *session) join() {
	first := s.tenants[0]
	if len(s.named) == 0 {
		s.whole = first
		return
	}
	joined := *first.target
	joined.model, joined.served = s.joinNames(func(t *tenant) string { return t.target.model }), s.joinNames((*tenant).asksFor)
	s.whole = &tenant{
		session: s, Config: s.Config, target: &joined, control: first.control, tokens: first.tokens, client: first.client, load: s.joinLoads(),
	}
	for _, t := range s.named {
		s.say("%s%s, %s", t.mark, t.Config.Dataset.Name, t.load.text)
	}
}

// err says whose error it is.
func (t *tenant) err(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s%w", t.mark, err)
}

func (t *tenant) note(format string, args ...any) {
	t.session.note("%s%s", t.mark, fmt.Sprintf(format, args...))
}

// records are the tenant's among those of the run.
func (t *tenant) records(all call.Set) call.Set {
	return (&result.Tenant{Name: t.name}).Of(all)
}

// sender sends for one tenant through a client that others may share.
type sender struct{ *tenant }

// Prepare encodes a request with the tenant's model and settings.
func (s sender) Prepare(r *call.Request) (err error) {
	r.Body, err = s.target.client.Backend.Encode(nil, &s.target.client.Body, r)
	return err
}

// Do sends under names of conversations and groups that are the tenant's own: a router that reads them in a
// header would take those of two tenants for one.
func (s sender) Do(ctx context.Context, r *call.Request) call.Record {
	group := r.Labels["group"]
	if s.prefix == "" || r.Session == "" && group == "" {
		return s.client.Do(ctx, r)
	}
	own := *r
	if r.Session != "" {
		own.Session = s.prefix + r.Session
	}
	if group != "" {
		own.Labels = maps.Clone(r.Labels)
		own.Labels["group"] = s.prefix + group
	}
	rec := s.client.Do(ctx, &own)
	rec.Session, rec.Labels = r.Session, r.Labels // signed later, like those of requests that never left
	return rec
}

// sign makes a record the tenant's own: under its name, and under a number and a session nobody else has.
func (t *tenant) sign(r *call.Record) {
	r.ID = r.ID*t.of + t.place
	if r.Session != "" {
		r.Session = t.prefix + r.Session
	}
	if len(r.Labels) == 0 {
		r.Labels = t.label
		return
	}
	r.Labels = maps.Clone(r.Labels) // a request's own, which it shares with its other attempts
	maps.Copy(r.Labels, t.label)
}

// clients are those that send, each once.
func (s *session) clients() []*client.Client {
	var out []*client.Client
	for _, t := range s.tenants {
		if !t.guest {
			out = append(out, t.client)
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

// shareClient takes the client of an earlier tenant that sends the same headers, or makes one.
func (t *tenant) shareClient(earlier []*tenant) (err error) {
	for _, e := range earlier {
		if reflect.DeepEqual(e.target.client.Header, t.target.client.Header) {
			t.client, t.guest = e.client, true
			return nil
		}
	}
	cfg, all := t.target.client, t.session.Config
	cfg.Pulse = &t.pulse
	cfg.Secrets, cfg.MaxConns = all.Secrets(), 0
	if all.Load.MaxConcurrency != nil {
		cfg.MaxConns = *all.Load.MaxConcurrency
	}
	t.client, err = client.New(cfg)
	return err
}

// asksFor is what the tenant's requests ask for.
func (t *tenant) asksFor() string {
	if names := t.Config.Model.LoRAModules; len(names) > 0 {
		return strings.Join(names, "+")
	}
	return t.target.served
}

// modelName is what results call the tenant's model: as they call that of a run of its own, unless the
// tenant asks for something by another name.
func (t *tenant) modelName() string {
	if m := &t.Config.Model; len(m.LoRAModules) > 0 || m.ServedName != "" {
		return t.asksFor()
	}
	return t.target.model
}

// joinNames lists what the tenants call something, each name once.
func (s *session) joinNames(name func(*tenant) string) string {
	var out []string
	for _, t := range s.named {
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
	for _, t := range s.named {
		l := t.load
		texts = append(texts, l.text)
		counted, out.expect = counted && l.expect > 0, out.expect+l.expect
		timed, out.plan.Until = timed && l.plan.Until > 0, max(out.plan.Until, l.plan.Until)
	}
	if !counted {
		out.expect = 0
	}
	if !timed {
		out.plan = schedule.Plan{}
	}
	out.text = s.Config.Describe(texts)
	return out
}

// settings are the choices the verdict on the whole run depends on: a check that holds for requests
// of one kind is made only where it cannot blame others.
func (s *session) settings() verdict.Settings {
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

// row is the tenant's plan, written down with the run's, so that a killed run has it.
func (t *tenant) row() result.Tenant {
	out := result.Tenant{
		Name: t.name, Model: t.modelName(), Dataset: t.Config.Dataset.Name, Plan: result.NewPlan(t.metricsRun(), t.load.text),
	}
	out.Plan.Judge = t.settings()
	for _, o := range t.Config.Check.SLO {
		out.SLO = append(out.SLO, o.Text)
	}
	return out
}

// drive drives all tenants at once, from one moment on; cfg has what they share.
func (s *session) drive(ctx context.Context, cfg driver.Config, progress *live.Progress) (driver.Result, error) {
	if s.Drive != nil {
		return s.driven(ctx, cfg)
	}
	stop, halt, done := s.haltable()
	defer done()
	start := &startLine{left: len(s.tenants), begin: s.beginning(), open: make(chan struct{})}
	cfg.Stop, cfg.Begin = stop, start.wait
	errs := make([]error, len(s.tenants))
	var wg sync.WaitGroup
	for i, t := range s.tenants {
		wg.Go(func() {
			if errs[i] = t.drive(ctx, cfg, progress); errs[i] != nil || t.res.Aborted != "" {
				halt() // the others without it would be another load than was asked for
			}
		})
	}
	wg.Wait()
	var res driver.Result
	sent := true
	for _, t := range s.tenants {
		sent = sent && t.allSent()
		res.End, res.Stopped = max(res.End, t.res.End), res.Stopped || t.res.Stopped
		res.Aborted = cmp.Or(res.Aborted, t.res.Aborted)
		res.Tally = add(res.Tally, t.res.Tally)
	}
	if sent && res.Aborted != "" { // too late to end anything
		res.Aborted, res.Stopped = "", false
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
	begin func(context.Context) (time.Duration, error)
	open  chan struct{}

	mu   sync.Mutex
	left int
	at   time.Duration
	err  error
}

func (l *startLine) wait(ctx context.Context) (time.Duration, error) {
	l.mu.Lock()
	l.left--
	last := l.left == 0
	l.mu.Unlock()
	if last {
		l.at, l.err = l.begin(ctx)
		close(l.open)
	}
	<-l.open
	return l.at, l.err
}

// begun is the run as planned with what is known of the tenants' beginnings, and the first of them.
func (s *session) begun() (*result.Run, time.Duration) {
	s.starting.Lock() // never held while a file is written: requests wait for it
	defer s.starting.Unlock()
	planned, first := *s.run, call.Unset
	planned.Tenants = slices.Clone(s.run.Tenants)
	for _, t := range s.tenants {
		if t.start != call.Unset && (first == call.Unset || t.start < first) {
			first = t.start
		}
	}
	for i, t := range s.named {
		if t.start != call.Unset {
			planned.Tenants[i].Plan.Start = t.start
		}
	}
	return &planned, first
}

// bound sets the measured part of the run, which begins with that of the first tenant to begin, and of each tenant.
func (s *session) bound(recs call.Set) {
	set := func(p *result.Plan, from time.Duration, recs call.Set) {
		p.Start, p.End, p.Due = from, result.LastEnd(recs, from), 0 // every due request has a record
	}
	first := time.Duration(math.MaxInt64)
	for _, t := range s.tenants {
		first = min(first, t.measuredFrom())
	}
	set(&s.run.Plan, first, recs)
	for i, t := range s.named {
		set(&s.run.Tenants[i].Plan, t.measuredFrom(), t.records(recs))
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
	o, err := v.Object()
	if err != nil {
		return nil, err
	}
	var rows []interop.Object
	for i, t := range s.named {
		one := interop.VLLM{
			Date: v.Date, Backend: v.Backend, ModelID: s.Config.Scrub(t.modelName()), TokenizerID: s.Config.Scrub(t.tokens.id), RequestRate: float64(t.Config.Load.RequestRate),
			Burstiness: float64(t.Config.Load.Burstiness), MaxConcurrency: t.Config.Load.MaxConcurrency,
			Summary: &s.run.Tenants[i].Summary, Selected: s.run.Block.Metrics, Percentiles: s.Config.Output.Percentiles,
		}
		one.NumPrompts = numPrompts(t.Config.Load.NumPrompts, s.run.Tenants[i].Tally.Due)
		row, err := one.Object()
		if err != nil {
			return nil, err
		}
		for _, of := range []string{"date", "endpoint_type", "backend", "label"} { // the run has them
			row.Delete(of)
		}
		rows = append(rows, append(interop.Object{{Key: "name", Value: t.name}}, row...))
	}
	if rows != nil {
		o.Set("tenants", rows)
	}
	return interop.AppendPython(nil, o)
}
