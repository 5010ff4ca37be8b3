package calibrate

import (
	"math"
	"strings"

	"spate/internal/stats"
)

// peerParams are what servers of one kind of GPU and engine have in common, relative to physics.
var peerParams = map[string]float64{ // least spread to allow for
	"step": 0.15, "prefill": 0.2, "decode": 0.25, "kv": 0.2, "experts": 0.25, "mixed": 4,
}

// kin reports whether what was found for one family says something on another: the same engine
// generation on the same kind of GPU, and experts in both or in none.
func kin(a, b *Family) bool {
	x, y := a.groups[0], b.groups[0]
	if x.shape == nil || y.shape == nil {
		return false
	}
	return x.facts.Engine == y.facts.Engine && minor(x.facts.Version) == minor(y.facts.Version) &&
		board(x.facts.GPU) == board(y.facts.GPU) && x.shape.conf.Model.MoE() == y.shape.conf.Model.MoE()
}

// minor is a version without its patch level.
func minor(v string) string {
	parts := strings.SplitN(v, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// board is a GPU's name without its memory.
func board(gpu string) string {
	name, _, _ := strings.Cut(gpu, "-")
	return name
}

// learn moves the expectations of a family to where its kin ended up, if there are at least two. It
// looks only at other families, so a row that is left out later has had no part in it.
func (fam *Family) learn(others []*Family, fits map[*Family]*Fit) (names []string) {
	found := map[string][]float64{}
	for _, o := range others {
		if o.Name == fam.Name || fits[o] == nil || !kin(fam, o) {
			continue
		}
		names = append(names, o.names())
		for i := range o.params {
			q := &o.params[i]
			if _, ok := peerParams[q.Name]; ok && !fits[o].Held[i] {
				found[q.Name] = append(found[q.Name], q.away(fits[o].Values[i]))
			}
		}
	}
	if len(names) < 2 {
		return nil
	}
	for i := range fam.params {
		q := &fam.params[i]
		xs := found[q.Name]
		if len(xs) < 2 {
			continue
		}
		spread := math.Hypot(peerParams[q.Name], stats.Std(xs)*math.Sqrt(float64(len(xs)+1)/float64(len(xs)-1)))
		q.Prior, q.SD = q.at(stats.Mean(xs)), min(q.SD, spread)
	}
	return names
}

// away is how far a value lies from what physics expects: a difference, or the logarithm of a ratio.
func (p *Param) away(v float64) float64 {
	if p.Linear {
		return v - p.physics
	}
	return math.Log(v / p.physics)
}

// at is the value that lies as far from what physics expects.
func (p *Param) at(away float64) float64 {
	v := p.physics + away
	if !p.Linear {
		v = p.physics * math.Exp(away)
	}
	return min(max(v, p.Low), p.High)
}
