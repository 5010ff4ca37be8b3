package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"spate/internal/bench"
	"spate/internal/call"
	"spate/internal/host/launch"
	"spate/internal/result"
	"spate/internal/safe/secret"
	"spate/internal/search/capacity"
	"spate/internal/search/sweep"
	"spate/internal/search/tune"
	"spate/internal/send/driver"
	"spate/internal/settings/config"
)

// measured searches with real servers.
func (h *hunted) measured(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	ctx, stop, interrupted, done := interrupts(ctx, h.p)
	defer done()
	h.m.stop = stop
	d, err := h.open(h.folder())
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }() // everything in it is on disk
	say(h.p.Stderr, "search in %s\n", d.Dir)
	r := &serverRunner{h: h, dir: d, self: self}
	view := h.view()
	stopped, err := tune.Run(ctx, d, h.tuner, r, tune.Options{Prior: h.prior(ctx), Show: view.show, Stop: stop})
	err = errors.Join(err, r.stop(ctx))
	if stopped || interrupted() {
		say(h.p.Stderr, "%d steps are kept; go on with: spate tune %s --output-dir %s\n", len(d.History), h.path, d.Dir)
		return exit{ExitInterrupted}
	}
	if err != nil {
		if len(d.History) > 0 {
			say(h.p.Stderr, "%d steps are kept; once that is set right, go on with: spate tune %s --output-dir %s\n", len(d.History), h.path, d.Dir)
		}
		return err
	}
	return h.conclude(ctx, d, "")
}

// serverRunner makes steps on servers it starts.
type serverRunner struct {
	h    *hunted
	dir  *tune.Folder
	self string

	srv   *launch.Server // running now; nil: none
	key   string         // of its settings
	phase tune.Phase     // it was started in
	said  bool           // what sayGuarded says
}

// settleFor is how long what an earlier sitting left behind may take to be gone: a killed spate's guard ends its
// server, and the driver frees its memory, within seconds.
const settleFor = 20 * time.Second

// Try implements tune.Runner.
func (r *serverRunner) Try(ctx context.Context, step tune.Step) (tune.Observation, error) {
	began := time.Now()
	o := tune.Observation{Step: step}
	var err error
	if o.Started, err = r.start(ctx, step); err != nil {
		var f *launch.Failure
		if !errors.As(err, &f) || ctx.Err() != nil {
			return o, err
		}
		o.Failure, o.Command, o.TookS = f, f.Command, time.Since(began).Seconds()
		return o, nil
	}
	o.Command, o.StartS = r.srv.Line(), time.Since(began).Seconds()
	if data, err := os.ReadFile(r.srv.Log); err == nil {
		facts := launch.ReadFacts(string(data))
		o.Facts = &facts
	}
	f := r.h.f
	sent := f.Workloads
	if step.Phase == tune.Holdout {
		sent = []tune.Workload{*f.Held}
	}
	for _, w := range sent {
		m, err := r.measure(ctx, &o, w)
		if died := r.srv.Died(); died != nil {
			died.UnderLoad = true
			o.Failure, o.Runs, o.TookS = died, nil, time.Since(began).Seconds()
			return o, r.stop(ctx)
		}
		if err != nil {
			return o, err
		}
		o.Runs = append(o.Runs, m)
	}
	f.Score(&o)
	if o.Early != "" && o.Violation == 0 {
		o.Violation, o.Missed = 1, []string{o.Early}
	}
	o.TookS = time.Since(began).Seconds()
	return o, nil
}

