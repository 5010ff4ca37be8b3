package profile

import (
	"fmt"

	"spate/internal/sim/cluster"
	"spate/internal/sim/engineconf"
)

// OfPair is the profile of a model on a GPU that nobody measured: its step times follow from the
// model's shape and the GPU's datasheet, as those of the simulated server of the same name do. The
// tensor parallel size is the smallest that leaves room for a few requests.
func OfPair(model, gpu string) (*Profile, error) { return OfPairWith(model, gpu, Override{}) }

// OfPairWith is OfPair with other settings. With a tensor parallel size, that is the one; no other need fit.
func OfPairWith(model, gpu string, o Override) (*Profile, error) {
	p := &Profile{Name: model + "@" + gpu, settings: engineconf.Settings{Model: model, GPU: gpu, TP: max(1, o.TP), Watermark: -1}}
	if o.TP == 0 {
		if pair, ok := engineconf.FindPair(model, gpu); ok {
			p.settings.TP = pair.TP
		}
	}
	return p.recompute(o)
}

// compute resolves the settings as the engine would at its start. The profile keeps them as they were asked
// for: with other ones, another context may fit.
func compute(name string, s engineconf.Settings) (*Profile, error) {
	fitted := s
	if s.MaxModelLen == 0 {
		if err := fitted.FitContext(); err != nil {
			return nil, fmt.Errorf("profile %s: %w", name, err)
		}
	}
	c, err := fitted.Resolve()
	if err != nil {
		return nil, fmt.Errorf("profile %s: %w", name, err)
	}
	return &Profile{
		Schema: Schema, Name: name, Sim: c.Sim, Cost: Cost{Blocks: c.Sim.Blocks}, settings: s, computed: c,
		Engine: Facts{
			Engine: c.Engine.Name, Version: c.Engine.Version, Model: c.Model.Name, GPU: c.GPU.Name, GPUs: c.TP, TP: c.TP,
			MaxSeqs: c.Seqs, MaxTokens: c.Tokens, MaxModelLen: c.MaxModelLen,
		},
		Provenance: Provenance{Notes: []string{"computed from the model's shape and the GPU's datasheet; nothing was fitted"}},
	}, nil
}

// Computed reports whether step times come from a datasheet, so that there are no coefficients to
// change one at a time.
func (p *Profile) Computed() bool { return p.computed != nil }

// recompute is With for a server that was never measured: it starts anew with the settings.
func (p *Profile) recompute(o Override) (*Profile, error) {
	s := p.settings
	name := p.Name
	set := func(to *int, v int) {
		if v > 0 {
			*to = v
		}
	}
	set(&s.MaxSeqs, o.MaxSeqs)
	set(&s.MaxTokens, o.MaxTokens)
	set(&s.MaxModelLen, o.MaxModelLen)
	set(&s.Blocks, o.KVTokens/max(1, p.Sim.BlockSize))
	if o.PrefixCaching != nil {
		s.Prefix = o.PrefixCaching
	}
	if o.TP > 0 && o.TP != s.TP {
		s.TP = o.TP
		name = fmt.Sprintf("%s, tensor parallel %d", name, o.TP)
	}
	return compute(name, s)
}

// cluster is the simulated server of a computed profile.
func (p *Profile) cluster(c *Cost, seed uint64) cluster.Config {
	out := Computed(p.computed, seed)
	for i := range out.Engines {
		out.Engines[i].Sim.Blocks = c.Blocks
	}
	return out
}

// What surrounds the steps of an engine that was not measured: middle values of published profiles, as those of its
// steps in engineconf.
const (
	tokenNS     = 2e3 // tokenizing one prompt token
	jitterSigma = 0.04
	hopNS       = 1.5e6 // HTTP and queues between client and engine
	hostRate    = 20    // bytes per nanosecond between a GPU and the host's memory
)

// Computed is a deployment as sim/cluster runs it, with uncalibrated step times.
func Computed(c *engineconf.Conf, seed uint64) cluster.Config {
	front := cluster.Front{BaseNS: hopNS, RequestNS: 1e3 * c.Engine.EntryUS, TokenNS: tokenNS, Workers: 2, OutNS: 2e5}
	out := cluster.Config{Front: front, Router: cluster.LeastLoaded, Lock: c.DP > 1 && c.ExpertParallel, Seed: seed}
	model := c.Physical()
	for range c.DP {
		out.Engines = append(out.Engines, cluster.Engine{Sim: c.Sim, Model: model, Jitter: jitterSigma, SwapNS: float64(c.Budget.BlockBytes) / hostRate})
	}
	return out
}
