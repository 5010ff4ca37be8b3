package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"spate/internal/call"
	"spate/internal/call/recorder"
	"spate/internal/figure"
	"spate/internal/host/observe"
	"spate/internal/host/probe"
	"spate/internal/judge/metrics"
	"spate/internal/judge/verdict"
	"spate/internal/result"
	"spate/internal/send/client"
	"spate/internal/settings/config"
)

// watch observes the client and the server during the measured part of a run.
type watch struct {
	rtt *probe.RTT

	mu   sync.Mutex // guards self, which begins anew after a warm-up
	self *probe.Watch

	first  []probe.Counters // of each server, before anything was sent; nil when one does not tell
	before []probe.Counters // when the measured part began

	begins  chan time.Duration // when the measured part begins, where a warm-up or a wait goes ahead of it
	over    chan struct{}      // closed when the load is over
	waiting sync.WaitGroup     // for the measured part

	seen   probe.Self // after stop
	lag    client.Lag // on the stamping threads themselves
	hasLag bool
	change *probe.Change

	sampler *observe.Watch // nil when nothing is sampled
	samples []observe.Sample
	fates   []observe.Fate
}

func (s *session) startWatch(ctx context.Context) *watch {
	w := &watch{rtt: s.roundTrip(ctx), begins: make(chan time.Duration, 1), over: make(chan struct{})}
	w.read(ctx, s)
	w.first = w.before
	w.sampler = s.startObserving(ctx, w.first != nil)
	w.watchSelf(s)
	if s.Begin != nil || s.Drive != nil || slices.ContainsFunc(s.tenants, func(t *tenant) bool { return t.load.warmup != nil }) {
		w.waiting.Go(func() { w.afterWarmUp(ctx, s) })
	}
	return w
}

// watchSelf starts to watch this process, anew where it was watched already.
func (w *watch) watchSelf(s *session) {
	for _, c := range s.clients() {
		c.ResetLag()
	}
	self := probe.StartSelf()
	w.mu.Lock()
	w.self, self = self, w.self
	w.mu.Unlock()
	if self != nil {
		self.Stop()
	}
}

// read reads the server's counters, where it has any.
func (w *watch) read(ctx context.Context, s *session) {
	before, err := s.scrape(ctx)
	if err != nil {
		before = nil
	}
	w.before = before
}

// measuring is told when the measured part begins, maybe ahead of time. Requests wait until it returns.
func (w *watch) measuring(at time.Duration) {
	select {
	case w.begins <- at:
	default: // another tenant was first
	}
}

// afterWarmUp begins the watch anew with the measured part, so that what a warm-up did to the client and to the
// server's counters is not in its figures.
func (w *watch) afterWarmUp(ctx context.Context, s *session) {
	select {
	case at := <-w.begins:
		select {
		case <-time.After(at - s.clock.Now()):
			w.watchSelf(s)
			w.read(ctx, s)
		case <-w.over:
		}
	case <-w.over:
	}
}

// stampLag is the lag of the threads that stamp, over the measured part; nil where it could not be measured there.
func (w *watch) stampLag() *client.Lag {
	if !w.hasLag {
		return nil
	}
	return &w.lag
}

// snapshot is what was seen of this process so far.
func (w *watch) snapshot() probe.Self {
	w.mu.Lock()
	self := w.self
	w.mu.Unlock()
	return self.Snapshot()
}

// stop ends the watch. The counters are read after the last response, so that they hold all of it. The lag is taken
// here: what this process does after the run is no part of it.
func (w *watch) stop(ctx context.Context, s *session) {
	close(w.over)
	w.waiting.Wait()
	w.seen = w.self.Stop()
	w.lag, w.hasLag = s.stampLag()
	if w.sampler != nil {
		w.samples, w.fates = w.sampler.Stop()
	}
	if w.before == nil || ctx.Err() != nil {
		return
	}
	if after, err := s.scrape(ctx); err == nil {
		c, all := probe.DeltaAll(w.before, after), probe.DeltaAll(w.first, after)
		c.RunningBefore, c.WaitingBefore = all.RunningBefore, all.WaitingBefore // a warm-up is not others' work
		w.change = &c
	}
}

