package lengths

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"spate/internal/rng"
)

// Era selects whose sampling rules apply where vLLM changed them over time.
type Era string

// The eras whose results people compare against.
const (
	Head Era = "head"  // today's rules
	V10  Era = "v0.10" // v0.8.4 to v0.11: integer bounds, one cut and no padding, special ids included
	V6   Era = "v0.6"  // up to v0.8.3: lengths in [int(len*ratio), len], prompts as decoded
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

// Span is a range of lengths, both ends included.
type Span struct{ Low, High int64 }

// Check refuses ratios outside the era's domain.
func (r Ratio) Check(era Era) error {
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

// Drawer is the generator the era's draws come from: NumPy's default_rng today, its global
// RandomState before.
type Drawer struct {
	now *rng.Numpy
	old *rng.Legacy
}

// NewDrawer begins to draw.
func NewDrawer(era Era, seed uint64) (Drawer, error) {
	if era == Head {
		return Drawer{now: rng.NewNumpy(seed)}, nil
	}
	if seed > math.MaxUint32 {
		return Drawer{}, fmt.Errorf("seed %d is above %d, the highest the rules of %s take", seed, uint32(math.MaxUint32), era)
	}
	return Drawer{old: rng.NewLegacy(uint32(seed))}, nil
}

// Fill draws integers uniform in sp.
func (d Drawer) Fill(dst []int32, sp Span) {
	for i := range dst {
		dst[i] = int32(d.Draw(sp))
	}
}

// Draw draws one.
func (d Drawer) Draw(sp Span) int64 {
	if d.now != nil {
		return d.now.Integers(sp.Low, sp.High+1)
	}
	return d.old.Integers(sp.Low, sp.High+1)
}
