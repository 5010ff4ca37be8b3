package catalog

import "math"

const gib = 1 << 30

// Deployment is a model on some GPUs under some engine, with every setting decided.
type Deployment struct {
	Model          *Model
	GPU            *GPU
	Engine         *Engine
	TP, PP, DP     int
	ExpertParallel bool
	MaxModelLen    int
	Seqs           int     // max_num_seqs
	Tokens         int     // max_num_batched_tokens
	Util           float64 // gpu_memory_utilization
	Block          int     // tokens per KV block
	KVWidth        int     // bytes per KV value
	Chunked        bool
	Eager          bool
	LoraBytes      float64 // per GPU
	BlocksOverride int     // num_gpu_blocks_override; 0 for none
	KVOverride     float64 // kv_cache_memory_bytes; 0 for none
}

// Budget is where the memory of one GPU goes, in bytes, and what the KV share holds.
type Budget struct {
	Total, Weights, Activation, Other, Graphs, KV float64

	BlockBytes  int     // of one KV block on this GPU
	Blocks      int     // blocks of the pool
	Groups      []Group // which layers share a block
	Tokens      int     // what the engine reports as KV cache size
	Concurrency float64 // requests of the longest context that fit
}

// Group is a set of layers whose KV of one stretch of tokens lies in one block. Models with
// sliding-window layers have several, and every request takes blocks for each.
type Group struct {
	Layers int
	Window int // 0: keeps the whole context
}

// samplerCopies is how many 32-bit copies of all sampled rows' logits the memory profile sees. It
// reproduces the published activation figures of H100 starts within 2 % (see the tests).
const samplerCopies = 9.65

// Memory outside the framework's allocator: measured 0.13 GiB alone and 0.55 GiB with a
// communicator.
const (
	otherAlone    = 0.13 * gib
	otherParallel = 0.55 * gib
	graphBytes    = 0.5 * gib
)

// Budget computes the memory plan as the engine does at start: what utilisation allows, less
// weights, the activation peak of a profiled step, and what lies outside.
func (d *Deployment) Budget() Budget {
	b := Budget{
		Total: d.GPU.MemoryGiB * gib, Weights: d.weights() + d.LoraBytes, Activation: d.activation(), Other: otherAlone,
	}
	if d.TP*d.PP > 1 {
		b.Other = otherParallel
	}
	if d.Engine.Graphs && !d.Eager {
		b.Graphs = graphBytes
	}
	switch {
	case d.Engine.OfFree:
		b.KV = (b.Total - b.Weights - b.Activation - b.Other) * d.Util
	case d.Engine.Family == SGLang: // its share is for weights and KV alone
		b.KV = b.Total*d.Util - b.Weights
	default:
		b.KV = b.Total*d.Util - b.Weights - b.Activation - b.Other - b.Graphs
	}
	if d.KVOverride > 0 {
		b.KV = d.KVOverride
	}
	b.Groups = d.groups()
	b.BlockBytes = d.Block * d.Model.KVBytesPerGPU(d.KVWidth, d.TP) * b.Groups[0].Layers
	b.Blocks = max(int(b.KV/float64(b.BlockBytes)), 0)
	if d.BlocksOverride > 0 {
		b.Blocks = d.BlocksOverride
		b.KV = float64(b.Blocks) * float64(b.BlockBytes)
	}
	b.Tokens = b.Blocks / len(b.Groups) * d.Block
	if need := d.requestBlocks(b.Groups, d.MaxModelLen); need > 0 {
		b.Concurrency = float64(b.Blocks) / float64(need)
	}
	return b
}

// weights returns the bytes of the fullest pipeline stage on one GPU.
func (d *Deployment) weights() float64 {
	m, p := d.Model, d.Model.Params()
	embed, head := m.EmbedBytes()
	stage := float64(ceilDiv(m.Layers, d.PP)) / float64(m.Layers)
	ends := embed + head
	if d.PP > 1 {
		ends = max(embed, head) // the first stage embeds, the last one projects
	}
	experts := m.ExpertBytes() * float64(m.Experts) * float64(p.MoE) * stage / float64(d.TP)
	if d.ExpertParallel {
		experts /= float64(max(d.DP, 1))
	}
	return (m.LayerBytes()*stage+ends)/float64(d.TP) + experts
}

// activation is the peak of one profiled step: the sampler over all sequences, or the widest layer
// over a full token budget, whichever is larger.
func (d *Deployment) activation() float64 {
	m := d.Model
	sampler := samplerCopies * 4 * float64(d.Seqs) * float64(m.Vocab)
	ffn, rows := m.FFN, 1
	if m.MoE() {
		ffn, rows = m.ExpertFFN, m.TopK
	}
	width := float64(rows)*3*float64(ffn)/float64(d.TP) + float64(rows+7)*float64(m.Hidden)
	return max(sampler, 2*float64(d.Tokens)*width)
}

// groups divides one pipeline stage's layers into groups of equal size.
func (d *Deployment) groups() []Group {
	m := d.Model
	full, window := ceilDiv(m.Layers-m.WindowLayers, d.PP), ceilDiv(m.WindowLayers, d.PP)
	switch {
	case window == 0 || d.Engine.Family != V1:
		return []Group{{Layers: ceilDiv(m.Layers, d.PP)}}
	case full == 0:
		return []Group{{Layers: window, Window: m.Window}}
	}
	size := min(full, window)
	var out []Group
	for range ceilDiv(full, size) {
		out = append(out, Group{Layers: size})
	}
	for range ceilDiv(window, size) {
		out = append(out, Group{Layers: size, Window: m.Window})
	}
	return out
}

// requestBlocks returns the blocks a request of n tokens may need at once.
func (d *Deployment) requestBlocks(groups []Group, n int) int {
	total := 0
	for _, g := range groups {
		if g.Window == 0 || g.Window-1+d.Tokens >= n {
			total += ceilDiv(n, d.Block)
			continue
		}
		total += ceilDiv(g.Window-1+d.Tokens, d.Block) + 1
	}
	return total
}

// longest returns the longest context a single request can have in b.
func (d *Deployment) longest(b *Budget) int {
	lo, hi := 0, d.MaxModelLen
	for lo < hi {
		mid := (lo + hi + 1) / 2
		if d.requestBlocks(b.Groups, mid) <= b.Blocks {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo
}

// FitsSteps reports whether the whole memory, not only the share that was asked for, holds a step
// at the profiled peak: a plan that leaves less than margin free can start and die under load.
func (b *Budget) FitsSteps(margin float64) bool {
	return b.Total-b.Weights-b.Activation-b.Other-b.Graphs-b.KV >= margin
}

func ceilDiv(a, b int) int {
	return int(math.Ceil(float64(a) / float64(b)))
}
