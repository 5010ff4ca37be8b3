// Package bench assembles one run: it wires target, tokenizer, workload, schedule, driver, recorder
// and observers together, and turns what they saw into a result. It is the only place that knows the
// whole pipeline. cli calls Run with settings from config and prints what comes back.
//
// Read Run first; each step has a file: target.go, tokens.go, load.go, observe.go, save.go. A run of
// several tenants is a session for each below one for all: tenants.go.
package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"spate/internal/call"
	"spate/internal/call/recorder"
	"spate/internal/judge/metrics"
	"spate/internal/result"
	"spate/internal/send/client"
	"spate/internal/send/driver"
	"spate/internal/settings/config"
	"spate/internal/view/live"
)

// Job is one run to do.
type Job struct {
	Config  *config.Bench
	Command []string // the command line, secrets already removed
	Version string   // of spate
	Getenv  func(string) string
	Home    string

	Stdout io.Writer // vLLM's lines
	Stderr io.Writer // notes and the live view; a *live.Console where the caller has something to say too
	View   live.Options

	// Stop, when closed, ends preparation, and sending: requests in flight have --grace-period to finish.
	Stop <-chan struct{}
	// Hold, where set, is called before the first request is sent: from then on, until the returned
	// function is called, there is something to write.
	Hold func() (release func())

	// Live and Sink, where set, let the caller follow the run while it goes.
	Live *driver.Live
	Sink recorder.Sink
}

// Outcome is a finished run.
type Outcome struct {
	Run   *result.Run
	Unmet []string // objectives asked for and not met, as sentences

	kept *recorder.Spill
}

// session is a run under way.
type session struct {
	Job
	clock   call.Clock
	client  *client.Client
	control *client.Control
	target  *target
	tokens  *tokens
	load    *load
	watch   *watch
	run     *result.Run
	folder  *result.Folder
	memory  *recorder.Spill
	console *live.Console  // standard error
	writing sync.WaitGroup // of what is written beside the run
	notes   []string

	tenants  []*session // of a run of several; each has its own settings, target, tokens and load
	tenant   *tenant    // which of them this session is; nil for the run itself
	starting sync.Mutex // guards the tenants' beginnings
	planning sync.Mutex // guards the plan on disk

	pulse   client.Pulse // of answers while they come, of all tenants
	holding sync.Once
	release func() // of Hold
	finish  func() // ends the context of preparation; nil before it
}

// Run measures a server as the settings say. An error means that there is no result; failed requests
// are part of one.
func Run(ctx context.Context, job Job) (*Outcome, error) {
	restore := sync.OnceFunc(driver.Tune())
	defer restore()
	s := &session{Job: job, clock: call.NewClock()}
	s.shareConsole()
	defer s.close()
	defer s.letGo()
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	res, err := s.measure(ctx)
	if err != nil && res.Tally.Attempts == 0 {
		return nil, errors.Join(err, s.abandon())
	}
	if err != nil {
		s.note("the run ended early: %v", err)
	}
	restore() // time need not be kept any more, and figures of a long run take memory
	return s.conclude(res)
}

// shareConsole makes messages and the live view share standard error. The caller may have made it a
// console already, to write there itself.
func (s *session) shareConsole() {
	var ok bool
	if s.console, ok = s.Stderr.(*live.Console); !ok {
		s.console = live.NewConsole(s.Stderr)
		s.Stderr = s.console
	}
}

// hold says that there is something to write from now on; letGo that it is written.
func (s *session) hold() {
	if s.tenant != nil {
		s = s.tenant.lead
	}
	if s.Hold != nil {
		s.holding.Do(func() { s.release = s.Hold() })
	}
}

func (s *session) letGo() {
	s.holding.Do(func() {})
	if s.release != nil {
		s.release()
	}
}

// prepare does everything that can be done before the first measured request. The user's word ends it.
func (s *session) prepare(ctx context.Context) error {
	if err := s.checkOutputs(); err != nil {
		return err
	}
	ctx, prepared := s.preparing(ctx)
	defer prepared()
	if err := s.assemble(ctx); err != nil {
		return err
	}
	if err := s.ready(ctx); err != nil {
		return err
	}
	return s.open()
}

// preparing is a context that the user's word ends until prepared is called. It lives as long as the
// session: who makes prompts ahead was started under it.
func (s *session) preparing(ctx context.Context) (_ context.Context, prepared func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	s.finish = func() { cancel(nil) }
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-s.Stop:
			cancel(call.ErrInterrupted)
		case <-done:
		}
	})
	return ctx, func() {
		close(done)
		wg.Wait()
	}
}

