// Package instance puts a simulated server together: a deployment from flags or a profile
// (engineconf), its engines on the clock (wall), and what the HTTP server (serve) has to know of
// them. `spate sim`, `spate demo` and `spate bench --sim` start what Build returns.
//
// Read Build; log.go prints what a real server would.
package instance

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"spate/internal/forecast/profile"
	"spate/internal/sim"
	"spate/internal/sim/catalog"
	"spate/internal/sim/cluster"
	"spate/internal/sim/engineconf"
	"spate/internal/sim/serve"
	"spate/internal/sim/wall"
)

// Options say what to simulate.
type Options struct {
	Settings engineconf.Settings
	Profile  string  // model@gpu, or the name of Base
	Base     *Base   // a measured server; its step times replace the computed ones
	Scale    float64 // simulated seconds per second; 0: one
	Answers  wall.Answers
	Seed     uint64
	Details  bool // log every step
	Split    Split
	Router   cluster.Policy // how requests are spread over engines; empty: as the deployment has it
}

// Base is a calibrated profile, or whatever else knows how long steps take.
type Base struct {
	Name       string
	Calibrated bool
	Facts      engineconf.Settings // model, GPU, version, parallelism; empty where unknown
	Cluster    cluster.Config
}

// Instance is a server ready to start.
type Instance struct {
	Title  string       // what is simulated, in one line
	Serve  serve.Config // without address, keys and faults
	Engine *wall.Engine
	Conf   *engineconf.Conf
	Lines  []string // what the engine prints when it starts

	details *details
	every   time.Duration // between two periodic lines
}

// Build puts an instance together. A refusal to start is a *catalog.StartError.
func Build(o Options) (*Instance, error) {
	conf, cl, err := o.deployment()
	if err != nil {
		return nil, err
	}
	if err := o.Split.apply(conf, &cl); err != nil {
		return nil, err
	}
	if o.Router != "" {
		cl.Router = o.Router
	}
	in := &Instance{Conf: conf, Title: o.title(conf) + separation(&cl), Lines: conf.StartLines(), every: conf.LogEvery()}
	if in.every == 0 {
		in.every = 10 * time.Second
	}
	cl.Seed = o.Seed
	cfg := wall.Config{Cluster: cl, Scale: o.Scale, Answers: o.Answers}
	if o.Base == nil {
		cfg.Exhausts = conf.Exhausts()
	}
	if o.Details {
		in.details = &details{states: func() []sim.State { return in.Engine.States() }, ended: map[int]time.Duration{}}
		cfg.Trace = in.details.add
	}
	if in.Engine, err = wall.New(cfg); err != nil {
		return nil, err
	}
	in.Serve = serverConfig(conf, in.Engine)
	if d := cl.Disagg; d != nil {
		in.Serve.Info["prefill_engines"], in.Serve.Info["decode_engines"] = len(d.Prefill), len(cl.Engines)
	}
	return in, nil
}

// deployment decides what runs and how long its steps take.
func (o *Options) deployment() (*engineconf.Conf, cluster.Config, error) {
	s := o.Settings
	if o.Base != nil {
		return o.measured()
	}
	if o.Profile == "" && s.Model == "" && s.GPU == "" {
		o.Profile = profile.Default
	}
	if o.Profile != "" {
		if err := named(&s, o.Profile); err != nil {
			return nil, cluster.Config{}, err
		}
	}
	s.Seed = o.Seed
	conf, err := s.Resolve()
	if err != nil {
		return nil, cluster.Config{}, err
	}
	return conf, profile.Computed(conf, o.Seed), nil
}

// named fills in what a name such as Qwen3-8B@H100 stands for; flags win.
func named(s *engineconf.Settings, name string) error {
	model, gpu, ok := engineconf.ProfileName(name)
	if !ok {
		return fmt.Errorf("no profile %q: name a calibrated one, or model@gpu such as %s", name, profile.Default)
	}
	if s.Model == "" {
		s.Model = model
	}
	if s.GPU == "" {
		s.GPU = gpu
	}
	if p, ok := engineconf.FindPair(s.Model, s.GPU); ok && s.TP <= 1 {
		s.TP = p.TP
	}
	if s.MaxModelLen == 0 {
		return s.FitContext()
	}
	return nil
}

// measured is a calibrated server, with scheduler settings overridden by flags.
func (o *Options) measured() (*engineconf.Conf, cluster.Config, error) {
	b, s := o.Base, &o.Settings
	cl := b.Cluster
	cl.Engines = slices.Clone(cl.Engines)
	for _, f := range []struct{ flag, given, has string }{
		{"model", s.Model, b.Facts.Model},
		{"gpu", s.GPU, b.Facts.GPU},
	} {
		if f.given != "" && !strings.EqualFold(f.given, f.has) {
			return nil, cl, fmt.Errorf("profile %s was measured with another --%s (%s): without it, the rest is computed from the datasheet", b.Name, f.flag, f.has)
		}
	}
	if s.TP > 1 && s.TP != max(b.Facts.TP, 1) || s.PP > 1 || s.DP > 1 {
		return nil, cl, fmt.Errorf("profile %s was measured on %d GPUs in parallel: spate predict computes others", b.Name, max(b.Facts.TP, 1))
	}
	lists := [][]cluster.Engine{cl.Engines}
	if cl.Disagg != nil {
		d := *cl.Disagg
		d.Prefill = slices.Clone(d.Prefill)
		cl.Disagg, lists = &d, append(lists, d.Prefill)
	}
	for _, list := range lists {
		for i := range list {
			override(&list[i].Sim, s, o.Seed)
			if err := list[i].Sim.Check(); err != nil {
				return nil, cl, err
			}
		}
	}
	conf, err := o.facts(&cl.Engines[0].Sim)
	return conf, cl, err
}

