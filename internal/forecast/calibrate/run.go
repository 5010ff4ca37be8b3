package calibrate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"spate/internal/forecast/predict"
	"spate/internal/forecast/profile"
	"spate/internal/judge/stats"
	"spate/internal/nearest"
	"spate/internal/rng"
)

// Options say how to calibrate.
type Options struct {
	Source   string                           // name of the rows file, for the record
	Digest   string                           // of its content
	Seed     uint64                           // of everything drawn
	Cross    bool                             // leave one row out at a time, too
	Only     string                           // a group; families without it are left alone
	Progress func(format string, args ...any) // nil: silent
}

// Outcome is what calibration found.
type Outcome struct {
	Profiles []*profile.Profile
	Fitted   map[string]predict.Metrics // predictions of all rows by the profiles
	Cross    map[string]predict.Metrics // predictions of shown rows by fits that did not see them
	Transfer map[string]predict.Metrics // predictions of shown rows from physics alone
	Sizes    []Size                     // predictions of one model from what was fitted to another
	Notes    []string
}

// ErrUnknown means that the rows do not determine what nothing else says either.
var ErrUnknown = errors.New("the rows do not determine the server")

// Run calibrates a profile for every group of a rows file that has figures.
func Run(f *predict.File, opt Options) (*Outcome, error) {
	fams, err := families(f)
	if err != nil {
		return nil, err
	}
	return runFamilies(fams, opt)
}

// runFamilies calibrates families whose expectations are final.
func runFamilies(fams []*Family, opt Options) (*Outcome, error) {
	if opt.Progress == nil {
		opt.Progress = func(string, ...any) {}
	}
	if err := known(fams, opt.Only); err != nil {
		return nil, err
	}
	out := &Outcome{Fitted: map[string]predict.Metrics{}, Cross: map[string]predict.Metrics{}, Transfer: map[string]predict.Metrics{}}
	done := map[*Family]*Fit{}
	for _, fam := range fams {
		if opt.Only != "" && fam.group(opt.Only) == nil {
			continue
		}
		if !slices.ContainsFunc(fam.rows(), shown) {
			out.Notes = append(out.Notes, fmt.Sprintf("%s: no row has figures, so no profile was made", fam.names()))
			continue
		}
		fit, err := fam.calibrate(out, opt)
		if err != nil {
			return nil, err
		}
		done[fam] = fit
	}
	if len(out.Profiles) == 0 {
		return nil, errors.New("no profile could be made: no row has figures to fit")
	}
	slices.SortFunc(out.Profiles, func(a, b *profile.Profile) int { return cmp.Compare(a.Name, b.Name) })
	var err error
	out.Sizes, err = sizes(fams, done, opt.Seed)
	return out, err
}

// known refuses a group that no family has; none at all is fine.
func known(fams []*Family, group string) error {
	var names []string
	for _, fam := range fams {
		if group == "" || fam.group(group) != nil {
			return nil
		}
		for _, g := range fam.groups {
			names = append(names, g.name)
		}
	}
	return fmt.Errorf("--group %q is none of the servers in the rows%s", group, nearest.Hint(group, names))
}

func (fam *Family) names() string {
	var list []string
	for _, g := range fam.groups {
		list = append(list, g.name)
	}
	return strings.Join(list, ", ")
}

// calibrate fits one family and adds its profiles to the outcome.
func (fam *Family) calibrate(out *Outcome, opt Options) (*Fit, error) {
	opt.Progress("fitting %s", fam.names())
	j := &job{fam: fam, use: shown, seed: opt.Seed}
	fit, err := j.fit(j.starts(fitEffort), fitEffort.wander)
	if err != nil {
		return nil, err
	}
	if err := j.determined(fit); err != nil {
		return nil, err
	}
	j.spread(fit)
	all, err := fam.predict(fit.Values, func(*predict.Row) bool { return true }, opt.Seed)
	if err != nil {
		return nil, fmt.Errorf("predicting %s: %w", fam.names(), err)
	}
	for id, m := range all {
		out.Fitted[id] = m
	}
	if err := j.transfer(out.Transfer); err != nil {
		return nil, err
	}
	if opt.Cross {
		opt.Progress("leaving out one row of %s at a time", fam.names())
		if err := j.cross(fit, out.Cross); err != nil {
			return nil, err
		}
	}
	for _, g := range fam.groups {
		out.Profiles = append(out.Profiles, fam.profile(g, fit, out, opt))
	}
	return fit, nil
}

