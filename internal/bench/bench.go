// Package bench assembles one run: it wires target, tokenizer, workload, schedule, driver, recorder
// and observers together, and turns what they saw into a result. It is the only place that knows the
// whole pipeline. cli calls Run with settings from config and prints what comes back.
//
// Read Run first; each step has a file: target.go, tokens.go, load.go, observe.go, save.go.
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
	"spate/internal/client"
	"spate/internal/config"
	"spate/internal/driver"
	"spate/internal/metrics"
	"spate/internal/recorder"
	"spate/internal/report"
	"spate/internal/result"
)

// Job is one run to do.
type Job struct {
	Config  *config.Bench
	Command []string // the command line, secrets already removed
	Version string   // of spate
	Getenv  func(string) string
	Home    string

	Stdout io.Writer // vLLM's lines
	Stderr io.Writer // notes and the live view; a *report.Console where the caller has something to say too
	View   report.LiveOptions

	// Stop, when closed, ends sending and lets requests in flight finish.
	Stop <-chan struct{}

	// Live and Sink, where set, let the caller follow the run while it goes.
	Live *driver.Live
	Sink recorder.Sink
}

// Outcome is a finished run.
type Outcome struct {
	Run     *result.Run
	Unmet   []string // objectives asked for and not met, as sentences
	Records []call.Record
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
	memory  *recorder.Memory
	console *report.Console // standard error
	writing sync.WaitGroup  // of what is written beside the run
	notes   []string
}

// Run measures a server as the settings say. An error means that there is no result; failed requests
// are part of one.
func Run(ctx context.Context, job Job) (*Outcome, error) {
	restore := driver.Tune()
	defer restore()
	s := &session{Job: job, clock: call.NewClock()}
	s.shareConsole()
	defer s.close()
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
	return s.conclude(res)
}

// shareConsole makes messages and the live view share standard error. The caller may have made it a
// console already, to write there itself.
func (s *session) shareConsole() {
	var ok bool
	if s.console, ok = s.Stderr.(*report.Console); !ok {
		s.console = report.NewConsole(s.Stderr)
		s.Stderr = s.console
	}
}

// prepare does everything that can be done before the first measured request.
func (s *session) prepare(ctx context.Context) error {
	var err error
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
	if s.client, err = client.New(s.target.client); err != nil {
		return err
	}
	if s.load, err = s.newLoad(ctx); err != nil {
		return err
	}
	if err := s.ready(ctx); err != nil {
		return err
	}
	return s.open()
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
	s.memory = recorder.NewMemory(s.load.expect)
	if s.Config.Output.NoOutput {
		return nil
	}
	s.folder, err = result.Create(s.run, result.Options{
		Dir: s.Config.Output.OutputDir, Text: s.Config.Output.SaveDetailed, Redact: s.Config.Scrub,
	})
	return err
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
	if err := s.client.Warm(ctx, s.load.connections); err != nil {
		s.note("opening connections ahead of the run: %v", err)
	}
	s.profile(ctx, "/start_profile")
	s.watch = s.startWatch(ctx)

	live := s.Live
	if live == nil {
		live = &driver.Live{}
	}
	progress := report.NewProgress(s.load.expect)
	view := s.startView(ctx, live, progress)
	probes := s.startProbes(ctx)
	res, err := driver.Run(ctx, driver.Config{
		Plan: s.load.plan, Source: s.load.source, Warmup: s.load.warmup, Doer: counted{s.client, progress},
		Sink: s.sink(progress), Clock: s.clock, Retries: s.Config.Client.Retries,
		Grace: s.Config.Load.GracePeriod, Ahead: s.load.ahead, Stop: s.Stop,
		Settle: s.tokens.settle, Live: live, Began: s.began,
	})
	s.writing.Wait()
	probes()
	s.watch.stop(ctx, s)
	s.profile(ctx, "/stop_profile")
	view()
	return res, err
}

// sink sends each record to the log on disk, to memory for the summary, and to the live view. Closing
// is left to their owners.
func (s *session) sink(progress *report.Progress) recorder.Sink {
	sinks := []recorder.Sink{s.memory, progress}
	if s.folder != nil {
		sinks = append(sinks, s.folder.Log)
	}
	if s.Sink != nil {
		sinks = append(sinks, s.Sink)
	}
	return recorder.Tee(sinks...)
}

// conclude computes the result, judges it and writes it down.
func (s *session) conclude(res driver.Result) (*Outcome, error) {
	recs := s.memory.Records()
	r := s.run
	r.Plan.Start = s.measuredFrom(res)
	r.Plan.End = result.LastEnd(recs, r.Plan.Start)
	r.Plan.Due = 0 // every due request has a record
	r.Ended = s.clock.Start().Add(res.End)
	r.State = result.Complete
	if res.Stopped {
		r.State = result.Interrupted
	}
	r.Server.Change, r.Spec = s.watch.serverMetrics()
	r.Environment = s.environment()
	r.Compute(recs)
	s.observed()
	s.noteOddities(res)
	s.noteTurns(recs)
	r.Verdict = s.judge(&r.Summary)
	out := &Outcome{Run: r, Records: recs, Unmet: unmet(s.Config.Check.SLO, &r.Summary)}
	r.Notes = append(r.Notes, s.notes...)
	files, saveErr := s.saveVLLM(recs)
	r.Files = append(r.Files, files...)
	if s.folder != nil {
		saveErr = errors.Join(saveErr, s.folder.Finish(r))
	}
	return out, saveErr
}

// began keeps when the measured part began, beside the run, for the case that this process is killed.
func (s *session) began(at time.Duration) {
	if s.folder == nil {
		return
	}
	if s.load.plan.Due != nil {
		at += s.load.offset
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
	if res.Starved > 0 && s.load.plan.Due != nil {
		s.note("making prompts could not keep up %d times; those requests were late", res.Starved)
	}
	st := s.client.Stats()
	if st.InBand > 0 && s.Config.Client.Connect == config.ConnectAhead {
		s.note("%d of %d connections were opened on demand because none was free", st.InBand, st.Dialed)
	}
	if !s.load.aligned { // its notes are about prompts made without a tokenizer, which are exact now
		s.notes = append(s.notes, s.load.source.Notes()...)
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
	if s.load != nil {
		_ = s.load.close()
	}
	if s.client != nil {
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