// assemble puts target, tokenizer, client and load together.
func (s *session) assemble(ctx context.Context) error {
	if len(s.Config.Tenants) > 0 {
		return s.assembleTenants(ctx)
	}
	if err := s.meet(ctx); err != nil {
		return err
	}
	var err error
	s.target.client.Pulse = &s.pulse
	if s.client, err = client.New(s.target.client); err != nil {
		return err
	}
	s.load, err = s.newLoad(ctx)
	return err
}

// meet finds the server, its model and a tokenizer for it.
func (s *session) meet(ctx context.Context) error {
	err := s.checkServerLog()
	if err != nil {
		return err
	}
	if s.target, err = newTarget(s.Config, s.Getenv); err != nil {
		return err
	}
	if s.control, err = client.NewControl(s.target.client); err != nil {
		return err
	}
	if err := s.discover(ctx); err != nil {
		return err
	}
	if s.tokens, err = s.loadTokens(ctx); err != nil {
		return err
	}
	s.target.client.Clock = s.clock
	return nil
}

// open starts the run folder, so that from here on nothing that finishes can be lost.
func (s *session) open() error {
	settings, err := json.Marshal(s.Config.Redacted())
	if err != nil {
		return fmt.Errorf("encode settings: %w", err)
	}
	s.run = &result.Run{
		Schema: result.Schema, State: result.Running, Started: s.clock.Start(), Tool: "spate " + s.Version,
		Command: s.Command, Config: settings, Environment: s.environment(), Server: s.target.describe(),
		Plan: result.NewPlan(s.metricsRun(), s.load.text), Block: s.block(), Labels: labels(s.Config),
	}
	s.run.Plan.Judge = s.settings()
	s.openTenants()
	if s.Config.Output.NoOutput {
		s.memory = recorder.NewSpill("")
		return nil
	}
	s.folder, err = result.Create(s.run, result.Options{
		Dir: s.Config.Output.OutputDir, Text: s.Config.Output.SaveDetailed, Redact: s.Config.Scrub,
	})
	if err != nil {
		return err
	}
	s.memory = recorder.NewSpill(s.folder.Dir)
	return nil
}

// measure runs the load and everything that goes on beside it.
func (s *session) measure(ctx context.Context) (driver.Result, error) {
	if s.Config.Target.ResetPrefixCache {
		s.everyServer("--reset-prefix-cache", func(c *client.Control) error { return c.ResetPrefixCache(ctx) })
	}
	if err := s.warmUpDrained(ctx); err != nil {
		return driver.Result{}, err
	}
	if err := s.preamble().Main(s.Stdout); err != nil {
		return driver.Result{}, fmt.Errorf("write to standard output: %w", err)
	}
	s.warmConnections(ctx)
	s.profile(ctx, "/start_profile")
	s.watch = s.startWatch(ctx)

	counts := s.Live
	if counts == nil {
		counts = &driver.Live{}
	}
	progress := live.NewProgress(s.load.expect)
	if s.Config.Output.UI != config.UINone {
		s.pulse.First = progress.First
		progress.Watch(s.pulse.Tokens.Load)
	}
	view := s.startView(ctx, counts, progress)
	probes := s.startProbes(ctx)
	res, err := s.drive(ctx, driver.Config{
		Sink: s.sink(progress), Clock: s.clock, Retries: s.Config.Client.Retries, Stop: s.Stop, Live: counts,
		Abort: driver.Abort(s.Config.Load.AbortOnError), Timeout: s.Config.Client.RequestTimeout,
	}, progress)
	s.writing.Wait()
	probes()
	s.watch.stop(ctx, s)
	s.profile(ctx, "/stop_profile")
	view()
	return res, err
}

// drive sends what is to be sent; cfg has what all tenants of a run share.
func (s *session) drive(ctx context.Context, cfg driver.Config, progress *live.Progress) (driver.Result, error) {
	if s.tenants != nil {
		return s.driveTenants(ctx, cfg, progress)
	}
	cfg.Plan, cfg.Source, cfg.Warmup, cfg.Ahead = s.load.plan, s.load.source, s.load.warmup, s.load.ahead
	cfg.Doer, cfg.Settle, cfg.Began, cfg.Grace = counted{s.doer(), progress}, s.settle, s.began, s.Config.Load.GracePeriod
	return driver.Run(ctx, cfg)
}

