// Package latency says how long an engine step takes. The engine (package sim) describes a step as a
// Batch, a Model turns it into a duration, and a driver (sim/cluster, or a server on the wall clock)
// spends it. Read Reference first: the form with one coefficient per mechanism, which calibration
// fits; Physical derives the same cost from a model's shape and a GPU's datasheet.
package latency

import (
	"math"
	"time"
)

// Batch is what the duration of a step depends on.
type Batch struct {
	Prefill    int   // prompt tokens computed (P)
	Prompts    int   // requests they belong to
	Decode     int   // requests that decode (D)
	Drafts     int   // tokens beyond one per decoding request, to verify speculation
	Attention2 int64 // twice the prompt attention work: sum of n(2 ctx + n) over prompt chunks
	KV         int64 // context tokens read by decoding requests, their new tokens included
	WindowKV   int64 // the same, each request counted up to the sliding window
	Growing    int   // decoding requests whose window is not yet full
	MaxContext int   // longest context of a decoding request
	Adapters   int   // distinct LoRA adapters
}

// Tokens is the number of rows of the step's matrix products.
func (b Batch) Tokens() int { return b.Prefill + b.Decode + b.Drafts }

// Attention is the prompt attention work: sum of n(ctx + n/2).
func (b Batch) Attention() float64 { return float64(b.Attention2) / 2 }

// After is a decode-only batch steps later, when nothing but the contexts has changed.
func (b Batch) After(steps int) Batch {
	b.KV += int64(steps) * int64(b.Decode)
	b.WindowKV += int64(steps) * int64(b.Growing)
	b.MaxContext += steps
	return b
}

// Model gives the duration of a step.
type Model interface {
	Step(b Batch) time.Duration
}

// Band replaces the step, prefill and decode coefficients above a batch size, where an engine
// changes its way of working (another CUDA graph, none at all).
type Band struct {
	Above     int     `json:"above_tokens"`
	StepNS    float64 `json:"step_ns"`
	PrefillNS float64 `json:"prefill_token_ns"`
	DecodeNS  float64 `json:"decode_seq_ns"`
}

// Reference is a step as a sum of mechanisms:
//
//	o + (a P + c D) n/(n+b) + q sum n(ctx+n/2) + d KV [+ e + f KV if P>0] + moe n r/(1-r+n r) + comm
//
// with P prompt tokens, D decoding requests and n = P + D. All coefficients but the shares and b are
// nanoseconds; zero leaves a mechanism out.
type Reference struct {
	StepNS      float64 `json:"step_ns"`                       // o: every step
	PrefillNS   float64 `json:"prefill_token_ns"`              // a: per prompt token
	AttentionNS float64 `json:"attention_ns,omitempty"`        // q: per pair of prompt token and context token
	DecodeNS    float64 `json:"decode_seq_ns"`                 // c: per decoding request
	Balance     float64 `json:"balance_rows,omitempty"`        // b: rows at which products take as long as reading the weights, behind which they hide
	KVNS        float64 `json:"kv_token_ns"`                   // d: per context token read by decoding requests
	MixedNS     float64 `json:"prefill_step_ns,omitempty"`     // e: a step that holds any prompt
	MixedKVNS   float64 `json:"prefill_step_kv_ns,omitempty"`  // f: per context token read by decoding requests beside a prompt, on top of d
	MoENS       float64 `json:"moe_ns,omitempty"`              // reading all experts
	MoERatio    float64 `json:"moe_ratio,omitempty"`           // r: share of the experts that one token activates
	CommNS      float64 `json:"comm_ns,omitempty"`             // two nodes: every step
	CommTokenNS float64 `json:"comm_token_ns,omitempty"`       // two nodes: per token
	CommRootNS  float64 `json:"comm_sqrt_ns,omitempty"`        // two nodes: per square root of tokens
	Bands       []Band  `json:"bands,omitempty"`               // ascending; the last one below the batch size holds
	EagerAbove  int     `json:"eager_above_context,omitempty"` // decode steps run without graph beyond this context ...
	EagerNS     float64 `json:"eager_ns,omitempty"`            // ... and cost this much more
	GraphMax    int     `json:"graph_max,omitempty"`           // decode batches pad to capture sizes up to this one; 0: no padding
	AdapterNS   float64 `json:"adapter_ns,omitempty"`          // per distinct LoRA adapter
	WindowShare float64 `json:"window_share,omitempty"`        // share of KVNS due to layers that see only the sliding window
	MinNS       float64 `json:"min_ns,omitempty"`              // floor of a step
	HostNS      float64 `json:"host_ns,omitempty"`             // scheduling and input preparation, on the critical path ...
	HostHidden  bool    `json:"host_hidden,omitempty"`         // ... unless it overlaps the step (asynchronous scheduling)
}

