package metrics

// pooling counts the inputs of a run that generated nothing, and takes out what would be said of tokens
// that nobody asked for.
func (z *summarizer) pooling() {
	if z.run.EndRule != Headers {
		return
	}
	s, p := &z.s, &Pooling{}
	for r := range z.ok {
		p.Inputs += max(1, r.Inputs)
	}
	p.Throughput = per(float64(p.Inputs), z.run.duration())
	s.Pooling = p
	s.MaxOutputPerS = 0
	s.Speed.User = z.b.dist(nil, 1)
	s.Streaming.TokenITLSource = map[string]int{}
	s.Throughput.OutputCI95 = nil
	s.Lengths.Output, s.Lengths.OutMatch = z.b.dist(nil, 1), Match{}
	s.Lengths.OutputFrom, s.Lengths.Finish, s.Lengths.Unexplained = map[string]int{}, map[string]int{}, 0
}
