package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"spate/internal/figure"
	"spate/internal/forecast/predict"
	"spate/internal/forecast/profile"
	"spate/internal/host/launch"
	"spate/internal/judge/metrics"
	"spate/internal/search/suggest"
	"spate/internal/settings/config"
	"spate/internal/sim"
	"spate/internal/sim/catalog"
	"spate/internal/sim/cluster"
	"spate/internal/sim/engineconf"
)

// Resolve turns arguments of bench into settings.
type Resolve func(args []string) (*config.Bench, error)

// Burst is the rate of requests that are all sent at once.
const Burst = math.MaxFloat32

// Virtual makes steps on a simulated server in virtual time. Nothing is started, and the same step gives the
// same figures.
type Virtual struct {
	File    *File
	Profile *profile.Profile // nil: computed from the datasheet
	Jitter  float64          // sigma of log-normal noise on every step, other in each run
	Start   time.Duration    // what a start is taken to cost
	Speed   float64          // times as fast as simulated; 0: one
	Asked   int              // settings that Prior looks at; 0: enough of them
	Load    func(*config.Bench) (*predict.Load, error)
	Resolve Resolve

	base  *engineconf.Conf
	loads map[string]*predict.Load
}

// NewVirtual checks that the file's server can be simulated.
func NewVirtual(f *File, prof *profile.Profile, resolve Resolve) (*Virtual, error) {
	v := &Virtual{File: f, Profile: prof, Load: withoutTokenizer, Resolve: resolve, Start: time.Minute, loads: map[string]*predict.Load{}}
	if !f.vllm() {
		return nil, fmt.Errorf("the simulator knows what flags of vllm serve do, not those of %s", cmp.Or(f.Server.Kind, "this server"))
	}
	for _, o := range f.limits {
		if o.Stat != "" && !slices.Contains(figure.Latencies(), o.Metric) {
			return nil, fmt.Errorf("constraint %q: the simulator has no %s", o.Text, o.Metric)
		}
	}
	if prof != nil {
		facts := prof.Engine.Settings()
		facts.Blocks = 0
		if c, err := facts.Resolve(); err == nil {
			v.base = c
		}
		return v, nil
	}
	s, err := f.Settings(f.Defaults())
	if err != nil {
		return nil, err
	}
	if _, err := s.Resolve(); err != nil {
		var refused *catalog.StartError
		if !errors.As(err, &refused) {
			return nil, fmt.Errorf("the default cannot be simulated: %w", err)
		}
	}
	return v, nil
}

// withoutTokenizer makes requests by words.
func withoutTokenizer(c *config.Bench) (*predict.Load, error) {
	return predict.NewLoad(c, predict.Prompts{})
}

// Try implements Runner.
func (v *Virtual) Try(_ context.Context, step Step) (Observation, error) {
	o := Observation{Step: step, Command: v.File.Line(step.Settings), Started: step.Phase != Knee} // the knee is looked for on the server of the first trial
	cl, err := v.cluster(step.Settings, v.seed(step))
	if err != nil {
		var refused *catalog.StartError
		if !errors.As(err, &refused) {
			return o, err
		}
		f := launch.Classify(refused.Error())
		f.Command = o.Command
		o.Failure = &f
		return o, nil
	}
	o.TookS, o.StartS = v.Start.Seconds(), v.Start.Seconds()
	for _, w := range v.File.sent(step.Phase) {
		m, err := v.measure(cl, w, step)
		if err != nil {
			return o, err
		}
		o.Runs = append(o.Runs, m)
		o.TookS += m.Figures["duration"]
	}
	v.File.Score(&o)
	return o, nil
}

// sent are the workloads of a phase.
func (f *File) sent(p Phase) []Workload {
	if p == Holdout {
		return []Workload{*f.Held}
	}
	return f.Workloads
}

// seed tells runs apart where they are noisy; without noise all are alike, whenever they are made.
func (v *Virtual) seed(step Step) uint64 {
	if v.Jitter == 0 {
		return v.File.Seed
	}
	return v.File.Seed + 1_000_003*uint64(step.N+1)
}