// override applies the scheduler flags that were given.
func override(c *sim.Config, s *engineconf.Settings, seed uint64) {
	set := func(dst *int, v int) {
		if v > 0 {
			*dst = v
		}
	}
	set(&c.MaxSeqs, s.MaxSeqs)
	set(&c.MaxTokens, s.MaxTokens)
	set(&c.MaxModelLen, s.MaxModelLen)
	set(&c.Blocks, s.Blocks)
	set(&c.LongPrefill, s.LongPrefill)
	if s.Prefix != nil {
		c.PrefixCaching = *s.Prefix
	}
	if s.Async != nil {
		c.Async = *s.Async
	}
	if s.Delay > 0 {
		c.DelayFactor = s.Delay
	}
	if s.Steps > 1 {
		c.Steps = s.Steps
	}
	c.Seed = seed
}

// facts describes a measured server: by its model and GPU where these are known, by its scheduler
// alone where not.
func (o *Options) facts(c *sim.Config) (*engineconf.Conf, error) {
	s := o.Base.Facts
	s.Served, s.Watermark, s.Blocks, s.MaxModelLen = o.Settings.Served, -1, c.Blocks, c.MaxModelLen
	s.MaxSeqs, s.MaxTokens, s.Prefix = c.MaxSeqs, c.MaxTokens, &c.PrefixCaching
	if s.Model != "" && s.GPU != "" {
		if conf, err := s.Resolve(); err == nil {
			conf.Sim = *c
			return conf, nil
		}
	}
	engine, err := catalog.FindEngine(s.Engine, s.Version)
	if err != nil {
		return nil, err
	}
	conf := &engineconf.Conf{Settings: s, Sim: *c, Served: s.Served, PrefixOn: c.PrefixCaching}
	conf.Engine = engine
	conf.Model = &catalog.Model{Name: o.Base.Name, MaxLen: c.MaxModelLen}
	conf.GPU = &catalog.GPU{Name: "unknown GPU"}
	conf.TP, conf.PP, conf.DP = 1, 1, 1
	conf.MaxModelLen = max(c.MaxModelLen, 1)
	conf.Budget = catalog.Budget{BlockBytes: 1, Blocks: c.Blocks, Tokens: c.Blocks * c.BlockSize}
	conf.Budget.Concurrency = float64(conf.Budget.Tokens) / float64(conf.MaxModelLen)
	if len(conf.Served) == 0 {
		conf.Served = []string{o.Base.Name}
	}
	return conf, nil
}

func (o *Options) title(c *engineconf.Conf) string {
	switch {
	case o.Base != nil && o.Base.Calibrated:
		return "profile " + o.Base.Name + ", calibrated: " + c.Describe()
	case o.Base != nil:
		return "profile " + o.Base.Name + ", not calibrated: " + c.Describe()
	default:
		return c.Describe() + ", not calibrated: step times computed from the datasheet"
	}
}

// serverConfig is what the HTTP server has to know of a deployment.
func serverConfig(c *engineconf.Conf, e *wall.Engine) serve.Config {
	return serve.Config{
		Models: c.Served, Root: c.Model.Name, MaxModelLen: c.MaxModelLen, Version: c.Engine.Version, Engine: e,
		Adapters: c.Adapters, ReasoningField: c.Engine.ReasonField,
		Names: serve.MetricNames{TPOT: c.Engine.TPOTMetric, V0: c.Engine.V0Gauges, V10: c.Engine.V10Gauges},
		Info:  info(c),
	}
}

// info is what /server_info and /get_server_info add.
func info(c *engineconf.Conf) map[string]any {
	return map[string]any{
		"engine": c.Engine.Name, "tp_size": c.TP, "pp_size": c.PP, "dp_size": c.DP, "max_running_requests": c.Sim.MaxSeqs,
		"max_num_seqs": c.Sim.MaxSeqs, "max_num_batched_tokens": c.Sim.MaxTokens, "chunked_prefill_size": c.Sim.MaxTokens,
		"block_size": c.Sim.BlockSize, "page_size": c.Sim.BlockSize, "num_gpu_blocks": c.Sim.Blocks,
		"max_total_num_tokens": c.Budget.Tokens, "enable_prefix_caching": c.Sim.PrefixCaching, "device": c.GPU.Name,
		"disable_radix_cache": !c.Sim.PrefixCaching,
	}
}
