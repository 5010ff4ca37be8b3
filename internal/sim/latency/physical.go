package latency

import (
	"time"
)

// Shape is what a model asks of the hardware, for the whole model.
type Shape struct {
	Layers        int     `json:"layers"`
	Hidden        int     `json:"hidden"`
	Linear        float64 `json:"linear_params"`   // parameters each token is multiplied with, embeddings and head apart
	Head          float64 `json:"head_params"`     // parameters of the output layer, used by sampled rows only
	WeightBytes   float64 `json:"weight_bytes"`    // read in every step: all but routed experts and the input embedding
	ExpertBytes   float64 `json:"expert_bytes"`    // of all routed experts
	ExpertRatio   float64 `json:"expert_ratio"`    // share of the experts a token uses
	PairFLOPs     float64 `json:"pair_flops"`      // attention, per pair of token and context token: 4 x layers x heads x head size
	KVBytes       float64 `json:"kv_bytes"`        // per token, layers that see everything
	WindowKVBytes float64 `json:"window_kv_bytes"` // per token, layers that see only a window
	KVHeads       int     `json:"kv_heads"`
	ActBytes      float64 `json:"activation_bytes"` // of one activation, 0: two
}

// Device is one accelerator by its datasheet.
type Device struct {
	FLOPS     float64 `json:"flops"`             // dense, of the format the model computes in
	Bandwidth float64 `json:"bandwidth"`         // memory, bytes per second
	Link      float64 `json:"link"`              // to a neighbour in the node, bytes per second in one direction
	Network   float64 `json:"network,omitempty"` // to another node
}

// Efficiency is how much of the datasheet's figures an engine reaches: the parameters that calibration fits.
type Efficiency struct {
	Memory      float64 `json:"memory"`    // share of the bandwidth, 0.4 to 1
	Compute     float64 `json:"compute"`   // share of the peak rate in matrix products, 0.3 to 0.8
	Attention   float64 `json:"attention"` // share of the peak rate in attention, 0: Compute
	StepNS      float64 `json:"step_ns"`
	LayerNS     float64 `json:"layer_ns"`
	RequestNS   float64 `json:"request_ns"`
	ReduceNS    float64 `json:"reduce_ns"`            // start of an all-reduce within a node
	ReduceShare float64 `json:"reduce_share"`         // share of the link rate it reaches, 0: one
	NetworkNS   float64 `json:"network_ns,omitempty"` // start of a transfer between nodes
}

// Physical derives a step's duration from a model's shape, a device and efficiencies: the larger of
// reading weights and multiplying, plus KV reads, prompt attention, communication and overheads.
type Physical struct {
	Shape      Shape      `json:"shape"`
	Device     Device     `json:"device"`
	Efficiency Efficiency `json:"efficiency"`
	TP         int        `json:"tensor_parallel"`
	PP         int        `json:"pipeline_parallel"`
	EP         int        `json:"expert_parallel,omitempty"` // experts are spread over this many ranks, 0: as TP
	Nodes      int        `json:"nodes,omitempty"`           // that tensor parallelism spans
	GraphMax   int        `json:"graph_max,omitempty"`
}

var _ Model = (*Physical)(nil)

// Step implements Model. With pipeline parallelism it is the time through all stages.
func (p *Physical) Step(b Batch) time.Duration {
	if p.GraphMax > 0 && b.Prefill == 0 {
		b.Drafts += GraphSize(b.Decode, p.GraphMax) - b.Decode
	}
	t := p.overhead(b) + max(p.weights(b), p.products(b)) + p.kv(b) + p.attention(b) + p.reduce(b) + p.stages(b)
	return round(t)
}

func (p *Physical) overhead(b Batch) float64 {
	e := &p.Efficiency
	return e.StepNS + e.LayerNS*float64(p.Shape.Layers) + e.RequestNS*float64(b.Decode+b.Prompts)
}

func (p *Physical) tp() float64 { return float64(max(1, p.TP)) }

// weights is the time to read what the step's tokens are multiplied with.
func (p *Physical) weights(b Batch) float64 {
	bytes := p.Shape.WeightBytes / p.tp()
	if p.Shape.ExpertBytes > 0 {
		ranks := p.tp()
		if p.EP > 0 {
			ranks = float64(p.EP)
		}
		bytes += p.Shape.ExpertBytes / ranks * Activated(p.Shape.ExpertRatio, float64(b.Tokens()))
	}
	return 1e9 * bytes / (p.Device.Bandwidth * p.Efficiency.Memory)
}

// products is the time of the matrix products.
func (p *Physical) products(b Batch) float64 {
	flops := 2*p.Shape.Linear*float64(b.Tokens()) + 2*p.Shape.Head*float64(b.Decode+b.Prompts)
	return 1e9 * flops / p.tp() / (p.Device.FLOPS * p.Efficiency.Compute)
}

// shards is the number of devices over which the KV of one token is spread; KV heads are repeated
// when there are more devices than heads.
func (p *Physical) shards() float64 {
	if p.Shape.KVHeads > 0 {
		return min(p.tp(), float64(p.Shape.KVHeads))
	}
	return p.tp()
}

func (p *Physical) kv(b Batch) float64 {
	bytes := p.Shape.KVBytes*float64(b.KV) + p.Shape.WindowKVBytes*float64(b.WindowKV)
	return 1e9 * bytes / p.shards() / (p.Device.Bandwidth * p.Efficiency.Memory)
}

func (p *Physical) attention(b Batch) float64 {
	share := p.Efficiency.Attention
	if share == 0 {
		share = p.Efficiency.Compute
	}
	return 1e9 * p.Shape.PairFLOPs * b.Attention() / p.tp() / (p.Device.FLOPS * share)
}

func (p *Physical) activation(b Batch) float64 {
	size := p.Shape.ActBytes
	if size == 0 {
		size = 2
	}
	return size * float64(b.Tokens()) * float64(p.Shape.Hidden)
}

// reduce is the time of two all-reduces per layer.
func (p *Physical) reduce(b Batch) float64 {
	if p.tp() == 1 {
		return 0
	}
	e := &p.Efficiency
	rate, start := p.Device.Link, e.ReduceNS
	if p.Nodes > 1 {
		rate, start = p.Device.Network, e.NetworkNS
	}
	if e.ReduceShare > 0 {
		rate *= e.ReduceShare
	}
	moved := 2 * (p.tp() - 1) / p.tp() * p.activation(b)
	return 2 * float64(p.Shape.Layers) * (start + 1e9*moved/rate)
}

// stages is the time to hand activations from one pipeline stage to the next.
func (p *Physical) stages(b Batch) float64 {
	if p.PP < 2 {
		return 0
	}
	rate, start := p.Device.Link, p.Efficiency.ReduceNS
	if p.Device.Network > 0 {
		rate, start = p.Device.Network, p.Efficiency.NetworkNS
	}
	return float64(p.PP-1) * (start + 1e9*p.activation(b)/rate)
}
