package catalog

// Params counts a model's parameters by what becomes of them.
type Params struct {
	Embed  int64 // input embedding
	Head   int64 // output projection; 0 when tied to the embedding
	Attn   int64 // attention matrices of all layers
	Dense  int64 // FFN matrices every token uses: dense layers and shared experts
	Expert int64 // one routed expert of one layer
	MoE    int64 // layers that have routed experts
	Router int64 // of all layers
	Other  int64 // norms and biases
	Routed int64 // all routed experts: Expert × experts × MoE
}

// Params returns the counts.
func (m *Model) Params() Params {
	h := int64(m.Hidden)
	p := Params{Embed: int64(m.Vocab) * h, Attn: m.attnParams() * int64(m.Layers)}
	if !m.Tied {
		p.Head = p.Embed
	}
	p.Other = h + int64(m.Layers)*(2*h+m.attnExtras())
	dense := int64(m.Layers)
	if m.MoE() {
		dense = int64(m.DenseLayers)
		p.MoE = int64(m.Layers - m.DenseLayers)
		p.Expert = 3 * h * int64(m.ExpertFFN)
		p.Routed = p.Expert * int64(m.Experts) * p.MoE
		p.Router = h * int64(m.Experts) * p.MoE
		p.Dense = 3 * h * int64(m.SharedFFN) * p.MoE
		if m.Type == "gpt_oss" { // router and both expert projections carry biases
			p.Other += p.MoE * int64(m.Experts) * (1 + 2*int64(m.ExpertFFN) + h)
		}
	}
	p.Dense += 3 * h * int64(m.FFN) * dense
	return p
}

// attnParams counts one layer's attention matrices.
func (m *Model) attnParams() int64 {
	h, q := int64(m.Hidden), int64(m.Heads)
	if m.LatentRank > 0 {
		kv, qk := int64(m.LatentRank), int64(m.NopeDim+m.RopeDim)
		query := h * q * qk
		if r := int64(m.QueryRank); r > 0 {
			query = h*r + r*q*qk
		}
		return query + h*(kv+int64(m.RopeDim)) + kv*q*int64(m.NopeDim+m.ValueDim) + q*int64(m.ValueDim)*h
	}
	d := int64(m.HeadDim)
	return h*d*(q+2*int64(m.KVHeads)) + q*d*h
}

// attnExtras counts one layer's attention biases and norms.
func (m *Model) attnExtras() int64 {
	d, n := int64(m.HeadDim), int64(0)
	if m.AttnBias {
		n += d * int64(m.Heads+2*m.KVHeads)
		if m.Type == "gpt_oss" {
			n += int64(m.Hidden) + int64(m.Heads) // output bias and attention sinks
		}
	}
	if m.QKNorm {
		n += 2 * d
	}
	if m.LatentRank > 0 {
		n += int64(m.LatentRank + m.QueryRank)
	}
	return n
}

// Total returns the number of parameters.
func (p Params) Total() int64 {
	return p.Embed + p.Head + p.Attn + p.Dense + p.Routed + p.Router + p.Other
}

// Linear returns the matrix weights one token is multiplied with in the layers: what prefill
// computes with, without embeddings and output projection.
func (m *Model) Linear() int64 {
	p := m.Params()
	return p.Attn + p.Dense + p.Router + p.Expert*int64(m.TopK)*p.MoE
}

// ExpertBytes returns the bytes of one routed expert of one layer as it lies in memory.
func (m *Model) ExpertBytes() float64 {
	n := float64(m.Params().Expert)
	if m.Quant == MXFP4 && m.ExpertFFN%256 != 0 { // kernels pad the width to a multiple of 256
		padded := (m.ExpertFFN + 255) / 256 * 256
		n *= float64(padded) / float64(m.ExpertFFN)
	}
	return n * m.Quant.bits(m.Group) / 8
}

// EmbedBytes returns the bytes of the input embedding, and of the output projection (0 when tied).
func (m *Model) EmbedBytes() (embed, head float64) {
	p, w := m.Params(), m.DType.bits(0)/8
	return float64(p.Embed) * w, float64(p.Head) * w
}

// LayerBytes returns the bytes of all layers' weights without routed experts.
func (m *Model) LayerBytes() float64 {
	p := m.Params()
	quant := m.Quant.bits(m.Group) / 8
	if m.Quant == MXFP4 { // only experts are stored so
		quant = m.DType.bits(0) / 8
	}
	return float64(p.Attn+p.Dense)*quant + float64(p.Router+p.Other)*m.DType.bits(0)/8
}

// KVBytes returns the KV bytes of one token in one layer over the whole model, at the given number
// of bytes per value (2 for 16-bit caches, 1 for FP8).
func (m *Model) KVBytes(width int) int {
	if m.LatentRank > 0 {
		return (m.LatentRank + m.RopeDim) * width
	}
	return 2 * m.KVHeads * m.HeadDim * width
}

// KVBytesPerGPU returns what one tensor-parallel rank keeps of a layer's KV: heads are divided
// while there are enough of them and replicated beyond; latent KV is always replicated.
func (m *Model) KVBytesPerGPU(width, tp int) int {
	if m.LatentRank > 0 {
		return m.KVBytes(width)
	}
	heads := max((m.KVHeads+tp-1)/tp, 1)
	return 2 * heads * m.HeadDim * width
}
