package calibrate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"spate/internal/forecast/predict"
	"spate/internal/forecast/profile"
	"spate/internal/sim"
	"spate/internal/sim/cluster"
	"spate/internal/sim/engineconf"
	"spate/internal/sim/latency"
)

// Param is a number to be found. Positive quantities of unknown magnitude are searched by their
// logarithm.
type Param struct {
	Name, Unit string
	Scale      float64 // of Unit in the profile's own unit
	Prior, SD  float64 // expectation in Unit, and its spread: in Unit, or in the logarithm
	Low, High  float64
	Linear     bool
	Why        string // which run would determine it
	core       bool   // without it nothing can be said when physics is silent
	applies    func(f *profile.Facts) bool
	set        func(g *group, c *profile.Cost, v float64)
}

// group is one server of a family.
type group struct {
	name  string
	facts profile.Facts
	base  profile.Profile
	shape *shape // nil when the model or GPU is unknown
}

// shape is what physics needs to know of a server.
type shape struct {
	conf      *engineconf.Conf
	bandwidth float64 // bytes per second
	flops     float64
}

// Family is a set of servers that share parameters.
type Family struct {
	Name   string
	groups []*group
	params []Param
	procs  []*predict.Process
}

// key says which servers share parameters: one model, as one engine version runs it.
func key(f *profile.Facts, name string) string {
	if !f.Known() {
		return name
	}
	return strings.Join([]string{f.Engine, f.Version, f.Model, f.DType, fmt.Sprint(max(1, f.TP))}, " ")
}

// families sorts the rows' servers.
func families(f *predict.File) ([]*Family, error) {
	var out []*Family
	index := map[string]*Family{}
	procs := predict.Processes(f)
	for _, name := range f.Groups() {
		facts := f.Engines[name]
		k := key(&facts, name)
		fam := index[k]
		if fam == nil {
			fam = &Family{Name: k}
			index[k] = fam
			out = append(out, fam)
		}
		g, err := newGroup(name, facts)
		if err != nil {
			return nil, fmt.Errorf("group %s: %w", name, err)
		}
		fam.groups = append(fam.groups, g)
		for _, p := range procs {
			if p.Group != name {
				continue
			}
			if err := p.Recall(&g.base); err != nil {
				return nil, fmt.Errorf("group %s: %w", name, err)
			}
			fam.procs = append(fam.procs, p)
		}
	}
	for _, fam := range out {
		fam.params = fam.parameters()
	}
	return out, nil
}

// newGroup makes the profile of a server but for its costs.
func newGroup(name string, facts profile.Facts) (*group, error) {
	g := &group{name: name, facts: facts}
	g.base = profile.Profile{Schema: profile.Schema, Name: name, Calibrated: true, Engine: facts}
	if facts.Known() {
		return g, g.known()
	}
	g.base.Sim = sim.Config{
		Policy: sim.V1, MaxSeqs: cmp.Or(facts.MaxSeqs, 256), MaxTokens: cmp.Or(facts.MaxTokens, 512), BlockSize: 16,
		PrefixCaching: facts.PrefixCaching != nil && *facts.PrefixCaching,
	}
	g.base.Cost.Blocks = cmp.Or(facts.KVTokens, 1<<20) / 16
	return g, nil
}

// known resolves the settings as the engine version would.
func (g *group) known() error {
	s := g.facts.Settings()
	conf, err := s.Resolve()
	if err != nil {
		return err
	}
	g.base.Sim = conf.Sim
	g.base.Cost.Blocks = conf.Sim.Blocks
	g.shape = &shape{conf: conf, bandwidth: conf.GPU.Bandwidth * 1e9, flops: conf.GPU.BF16 * 1e12}
	return nil
}

// What serving engines usually make of a datasheet.
const (
	memoryShare  = 0.8
	computeShare = 0.5
	expertShare  = 0.2 // of the peak rate, in products grouped by expert
	kvShare      = 0.75
	stepBase     = 1.5   // ms, a step's work outside the layers ...
	layerMS      = 0.060 // ... launching a layer ...
	reduceMS     = 0.050 // ... and its two all-reduces, small ones
	rowUS        = 0.75  // us per layer for one more decoding sequence, whatever the layer's width ...
	rowShare     = 0.8   // ... the share of a row's products that a batch of them pays ...
	rowReduceUS  = 45    // ... and us per MB of it that is summed up over the GPUs
	tileRows     = 64    // rows of queries that an attention kernel for prompts works on at once
)

