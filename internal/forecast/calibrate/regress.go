package calibrate

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"spate/internal/forecast/profile"
	"spate/internal/host/enginelog"
	"spate/internal/judge/stats"
	"spate/internal/rng"
	"spate/internal/sim/latency"
)

// Regression is the step time of an engine, found from its own steps. Step time is linear in the
// parameters, so this needs no simulation.
type Regression struct {
	Steps  int       // used
	Params []Fitted  // in the order of the model's
	Noise  float64   // relative, of one step
	values []float64 // of all parameters
	root   [][]float64
	free   []int // parameters among them that root is about
	model  *Model
}

// Fitted is one parameter of the step time.
type Fitted struct {
	Name, Unit string
	Value      float64
	SD         float64 // of it
	Prior      float64
	Determined bool   // by the steps, not by expectation
	Why        string // which run would determine it
	linear     bool
}

// Settings of the regression.
const (
	minSteps   = 50
	weak       = 1.0 // an expectation counts as known up to this factor's logarithm
	rounds     = 12
	robust     = 1.5  // residuals beyond so many deviations count linearly
	determined = 0.5  // share of the expectation's spread that may be left
	floorSD    = 0.01 // no model of a step is better than this
	printedKV  = 1e-3 // usage is printed to a tenth of a percent
	setSize    = 8
	smallNoise = 1e-4
)

// errFew means that a log has too few steps to say anything.
var errFew = errors.New("too few steps")

// Regress finds the step time of a server from its steps. kvTokens is the size of its KV cache, which
// turns usage into tokens read; without it the cost of reading KV stays at its expectation.
func Regress(name string, facts profile.Facts, steps []enginelog.Step) (*Regression, error) {
	m, err := NewModel(name, facts)
	if err != nil {
		return nil, err
	}
	r := &Regression{model: m}
	base := m.Base()
	size := facts.KVTokens
	if size == 0 {
		size = base.Cost.Blocks * max(1, base.Sim.BlockSize)
	}
	batches, times := usable(steps, size, base.Sim.BlockSize, base.Sim.Window)
	if len(times) < minSteps {
		return nil, fmt.Errorf("%w: %d, and %d are needed", errFew, len(times), minSteps)
	}
	r.Steps = len(times)
	r.solve(newDesign(m, batches, times))
	return r, nil
}

// usable turns steps into batches. A log says how full the cache is, not how much of it a step reads:
// blocks of prompts being computed are taken off, and half a block for every request.
func usable(steps []enginelog.Step, size, block, window int) ([]latency.Batch, []float64) {
	var batches []latency.Batch
	var times []float64
	known := slices.ContainsFunc(steps, func(s enginelog.Step) bool { return s.Usage > printedKV })
	for _, s := range steps {
		if known && s.Usage < 0 {
			continue // cut lines among whole ones
		}
		b := latency.Batch{Prefill: s.PromptTokens, Prompts: s.Prompts, Decode: s.Decodes, Drafts: s.DecodeTokens - s.Decodes}
		if s.Prompts > 0 {
			n := float64(s.PromptTokens)
			b.Attention2 = int64(n * n / float64(s.Prompts)) // whole prompts of one length
		}
		if known && s.Decodes > 0 {
			used := s.Usage*float64(size) - float64(s.PromptTokens) - float64(s.Decodes*(block-1))/2
			b.KV = int64(max(used, float64(s.Decodes)))
			b.MaxContext = int(b.KV) / s.Decodes
			b.WindowKV = b.KV
			if window > 0 {
				b.WindowKV = min(b.KV, int64(s.Decodes*window))
			}
		}
		batches, times = append(batches, b), append(times, float64(s.Elapsed))
	}
	return batches, times
}

// design is the regression's table: what one unit of each parameter adds to each step.
type design struct {
	params []Param
	use    []int       // parameters that any step depends on
	x      [][]float64 // by step, in the order of use
	rest   []float64   // what the other parameters add
	y      []float64
}