// determined refuses a server of which neither the rows nor anything else says enough: where the rows
// leave a parameter about as uncertain as it was, alone or because another can take its place.
func (j *job) determined(fit *Fit) error {
	fam := j.fam
	if fam.groups[0].shape != nil {
		return nil // physics has an answer where the rows have none
	}
	p := j.problem()
	mat, _ := normal(p.slopes(fit.at, laterReach), fit.at)
	left := stats.Inverse(mat) // variances relative to those of the prior
	var missing []string
	for i := range fam.params {
		if q := &fam.params[i]; q.core && left[i][i] > 1/(1+idle) {
			missing = append(missing, fmt.Sprintf("%s (add %s)", q.Name, q.Why))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%w %s, whose model and GPU are unknown: %s", ErrUnknown, fam.names(), strings.Join(missing, "; "))
}

// cross predicts each shown row from a fit of the others. Closed loads have one valley, so that their
// search may begin where the fit with the row ended; that of open loads begins anew, or what was found
// with the row would help.
func (j *job) cross(full *Fit, into map[string]predict.Metrics) error {
	for _, r := range j.fam.rows() {
		if !shown(r) {
			continue
		}
		k := &job{fam: j.fam, seed: j.seed, use: func(q *predict.Row) bool { return shown(q) && q.ID != r.ID }}
		values := k.fam.values(make([]float64, len(k.fam.params)))
		if slices.ContainsFunc(k.fam.rows(), k.use) {
			starts := [][]float64{full.at.x}
			if k.open() {
				starts = k.starts(crossEffort)
			} else {
				k.loose = true // or what only the row told would stay
			}
			fit, err := k.fit(starts, crossEffort.wander)
			if err != nil {
				return err
			}
			values = fit.Values
		}
		got, err := k.fam.predict(values, func(q *predict.Row) bool { return q.ID == r.ID }, j.seed)
		if err != nil {
			return fmt.Errorf("predicting row %s from the others: %w", r.ID, err)
		}
		into[r.ID] = got[r.ID]
	}
	return nil
}

// transfer predicts the rows of a known model from physics alone, without any fit.
func (j *job) transfer(into map[string]predict.Metrics) error {
	if j.fam.groups[0].shape == nil {
		return nil
	}
	got, err := j.fam.predict(j.fam.values(make([]float64, len(j.fam.params))), shown, j.seed)
	if err != nil {
		return fmt.Errorf("predicting %s from physics: %w", j.fam.names(), err)
	}
	for id, m := range got {
		into[id] = m
	}
	return nil
}

// Settings of the search for other vectors.
const (
	draws    = 8
	tolerant = 2.0 // times the number of parameters: how much worse than the best is still within noise
)

// spread finds other parameter vectors that fit about as well: draws around the best, along the
// directions in which the figures hardly change.
func (j *job) spread(fit *Fit) {
	p := j.problem()
	p.held = fit.Held
	slope := p.slopes(fit.at, laterReach)
	p.hold(slope, fit.at)
	mat, _ := normal(slope, fit.at)
	root := stats.Cholesky(stats.Inverse(mat))
	draw := rng.New(j.seed, "calibrate.spread")
	steps := make([][]float64, draws)
	for k := range steps {
		z := make([]float64, p.dims)
		for i := range z {
			z[i] = draw.NormFloat64()
		}
		steps[k] = make([]float64, p.dims)
		for i := range z {
			for m := 0; m <= i && !p.held[i]; m++ {
				steps[k][i] += root[i][m] * z[m]
			}
		}
	}
	// Figures off by more than noise all over mean that noise, or the model, is worse than thought.
	worse := max(1, fit.Loss/float64(max(1, len(fit.at.r)-p.dims)))
	for _, share := range []float64{1, 0.5, 0.25} { // where the ground is rough, nearer to the best
		steps = j.keep(p, fit, steps, share, fit.Loss+tolerant*worse*float64(p.dims))
	}
}

// keep adds the places that are good enough to a fit's set, and gives back the steps to the others.
func (j *job) keep(p *problem, fit *Fit, steps [][]float64, share, bound float64) (rest [][]float64) {
	var xs [][]float64
	for _, step := range steps {
		x := slices.Clone(fit.at.x)
		for i := range x {
			x[i] = min(max(x[i]+share*step[i], p.lo[i]), p.hi[i])
		}
		xs = append(xs, x)
	}
	for k, c := range p.several(xs) {
		if c.loss <= bound {
			fit.Set = append(fit.Set, j.fam.values(c.x))
		} else {
			rest = append(rest, steps[k])
		}
	}
	return rest
}

// profile is one group's share of what was found.
func (fam *Family) profile(g *group, fit *Fit, out *Outcome, opt Options) *profile.Profile {
	p := g.base
	p.Cost = *fam.cost(g, fit.Values)
	for _, values := range fit.Set {
		p.Set = append(p.Set, *fam.cost(g, values))
	}
	p.Params = fam.record(g, fit)
	v := &p.Provenance
	v.Source, v.Digest = opt.Source, opt.Digest
	for _, other := range fam.groups {
		if other != g {
			v.Shared = append(v.Shared, other.name)
		}
	}
	var rows []*predict.Row
	for _, r := range fam.rows() {
		switch {
		case r.Group != g.name:
		case shown(r):
			v.Rows = append(v.Rows, r.ID)
			rows = append(rows, r)
		default:
			v.LeftOut = append(v.LeftOut, r.ID)
		}
	}
	v.Fit = predict.MeanErrors(rows, out.Fitted)
	if opt.Cross {
		v.Cross = predict.MeanErrors(rows, out.Cross)
	}
	return &p
}

// record lists the parameters that apply to a group.
func (fam *Family) record(g *group, fit *Fit) []profile.Param {
	var list []profile.Param
	for i := range fam.params {
		q := &fam.params[i]
		if q.applies != nil && !q.applies(&g.facts) {
			continue
		}
		e := profile.Param{Name: q.Name, Unit: q.Unit, Value: fit.Values[i], Prior: q.Prior, Free: !fit.Held[i]}
		e.Low, e.High = e.Value, e.Value
		for _, values := range fit.Set {
			e.Low, e.High = min(e.Low, values[i]), max(e.High, values[i])
		}
		if fit.Held[i] {
			e.Note = "the rows do not determine this parameter, so its expected value is used. To fit it, add " + q.Why
		}
		list = append(list, e)
	}
	return list
}
