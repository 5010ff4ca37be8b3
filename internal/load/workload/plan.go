package workload

import (
	"context"
	"errors"
	"io"
	"slices"

	"spate/internal/load/lengths"
)

// Plan is what a configuration would send.
type Plan struct {
	Requests int // looked at
	In, Out  lengths.List
	// Sampled says that more would be sent than were looked at.
	Sampled bool
	// Drawn says that the input lengths are those drawn: making the prompts may miss some of them.
	Drawn bool
	Notes []string
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