// scrape reads the counters of every server requests go to: figures that lack one would say nothing of the run.
func (s *session) scrape(ctx context.Context) ([]probe.Counters, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var pages []string
	switch page := s.Config.Observe.ServerMetrics; page {
	case "off":
		return nil, errors.New("not asked for")
	case "auto", "":
		for _, base := range s.whole.target.client.BaseURLs {
			if page := base + "/metrics"; !slices.Contains(pages, page) {
				pages = append(pages, page)
			}
		}
	default:
		pages = []string{page}
	}
	var all []probe.Counters
	for _, page := range pages {
		c, err := probe.Scrape(ctx, s.ask, page)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// roundTrip measures how far away the server is. It is shown, never subtracted.
func (s *session) roundTrip(ctx context.Context) *probe.RTT {
	network, addr := "tcp", ""
	if s.whole.target.client.Unix != "" {
		network, addr = "unix", s.whole.target.client.Unix
	} else if u, err := url.Parse(s.whole.target.client.BaseURLs[0]); err == nil {
		addr = u.Host
		if u.Port() == "" {
			addr = net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
		}
	}
	rtt, err := probe.MeasureRTT(ctx, network, addr, 5)
	if err != nil {
		return nil
	}
	return &rtt
}

// serverMetrics is what the server's own counters say of the run, for the result.
func (w *watch) serverMetrics() (json.RawMessage, *result.SpecDecode) {
	if w.change == nil {
		return nil, nil
	}
	raw, err := json.Marshal(w.change)
	if err != nil {
		return nil, nil
	}
	sp := w.change.Spec
	if sp == nil || sp.DraftTokens <= 0 {
		return raw, nil
	}
	return raw, &result.SpecDecode{
		Rate: sp.AcceptanceRate, Length: sp.AcceptanceLength, Drafts: int(sp.Drafts),
		DraftTokens: int(sp.DraftTokens), Accepted: int(sp.Accepted), PerPosition: sp.PerPosition,
	}
}

// environment is where the run takes place and, once it is over, how the client fared.
func (s *session) environment() json.RawMessage {
	env := struct {
		Host probe.Host   `json:"host"`
		Self *probe.Self  `json:"client,omitempty"`
		Lag  *client.Lag  `json:"stamping_threads_lag,omitempty"`
		RTT  *probe.RTT   `json:"round_trip,omitempty"`
		Who  probe.Server `json:"server"`
	}{Host: probe.ReadHost(s.Version), Who: s.whole.target.info}
	if s.watch != nil {
		env.Self, env.RTT = &s.watch.seen, s.watch.rtt
		env.Lag = s.watch.stampLag()
	}
	raw, err := json.Marshal(env)
	if err != nil {
		return nil
	}
	return raw
}

// selfOf is what the verdict wants to know of the client. The stamp lag is that of the threads that
// stamp, where it could be measured there, and that of the runtime's poller elsewhere.
func (s *session) selfOf(p *probe.Self, lag *client.Lag, log recorder.Stats) *verdict.Self {
	v := &verdict.Self{
		CPUShare: p.CPUShare, GCPauseMax: p.GCPause.Max, SchedLagP99: p.SchedLag.P99, Gap: p.Gap, SchedLagMax: p.SchedLag.Max,
		StampLagP99: p.StampLag.Low, StampLagMax: p.StampLag.Max, StealShare: p.Steal, ClockJump: p.ClockStep,
		LogDropped: int(log.Missing), DiskErrors: int(log.Refused), Arrivals: s.arrivalStamps(),
	}
	if p.Wall > 0 {
		v.Throttled = p.Throttled.Seconds() / p.Wall.Seconds()
	}
	if lag != nil {
		v.StampLagP99, v.StampLagMax = lag.Low, lag.Max
	}
	return v
}

// settings are the choices the verdict depends on.
func (t *tenant) settings() verdict.Settings {
	c := t.Config
	v := verdict.Settings{OpenLoop: t.load.plan.Due != nil && !t.burst(), IgnoreEOS: c.Body.IgnoreEOS}
	v.SharedPrefix = sharesPrefixes(&c.Dataset)
	v.Guessed = t.tokens != nil && t.tokens.local == nil && !t.tokens.remote
	if c.Has("metric-percentiles") {
		v.Percentiles = c.Output.Percentiles
	}
	return v
}

// sharesPrefixes reports whether a workload's prompts begin alike on purpose: then what a prefix cache
// saves is what is measured, not what spoils the measurement.
func sharesPrefixes(d *config.Dataset) bool {
	k := d.Kind()
	return k.Alike || k.Random && d.Random.PrefixLen > 0
}

// judge gives the verdict on the finished run.
func (s *session) judge(sum *metrics.Summary) verdict.Verdict {
	var log recorder.Stats
	if s.folder != nil {
		_ = s.folder.Log.Close() // what it lacks is known only then; Finish tells it
		log = s.folder.Log.Stats()
	}
	s.self = s.selfOf(&s.watch.seen, s.watch.stampLag(), log)
	in := verdict.Input{Summary: *sum, Self: s.self, Workers: s.run.Judged(), Settings: s.settings()}
	if c := s.watch.change; c != nil && !c.Reset && c.PrefixQueries != nil && c.PrefixHits != nil {
		in.Server = &verdict.Server{PrefixQueries: *c.PrefixQueries, PrefixHits: *c.PrefixHits}
	}
	if in.Server == nil {
		in.Earlier = s.earlier()
	}
	return verdict.Judge(in)
}

// earlier looks for a former run of the same settings beside this one's folder. Where the server does
// not tell about its prefix cache, prompts answered faster than the last time are the only sign of it.
func (s *session) earlier() *verdict.Earlier {
	if s.folder == nil {
		return nil
	}
	root := filepath.Dir(s.folder.Dir)
	siblings, err := os.ReadDir(root)
	if err != nil {
		return nil
	}
	const most = 20 // the newest: names begin with the time
	for i := len(siblings) - 1; i >= max(0, len(siblings)-most); i-- {
		raw, err := os.ReadFile(filepath.Join(root, siblings[i].Name(), result.ResultFile))
		if err != nil || siblings[i].Name() == filepath.Base(s.folder.Dir) {
			continue
		}
		run, err := result.Decode(raw)
		if err == nil && run.State == result.Complete && s.sameWork(run) {
			return &verdict.Earlier{MedianTTFT: run.Summary.TTFT.Median}
		}
	}
	return nil
}

// sameWork reports whether a former run sent the same prompts at the same load to the same server.
func (s *session) sameWork(run *result.Run) bool {
	var then, now config.Bench
	if json.Unmarshal(run.Config, &then) != nil || json.Unmarshal(s.run.Config, &now) != nil {
		return false
	}
	return reflect.DeepEqual(then.Dataset, now.Dataset) && reflect.DeepEqual(then.Tenants, now.Tenants) && then.Load.Seed == now.Load.Seed &&
		then.Load.NumPrompts == now.Load.NumPrompts && then.Load.RequestRate == now.Load.RequestRate &&
		reflect.DeepEqual(then.Load.MaxConcurrency, now.Load.MaxConcurrency) &&
		slices.Equal(run.Server.URLs, s.run.Server.URLs) && run.Server.Model == s.run.Server.Model
}

// unmet lists the objectives that were asked for and not met.
func unmet(slos []figure.Objective, s *metrics.Summary) []string {
	var out []string
	for _, o := range slos {
		v := o.Of(s)
		if !o.Met(v) {
			out = append(out, notMet(o.Text, o.Key(), v, o.Lack(s)))
		}
	}
	return out
}

// notMet tells of an objective with its figure, or why there is none.
func notMet(text, key string, v float64, lack string) string {
	if lack != "" {
		return fmt.Sprintf("objective %s is not met: there is no %s, since %s", text, key, lack)
	}
	return fmt.Sprintf("objective %s is not met: %s is %.4g", text, key, v)
}

// startProbes sends one-token requests beside the load, one after the other, until the returned
// function is called. They are outside the concurrency cap, as vLLM's are.
func (s *session) startProbes(ctx context.Context) (stop func()) {
	rate := float64(s.Config.Load.ProbeRate)
	if rate <= 0 || s.Drive != nil {
		return func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	gap := time.Duration(float64(time.Second) / rate)
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			s.probe(ctx, n)
			select {
			case <-ctx.Done():
			case <-time.After(gap):
			}
		}
	})
	return func() {
		cancel(call.ErrCutoff)
		wg.Wait()
	}
}

func (s *session) probe(ctx context.Context, n int) {
	req := call.Request{
		ID: n, Name: fmt.Sprintf("%sprobe-%d", s.Config.Load.RequestIDPrefix, n), Phase: call.Probe,
		Prompt: call.Prompt{Text: "Hi"}, MaxOut: 1,
	}
	now := s.clock.Now()
	rec := s.whole.client.Do(ctx, &req)
	if rec.Outcome == call.Canceled {
		return // the run is over
	}
	rec.Due, rec.Dispatched, rec.Started = now, now, now
	s.whole.tokens.settle(&rec)
	rec.Worker = s.Worker
	_ = s.beside().Record(&rec) // a refused record shows in the log's own statistics
}

// hostOf is a URL's host for people.
func hostOf(base string) string {
	return strings.TrimPrefix(strings.TrimPrefix(base, "http://"), "https://")
}
