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
	Requests int // looked at
	In, Out  Lengths
	// Sampled says that more would be sent than were looked at.
	Sampled bool
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

// previewMost bounds how many requests a preview makes.
const previewMost = 100_000

// Preview says what New(cfg, tok, tmpl) would send. Lengths of random come from its draws alone;
// of other datasets so many are made and dropped as its bound and the time allow: enough, once closed, ends
// it with what there is. An endless configuration is previewed up to N.
func Preview(ctx context.Context, cfg Config, tok Tokenizer, tmpl Template, enough <-chan struct{}) (Plan, error) {
	cfg.Endless = false
	s, err := New(cfg, tok, tmpl)
	if err != nil {
		return Plan{}, err
	}
	plan, err := s.preview(ctx, enough)
	if err = errors.Join(err, s.Close()); err != nil {
		return Plan{}, err
	}
	slices.Sort(plan.In)
	slices.Sort(plan.Out)
	plan.Requests = len(plan.In)
	plan.Notes = s.Notes()
	return plan, nil
}

func (s *Stream) preview(ctx context.Context, enough <-chan struct{}) (Plan, error) {
	if r, ok := s.ds.(*random); ok {
		in := slices.Clone(r.block.in)
		for i := range in {
			in[i] += int32(r.cfg.Prefix)
		}
		return Plan{In: in, Out: slices.Clone(r.block.out), Drawn: true, Sampled: len(in) < r.cfg.N}, nil
	}
	var plan Plan
	for len(plan.In) < previewMost {
		select {
		case <-enough:
			if len(plan.In) > 0 {
				plan.Sampled = true
				return plan, nil
			}
		default:
		}
		req, err := s.Next(ctx)
		if errors.Is(err, io.EOF) {
			return plan, nil
		} else if err != nil {
			return Plan{}, err
		}
		plan.In = append(plan.In, int32(req.In.N))
		plan.Out = append(plan.Out, int32(req.MaxOut))
	}
	plan.Sampled = s.limit > previewMost
	return plan, nil
}