// cluster is the simulated server with some settings.
func (v *Virtual) cluster(set suggest.Settings, seed uint64) (cluster.Config, error) {
	s, err := v.File.Settings(set)
	if err != nil {
		return cluster.Config{}, err
	}
	var cl cluster.Config
	switch {
	case v.Profile == nil:
		c, err := s.Resolve()
		if err != nil {
			return cl, err
		}
		cl = profile.Computed(c, seed)
	default:
		if cl, err = v.measured(s, seed); err != nil {
			return cl, err
		}
	}
	cl.Log = time.Hour
	for i := range cl.Engines {
		if v.Jitter > 0 {
			cl.Engines[i].Jitter = v.Jitter
		}
	}
	return cl, nil
}

// measured is a calibrated server with other flags: its step times stay, its scheduler follows the flags, and
// its KV cache grows and shrinks as the memory plan says.
func (v *Virtual) measured(s *engineconf.Settings, seed uint64) (cluster.Config, error) {
	cl := v.Profile.Cluster(&v.Profile.Cost, seed)
	cl.Engines = slices.Clone(cl.Engines)
	var c *engineconf.Conf
	if v.base != nil {
		facts := v.Profile.Engine.Settings()
		s.Model, s.GPU = facts.Model, facts.GPU
		if s.Version == "" {
			s.Version = facts.Version
		}
		if s.TP <= 1 {
			s.TP = facts.TP
		}
		if s.MaxModelLen == 0 {
			s.MaxModelLen = facts.MaxModelLen
		}
		var err error
		if c, err = s.Resolve(); err != nil {
			return cl, err
		}
	}
	for i := range cl.Engines {
		to := &cl.Engines[i].Sim
		if c == nil {
			overrideSim(to, s)
		} else {
			tokens := float64(to.Blocks*to.BlockSize) * float64(c.Budget.Blocks*c.Block) / float64(v.base.Budget.Blocks*v.base.Block)
			next := c.Sim
			next.Blocks, next.Seed = max(1, int(tokens)/next.BlockSize), seed
			*to = next
		}
		if err := to.Check(); err != nil {
			return cl, &catalog.StartError{Type: "ValueError", Message: err.Error()}
		}
	}
	return cl, nil
}

// overrideSim applies flags to a scheduler of which nothing else is known.
func overrideSim(c *sim.Config, s *engineconf.Settings) {
	for _, f := range []struct {
		to *int
		v  int
	}{{&c.MaxSeqs, s.MaxSeqs}, {&c.MaxTokens, s.MaxTokens}, {&c.MaxModelLen, s.MaxModelLen}, {&c.Blocks, s.Blocks}, {&c.LongPrefill, s.LongPrefill}} {
		if f.v > 0 {
			*f.to = f.v
		}
	}
	if s.Block > 0 && s.Block != c.BlockSize {
		c.Blocks, c.BlockSize = c.Blocks*c.BlockSize/s.Block, s.Block
	}
	if s.Prefix != nil {
		c.PrefixCaching = *s.Prefix
	}
	if s.Async != nil {
		c.Async = *s.Async
	}
	c.DelayFactor, c.Steps = s.Delay, max(c.Steps, s.Steps)
}

// Config are the settings of one run of a step: load and length.
func (s *Step) Config(args []string, resolve Resolve) (*config.Bench, error) {
	args = slices.Clone(args)
	switch {
	case s.Rate == Burst:
		args = append(args, "--request-rate", "inf")
	case s.Rate > 0:
		args = append(args, "--request-rate", strconv.FormatFloat(s.Rate, 'f', -1, 64))
	}
	cfg, err := resolve(args)
	if err != nil {
		return nil, err
	}
	if s.Share < 1 {
		cfg.Load.NumPrompts = int(math.Ceil(float64(cfg.Load.NumPrompts) * s.Share))
		cfg.Load.Duration = time.Duration(float64(cfg.Load.Duration) * s.Share)
	}
	if s.Round > 1 {
		cfg.Load.Seed += int64(s.Round) - 1 // repeats with the same arrivals would agree more than they should
	}
	return cfg, nil
}

// measure runs one workload.
func (v *Virtual) measure(cl cluster.Config, w Workload, step Step) (Measured, error) {
	m := Measured{Workload: w.Name}
	key := fmt.Sprintf("%s %g %g %d", w.Name, step.Rate, step.Share, step.Round)
	cfg, err := step.Config(w.Args, v.Resolve)
	if err != nil {
		return m, fmt.Errorf("workload %s: %w", w.Name, err)
	}
	l := v.loads[key]
	if l == nil {
		if l, err = v.Load(cfg); err != nil {
			return m, fmt.Errorf("workload %s: %w", w.Name, err)
		}
		v.loads[key] = l
	}
	server, err := cluster.New(cl)
	if err != nil {
		return m, fmt.Errorf("start a simulated server: %w", err)
	}
	res, err := server.Run(v.stretched(l))
	if err != nil {
		return m, fmt.Errorf("simulate: %w", err)
	}
	m.Figures = v.figures(res, cfg)
	return m, nil
}

