package calibrate

import (
	"fmt"
	"strings"

	"spate/internal/forecast/predict"
	"spate/internal/forecast/profile"
)

// Size is one model predicted from what was fitted to another of its series on the same GPU: only the
// model's shape, its tensor parallelism and the KV size that follow from facts are changed.
type Size struct {
	From, To string         // groups
	Errors   profile.Errors // of the shown rows of To
}

// sizes predicts every model from every other one of its series.
func sizes(fams []*Family, done map[*Family]*Fit, seed uint64) ([]Size, error) {
	var out []Size
	for _, from := range fams {
		for _, to := range fams {
			if from == to || done[from] == nil || done[to] == nil || series(from) == "" || series(from) != series(to) {
				continue
			}
			got, err := to.predict(from.carry(done[from], to), shown, seed)
			if err != nil {
				return nil, fmt.Errorf("predicting %s with the parameters of %s: %w", to.Name, from.Name, err)
			}
			var rows []*predict.Row
			for _, r := range to.rows() {
				if shown(r) {
					rows = append(rows, r)
				}
			}
			out = append(out, Size{From: from.names(), To: to.names(), Errors: predict.MeanErrors(rows, got)})
		}
	}
	return out, nil
}

// series names what sizes of a model have in common: engine, GPU, the name before its first size, and
// whether it has experts. It is empty for servers nobody knows.
func series(fam *Family) string {
	g := fam.groups[0]
	if g.shape == nil {
		return ""
	}
	name, _, _ := strings.Cut(g.facts.Model, "-")
	kind := "dense"
	if g.shape.conf.Model.MoE() {
		kind = "experts"
	}
	return strings.Join([]string{g.facts.Engine, g.facts.Version, g.facts.GPU, name, kind}, " ")
}

// carry gives another family the same ratios to what is expected. A parameter that the first does not
// have, or that its rows do not determine, stays where it is expected.
func (fam *Family) carry(fit *Fit, to *Family) []float64 {
	x := make([]float64, len(to.params))
	for i := range to.params {
		for k := range fam.params {
			if fam.params[k].Name == to.params[i].Name && !fit.Held[k] {
				x[i] = fit.at.x[k]
			}
		}
	}
	return to.values(x)
}
