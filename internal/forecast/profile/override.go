package profile

import (
	"fmt"

	"spate/internal/sim/engineconf"
)

// Override changes settings of a server. Zero and nil leave one as it is.
type Override struct {
	MaxSeqs       int
	MaxTokens     int
	MaxModelLen   int
	KVTokens      int
	TP            int
	PrefixCaching *bool
}

// memoryShare is the part of a GPU's bandwidth at which weights are usually read.
const memoryShare = 0.8

// With is the profile of the same server with other settings. Another degree of tensor parallelism
// scales what the GPUs share by physics; nothing is fitted again, so the profile no longer counts as
// calibrated.
func (p *Profile) With(o Override) (*Profile, error) {
	if p.Computed() {
		return p.recompute(o)
	}
	q := *p
	q.Set = append([]Cost(nil), p.Set...)
	set := func(to *int, v int) {
		if v > 0 {
			*to = v
		}
	}
	set(&q.Sim.MaxSeqs, o.MaxSeqs)
	set(&q.Sim.MaxTokens, o.MaxTokens)
	set(&q.Sim.MaxModelLen, o.MaxModelLen)
	if o.PrefixCaching != nil {
		q.Sim.PrefixCaching = *o.PrefixCaching
	}
	if o.TP > 0 && o.TP != max(1, p.Engine.TP) {
		if err := q.retile(o.TP); err != nil {
			return nil, fmt.Errorf("profile %s with tensor parallel size %d: %w", p.Name, o.TP, err)
		}
	}
	if o.KVTokens > 0 {
		q.each(func(c *Cost) { c.Blocks = o.KVTokens / max(1, q.Sim.BlockSize) })
	}
	conf := q.Sim
	conf.Blocks = q.Cost.Blocks
	if err := conf.Check(); err != nil {
		return nil, fmt.Errorf("profile %s with these settings: %w", p.Name, err)
	}
	return &q, nil
}

// each changes the costs of all parameter vectors.
func (p *Profile) each(change func(*Cost)) {
	change(&p.Cost)
	for i := range p.Set {
		change(&p.Set[i])
	}
}

// Settings are the engine's flags as far as the facts tell them.
func (f *Facts) Settings() engineconf.Settings {
	s := engineconf.Settings{
		Model: f.Model, Engine: f.Engine, Version: f.Version, GPU: f.GPU, Nodes: f.Nodes, TP: f.TP, MaxModelLen: f.MaxModelLen,
		MaxSeqs: f.MaxSeqs, MaxTokens: f.MaxTokens, Prefix: f.PrefixCaching, Chunked: f.Chunked, Watermark: -1, KVDType: "auto",
	}
	if f.KVTokens > 0 {
		s.Blocks = f.KVTokens / 16
	}
	return s
}

// retile spreads the model over another number of GPUs.
func (p *Profile) retile(tp int) error {
	if !p.Engine.Known() {
		return fmt.Errorf("its model or GPU is unknown, so nothing says how it would scale")
	}
	settings := p.Engine.Settings()
	settings.Blocks = 0
	before, err := settings.Resolve()
	if err != nil {
		return err
	}
	settings.TP = tp
	after, err := settings.Resolve()
	if err != nil {
		return err
	}
	m := before.Model
	share := float64(before.TP) / float64(tp)
	kv := float64(m.KVBytesPerGPU(2, tp)) / float64(m.KVBytesPerGPU(2, before.TP))
	mixed := share // of the tiles that heads compute; kernels for windows and latent KV wait for memory
	if m.WindowLayers > 0 || m.LatentRank > 0 {
		mixed = kv
	}
	_, head := m.EmbedBytes()
	read := 1e9 * (m.LayerBytes() + head) / (before.GPU.Bandwidth * 1e9 * memoryShare) // on one GPU
	blocks := float64(after.Budget.Blocks) / float64(before.Budget.Blocks)
	p.each(func(c *Cost) {
		s := &c.Step
		s.StepNS = max(0.2*s.StepNS, s.StepNS-read/float64(before.TP)+read/float64(tp))
		s.PrefillNS *= share
		s.AttentionNS *= share
		s.MoENS *= share
		s.KVNS *= kv
		s.MixedKVNS *= mixed
		s.MinNS = min(s.MinNS, s.StepNS)
		c.Blocks = int(float64(c.Blocks) * blocks)
	})
	p.Engine.TP, p.Engine.GPUs, p.Calibrated = tp, tp, false
	p.Name = fmt.Sprintf("%s, tensor parallel %d", p.Name, tp)
	return nil
}

// Merge puts the settings of another override over these.
func (a Override) Merge(b Override) Override {
	for _, f := range []struct {
		to   *int
		from int
	}{
		{&a.MaxSeqs, b.MaxSeqs},
		{&a.MaxTokens, b.MaxTokens},
		{&a.MaxModelLen, b.MaxModelLen},
		{&a.KVTokens, b.KVTokens},
		{&a.TP, b.TP},
	} {
		if f.from != 0 {
			*f.to = f.from
		}
	}
	return a
}