// start makes sure that a server with the step's settings runs, and reports whether it had to start one. Probes of one setting share a start;
// finals do not, since a start is part of what differs.
func (r *serverRunner) start(ctx context.Context, step tune.Step) (started bool, err error) {
	f := r.h.f
	key := f.Space().Key(step.Settings)
	shared := step.Phase == tune.Knee || step.Phase == tune.Trial
	if r.srv != nil && r.key == key && shared && r.srv.Died() == nil {
		return false, nil
	}
	if err := r.stop(ctx); err != nil {
		return false, err
	}
	name := fmt.Sprintf("%s-a%d-%d.log", step.Key(), step.Attempt, time.Now().Unix())
	spec := launch.Spec{
		Command: f.Command(step.Settings, "", r.self), Env: f.Env(step.Settings), URL: f.Server.URL, Log: filepath.Join(r.dir.Dir, "servers", name),
		Ready: time.Duration(f.Server.ReadyS * float64(time.Second)), Grace: time.Duration(f.Server.GraceS * float64(time.Second)),
		Guard: []string{r.self, guardName}, Cleanup: f.Server.Stop, Patience: settleFor,
	}
	if f.Server.Kind == "sim" {
		spec.GPU.Skip = noGPU
	}
	if err := spec.Choose("--", r.h.o.gpus, r.h.o.usedOK); err != nil {
		return false, err
	}
	srv, err := launch.Start(ctx, spec)
	if err != nil {
		return true, err
	}
	if !r.said {
		r.said = true
		sayGuarded(r.h.p, srv)
	}
	r.srv, r.key, r.phase = srv, key, step.Phase
	return true, nil
}

// stop ends the server that runs, if any.
func (r *serverRunner) stop(ctx context.Context) error {
	if r.srv == nil {
		return nil
	}
	err := r.srv.Stop(context.WithoutCancel(ctx))
	r.srv = nil
	if err != nil {
		return fmt.Errorf("end the server: %w", err)
	}
	return nil
}

// measure sends one workload.
func (r *serverRunner) measure(ctx context.Context, o *tune.Observation, w tune.Workload) (tune.Measured, error) {
	m := tune.Measured{Workload: w.Name}
	key := o.Key()
	if len(r.h.f.Workloads) > 1 {
		key += "-" + strings.Map(fileSafe, w.Name)
	}
	dir, before, err := r.dir.Claim(key)
	if err != nil {
		return m, err
	}
	cfg, err := r.settings(o, w, dir)
	if err != nil {
		return m, err
	}
	sweep.Salted(cfg, string(sweep.Salt), fmt.Sprintf("%s.%d", key, before))
	command := append([]string{"spate", "bench"}, secret.Args(w.Args)...)
	run, early, err := r.watched(ctx, o, cfg, command)
	if run == nil {
		return m, err
	}
	m.Run, m.Figures = run.Dir, r.h.f.FromSummary(&run.Summary)
	if early != "" {
		o.Early = early
	} else { // one that was cut short on purpose is judged by why
		m.Grade = string(run.Verdict.Grade)
		if bad := run.Verdict.Bad(); len(bad) > 0 {
			m.Why = bad[0].Sentence
		}
	}
	server(m.Figures, run)
	if run.Observed != nil {
		for i := range run.Observed.GPUs {
			if g := run.Observed.GPUs[i].MemoryUsed; g != nil {
				o.MemoryGiB = max(o.MemoryGiB, g.Max/(1<<30))
			}
		}
		if e := run.Observed.Energy; e != nil {
			o.PowerW = max(o.PowerW, e.MeanW)
		}
	}
	return m, nil
}

func fileSafe(r rune) rune {
	if r == '-' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
		return r
	}
	return '_'
}

