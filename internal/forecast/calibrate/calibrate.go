package calibrate

import (
	"fmt"
	"math"

	"spate/internal/forecast/predict"
	"spate/internal/rng"
)

// Measure is a figure that is fitted, and how far it may be off by chance.
type Measure struct {
	Name  string
	Noise float64 // of its logarithm
}

// measures are the figures a fit looks at.
var measures = []Measure{
	{"output_throughput", 0.02},
	{"mean_ttft_ms", 0.04},
	{"median_ttft_ms", 0.10},
	{"p99_ttft_ms", 0.06},
	{"mean_tpot_ms", 0.025},
	{"mean_itl_ms", 0.025},
	{"median_itl_ms", 0.06},
	{"p99_itl_ms", 0.10},
}

// waits is the P99 ITL, relative to the median, from which on it is that of tokens which waited for a
// prompt. Below, chance sets it, which the simulator leaves out.
const waits = 1.5

// tells reports whether a row's figure says something on the server. P99 ITLs of open loads do not:
// they hang on the few moments at which requests happen to meet.
func (k *Measure) tells(r *predict.Row) bool {
	if k.Name == "p99_itl_ms" {
		median := r.Metrics["median_itl_ms"]
		return r.Workload.Rate.Burst() && r.Workload.Prompts > 1 && median > 0 && r.Metrics[k.Name] > waits*median
	}
	return r.Metrics[k.Name] > 0
}

const warmupNoise = 0.03

// unreachable is the residual of a figure the simulator could not give.
const unreachable = 100.0

// job is a family and the rows to fit it to.
type job struct {
	fam  *Family
	use  func(*predict.Row) bool
	seed uint64

	loose bool // hold nothing: the prior pulls what the rows say nothing about to its place
}

// values are parameter values at a place in the search.
func (fam *Family) values(x []float64) []float64 {
	out := make([]float64, len(x))
	for i := range x {
		out[i] = fam.params[i].fromX(x[i])
	}
	return out
}

// predict gives the figures of the rows that are wanted.
func (fam *Family) predict(values []float64, want func(*predict.Row) bool, seed uint64) (map[string]predict.Metrics, error) {
	out := map[string]predict.Metrics{}
	for _, p := range fam.procs {
		q := p.Only(want)
		if q == nil {
			continue
		}
		g := fam.group(p.Group)
		prof := g.base
		m, err := q.Replay(&prof, fam.cost(g, values), seed)
		if err != nil {
			return nil, err
		}
		for id, v := range m {
			out[id] = v
		}
	}
	return out, nil
}

func (fam *Family) group(name string) *group {
	for _, g := range fam.groups {
		if g.name == name {
			return g
		}
	}
	return nil
}

// rows lists the family's rows in order.
func (fam *Family) rows() []*predict.Row {
	var out []*predict.Row
	for _, p := range fam.procs {
		out = append(out, p.Rows()...)
	}
	return out
}

// problem is the fit as a sum of squares.
func (j *job) problem() *problem {
	n := len(j.fam.params)
	p := &problem{dims: n, eval: j.residuals, lo: make([]float64, n), hi: make([]float64, n), held: make([]bool, n)}
	for i := range n {
		q := &j.fam.params[i]
		p.lo[i], p.hi[i] = -6, 6
		if q.Linear || q.Low > 0 {
			p.lo[i] = max(p.lo[i], q.toX(q.Low))
		}
		p.hi[i] = min(p.hi[i], q.toX(q.High))
	}
	return p
}

// residuals are the differences between predicted and measured figures, in units of noise.
func (j *job) residuals(x []float64) []float64 {
	got, err := j.fam.predict(j.fam.values(x), j.use, j.seed)
	var out []float64
	for _, r := range j.fam.rows() {
		if !j.use(r) {
			continue
		}
		m := got[r.ID]
		if err != nil {
			m = nil
		}
		out = append(out, rowResiduals(r, m)...)
	}
	return out
}

func rowResiduals(r *predict.Row, m predict.Metrics) []float64 {
	var out []float64
	for _, k := range measures {
		if k.tells(r) {
			out = append(out, residual(m[k.Name], r.Metrics[k.Name], k.Noise))
		}
	}
	// One lone request of known length; of a mixed dataset nobody knows which one it was.
	if w := &r.Workload; w.WarmupS > 0 && w.Dataset == "random" {
		out = append(out, residual(m["warmup_time_s"], w.WarmupS, warmupNoise))
	}
	return out
}

func residual(got, want, noise float64) float64 {
	if !(got > 0) {
		return unreachable
	}
	return math.Log(got/want) / noise
}

// Fit is what was found for a family.
type Fit struct {
	Values []float64   // in the order of the family's parameters
	Held   []bool      // parameters the rows do not determine
	Set    [][]float64 // other values that fit as well
	Loss   float64
	at     point
}

// fitRounds is the most a search goes along slopes.
const fitRounds = 12

// fit finds the parameters of a family from the rows in use. Under open loads the end of a descent says
// little about the ground around it, so that every start wanders before one is chosen.
func (j *job) fit(starts [][]float64, wander int) (*Fit, error) {
	var at point
	var p *problem
	draw := rng.New(j.seed, "calibrate.wander")
	for i, start := range starts {
		q := j.problem()
		q.loose = j.loose
		c := q.descend(start, fitRounds)
		if j.open() {
			c = q.wander(c, wander, draw)
		}
		if i == 0 || c.loss < at.loss {
			at, p = c, q
		}
	}
	if j.open() {
		at = p.wander(at, wander, draw)
		at = p.descend(at.x, fitRounds)
	}
	if _, err := j.fam.predict(j.fam.values(at.x), j.use, j.seed); err != nil {
		return nil, fmt.Errorf("fitting %s: %w", j.fam.Name, err)
	}
	return &Fit{Values: j.fam.values(at.x), Loss: at.loss, Held: p.held, at: at}, nil
}

// shown reports whether a row has figures to fit.
func shown(r *predict.Row) bool { return r.Metrics != nil }