// stepMS is the time of a step that has hardly anything to compute.
func (s *shape) stepMS() float64 {
	t := s.weightsMS() + stepBase + layerMS*float64(s.conf.Model.Layers)
	if s.conf.TP > 1 {
		t += reduceMS * float64(s.conf.Model.Layers)
	}
	return t
}

// weightsMS is the time to read the weights that every step needs.
func (s *shape) weightsMS() float64 {
	m := s.conf.Model
	_, head := m.EmbedBytes()
	return 1e3 * (m.LayerBytes() + head) / float64(s.conf.TP) / (s.bandwidth * memoryShare)
}

// expertsMS is the time to read all routed experts.
func (s *shape) expertsMS() float64 {
	m := s.conf.Model
	bytes := m.ExpertBytes() * float64(m.Experts) * float64(m.Params().MoE)
	return 1e3 * bytes / float64(s.conf.TP) / (s.bandwidth * memoryShare)
}

// prefillUS is the time to compute one prompt token.
func (s *shape) prefillUS() float64 {
	share := computeShare
	if s.conf.Model.MoE() {
		share = expertShare
	}
	return 1e6 * 2 * float64(s.conf.Model.Linear()) / float64(s.conf.TP) / (s.flops * share)
}

// denseUS is the time to multiply one more row in a batch of decoding sequences.
func (s *shape) denseUS() float64 {
	return 1e6 * 2 * float64(s.conf.Model.Linear()) / float64(s.conf.TP) / (s.flops * computeShare)
}

// decodeUS is the time that one more decoding sequence adds to a step.
func (s *shape) decodeUS() float64 {
	m := s.conf.Model
	t := rowUS*float64(m.Layers) + rowShare*s.denseUS()
	if s.conf.TP > 1 {
		t += rowReduceUS * float64(2*m.Layers*2*m.Hidden) / 1e6
	}
	return t
}

// pairRatio is the work of one pair of prompt and context tokens relative to that of one token.
func (s *shape) pairRatio() float64 {
	m := s.conf.Model
	full := float64(m.Layers - m.WindowLayers)
	return 4 * full * float64(m.Heads*m.HeadDim) / (2 * float64(m.Linear()))
}

// kvNS is the time to read one token's KV. Layers with a sliding window count in full: attention
// kernels of older engines walk over the whole context and mask it.
func (s *shape) kvNS() float64 {
	m := s.conf.Model
	bytes := float64(m.KVBytesPerGPU(2, s.conf.TP) * m.Layers)
	return 1e9 * bytes / (s.bandwidth * kvShare)
}

// balance is the number of rows from which on a product with the weights takes longer than reading them.
func (s *shape) balance() float64 {
	m := s.conf.Model
	bytes := 2.0
	if !m.MoE() {
		bytes = m.LayerBytes() / float64(m.Linear())
	}
	return s.flops * computeShare / (s.bandwidth * memoryShare) * bytes / 2
}

// mixedNS is what a token of context costs beside a prompt. Kernels for prompts work on tiles of queries: a
// decoding request puts its one row into a tile of its own for every head, and all of the tile is computed.
// Kernels for sliding windows and latent KV fill tiles with the heads of a group, and wait for memory.
func (s *shape) mixedNS() float64 {
	m := s.conf.Model
	if m.WindowLayers > 0 || m.LatentRank > 0 {
		return s.kvNS()
	}
	flops := 4 * tileRows * float64(m.Layers*m.Heads*m.HeadDim) / float64(s.conf.TP)
	return 1e9 * flops / (s.flops * computeShare)
}

// mixed is the cost of computing a prompt beside requests that decode, in one step. Engines that do not
// mix have steps of prompts alone, which may start dearer or cheaper than others.
func (s *shape) mixed() Param {
	if s.conf.Sim.Policy == sim.V1 {
		return Param{
			Name: "mixed_kv", Unit: "ns/token", Scale: 1, Prior: s.mixedNS(), SD: 0.6, Low: 0.01, High: 5e3, Why: "runs with short and long prompts at a high concurrency",
			set: func(g *group, c *profile.Cost, v float64) { stepOf(c).MixedKVNS = v * g.shape.mixedNS() / s.mixedNS() },
		}
	}
	return Param{
		Name: "mixed", Unit: "ms", Scale: 1e6, Prior: 0, SD: 12, Low: -40, High: 60, Linear: true, Why: "runs with short and long prompts",
		set: func(_ *group, c *profile.Cost, v float64) { stepOf(c).MixedNS = v },
	}
}