// settings are those of one run.
func (r *serverRunner) settings(o *tune.Observation, w tune.Workload, dir string) (*config.Bench, error) {
	cfg, err := o.Config(w.Args, r.h.p.resolve)
	if err != nil {
		return nil, fmt.Errorf("workload %s: %w", w.Name, err)
	}
	cfg.Target.BaseURLs = []string{r.srv.URL}
	if cfg.Observe.ServerLog == "" && !cfg.Observe.Off {
		cfg.Observe.ServerLog = r.srv.Log
	}
	cfg.Output.OutputDir = dir
	for _, p := range r.h.f.Percentiles() {
		if !contains(cfg.Output.Percentiles, p) {
			cfg.Output.Percentiles = append(cfg.Output.Percentiles, p)
		}
	}
	if cfg.Output.Label == "" {
		cfg.Output.Label = trialName(o)
	}
	cfg.Output.Metadata = append(cfg.Output.Metadata, config.KeyValue{Key: "tune", Value: r.h.f.Name},
		config.KeyValue{Key: "trial", Value: strconv.Itoa(o.Trial)}, config.KeyValue{Key: "phase", Value: string(o.Phase)})
	if o.Round > 0 {
		cfg.Output.Metadata = append(cfg.Output.Metadata, config.KeyValue{Key: "round", Value: strconv.Itoa(o.Round)})
	}
	for i := range r.h.f.Knobs {
		if v, ok := o.Settings[r.h.f.Knobs[i].Name]; ok {
			cfg.Output.Metadata = append(cfg.Output.Metadata, config.KeyValue{Key: r.h.f.Knobs[i].Name, Value: v})
		}
	}
	return cfg, nil
}

func contains(list []float64, v float64) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}

// watched makes a run and ends it when it is certain to be no use.
func (r *serverRunner) watched(ctx context.Context, o *tune.Observation, cfg *config.Bench, command []string) (*result.Run, string, error) {
	m := *r.h.m
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var limits []config.Objective
	for _, l := range r.h.f.Objectives() {
		if l.Unit == "ms" || l.Metric == "error_rate" {
			limits = append(limits, l)
		}
	}
	watch := capacity.NewWatch(limits, capacity.Concurrency, cfg.Load.NumPrompts)
	live, end, over := &driver.Live{}, make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	var early string
	wg.Go(func() { early = r.look(o, live, watch, end, over, cancel) })
	m.hooks = func(job *bench.Job) { job.Live, job.Sink, job.Stop = live, watch, end }
	run, err := m.bench(ctx, cfg, command)
	close(over)
	wg.Wait()
	return run, early, err
}

// look follows a run. It ends sending when the user says so, when the server has died, and when a trial is
// certain to be worse than the best; what is in flight then is given up a little later.
func (r *serverRunner) look(o *tune.Observation, live *driver.Live, watch *capacity.Watch, end chan<- struct{}, over <-chan struct{}, cancel context.CancelCauseFunc) string {
	tick := time.NewTicker(capacity.LookEvery)
	defer tick.Stop()
	var began time.Time
	why := ""
	for why == "" {
		select {
		case <-over:
			return ""
		case <-r.h.m.stop:
			close(end)
			return ""
		case <-r.srv.Ended():
			close(end)
			cancel(call.ErrInterrupted)
			return ""
		case now := <-tick.C:
			due := live.Due.Load()
			if due == 0 {
				continue
			}
			if began.IsZero() {
				began = now
			}
			watch.Sample(now.Sub(began), int(due), int(live.Done.Load()))
			why = hopeless(o, watch, now.Sub(began))
		}
	}
	close(end)
	select {
	case <-over:
	case <-time.After(capacity.LastGrace):
		cancel(call.ErrInterrupted)
	}
	return why
}

// hopeless says why a trial need not go on; empty when it may.
func hopeless(o *tune.Observation, watch *capacity.Watch, ran time.Duration) string {
	if o.Phase != tune.Trial || o.Trial == 0 {
		return ""
	}
	if o.Deadline > 0 && ran.Seconds() > o.Deadline {
		return "it takes more than twice as long as the best"
	}
	if reason, _ := watch.Hopeless(); reason != "" {
		return reason
	}
	return ""
}

// server adds what the server said of itself.
func server(fig map[string]float64, run *result.Run) {
	if run.Observed == nil || run.Observed.Server == nil {
		return
	}
	s := run.Observed.Server
	if s.Preemptions != nil {
		fig["preemptions"] = *s.Preemptions
	}
	if s.Running != nil {
		fig["running"] = s.Running.Mean
	}
	if s.Waiting != nil {
		fig["waiting"] = s.Waiting.Mean
	}
	if s.KVUsage != nil {
		fig["kv_usage_pct"] = 100 * s.KVUsage.Mean
	}
}
