package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"spate/internal/figure"
	"spate/internal/host/launch"
	"spate/internal/result"
	"spate/internal/safe/secret"
	"spate/internal/search/capacity"
	"spate/internal/settings/config"
	"spate/internal/trial"
)

// Live makes steps on servers that its executor starts.
type Live struct {
	File     *File
	Folder   *Folder
	Executor trial.Executor
	Resolve  Resolve
	Self     string // this program, which simulated servers are started with
	GPUs     string // as typed
	UsedOK   string // likewise: GPU memory that others may use
	NoGPU    string // why the GPUs of a simulated server are not looked at
}

// Try implements Runner.
func (l *Live) Try(ctx context.Context, step Step) (Observation, error) {
	began := time.Now()
	o := Observation{Step: step}
	server, err := l.server(step)
	if err != nil {
		return o, err
	}
	for _, w := range l.File.sent(step.Phase) {
		m, err := l.measure(ctx, &o, w, server)
		if f, ok := errors.AsType[*launch.Failure](err); ok && ctx.Err() == nil {
			o.Failure, o.Runs, o.TookS = f, nil, time.Since(began).Seconds()
			if !f.UnderLoad {
				o.Started = true
			}
			o.Command = cmp.Or(o.Command, f.Command)
			return o, nil
		}
		if err != nil {
			return o, err
		}
		o.Runs = append(o.Runs, m)
		server.Fresh = false // the other workloads of the step are sent to the same server
	}
	l.File.Score(&o)
	if o.Early != "" && o.Violation == 0 {
		o.Violation, o.Missed = 1, []string{o.Early}
	}
	o.TookS = time.Since(began).Seconds()
	return o, nil
}

// server is the one to start for a step. Probes of one setting share a start; finals do not, since a start is part of
// what differs.
func (l *Live) server(step Step) (*trial.Server, error) {
	f := l.File
	name := fmt.Sprintf("%s-a%d-%d.log", step.Key(), step.Attempt, time.Now().Unix())
	spec := launch.Spec{
		Command: f.Command(step.Settings, "", l.Self), Env: f.Env(step.Settings), URL: f.Server.URL, Log: filepath.Join(l.Folder.Dir, "servers", name),
		Ready: time.Duration(f.Server.ReadyS * float64(time.Second)), Grace: time.Duration(f.Server.GraceS * float64(time.Second)),
		Cleanup: f.Server.Stop,
	}
	if f.Server.Kind == "sim" {
		spec.GPU.Skip = l.NoGPU
	}
	if err := spec.Choose("--", l.GPUs, l.UsedOK); err != nil {
		return nil, err
	}
	return &trial.Server{Spec: spec, Key: f.Space().Key(step.Settings), Fresh: step.Phase != Knee && step.Phase != Trial}, nil
}

// measure sends one workload.
func (l *Live) measure(ctx context.Context, o *Observation, w Workload, server *trial.Server) (Measured, error) {
	m := Measured{Workload: w.Name}
	key := o.Key()
	if len(l.File.Workloads) > 1 {
		key += "-" + strings.Map(fileSafe, w.Name)
	}
	cfg, err := l.settings(o, w)
	if err != nil {
		return m, err
	}
	if err := l.Folder.Place(key, cfg, trial.Salt); err != nil {
		return m, err
	}
	res, err := l.Executor.Try(ctx, &trial.Point{
		Config: cfg, Command: append([]string{"spate", "bench"}, secret.Args(w.Args)...), Watch: l.watch(o, cfg), Server: server,
	})
	if res == nil {
		return m, err
	}
	o.started(res)
	if f, ok := errors.AsType[*launch.Failure](err); ok {
		return m, f
	}
	m.Run, m.Figures = res.Run.Dir, l.File.FromSummary(&res.Run.Summary)
	if res.Early != "" {
		o.Early = res.Early
	} else { // one that was cut short on purpose is judged by why
		m.Grade = string(res.Run.Verdict.Grade)
		if bad := res.Run.Verdict.Bad(); len(bad) > 0 {
			m.Why = bad[0].Sentence
		}
	}
	o.saw(m.Figures, res.Run)
	return m, nil
}