func twoNodes(f *profile.Facts) bool  { return f.Nodes > 1 }
func unknownKV(f *profile.Facts) bool { return f.KVTokens == 0 && f.Known() }
func disagg(f *profile.Facts) bool    { return f.Disagg != nil }
func linkName(f *profile.Facts) string {
	return fmt.Sprintf("%s%d", f.Disagg.Transport, max(1, f.Disagg.NICs))
}
func stepOf(c *profile.Cost) *latency.Reference { return &c.Step }

// parameters lists what is to be found for a family.
func (fam *Family) parameters() []Param {
	g := fam.groups[0]
	if g.shape == nil {
		return unknownParams()
	}
	s := g.shape
	list := []Param{
		{
			Name: "step", Unit: "ms", Scale: 1e6, Prior: s.stepMS(), SD: 0.3, Low: 0.2, High: 200, Why: "a run at concurrency 1",
			set: func(_ *group, c *profile.Cost, v float64) { stepOf(c).StepNS = v },
		},
		{
			Name: "prefill", Unit: "us/token", Scale: 1e3, Prior: s.prefillUS(), SD: 0.3, Low: 0.5, High: 5e3, Why: "a run with long prompts that are not cached",
			set: func(g *group, c *profile.Cost, v float64) {
				stepOf(c).PrefillNS = v
				stepOf(c).AttentionNS = v / g.shape.prefillUS() * g.shape.denseUS() * g.shape.pairRatio()
			},
		},
		{
			Name: "decode", Unit: "us/sequence", Scale: 1e3, Prior: s.decodeUS(), SD: 0.5, Low: 1, High: 5e3,
			Why: "runs at two concurrencies, one above 100",
			set: func(_ *group, c *profile.Cost, v float64) { stepOf(c).DecodeNS = v },
		},
		{
			Name: "kv", Unit: "ns/token", Scale: 1, Prior: s.kvNS(), SD: 0.25, Low: 0.1, High: 5e3, Why: "a run at high concurrency with contexts of 4k tokens or more",
			set: func(g *group, c *profile.Cost, v float64) { stepOf(c).KVNS = v * s.bandwidth / g.shape.bandwidth },
		},
		s.mixed(),
		{
			Name: "base", Unit: "ms", Scale: 1e6, Prior: 15, SD: 1, Low: 0.1, High: 500, Why: "a run at concurrency 1 with short prompts",
			set: func(_ *group, c *profile.Cost, v float64) { c.Front.BaseNS = v },
		},
		{
			Name: "request", Unit: "ms", Scale: 1e6, Prior: 2, SD: 1, Low: 0.01, High: 50, Why: "bursts of two sizes with cached prompts",
			set: func(_ *group, c *profile.Cost, v float64) { c.Front.RequestNS = v },
		},
	}
	if fam.bursts() {
		list = append(list, Param{
			Name: "gap", Unit: "ms", Scale: 1e6, Prior: 1, SD: 1, Low: 0.001, High: 50, Why: "bursts of two sizes with cached prompts",
			set: func(_ *group, c *profile.Cost, v float64) { c.Gap = v },
		})
	}
	if s.conf.Model.MoE() {
		m := s.conf.Model
		list = append(list, Param{
			Name: "experts", Unit: "ms", Scale: 1e6, Prior: s.expertsMS(), SD: 0.5, Low: 0.05, High: 500, Why: "runs at concurrency 1 and above 64",
			set: func(_ *group, c *profile.Cost, v float64) {
				stepOf(c).MoENS, stepOf(c).MoERatio = v, float64(m.TopK)/float64(m.Experts)
			},
		})
	}
	if slices.ContainsFunc(fam.groups, func(g *group) bool { return unknownKV(&g.facts) }) {
		list = append(list, Param{
			Name: "kv_blocks", Unit: "of the estimate", Scale: 1, Prior: 1, SD: 0.03, Low: 0.7, High: 1.3, applies: unknownKV,
			Why: "the engine's start-up line \"GPU KV cache size\", or a run that fills the cache",
			set: func(g *group, c *profile.Cost, v float64) { c.Blocks = int(v * float64(g.base.Cost.Blocks)) },
		})
	}
	return append(append(list, nodeParams(fam)...), disaggParams(fam)...)
}