var _ Model = (*Reference)(nil)

// Step implements Model.
func (r *Reference) Step(b Batch) time.Duration {
	step, prefill, decode := r.StepNS, r.PrefillNS, r.DecodeNS
	rows := b.Decode
	if r.GraphMax > 0 && b.Prefill == 0 {
		rows = GraphSize(b.Decode, r.GraphMax)
	}
	n := float64(b.Prefill + rows + b.Drafts)
	for i := range r.Bands {
		if n > float64(r.Bands[i].Above) {
			step, prefill, decode = r.Bands[i].StepNS, r.Bands[i].PrefillNS, r.Bands[i].DecodeNS
		}
	}
	products := prefill*float64(b.Prefill+b.Drafts) + decode*float64(rows)
	if r.Balance > 0 {
		products *= n / (n + r.Balance)
	}
	t := step + products + r.AttentionNS*b.Attention() + r.kv(b)
	if b.Prefill > 0 {
		t += r.MixedNS + r.MixedKVNS*float64(b.KV)
	}
	if r.MoENS > 0 {
		t += r.MoENS * Activated(r.MoERatio, n)
	}
	if r.CommNS != 0 || r.CommTokenNS != 0 || r.CommRootNS != 0 {
		t += r.CommNS + r.CommTokenNS*n + r.CommRootNS*math.Sqrt(n)
	}
	if r.EagerNS > 0 && b.Prefill == 0 && b.MaxContext > r.EagerAbove {
		t += r.EagerNS
	}
	return round(r.host(max(t+r.AdapterNS*float64(b.Adapters), r.MinNS)))
}

func (r *Reference) kv(b Batch) float64 {
	if r.WindowShare == 0 {
		return r.KVNS * float64(b.KV)
	}
	return r.KVNS * ((1-r.WindowShare)*float64(b.KV) + r.WindowShare*float64(b.WindowKV))
}

func (r *Reference) host(t float64) float64 {
	if r.HostHidden {
		return max(t, r.HostNS)
	}
	return t + r.HostNS
}

// Activated is the share of experts that n tokens touch when each uses the share ratio of them. Routers
// have favourites: with popularities that are exponentially distributed it is n r / (1 - r + n r), less
// than the 1 - (1-r)^n of experts that are all alike.
func Activated(ratio, n float64) float64 {
	if n <= 0 {
		return 0
	}
	return n * ratio / (1 - ratio + n*ratio)
}

// GraphSize is the CUDA-graph capture size that n decoding requests are padded to: 1, 2, 4, then
// multiples of 8 to 256, then of 16. Above largest there is no graph and no padding.
func GraphSize(n, largest int) int {
	padded := n
	switch {
	case n > largest:
		return n
	case n <= 2:
	case n <= 4:
		padded = 4
	case n <= 256:
		padded = (n + 7) / 8 * 8
	default:
		padded = (n + 15) / 16 * 16
	}
	return min(padded, largest)
}

// round turns nanoseconds into a duration of at least one.
func round(ns float64) time.Duration {
	return max(1, time.Duration(math.Round(ns)))
}

// normal draws standard normal deviates; rng streams do.
type normal interface{ NormFloat64() float64 }

// Jittered multiplies each step of a model by log-normal noise of mean one.
type Jittered struct {
	Model Model
	Sigma float64
	Draw  normal
}

// Step implements Model. It draws once per step, so that a step run alone and the same step within a
// stretch take equally long.
func (j *Jittered) Step(b Batch) time.Duration {
	t := float64(j.Model.Step(b))
	return round(t * math.Exp(j.Sigma*j.Draw.NormFloat64()-j.Sigma*j.Sigma/2))
}
