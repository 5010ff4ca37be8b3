package engineconf

import (
	"spate/internal/sim/catalog"
	"spate/internal/sim/latency"
)

// What engines make of a datasheet when nothing has been measured: middle values of published
// profiles. Calibration replaces them; a profile made of them is labelled uncalibrated.
const (
	memoryShare    = 0.90 // of the bandwidth, reading large matrices
	computeShare   = 0.55 // of the peak rate, whole steps of many prompt tokens ...
	expertShare    = 0.20 // ... and where products are grouped by expert
	attentionShare = 0.35
	layerNS        = 45e3 // per layer and step: norms, rotary embedding, launches
	eagerLayerNS   = 160e3
	requestNS      = 12e3 // per request and step: sampling, detokenizing
	reduceShare    = 0.7  // of a link's rate, in an all-reduce
)

// Shape is what the model asks of the hardware.
func (c *Conf) Shape() latency.Shape {
	m, p := c.Model, c.Model.Params()
	embed, head := m.EmbedBytes()
	if head == 0 {
		head = embed // tied: the embedding is read as output layer
	}
	full := m.Layers - m.WindowLayers
	s := latency.Shape{
		Layers: m.Layers, Hidden: m.Hidden, Linear: float64(m.Linear()), Head: float64(p.Embed), WeightBytes: m.LayerBytes() + head,
		ExpertBytes: m.ExpertBytes() * float64(m.Experts) * float64(p.MoE),
		PairFLOPs:   float64(full) * pairFLOPs(m), KVHeads: m.KVHeads,
		KVBytes: float64(m.KVBytes(c.KVWidth) * full), WindowKVBytes: float64(m.KVBytes(c.KVWidth) * m.WindowLayers),
	}
	if m.MoE() {
		s.ExpertRatio = float64(m.TopK) / float64(m.Experts)
	}
	if m.LatentRank > 0 {
		s.KVHeads = 1 // every rank reads all of it
	}
	return s
}

// pairFLOPs is one layer's attention work for one token and one token of its context.
func pairFLOPs(m *catalog.Model) float64 {
	if m.LatentRank > 0 {
		return 2 * float64(m.Heads) * float64(m.NopeDim+m.RopeDim+m.ValueDim)
	}
	return 4 * float64(m.Heads) * float64(m.HeadDim)
}

// Physical is the step time that follows from model and datasheet.
func (c *Conf) Physical() *latency.Physical {
	flops := c.GPU.BF16
	if c.Model.Quant == catalog.FP8 && c.GPU.FP8 > 0 {
		flops = c.GPU.FP8
	}
	p := &latency.Physical{
		Shape: c.Shape(), TP: c.TP, PP: c.PP,
		Device: latency.Device{
			FLOPS: 1e12 * flops, Bandwidth: 1e9 * c.GPU.Bandwidth, Link: 1e9 * c.GPULink.Bandwidth, Network: 1e9 * c.NodeLink.Bandwidth,
		},
		Efficiency: latency.Efficiency{
			Memory: memoryShare, Compute: computeShare, Attention: attentionShare, StepNS: 1e3 * c.Engine.StepUS, LayerNS: layerNS,
			RequestNS: requestNS, ReduceNS: 1e3 * c.GPULink.AllReduce, ReduceShare: reduceShare, NetworkNS: 1e3 * c.NodeLink.AllReduce,
		},
		GraphMax: min(2*c.Seqs, c.graphLimit()),
	}
	if c.Model.MoE() {
		p.Efficiency.Compute = expertShare
	}
	p.Efficiency.StepNS /= float64(max(1, c.Sim.Steps)) // the host decides once for all of them
	if c.AsyncOn {
		p.Efficiency.StepNS = min(p.Efficiency.StepNS, 300e3)
	}
	if c.Eager {
		p.GraphMax, p.Efficiency.LayerNS = 0, eagerLayerNS
	}
	if c.ExpertParallel {
		p.EP = c.TP * c.DP
	}
	if c.TP > c.TP*c.PP*c.DP/c.Nodes { // a tensor-parallel group spans nodes
		p.Nodes = c.Nodes
	}
	return p
}

// graphLimit is the largest decode batch with a CUDA graph.
func (c *Conf) graphLimit() int {
	switch {
	case c.Engine.Family == catalog.V0:
		return 256
	case c.GPU.MemoryGiB >= 160 && c.GPU.Vendor == "nvidia":
		return 1024
	default:
		return 512
	}
}

// stepMargin is how much more than its profiled peak a full step may need: the allocator's
// fragmentation under a mixed load.
const stepMargin = 1.25

// Exhausts returns what tells a step that the GPU has no memory for, or nil when the plan leaves
// room for any. An engine that was given nearly all memory starts, and dies under load.
func (c *Conf) Exhausts() func(latency.Batch) bool {
	b := &c.Budget
	free := b.Total - b.Weights - b.Other - b.Graphs - b.KV
	if b.Activation*stepMargin <= free {
		return nil
	}
	share := free / (b.Activation * stepMargin)
	return func(s latency.Batch) bool {
		full := max(float64(s.Tokens())/float64(c.Tokens), float64(s.Decode+s.Prompts)/float64(c.Seqs))
		return full > share
	}
}