// bursts reports whether any row sends all its requests at once to a server whose cache may hold them,
// so that first tokens tell how client and front end work off a burst.
func (fam *Family) bursts() bool {
	return slices.ContainsFunc(fam.rows(), func(r *predict.Row) bool { return r.Process != "" && r.Workload.Rate.Burst() })
}

// nodeParams are the costs of tensor parallelism over a network.
func nodeParams(fam *Family) []Param {
	if !slices.ContainsFunc(fam.groups, func(g *group) bool { return twoNodes(&g.facts) }) {
		return nil
	}
	why := "runs of the two-node server at concurrency 1 and above 50"
	return []Param{
		{
			Name: "network", Unit: "ms", Scale: 1e6, Prior: 10, SD: 1, Low: 0.01, High: 500, applies: twoNodes, Why: why,
			set: func(_ *group, c *profile.Cost, v float64) { stepOf(c).CommNS = v },
		},
		{
			Name: "network_token", Unit: "us/token", Scale: 1e3, Prior: 200, SD: 1, Low: 0.1, High: 5e3, applies: twoNodes, Why: why,
			set: func(_ *group, c *profile.Cost, v float64) { stepOf(c).CommTokenNS = v },
		},
		{
			Name: "network_sqrt", Unit: "ms/sqrt(token)", Scale: 1e6, Prior: 2, SD: 1, Low: 0.001, High: 100, applies: twoNodes, Why: why,
			set: func(_ *group, c *profile.Cost, v float64) { stepOf(c).CommRootNS = v },
		},
	}
}

// disaggParams are the costs of moving KV between a prefill and a decode server.
func disaggParams(fam *Family) []Param {
	var links []string
	for _, g := range fam.groups {
		if disagg(&g.facts) && !slices.Contains(links, linkName(&g.facts)) {
			links = append(links, linkName(&g.facts))
		}
	}
	if len(links) == 0 {
		return nil
	}
	list := []Param{
		{
			Name: "transfer", Unit: "ms", Scale: 1e6, Prior: 10, SD: 1, Low: 0.1, High: 200, applies: disagg, Why: "a disaggregated run at a low rate",
			set: func(_ *group, c *profile.Cost, v float64) { c.Disagg.Link.SetupNS = v },
		},
		{
			Name: "send_square", Unit: "ns/token^2", Scale: 1, Prior: 30, SD: 1.5, Low: 0.01, High: 1e4, applies: disagg, Why: "disaggregated runs with short and long prompts",
			set: func(_ *group, c *profile.Cost, v float64) { c.Disagg.SendSquareNS = v },
		},
		{
			Name: "stall", Unit: "share", Scale: 1, Prior: 0.5, SD: 0.3, Low: 0, High: 1, Linear: true, applies: disagg, Why: "a disaggregated run at a high rate",
			set: func(_ *group, c *profile.Cost, v float64) { c.Disagg.StallShare = v },
		},
		{
			Name: "proxy", Unit: "ms", Scale: 1e6, Prior: 10, SD: 1, Low: 0.1, High: 200, applies: disagg, Why: "a disaggregated run at a low rate",
			set: func(_ *group, c *profile.Cost, v float64) { c.Disagg.ProxyNS = v },
		},
	}
	for _, l := range links {
		list = append(list, Param{
			Name: "transfer_token_" + l, Unit: "us/token", Scale: 1e3, Prior: 60, SD: 1, Low: 0.01, High: 5e3, Why: "disaggregated runs with short and long prompts",
			applies: func(f *profile.Facts) bool { return disagg(f) && linkName(f) == l },
			set:     func(_ *group, c *profile.Cost, v float64) { c.Disagg.Link.TokenNS = v },
		})
	}
	return list
}

// unknownBand is the batch size above which an engine nobody knows may work in another way.
const unknownBand = 24

