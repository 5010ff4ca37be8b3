package workload

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
)

// Plan is what a configuration would send.
type Plan struct {
	Requests int
	In, Out  Lengths
	// Drawn says that the input lengths are those drawn: making the prompts may miss some of them.
	Drawn bool
	Notes []string
}

// Lengths are the lengths of one side, in ascending order.
type Lengths []int32

// Total is their sum.
func (l Lengths) Total() int64 {
	var sum int64
	for _, n := range l {
		sum += int64(n)
	}
	return sum
}

// Mean is their average; 0 for none.
func (l Lengths) Mean() float64 {
	if len(l) == 0 {
		return 0
	}
	return float64(l.Total()) / float64(len(l))
}

// At is the smallest length that at least the given share of all (0 to 1) does not exceed: At(0) is
// the shortest, At(1) the longest.
func (l Lengths) At(share float64) int {
	if len(l) == 0 {
		return 0
	}
	rank := int(math.Ceil(share * float64(len(l))))
	return int(l[min(max(rank, 1), len(l))-1])
}

// Preview says what New(cfg, tok, tmpl) would send. Lengths of random come from its draws alone;
// other datasets are made and dropped. An endless configuration is previewed up to N.
func Preview(ctx context.Context, cfg Config, tok Tokenizer, tmpl Template) (Plan, error) {
	cfg.Endless = false
	s, err := New(cfg, tok, tmpl)
	if err != nil {
		return Plan{}, err
	}
	plan, err := s.preview(ctx)
	if err = errors.Join(err, s.Close()); err != nil {
		return Plan{}, err
	}
	slices.Sort(plan.In)
	slices.Sort(plan.Out)
	plan.Requests = len(plan.In)
	plan.Notes = s.Notes()
	return plan, nil
}

func (s *Stream) preview(ctx context.Context) (Plan, error) {
	if r, ok := s.ds.(*random); ok {
		in := slices.Clone(r.block.in)
		for i := range in {
			in[i] += int32(r.cfg.Prefix)
		}
		return Plan{In: in, Out: slices.Clone(r.block.out), Drawn: true}, nil
	}
	var plan Plan
	for {
		req, err := s.Next(ctx)
		if errors.Is(err, io.EOF) {
			return plan, nil
		} else if err != nil {
			return Plan{}, err
		}
		plan.In = append(plan.In, int32(req.In.N))
		plan.Out = append(plan.Out, int32(req.MaxOut))
	}
}