// started notes the server of a step's first run.
func (o *Observation) started(res *trial.Result) {
	if len(o.Runs) > 0 || res.Server == nil {
		return
	}
	o.Started, o.StartS, o.Command = res.Started, res.Start.Seconds(), res.Server.Line()
	if data, err := os.ReadFile(res.Server.Log); err == nil {
		facts := launch.ReadFacts(string(data))
		o.Facts = &facts
	}
}

func fileSafe(r rune) rune {
	if r == '-' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
		return r
	}
	return '_'
}

// settings are those of one run.
func (l *Live) settings(o *Observation, w Workload) (*config.Bench, error) {
	cfg, err := o.Config(w.Args, l.Resolve)
	if err != nil {
		return nil, fmt.Errorf("workload %s: %w", w.Name, err)
	}
	for _, p := range l.File.Percentiles() {
		if !slices.Contains(cfg.Output.Percentiles, p) {
			cfg.Output.Percentiles = append(cfg.Output.Percentiles, p)
		}
	}
	if cfg.Output.Label == "" {
		cfg.Output.Label = o.Name()
	}
	label := func(key, value string) {
		cfg.Output.Metadata = append(cfg.Output.Metadata, config.KeyValue{Key: key, Value: value})
	}
	label("tune", l.File.Name)
	label("trial", strconv.Itoa(o.Trial))
	label("phase", string(o.Phase))
	if o.Round > 0 {
		label("round", strconv.Itoa(o.Round))
	}
	for i := range l.File.Knobs {
		if v, ok := o.Settings[l.File.Knobs[i].Name]; ok {
			label(l.File.Knobs[i].Name, v)
		}
	}
	return cfg, nil
}

// Name is what the step's settings are called.
func (o *Observation) Name() string {
	if o.Trial == 0 {
		return "default"
	}
	return "trial " + strconv.Itoa(o.Trial)
}

// watch ends a trial that is certain to be worse than the best; other steps it only looks at.
func (l *Live) watch(o *Observation, cfg *config.Bench) trial.Watch {
	var limits []figure.Objective
	for _, c := range l.File.Objectives() {
		if c.Unit == "ms" || c.Metric == "error_rate" {
			limits = append(limits, c)
		}
	}
	return &stepWatch{Watch: capacity.NewWatch(limits, capacity.Concurrency, cfg.Load.NumPrompts), step: &o.Step}
}

// stepWatch is a watch with the step's deadline.
type stepWatch struct {
	*capacity.Watch
	step *Step
	ran  time.Duration
}

// Sample implements trial.Watch.
func (w *stepWatch) Sample(at time.Duration, due, done int) {
	w.ran = at
	w.Watch.Sample(at, due, done)
}

// Hopeless implements trial.Watch.
func (w *stepWatch) Hopeless() (why string, full bool) {
	switch {
	case w.step.Phase != Trial || w.step.Trial == 0:
		return "", false
	case w.step.Deadline > 0 && w.ran.Seconds() > w.step.Deadline:
		return "it takes more than twice as long as the best", false
	}
	return w.Watch.Hopeless()
}

// saw adds what the server said of itself and what its GPUs did.
func (o *Observation) saw(fig map[string]float64, run *result.Run) {
	if run.Observed == nil {
		return
	}
	for i := range run.Observed.GPUs {
		if g := run.Observed.GPUs[i].MemoryUsed; g != nil {
			o.MemoryGiB = max(o.MemoryGiB, g.Max/(1<<30))
		}
	}
	if e := run.Observed.Energy; e != nil {
		o.PowerW = max(o.PowerW, e.MeanW)
	}
	s := run.Observed.Server
	if s == nil {
		return
	}
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
