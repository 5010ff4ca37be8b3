package sizing

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"spate/internal/forecast/profile"
	"spate/internal/sim"
	"spate/internal/sim/catalog"
	"spate/internal/sim/cluster"
)

// Shape is what is decided about a replica.
type Shape struct {
	TP        int `json:"tensor_parallel_size"`
	MaxSeqs   int `json:"max_num_seqs"`
	MaxTokens int `json:"max_num_batched_tokens"`
}

// Server is a model on a kind of GPU that can be varied.
type Server struct {
	Name  string
	GPU   string
	Price float64 // USD per GPU and hour; 0: unknown

	own  int   // tensor parallel size of the profile
	tps  []int // sizes that make sense
	vary func(Shape) (*Variant, error)
}

// Variant is a server with everything decided.
type Variant struct {
	Shape
	Calibrated bool
	Configs    []cluster.Config // one per parameter vector, the fitted one first

	model   string
	context int
	sched   sim.Config
}

// FromProfile takes a profile, or says why a plan can do nothing with it.
func FromProfile(p *profile.Profile, seed uint64) (*Server, error) {
	f := &p.Engine
	switch {
	case p.Cost.Disagg != nil || f.Disagg != nil:
		return nil, errors.New("it has separate engines for prompts and decoding, and it is not known how many of each another rate needs")
	case !f.Known():
		return nil, errors.New("its model or GPU is unknown, so GPUs cannot be counted and other sizes cannot be computed")
	case f.Engine != "vllm":
		return nil, fmt.Errorf("its engine is %s, and plans are made for vllm", f.Engine)
	}
	gpu, err := catalog.FindGPU(f.GPU)
	if err != nil {
		return nil, err
	}
	s := &Server{Name: p.Name, GPU: gpu.Name, own: max(1, f.TP), tps: sizesWithin(gpu.NodeGPUs)}
	if f.Nodes > 1 {
		s.tps = []int{s.own} // what crosses the network was measured for this size alone
	}
	model := f.Model
	if m, err := catalog.FindModel(f.Model); err == nil {
		model = m.Name
	}
	s.vary = variants(model, seed, p.With)
	return s, nil
}

// FromPair takes a model and a GPU by name: step times then follow from the datasheet.
func FromPair(model, gpu string, seed uint64) (*Server, error) {
	g, err := catalog.FindGPU(gpu)
	if err != nil {
		return nil, err
	}
	m, err := catalog.FindModel(model)
	if err != nil {
		return nil, err
	}
	s := &Server{Name: model + "@" + gpu, GPU: g.Name, own: 1, tps: sizesWithin(g.NodeGPUs)}
	s.vary = variants(m.Name, seed, func(o profile.Override) (*profile.Profile, error) { return profile.OfPairWith(model, gpu, o) })
	return s, nil
}

// variants turns shapes into servers that can be simulated.
func variants(model string, seed uint64, with func(profile.Override) (*profile.Profile, error)) func(Shape) (*Variant, error) {
	return func(sh Shape) (*Variant, error) {
		q, err := with(profile.Override{TP: sh.TP, MaxSeqs: sh.MaxSeqs, MaxTokens: sh.MaxTokens})
		if err != nil {
			if inner := errors.Unwrap(err); inner != nil {
				err = inner // name and size are said beside it
			}
			return nil, err
		}
		v := &Variant{Calibrated: q.Calibrated, model: model, context: q.Sim.MaxModelLen, sched: q.Sim}
		v.Configs = append(v.Configs, q.Cluster(&q.Cost, seed))
		for i := range q.Set {
			if !q.Calibrated {
				break // its spread is of what was measured, not of what was computed from it
			}
			v.Configs = append(v.Configs, q.Cluster(&q.Set[i], seed))
		}
		v.Shape = Shape{TP: sh.TP, MaxSeqs: q.Sim.MaxSeqs, MaxTokens: q.Sim.MaxTokens}
		return v, nil
	}
}

// sizesWithin are the usual tensor parallel sizes of a node.
func sizesWithin(gpus int) []int {
	var out []int
	for tp := 1; tp <= max(1, gpus); tp *= 2 {
		out = append(out, tp)
	}
	return out
}

// sizes are those to try: all that make sense, or the ones asked for.
func (s *Server) sizes(asked []int) []int {
	if len(asked) > 0 {
		return asked
	}
	out := s.tps
	if !slices.Contains(out, s.own) {
		out = append(slices.Clone(out), s.own)
	}
	return out
}

// variant builds a replica, or says why an engine would not start so.
func (s *Server) variant(sh Shape) (*Variant, error) {
	if len(s.tps) == 1 && sh.TP != s.own {
		return nil, fmt.Errorf("it was measured across nodes at tensor parallel size %d, and no other can be computed from that", s.own)
	}
	return s.vary(sh)
}

// Command is the command line of one replica.
func (v *Variant) Command() string {
	args := []string{"vllm", "serve", v.model}
	add := func(name string, value int) {
		if value > 0 {
			args = append(args, name, strconv.Itoa(value))
		}
	}
	add("--tensor-parallel-size", v.TP)
	add("--max-num-seqs", v.MaxSeqs)
	add("--max-num-batched-tokens", v.MaxTokens)
	add("--max-model-len", v.context)
	old := v.sched.Policy != sim.V1 // whose switches have no opposites
	switch {
	case v.sched.PrefixCaching:
		args = append(args, "--enable-prefix-caching")
	case !old:
		args = append(args, "--no-enable-prefix-caching")
	}
	switch {
	case v.sched.Policy == sim.V0Chunked:
		args = append(args, "--enable-chunked-prefill")
	case v.sched.WholePrompts:
		args = append(args, "--no-enable-chunked-prefill")
	}
	return strings.Join(args, " ")
}
