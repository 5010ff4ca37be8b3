package workload

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"spate/internal/load/lengths"
	"spate/internal/rng"
)

// spans are the ranges of input and output lengths. specials is what the server will add to each
// prompt, and real the input length without it.
func (c *Config) spans(specials int) (in, out lengths.Span, err error) {
	if err := c.Ratio.Check(c.Era); err != nil {
		return in, out, err
	}
	if c.Output == FromData {
		return in, out, errors.New("random prompts have no output length of their own: give one")
	}
	ri, ro := c.Ratio.Input, c.Ratio.Output
	input, output := float64(c.Input), float64(c.Output)
	switch c.Era {
	case V6:
		least := int64(c.Least)
		in = lengths.Span{Low: max(least, int64(input*ri)), High: max(least, int64(c.Input))}
		out = lengths.Span{Low: max(least, int64(output*ro)), High: max(least, int64(c.Output))}
	case V10:
		input = float64(max(0, c.Input-specials))
		in = lengths.Span{Low: int64(input * (1 - ri)), High: int64(input * (1 + ri))}
		out = lengths.Span{Low: int64(output * (1 - ro)), High: int64(output * (1 + ro))}
		out.Low, out.High = max(1, out.Low), max(1, out.High)
	default:
		input = float64(max(0, c.Input-specials))
		in = lengths.Span{Low: int64(math.Floor(input * (1 - ri))), High: int64(math.Ceil(input * (1 + ri)))}
		out = lengths.Span{Low: int64(math.Floor(output * (1 - ro))), High: int64(math.Ceil(output * (1 + ro)))}
		out.Low, out.High = max(1, out.Low), max(1, out.High)
		if int64(c.Prefix)+in.Low < 1 {
			return in, out, fmt.Errorf("input length %d with range ratio %v, prefix %d and %d special tokens allows empty prompts: raise the input length or lower the ratio", c.Input, ri, c.Prefix, specials)
		}
	}
	return in, out, nil
}

// spread overrides the lengths of a block by distributions.
func (r *random) spread() {
	c := &r.cfg
	specials := int32(0)
	if r.tok != nil {
		specials = int32(r.tok.SpecialsToAdd())
	}
	fix := func(n int32) int32 { return max(1, n-specials) }
	in, out := r.stream("input lengths"), r.stream("output lengths")
	for i := range r.block.in {
		if c.InDist.Law != "" {
			r.block.in[i] = fix(c.InDist.Length(in))
		}
		if c.OutDist.Law != "" {
			r.block.out[i] = c.OutDist.Length(out)
		}
	}
	if len(c.Joint) == 0 {
		return
	}
	joint, which := lengths.NewJoint(c.Joint), r.stream("joint lengths")
	for i := range r.block.in {
		a, z := joint.Draw(which, in, out)
		r.block.in[i], r.block.out[i] = fix(a), z
	}
}

// stream is one per block, so that a longer run has the same lengths first.
func (r *random) stream(name string) *rand.Rand { return rng.New(r.cfg.Seed, name, uint64(r.first)) }