// doer is the client as it speaks for this session.
func (s *session) doer() driver.Doer {
	if s.tenant != nil {
		return voice{s.client, s.tenant.name, s.target.client.Backend, &s.target.client.Body}
	}
	return s.client
}

// settle completes a record.
func (s *session) settle(r *call.Record) {
	s.tokens.settle(r)
	if s.tenant != nil {
		s.tenant.sign(r)
	}
}

// warmConnections opens connections before requests are due. A client that several tenants share needs
// as many as all of them together: they start at the same moment.
func (s *session) warmConnections(ctx context.Context) {
	want := map[*client.Client]int{}
	for _, p := range s.parts() {
		want[p.client] += p.load.connections
	}
	for _, c := range s.clients() {
		if err := c.Warm(ctx, want[c]); err != nil {
			s.note("opening connections ahead of the run: %v", err)
		}
	}
}

// sink sends each record to the log on disk, to memory for the summary, and to the live view. Closing
// is left to their owners.
func (s *session) sink(progress *live.Progress) recorder.Sink {
	sinks := []recorder.Sink{s.memory, progress}
	if s.folder != nil {
		sinks = append(sinks, s.folder.Log)
	}
	if s.Sink != nil {
		sinks = append(sinks, s.Sink)
	}
	return recorder.Tee(sinks...)
}

// Records are all records, put into memory; they may be many.
func (o *Outcome) Records() []call.Record { return o.kept.List() }

// Close lets go of the records.
func (o *Outcome) Close() error { return o.kept.Close() }

// conclude computes the result, judges it and writes it down.
func (s *session) conclude(res driver.Result) (*Outcome, error) {
	recs := s.memory
	r := s.run
	r.Plan.Start = s.measuredFrom(res)
	r.Plan.End = result.LastEnd(recs, r.Plan.Start)
	s.boundTenants(recs)
	r.Plan.Due = 0 // every due request has a record
	r.Ended = s.clock.Start().Add(res.End)
	r.State = result.Complete
	switch {
	case res.Aborted != "" && !s.allSent(res.Tally):
		r.State, r.Aborted = result.Aborted, s.whyAborted(res.Aborted, res.Refusal)
	case res.Stopped:
		r.State = result.Interrupted
	}
	r.Server.Change, r.Spec = s.watch.serverMetrics()
	r.Environment = s.environment()
	r.Compute(recs)
	s.observed()
	if text := r.Undone(); text != "" {
		s.note("%s", text)
	}
	s.noteOddities(res)
	s.noteTurns(recs)
	r.Verdict = s.judge(&r.Summary)
	s.hintFailures(&r.Verdict, r.Summary.Failures.Kinds)
	out := &Outcome{Run: r, kept: recs, Unmet: append(unmet(s.Config.Check.SLO, &r.Summary), unmetTenants(r)...)}
	r.Notes = append(r.Notes, s.notes...)
	files, saveErr := s.saveVLLM(recs)
	saveErr = errors.Join(saveErr, recs.Err())
	r.Files = append(r.Files, files...)
	if s.folder != nil {
		saveErr = errors.Join(saveErr, s.folder.Finish(r))
	}
	return out, saveErr
}

// began keeps when the measured part began, beside the run, for the case that this process is killed.
func (s *session) began(at time.Duration) {
	s.hold()
	if s.load.plan.Due != nil {
		at += s.load.offset
	}
	if s.tenant != nil {
		s.tenant.lead.watch.measuring(at)
		s.tenant.lead.tenantBegan(s.tenant.place, at)
		return
	}
	s.watch.measuring(at)
	if s.folder == nil {
		return
	}
	s.writing.Go(func() {
		if err := s.folder.Began(s.run, at); err != nil {
			s.say("note: %v", err)
		}
	})
}

// measuredFrom is where the measured part begins: the origin of its schedule in an open loop, as vLLM
// counts it, and the first measured request in a closed one.
func (s *session) measuredFrom(res driver.Result) time.Duration {
	if s.tenants != nil {
		return s.firstTenantFrom()
	}
	if s.load.plan.Due != nil {
		return res.Start + s.load.offset
	}
	if res.Measure == call.Unset {
		return res.Start
	}
	return res.Measure
}