func (v *Virtual) speed() float64 {
	if v.Speed <= 0 {
		return 1
	}
	return v.Speed
}

// stretched is a load for a server that is slower than the one meant: what comes at it comes as much slower,
// and figures then count its time as faster again.
func (v *Virtual) stretched(l *predict.Load) cluster.Load {
	slow := func(d time.Duration) time.Duration { return time.Duration(float64(d) * v.speed()) }
	to := cluster.Load{Slots: l.Slots, Until: slow(l.Until), Calls: func(yield func(cluster.Call) bool) {
		for i := range l.Requests {
			c := l.Requests[i].Call
			c.At = slow(c.At)
			if !yield(c) {
				return
			}
		}
	}}
	if l.Until > 0 && l.Grace >= 0 {
		to.Cancel = slow(l.Until + l.Grace)
	}
	return to
}

// usual are the percentiles every observation has.
var usual = []float64{50, 90, 95, 99}

// figures are those of a simulated run under vLLM's names.
func (v *Virtual) figures(res *cluster.Result, cfg *config.Bench) map[string]float64 {
	fast := func(d time.Duration) time.Duration { return time.Duration(float64(d) / v.speed()) }
	scaled := &cluster.Result{Requests: res.Requests, Duration: max(1, fast(res.Duration)), Gaps: slices.Clone(res.Gaps)}
	for i := range scaled.Gaps {
		scaled.Gaps[i].D = fast(scaled.Gaps[i].D)
	}
	good, failed := 0, 0
	s := predict.Headline(scaled, func(r *cluster.Request) (metrics.Outline, bool) {
		o, ok := predict.Answered(r)
		switch {
		case !ok:
			failed++
		case v.meets(r, cfg.Check.Goodput):
			good++
		}
		o.First, o.Latency = fast(o.First), fast(o.Latency)
		return o, ok
	}, metrics.Run{Percentiles: v.File.Percentiles()})
	s.ErrorAdjusted.Failures = failed
	if len(cfg.Check.Goodput) > 0 {
		rate := float64(good) / s.DurationS
		s.RequestGoodput, s.Goodput = &rate, &metrics.Goodput{Good: good, Share: float64(good) / float64(max(1, len(res.Requests))), PerSecond: rate}
	}
	fig := v.File.FromSummary(&s)
	for i := range res.Engines {
		fig["preemptions"] += float64(res.Engines[i].Preemptions)
	}
	return fig
}

// meets reports whether a request keeps the limits of --goodput.
func (v *Virtual) meets(r *cluster.Request, limits []config.Limit) bool {
	if len(limits) == 0 {
		return true
	}
	rec := r.Record()
	for _, l := range limits {
		bound := l.MS * v.speed()
		if f := figure.Get(string(l.Metric)); f != nil && f.Better == figure.Higher {
			bound = l.MS / v.speed()
		}
		if !(metrics.Objective{Metric: string(l.Metric), Bound: bound}).Met(&rec, metrics.Run{Tokenizer: true}) {
			return false
		}
	}
	return true
}

// Percentiles are those a run has to compute for the file's constraints and objective.
func (f *File) Percentiles() []float64 {
	out := slices.Clone(usual)
	for _, o := range f.limits {
		if o.IsPct && !slices.Contains(out, o.Pct) {
			out = append(out, o.Pct)
		}
	}
	if r, err := figure.Find(f.Objective.Metric); err == nil { // cost is none
		if p, is := r.Percentile(); is && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// FromSummary are the figures of a measured run: those of every result, and what objective and constraints look at.
func (f *File) FromSummary(s *metrics.Summary) map[string]float64 {
	stats := []string{"mean", "median", "std", "max", "min"}
	for _, p := range usual {
		stats = append(stats, fmt.Sprintf("p%g", p))
	}
	refs := append(figure.Headlines(stats...), figure.List("goodput_ratio", "error_rate")...)
	for _, name := range f.judged() {
		if r, err := figure.Find(name); err == nil { // cost is made of others
			refs = append(refs, r)
		}
	}
	return figure.Values(s, refs)
}