// newDesign asks the model what each parameter adds, by differences: it is linear in them.
func newDesign(m *Model, batches []latency.Batch, y []float64) *design {
	d := &design{params: m.Params(), y: y}
	at := make([]float64, len(d.params))
	for i := range d.params {
		at[i] = d.params[i].Prior
	}
	base := stepModel(m, at)
	zero := make([]float64, len(y))
	for k, b := range batches {
		zero[k] = float64(base.Step(b))
	}
	d.x, d.rest = make([][]float64, len(y)), zero
	for i := range d.params {
		h := unit(&d.params[i])
		at[i] += h
		more := stepModel(m, at)
		at[i] -= h
		column, matters := make([]float64, len(y)), false
		for k, b := range batches {
			column[k] = (float64(more.Step(b)) - zero[k]) / h
			matters = matters || math.Abs(column[k]*h) > 2
		}
		if !matters {
			continue
		}
		d.use = append(d.use, i)
		for k := range column {
			d.x[k] = append(d.x[k], column[k])
		}
	}
	for k := range d.rest { // what was at its expectation above and is now to be found
		for j, i := range d.use {
			d.rest[k] -= d.x[k][j] * d.params[i].Prior
		}
	}
	return d
}

// unit is a difference large enough to show in whole nanoseconds.
func unit(p *Param) float64 {
	if p.Linear {
		return p.SD
	}
	return p.Prior
}

// stepModel is the step time without its floor, which would hide small parts.
func stepModel(m *Model, values []float64) *latency.Reference {
	c := m.Cost(values)
	c.Step.MinNS = 0
	return &c.Step
}

// spread is how far a parameter may be from its expectation.
func spread(p *Param) float64 {
	if p.Linear {
		return p.SD
	}
	return p.Prior * (math.Exp(weak) - 1)
}

// solve is least squares on relative errors with weak expectations. Odd steps, of which engines have
// some, lose weight; parameters that would leave their bounds are set there.
func (r *Regression) solve(d *design) {
	r.values = make([]float64, len(d.params))
	for i := range d.params {
		r.values[i] = d.params[i].Prior
	}
	pinned := make([]bool, len(d.use))
	weights := make([]float64, len(d.y))
	for k := range weights {
		weights[k] = 1
	}
	r.Noise = 0.05
	var inverse [][]float64
	for range rounds {
		var theta []float64
		theta, inverse = r.normal(d, weights, pinned)
		for j, i := range d.use {
			p := &d.params[i]
			if low := bound(p); !pinned[j] && theta[j] < low {
				pinned[j], theta[j] = true, low
			}
			r.values[i] = theta[j]
		}
		r.weigh(d, weights)
	}
	r.record(d, pinned, inverse)
}

// bound is the least a parameter can be. Costs that a server may not have go down to nothing.
func bound(p *Param) float64 {
	if p.Linear {
		return p.Low
	}
	return min(p.Low, 0.01*p.Prior)
}

// normal solves the normal equations for the parameters that are not pinned, and gives the inverse.
func (r *Regression) normal(d *design, weights []float64, pinned []bool) (theta []float64, inverse [][]float64) {
	n := len(d.use)
	mat, rhs := make([][]float64, n), make([]float64, n)
	for j, i := range d.use {
		mat[j] = make([]float64, n)
		s := spread(&d.params[i])
		mat[j][j] = 1 / (s * s)
		rhs[j] = d.params[i].Prior / (s * s)
	}
	for k, y := range d.y {
		w := weights[k] / (r.Noise * r.Noise * y * y)
		left := y - d.rest[k]
		for j, xj := range d.x[k] {
			if pinned[j] {
				left -= xj * r.values[d.use[j]]
			}
		}
		for j, xj := range d.x[k] {
			if pinned[j] || xj == 0 {
				continue
			}
			rhs[j] += w * xj * left
			for m := 0; m <= j; m++ {
				if !pinned[m] {
					mat[j][m] += w * xj * d.x[k][m]
				}
			}
		}
	}
	for j := range mat {
		for m := range j {
			mat[m][j] = mat[j][m]
		}
	}
	inverse = stats.Inverse(mat)
	theta = make([]float64, n)
	for j := range theta {
		if pinned[j] {
			theta[j] = r.values[d.use[j]]
			continue
		}
		for m := range rhs {
			if !pinned[m] {
				theta[j] += inverse[j][m] * rhs[m]
			}
		}
	}
	return theta, inverse
}

