// Package bench assembles one run: it wires target, tokenizer, workload, schedule, driver, recorder
// and observers together, and turns what they saw into a result. It is the only place that knows the
// whole pipeline. cli calls Run with settings from config and prints what comes back.
//
// Read Run first; each step has a file: tenants.go, target.go, tokens.go, load.go, observe.go, save.go.
// A session is the run; what it sends belongs to its tenants, of which a plain run has one.
package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"spate/internal/call"
	"spate/internal/call/recorder"
	"spate/internal/judge/metrics"
	"spate/internal/judge/verdict"
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

	Workers // of a load that several processes send
}

// Outcome is a finished run.
type Outcome struct {
	Run   *result.Run
	Unmet []string // objectives asked for and not met, as sentences

	kept   *recorder.Spill
	worker result.Worker
}

// session is a run under way.
type session struct {
	Job
	clock   call.Clock
	watch   *watch
	self    *verdict.Self // after the load
	run     *result.Run
	folder  *result.Folder
	memory  *recorder.Spill
	console *live.Console  // standard error
	writing sync.WaitGroup // of what is written beside the run
	rows    rows           // the workers, where others send
	started atomic.Int64   // the start they were given, on the clock; 0 before it is known
	notes   []string

	tenants  []*tenant  // who sends: one or more
	named    []*tenant  // those of them that a result has rows for: none of a plain run
	whole    *tenant    // what is asked, shown and judged once for all of them
	heading  string     // of a plan
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
	s, err := newSession(job)
	if err != nil {
		return nil, err
	}
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

// assemble puts target, tokenizer, client and load of every tenant together.
func (s *session) assemble(ctx context.Context) error {
	s.newTenants()
	if len(s.tenants) == 0 {
		return fmt.Errorf("%w: there are %d tenants for %d workers", ErrIdle, len(s.Config.Tenants), s.Part.Of)
	}
	for i, t := range s.tenants {
		if err := t.assemble(ctx, s.tenants[:i]); err != nil {
			return t.err(err)
		}
	}
	s.join()
	return nil
}

func (t *tenant) assemble(ctx context.Context, earlier []*tenant) error {
	err := t.meet(ctx)
	if err != nil {
		return err
	}
	if err := t.shareClient(earlier); err != nil {
		return err
	}
	t.load, err = t.newLoad(ctx)
	return err
}

// meet finds the server, its model and a tokenizer for it.
func (t *tenant) meet(ctx context.Context) error {
	err := t.checkServerLog()
	if err != nil {
		return err
	}
	if t.target, err = newTarget(t.Config, t.Getenv); err != nil {
		return err
	}
	if t.control, err = client.NewControl(t.target.client); err != nil {
		return err
	}
	if err := t.discover(ctx); err != nil {
		return err
	}
	if t.tokens, err = t.loadTokens(ctx); err != nil {
		return err
	}
	t.target.client.Clock, t.target.client.Turn = t.clock, t.Part.Index
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
		Command: s.Command, Config: settings, Environment: s.environment(), Server: s.whole.target.describe(),
		Plan: result.NewPlan(s.whole.metricsRun(), s.whole.load.text), Block: s.block(), Labels: labels(s.Config),
	}
	s.run.Plan.Judge = s.settings()
	for _, t := range s.named {
		s.run.Tenants = append(s.run.Tenants, t.row())
	}
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
	if s.Drive == nil {
		s.warmConnections(ctx)
	}
	s.profile(ctx, "/start_profile")
	s.watch = s.startWatch(ctx)

	counts := s.Live
	if counts == nil {
		counts = &driver.Live{}
	}
	progress := live.NewProgress(s.whole.load.expect)
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

// drive sends what the tenant has to send; cfg has what all tenants of a run share.
func (t *tenant) drive(ctx context.Context, cfg driver.Config, progress *live.Progress) (err error) {
	cfg.Plan, cfg.Source, cfg.Warmup, cfg.Ahead = t.load.plan, t.load.source, t.load.warmup, t.load.ahead
	cfg.Doer, cfg.Settle, cfg.Began, cfg.Grace = counted{sender{t}, progress}, t.settle, t.began, t.Config.Load.GracePeriod
	if t.res, err = driver.Run(ctx, cfg); t.res.Aborted != "" {
		t.res.Aborted = t.mark + t.whyAborted(t.res.Aborted, t.res.Refusal)
	}
	return t.err(err)
}

// settle completes a record.
func (t *tenant) settle(r *call.Record) {
	t.tokens.settle(r)
	t.sign(r)
	r.Worker = t.Worker
}

// warmConnections opens connections before requests are due. A client that several tenants share needs
// as many as all of them together: they start at the same moment.
func (s *session) warmConnections(ctx context.Context) {
	want := map[*client.Client]int{}
	for _, t := range s.tenants {
		want[t.client] += t.load.connections
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

// beside is where records of requests go that are no part of the load. Who follows a worker wants them, too.
func (s *session) beside() recorder.Sink {
	sinks := []recorder.Sink{s.memory}
	if s.folder != nil {
		sinks = append(sinks, s.folder.Log)
	}
	if s.Sink != nil && s.Part.Split() {
		sinks = append(sinks, s.Sink)
	}
	return recorder.Tee(sinks...)
}

// Records are all records, put into memory; they may be many.
func (o *Outcome) Records() []call.Record { return o.kept.List() }

// Close releases the records.
func (o *Outcome) Close() error { return o.kept.Close() }

// conclude computes the result, judges it and writes it down.
func (s *session) conclude(res driver.Result) (*Outcome, error) {
	recs := s.memory
	r := s.run
	s.bound(recs)
	r.Ended = s.clock.Start().Add(res.End)
	r.State = result.Complete
	switch {
	case res.Aborted != "":
		r.State, r.Aborted = result.Aborted, res.Aborted
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
	s.noteOddities()
	for _, t := range s.tenants {
		t.noteTurns(recs)
	}
	r.Verdict = s.judge(&r.Summary)
	s.hintFailures(&r.Verdict, r.Summary.Failures.Kinds)
	out := &Outcome{Run: r, kept: recs, worker: s.worker(res), Unmet: append(unmet(s.Config.Check.SLO, &r.Summary), unmetTenants(r)...)}
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
func (t *tenant) began(at time.Duration) {
	t.hold()
	if t.load.plan.Due != nil {
		at += t.load.offset
	}
	t.watch.measuring(at)
	t.starting.Lock()
	t.start = at
	t.starting.Unlock()
	if t.folder == nil {
		return
	}
	t.writing.Go(func() {
		t.planning.Lock() // one file at a time, and the last one to write knows all
		defer t.planning.Unlock()
		planned, first := t.begun()
		if err := t.folder.Began(planned, first); err != nil {
			t.say("note: %v", err)
		}
	})
}

// measuredFrom is where the measured part begins: the origin of its schedule in an open loop, as vLLM
// counts it, and the first measured request in a closed one.
func (t *tenant) measuredFrom() time.Duration {
	switch {
	case t.load.plan.Due != nil:
		return t.res.Start + t.load.offset
	case t.res.Measure == call.Unset:
		return t.res.Start
	}
	return t.res.Measure
}

// noteOddities says what a reader should know about how the run went.
func (s *session) noteOddities() {
	for _, t := range s.tenants {
		if t.res.Starved > 0 && t.load.plan.Due != nil {
			t.note("making prompts could not keep up %d times; those requests were late", t.res.Starved)
		}
	}
	var st client.Stats
	for _, c := range s.clients() {
		one := c.Stats()
		st.InBand, st.Dialed, st.Resent = st.InBand+one.InBand, st.Dialed+one.Dialed, st.Resent+one.Resent
	}
	if st.Resent > 0 {
		s.note("the server closes connections after an answer without announcing it: %d requests met this and were sent again on new connections", st.Resent)
	}
	if st.InBand > 0 && s.Config.Client.Connect == config.ConnectAhead {
		s.note("%d of %d connections were opened on demand because none was free", st.InBand, st.Dialed)
	}
	for _, t := range s.tenants {
		if t.load.aligned { // its notes are about prompts made without a tokenizer, which are exact now
			continue
		}
		for _, n := range t.load.source.Notes() {
			t.note("%s", n)
		}
	}
}

func (s *session) note(format string, args ...any) {
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
	for _, t := range s.tenants {
		t.close()
	}
}

func (t *tenant) close() {
	if t.load != nil {
		_ = t.load.close()
	}
	if t.client != nil && !t.guest {
		t.client.Close()
	}
	if t.control != nil {
		t.control.Close()
	}
}

// metricsRun is what the metrics need to know of the plan.
func (t *tenant) metricsRun() metrics.Run {
	c := t.Config
	run := metrics.Run{
		Requested: c.Load.NumPrompts, RequestRate: float64(c.Load.RequestRate), Percentiles: c.Output.Percentiles,
		EndRule: metrics.LastChunk, Tokenizer: !t.tokens.skipped, SteadyThreshold: c.Check.SteadyThreshold,
		SteadyMinWindow: c.Check.SteadyMinWindow, NoSteady: c.Check.NoSteadyState, Seed: uint64(c.Load.Seed),
	}
	switch m := t.target.client.Backend; {
	case m.Whole:
		run.EndRule = metrics.Headers
	case m.UsageEnds:
		run.EndRule = metrics.LastEvent
	}
	if c.Load.MaxConcurrency != nil {
		run.MaxConcurrency = *c.Load.MaxConcurrency
	}
	t.ownPart(&run)
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
	b := result.Block{Percentiles: s.Config.Output.Percentiles, Tokenizer: !s.whole.tokens.skipped}
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
