package calibrate

import (
	"fmt"
	"math"
	"slices"

	"spate/internal/forecast/predict"
	"spate/internal/forecast/profile"
)

// Model is one server's cost as a function of its parameters, for those who know more about them than
// rows tell (regress.go).
type Model struct {
	fam  *Family
	base profile.Profile
}

// NewModel is the model of a server by its facts.
func NewModel(name string, facts profile.Facts) (*Model, error) {
	g, err := newGroup(name, facts)
	if err != nil {
		return nil, fmt.Errorf("server %s: %w", name, err)
	}
	fam := &Family{Name: name, groups: []*group{g}}
	fam.params = fam.parameters()
	return &Model{fam: fam, base: g.base}, nil
}

// Params are the parameters, with what is expected of each.
func (m *Model) Params() []Param { return slices.Clone(m.fam.params) }

// Cost is the server's cost with some values, in the order and units of Params.
func (m *Model) Cost(values []float64) *profile.Cost { return m.fam.cost(m.fam.groups[0], values) }

// Base is the server's profile but for its costs.
func (m *Model) Base() profile.Profile { return m.base }

// Known is a parameter that is known from something other than rows: an engine's log of its own steps.
type Known struct {
	Name  string  // of the parameter
	Value float64 // in its unit
	SD    float64 // of its logarithm, or of itself where the parameter is linear
}

// RunKnown is Run with known parameters for some groups: the fit expects them there, with their standard deviation, and
// the rows determine the rest.
func RunKnown(f *predict.File, known map[string][]Known, opt Options) (*Outcome, error) {
	fams, err := families(f)
	if err != nil {
		return nil, err
	}
	for _, fam := range fams {
		for _, g := range fam.groups {
			fam.expect(g, known[g.name])
		}
	}
	return runFamilies(fams, opt)
}

// expect makes what is known of one server the prior of its family.
func (fam *Family) expect(g *group, list []Known) {
	for _, t := range list {
		for i := range fam.params {
			p := &fam.params[i]
			if p.Name != t.Name || !(t.SD > 0) || math.IsInf(t.Value, 0) {
				continue
			}
			v := t.Value
			if first := fam.groups[0]; p.Name == "kv" && g.shape != nil && first.shape != nil {
				v *= g.shape.bandwidth / first.shape.bandwidth // as the parameter is defined for the first
			}
			if p.Linear || v > 0 {
				p.Prior, p.SD = v, t.SD
				p.Low, p.High = min(p.Low, v), max(p.High, v)
			}
		}
	}
}
