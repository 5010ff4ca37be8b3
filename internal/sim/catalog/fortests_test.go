package catalog

// ModelNames lists the first name of every model, in catalog order.
func ModelNames() []string {
	list, err := models()
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range list {
		out = append(out, e.Names[0])
	}
	return out
}

// WeightBytes returns the bytes of all weights.
func (m *Model) WeightBytes() float64 {
	embed, head := m.EmbedBytes()
	p := m.Params()
	return embed + head + m.LayerBytes() + m.ExpertBytes()*float64(m.Experts)*float64(p.MoE)
}

// KVBytesPerToken returns the 16-bit KV bytes of one token over all layers.
func (m *Model) KVBytesPerToken() int { return m.KVBytes(2) * m.Layers }

// KVBytesGrowing is KVBytesPerToken over the layers that keep the whole context.
func (m *Model) KVBytesGrowing() int { return m.KVBytes(2) * (m.Layers - m.WindowLayers) }

// NonEmbedding returns the parameters without the two embedding matrices.
func (p Params) NonEmbedding() int64 { return p.Total() - p.Embed - p.Head }

// Active returns the parameters one token goes through, both embedding matrices included.
func (m *Model) Active() int64 {
	p := m.Params()
	return p.Total() - p.Routed + p.Expert*int64(m.TopK)*p.MoE
}