// unknownParams describe a server of which neither model nor GPU is known.
func unknownParams() []Param {
	return []Param{
		{
			Name: "step", Unit: "ms", Scale: 1e6, Prior: 30, SD: 1.5, Low: 0.2, High: 2e3, core: true, Why: "a run at concurrency 1",
			set: func(_ *group, c *profile.Cost, v float64) { stepOf(c).StepNS = v },
		},
		{
			Name: "token", Unit: "us/token", Scale: 1e3, Prior: 300, SD: 1.5, Low: 0.5, High: 5e4, core: true, Why: "runs at two concurrencies, one above 100",
			set: func(_ *group, c *profile.Cost, v float64) { stepOf(c).PrefillNS, stepOf(c).DecodeNS = v, v },
		},
		{
			Name: "step_large", Unit: "ms", Scale: 1e6, Prior: 60, SD: 1.5, Low: 0.2, High: 5e3, Why: "a run at a concurrency above 50",
			set: func(_ *group, c *profile.Cost, v float64) {
				s := stepOf(c)
				s.Bands = []latency.Band{{Above: unknownBand, StepNS: v, PrefillNS: s.PrefillNS, DecodeNS: s.DecodeNS}}
			},
		},
		{
			Name: "attention", Unit: "ns/pair", Scale: 1, Prior: 20, SD: 2, Low: 0.001, High: 1e4, Why: "a lone prompt of 32k tokens or more",
			set: func(_ *group, c *profile.Cost, v float64) { stepOf(c).AttentionNS = v },
		},
		{
			Name: "kv", Unit: "ns/token", Scale: 1, Prior: 50, SD: 1.5, Low: 0.1, High: 1e4, Why: "two lone runs of 8k tokens and more",
			set: func(_ *group, c *profile.Cost, v float64) { stepOf(c).KVNS = v },
		},
		{
			Name: "eager", Unit: "ms", Scale: 1e6, Prior: 5, SD: 1.5, Low: 0.001, High: 500, Why: "a lone run of 8k tokens and one of 100",
			set: func(_ *group, c *profile.Cost, v float64) { stepOf(c).EagerNS, stepOf(c).EagerAbove = v, eagerAbove },
		},
		{
			Name: "base", Unit: "ms", Scale: 1e6, Prior: 30, SD: 1, Low: 0.1, High: 1e3, Why: "a run at concurrency 1 with short prompts",
			set: func(_ *group, c *profile.Cost, v float64) { c.Front.BaseNS = v },
		},
		{
			Name: "request", Unit: "ms", Scale: 1e6, Prior: 4, SD: 1, Low: 0.01, High: 100, Why: "bursts of two sizes",
			set: func(_ *group, c *profile.Cost, v float64) { c.Front.RequestNS = v },
		},
	}
}

// eagerAbove is the context beyond which engines commonly stop using captured graphs.
const eagerAbove = 8192

// cost is the cost of one server under parameter values in their own units.
func (fam *Family) cost(g *group, values []float64) *profile.Cost {
	c := &profile.Cost{Blocks: g.base.Cost.Blocks}
	if g.facts.Disagg != nil {
		c.Disagg = &cluster.Disagg{Blocking: true, Between: true}
	}
	for i := range fam.params {
		p := &fam.params[i]
		if p.applies == nil || p.applies(&g.facts) {
			p.set(g, c, values[i]*p.Scale)
		}
	}
	if g.shape != nil {
		c.Step.Balance = g.shape.balance()
	}
	c.Step.MinNS = c.Step.StepNS // a prompt can be cheap, but no step is cheaper than an empty one
	if c.Disagg != nil {
		c.Disagg.FirstNS = c.Step.StepNS
	}
	return c
}

// toX maps values to search coordinates, in which every prior has the spread one.
func (p *Param) toX(v float64) float64 {
	if p.Linear {
		return (v - p.Prior) / p.SD
	}
	return math.Log(v/p.Prior) / p.SD
}

// fromX is the value at a search coordinate, within bounds.
func (p *Param) fromX(x float64) float64 {
	v := p.Prior + x*p.SD
	if !p.Linear {
		v = p.Prior * math.Exp(x*p.SD)
	}
	return min(max(v, p.Low), p.High)
}
