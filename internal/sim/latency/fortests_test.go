package latency

import (
	"math"
)

// Reference is the same cost in the reference form: what a decode step costs at its start, per
// request and per KV token, and what a prompt token adds once it is bound by compute. It leaves out
// the crossover between reading weights and multiplying.
func (p *Physical) Reference() Reference {
	one := Batch{Decode: 1}
	e := &p.Efficiency
	r := Reference{
		StepNS:      e.StepNS + e.LayerNS*float64(p.Shape.Layers) + 1e9*p.Shape.WeightBytes/p.tp()/(p.Device.Bandwidth*e.Memory),
		PrefillNS:   p.products(Batch{Prefill: 1}),
		AttentionNS: p.attention(Batch{Attention2: 2}),
		DecodeNS:    e.RequestNS,
		KVNS:        p.kv(Batch{KV: 1, WindowKV: 1}),
		GraphMax:    p.GraphMax,
	}
	if total := p.Shape.KVBytes + p.Shape.WindowKVBytes; total > 0 {
		r.WindowShare = p.Shape.WindowKVBytes / total
	}
	if p.Shape.ExpertBytes > 0 {
		r.MoERatio = p.Shape.ExpertRatio
		r.MoENS = (p.weights(Batch{Decode: math.MaxInt32}) - p.weights(Batch{}))
	}
	if p.tp() > 1 {
		none := p.reduce(Batch{})
		r.CommNS, r.CommTokenNS = none, p.reduce(one)-none
	}
	return r
}