// noteOddities says what a reader should know about how the run went.
func (s *session) noteOddities(res driver.Result) {
	for _, p := range s.parts() {
		if p.tenant != nil {
			res = p.tenant.res
		}
		if res.Starved > 0 && p.load.plan.Due != nil {
			p.note("making prompts could not keep up %d times; those requests were late", res.Starved)
		}
	}
	var st client.Stats
	for _, c := range s.clients() {
		one := c.Stats()
		st.InBand, st.Dialed, st.Resent = st.InBand+one.InBand, st.Dialed+one.Dialed, st.Resent+one.Resent
	}
	if st.Resent > 0 {
		s.note("the server closes connections after an answer without saying so: %d requests that met this were sent again on new connections", st.Resent)
	}
	if st.InBand > 0 && s.Config.Client.Connect == config.ConnectAhead {
		s.note("%d of %d connections were opened on demand because none was free", st.InBand, st.Dialed)
	}
	for _, p := range s.parts() {
		if p.load.aligned { // its notes are about prompts made without a tokenizer, which are exact now
			continue
		}
		for _, n := range p.load.source.Notes() {
			p.note("%s", n)
		}
	}
}

func (s *session) note(format string, args ...any) {
	if s.tenant != nil {
		s.tenant.lead.note("tenant %s: %s", s.tenant.name, fmt.Sprintf(format, args...))
		return
	}
	s.notes = append(s.notes, s.Config.Scrub(fmt.Sprintf(format, args...)))
}

// say tells the user something at once.
func (s *session) say(format string, args ...any) {
	_, _ = fmt.Fprintln(s.Stderr, s.Config.Scrub(fmt.Sprintf(format, args...))) // nobody left to tell if it fails
}

// untilStopped is a context that also ends when the user stops the run.
func (s *session) untilStopped(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	var once sync.Once
	go func() {
		select {
		case <-s.Stop:
			cancel(call.ErrInterrupted)
		case <-done:
		}
	}()
	return ctx, func() {
		once.Do(func() { close(done) })
		cancel(nil)
	}
}

// abandon closes a run folder that will get no result; its records stay readable.
func (s *session) abandon() error {
	if s.folder == nil {
		return nil
	}
	return s.folder.Log.Close()
}

func (s *session) close() {
	if s.finish != nil {
		s.finish()
	}
	if s.tenants != nil {
		for _, t := range s.tenants {
			t.close()
		}
		return // what the run has is theirs
	}
	if s.load != nil {
		_ = s.load.close()
	}
	if s.client != nil && (s.tenant == nil || !s.tenant.guest) {
		s.client.Close()
	}
	if s.control != nil {
		s.control.Close()
	}
}

// metricsRun is what the metrics need to know of the plan.
func (s *session) metricsRun() metrics.Run {
	c := s.Config
	run := metrics.Run{
		Requested: c.Load.NumPrompts, RequestRate: float64(c.Load.RequestRate), Percentiles: c.Output.Percentiles,
		EndRule: metrics.LastChunk, Tokenizer: !s.tokens.skipped, SteadyThreshold: c.Check.SteadyThreshold,
		SteadyMinWindow: c.Check.SteadyMinWindow, NoSteady: c.Check.NoSteadyState, Seed: uint64(c.Load.Seed),
	}
	switch m := s.target.client.Backend.Manner(); {
	case m.Whole:
		run.EndRule = metrics.Headers
	case m.UsageEnds:
		run.EndRule = metrics.LastEvent
	}
	if c.Load.MaxConcurrency != nil {
		run.MaxConcurrency = *c.Load.MaxConcurrency
	}
	for _, o := range c.Check.SLO { // an objective may stand on a percentile nobody asked to print
		if o.IsPct && !slices.Contains(run.Percentiles, o.Pct) {
			run.Percentiles = append(slices.Clip(run.Percentiles), o.Pct)
		}
	}
	for _, g := range c.Check.Goodput {
		run.Objectives = append(run.Objectives, metrics.Objective{Metric: string(g.Metric), Bound: g.MS})
	}
	return run
}

// block is how vLLM's block is to look.
func (s *session) block() result.Block {
	b := result.Block{Percentiles: s.Config.Output.Percentiles, Tokenizer: !s.tokens.skipped}
	for _, m := range s.Config.Output.PercentileMetrics {
		b.Metrics = append(b.Metrics, string(m))
	}
	return b
}

func labels(c *config.Bench) map[string]string {
	out := map[string]string{}
	for _, kv := range c.Output.Metadata {
		out[kv.Key] = kv.Value
	}
	if c.Output.Label != "" {
		out["label"] = c.Output.Label
	}
	return out
}