// weigh judges the noise of a step by the middle half of the residuals, and takes weight from odd ones.
func (r *Regression) weigh(d *design, weights []float64) {
	res := make([]float64, len(d.y))
	for k, y := range d.y {
		got := d.rest[k]
		for j, xj := range d.x[k] {
			got += xj * r.values[d.use[j]]
		}
		res[k] = math.Abs(got-y) / y
	}
	sorted := slices.Sorted(slices.Values(res))
	r.Noise = max(smallNoise, 1.4826*sorted[len(sorted)/2])
	for k := range res {
		weights[k] = min(1, robust*r.Noise/max(res[k], 1e-12))
	}
}

// record keeps what was found.
func (r *Regression) record(d *design, pinned []bool, inverse [][]float64) {
	for j, i := range d.use {
		p := &d.params[i]
		f := Fitted{Name: p.Name, Unit: p.Unit, Value: r.values[i], Prior: p.Prior, Why: p.Why, linear: p.Linear}
		f.SD = math.Sqrt(max(0, inverse[j][j]))
		f.Determined = pinned[j] || f.SD < determined*spread(p)
		r.Params = append(r.Params, f)
		if !pinned[j] {
			r.free = append(r.free, i)
		}
	}
	part := make([][]float64, len(r.free))
	at := func(i int) int { return slices.Index(d.use, i) }
	for a, i := range r.free {
		part[a] = make([]float64, len(r.free))
		for b, k := range r.free {
			part[a][b] = inverse[at(i)][at(k)]
		}
	}
	r.root = stats.Cholesky(part)
}

// Known are the parameters that the steps determine, for a fit of the rest.
func (r *Regression) Known() []Known {
	var out []Known
	for _, f := range r.Params {
		if !f.Determined {
			continue
		}
		sd := f.SD / math.Abs(f.Value)
		if f.linear {
			sd = max(f.SD, floorSD*r.stepValue())
		} else {
			sd = max(sd, floorSD)
		}
		out = append(out, Known{Name: f.Name, Value: f.Value, SD: sd})
	}
	return out
}

// stepValue is the cost of an empty step, which sets the scale.
func (r *Regression) stepValue() float64 {
	for _, f := range r.Params {
		if f.Name == "step" {
			return f.Value
		}
	}
	return 1
}

// Missing says which parameters the steps leave open, and what would tell them.
func (r *Regression) Missing() []string {
	var out []string
	for _, f := range r.Params {
		if !f.Determined {
			out = append(out, f.Name+" (add "+f.Why+")")
		}
	}
	return out
}

// Profile is the server's profile by its steps alone: the front end, which they do not show, is what is
// expected of one.
func (r *Regression) Profile(source string) *profile.Profile {
	p := r.model.Base()
	p.Cost = *r.model.Cost(r.values)
	p.Jitter = min(r.Noise, 0.2)
	if r.Noise <= 2*smallNoise {
		p.Jitter = 0
	}
	draw := rng.New(0, "evidence.spread")
	for range setSize {
		v := slices.Clone(r.values)
		z := make([]float64, len(r.free))
		for a := range z {
			z[a] = draw.NormFloat64()
		}
		for a, i := range r.free {
			for b := range a + 1 {
				v[i] += r.root[a][b] * z[b]
			}
			v[i] = max(v[i], bound(&r.model.Params()[i]))
		}
		p.Set = append(p.Set, *r.model.Cost(v))
	}
	p.Params = r.params()
	p.Provenance = profile.Provenance{Source: source, Notes: []string{
		fmt.Sprintf("step times regressed on %d steps of the engine's own log", r.Steps),
		"the front end's times are expected ones: results of a run would determine them",
	}}
	if open := r.Missing(); len(open) > 0 {
		p.Provenance.Notes = append(p.Provenance.Notes, "expected, not determined by the steps: "+strings.Join(open, "; "))
	}
	return &p
}

// params lists all parameters, those that steps do not show too.
func (r *Regression) params() []profile.Param {
	var list []profile.Param
	for i, q := range r.model.Params() {
		e := profile.Param{Name: q.Name, Unit: q.Unit, Value: r.values[i], Low: r.values[i], High: r.values[i], Prior: q.Prior}
		at := slices.IndexFunc(r.Params, func(f Fitted) bool { return f.Name == q.Name })
		if at >= 0 && r.Params[at].Determined {
			e.Free = true
			e.Low, e.High = e.Value-2*r.Params[at].SD, e.Value+2*r.Params[at].SD
		} else {
			e.Note = "the engine's log does not determine this parameter, so its expected value is used. To fit it, add " + q.Why
		}
		list = append(list, e)
	}
	return list
}
