package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"spate/internal/rng"
)

// Ratio is how far lengths spread: up to Head, x means uniform in [len*(1-x), len*(1+x)]; in V6 it
// means uniform in [len*x, len].
type Ratio struct {
	Input  float64 `json:"input"`
	Output float64 `json:"output"`
}

// ParseRatio reads --random-range-ratio: a number for both lengths, or {"input": r, "output": r}.
func ParseRatio(s string) (Ratio, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	both := map[string]*float64{"input": &v, "output": &v}
	if err != nil {
		both = nil
		err = json.Unmarshal([]byte(s), &both)
	}
	in, out := both["input"], both["output"]
	if err != nil || in == nil || out == nil || len(both) != 2 || math.IsNaN(*in+*out) || math.IsInf(*in+*out, 0) {
		return Ratio{}, errors.New(`want a number such as 0.2, or {"input":0.1,"output":0.3}`)
	}
	return Ratio{*in, *out}, nil
}

// String writes the ratio the way ParseRatio reads it.
func (r Ratio) String() string {
	if r.Input == r.Output {
		text := strconv.FormatFloat(r.Input, 'f', -1, 64)
		if !strings.Contains(text, ".") {
			text += ".0"
		}
		return text
	}
	return fmt.Sprintf(`{"input":%v,"output":%v}`, r.Input, r.Output)
}

// span is a range of lengths, both ends included.
type span struct{ low, high int64 }

// check refuses ratios outside the era's domain.
func (r Ratio) check(era Era) error {
	for _, side := range []struct {
		name string
		v    float64
	}{{"input", r.Input}, {"output", r.Output}} {
		switch {
		case era == V6 && !(side.v >= 0 && side.v <= 1):
			return fmt.Errorf("%s range ratio %v is outside [0, 1]", side.name, side.v)
		case era != V6 && side.v == 1:
			return fmt.Errorf("%s range ratio 1 would allow empty prompts: since vLLM v0.8.4 it means len*(1-r) to len*(1+r), so use 0 for fixed lengths, or choose the rules of %s", side.name, V6)
		case era != V6 && !(side.v >= 0 && side.v < 1):
			return fmt.Errorf("%s range ratio %v is outside [0, 1)", side.name, side.v)
		}
	}
	return nil
}

// spans are the ranges of input and output lengths. specials is what the server will add to each
// prompt, and real the input length without it.
func (c *Config) spans(specials int) (in, out span, err error) {
	if err := c.Ratio.check(c.Era); err != nil {
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
		in = span{max(least, int64(input*ri)), max(least, int64(c.Input))}
		out = span{max(least, int64(output*ro)), max(least, int64(c.Output))}
	case V10:
		input = float64(max(0, c.Input-specials))
		in = span{int64(input * (1 - ri)), int64(input * (1 + ri))}
		out = span{int64(output * (1 - ro)), int64(output * (1 + ro))}
		out.low, out.high = max(1, out.low), max(1, out.high)
	default:
		input = float64(max(0, c.Input-specials))
		in = span{int64(math.Floor(input * (1 - ri))), int64(math.Ceil(input * (1 + ri)))}
		out = span{int64(math.Floor(output * (1 - ro))), int64(math.Ceil(output * (1 + ro)))}
		out.low, out.high = max(1, out.low), max(1, out.high)
		if int64(c.Prefix)+in.low < 1 {
			return in, out, fmt.Errorf("input length %d with range ratio %v, prefix %d and %d special tokens allows empty prompts: raise the input length or lower the ratio", c.Input, ri, c.Prefix, specials)
		}
	}
	return in, out, nil
}

// drawer is the generator the era's draws come from: NumPy's default_rng today, its global
// RandomState before.
type drawer struct {
	now *rng.Numpy
	old *rng.Legacy
}

func newDrawer(era Era, seed uint64) (drawer, error) {
	if era == Head {
		return drawer{now: rng.NewNumpy(seed)}, nil
	}
	if seed > math.MaxUint32 {
		return drawer{}, fmt.Errorf("seed %d is above %d, the highest the rules of %s take", seed, uint32(math.MaxUint32), era)
	}
	return drawer{old: rng.NewLegacy(uint32(seed))}, nil
}

// fill draws integers uniform in sp.
func (d drawer) fill(dst []int32, sp span) {
	for i := range dst {
		dst[i] = int32(d.draw(sp))
	}
}

func (d drawer) draw(sp span) int64 {
	if d.now != nil {
		return d.now.Integers(sp.low, sp.high+1)
	}
	return d.old.Integers(sp.low, sp.high+1)
}
