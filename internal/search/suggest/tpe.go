package suggest

import (
	"math"
	"math/rand/v2"
	"slices"

	"spate/internal/rng"
)

// TPE proposes where good trials lie denser than the others (a tree-structured Parzen estimator): it
// draws from a mixture of kernels around the good trials, all parameters together, and takes the draw with
// the greatest ratio of the two densities. Until it has seen enough it spreads its trials evenly.
func TPE(space *Space, seed uint64) Strategy { return &tpe{space: space, seed: seed} }

type tpe struct {
	space *Space
	seed  uint64
}

const (
	mostGood   = 25   // trials are called good at most; else about half the square root of all
	candidates = 48   // the more, the nearer to the densest place, and the slower it moves
	lookAway   = 10   // one in so many proposals lies far from all trials: the valley they are in may be the wrong one
	priorShare = 0.15 // of each mixture is the whole space, so that nothing is ever out of reach
)

// startTrials is how many trials are spread before the model speaks.
func (t *tpe) startTrials() int { return min(10, 3+len(t.space.Params)) }

// Next implements Strategy.
func (t *tpe) Next(history []Trial) (Proposal, bool) {
	learned := ranked(t.space, history)
	few := len(learned) < t.startTrials()
	if few || len(history)%lookAway == lookAway-1 {
		if p, ok := t.spread(history, learned); ok || few {
			return p, ok
		}
		// What is allowed is too small a part to be hit by chance: the trials know where it is.
	}
	n := min(max(2, int(math.Ceil(math.Sqrt(float64(len(learned)))/2))), mostGood)
	for n > 1 && learned[n-1].Failed {
		n--
	}
	near := min(max(0.5/math.Sqrt(float64(len(learned))), 0.04), 0.25) // few trials say "around here", many "here"
	good, bad := t.mixture(learned[:n], near), t.mixture(learned[n:], near)
	draw := rng.New(t.seed, "search-tpe", uint64(len(history)))
	tried := keys(t.space, history)
	best, found, top := Settings(nil), false, math.Inf(-1)
	if len(history)%2 == 1 {
		if s, ok := t.walk(draw, learned, tried); ok {
			return Proposal{Settings: s, Share: 1}, true
		}
	}
	for range candidates {
		at := good.draw(draw)
		s := t.space.Settings(at)
		if tried[t.space.Key(s)] || t.space.Allowed(s) != nil {
			continue
		}
		at = t.space.place(s) // as rounded
		if ratio := good.log(at) - bad.log(at); ratio > top {
			best, found, top = s, true, ratio
		}
	}
	if !found {
		best, found = t.walk(draw, learned, tried)
	}
	if !found {
		return Random(t.space, t.seed).Next(history)
	}
	return Proposal{Settings: best, Share: 1}, true
}

// spread takes, of some draws, the one farthest from what was tried.
func (t *tpe) spread(history []Trial, learned []*Trial) (Proposal, bool) {
	draw := rng.New(t.seed, "search-spread", uint64(len(history)))
	tried := keys(t.space, history)
	best, found, top := Settings(nil), false, -1.0
	kept := 0
	for range maxDraws {
		at := t.space.draw(draw)
		s := t.space.Settings(at)
		if tried[t.space.Key(s)] || t.space.Allowed(s) != nil {
			continue
		}
		near := math.Inf(1)
		for _, other := range learned {
			near = min(near, t.space.distance(at, t.space.place(other.Settings)))
		}
		if near > top {
			best, found, top = s, true, near
		}
		if kept++; kept == 32 {
			break
		}
	}
	return Proposal{Settings: best, Share: 1}, found
}

// walk takes a step from one of the two best trials. Every other proposal is one: the densities find the
// region, steps find its summit.
func (t *tpe) walk(r *rand.Rand, learned []*Trial, tried map[string]bool) (Settings, bool) {
	for range candidates {
		from := learned[r.IntN(3)/2] // the best, twice as often as the second
		s := t.space.Settings(t.space.step(r, t.space.place(from.Settings)))
		if !tried[t.space.Key(s)] && t.space.Allowed(s) == nil {
			return s, true
		}
	}
	return nil, false
}

// step moves one or two parameters of a place, near or far.
func (s *Space) step(r *rand.Rand, centre []float64) []float64 {
	at := s.draw(r) // what a change of a switch brings into being
	moved := map[int]bool{r.IntN(len(at)): true}
	if r.IntN(2) == 0 {
		moved[r.IntN(len(at))] = true
	}
	for i := range at {
		switch {
		case centre[i] == absent:
		case !moved[i]:
			at[i] = centre[i]
		case s.Params[i].values() == 0:
			at[i] = clamp(centre[i] + 0.4*math.Pow(0.05, r.Float64())*r.NormFloat64())
		case at[i] == absent:
			at[i] = centre[i]
		}
	}
	s.drop(at)
	return at
}

// distance is how far two places lie apart; a choice that differs is as far as half a range.
func (s *Space) distance(a, b []float64) float64 {
	sum := 0.0
	for i := range s.Params {
		d := a[i] - b[i]
		if s.Params[i].values() > 0 || a[i] == absent || b[i] == absent {
			if d != 0 {
				d = 0.5
			}
		}
		sum += d * d
	}
	return math.Sqrt(sum)
}

// mixture is a density over the space: a kernel around each of some trials, and a little of everything.
type mixture struct {
	space   *Space
	centres [][]float64
	width   []float64   // of each number's kernel
	mass    [][]float64 // of it inside the range, for each centre
}

func (t *tpe) mixture(trials []*Trial, near float64) *mixture {
	m := &mixture{space: t.space, width: make([]float64, len(t.space.Params))}
	for _, trial := range trials {
		m.centres = append(m.centres, t.space.place(trial.Settings))
	}
	for i := range m.width {
		m.width[i] = m.bandwidth(i, near)
	}
	for _, c := range m.centres {
		mass := make([]float64, len(c))
		for i, w := range m.width {
			mass[i] = math.Log((normalCDF((1-c[i])/w) - normalCDF(-c[i]/w)) * w * math.Sqrt(2*math.Pi))
		}
		m.mass = append(m.mass, mass)
	}
	return m
}

// bandwidth follows Scott's rule on the spread of the centres, within bounds: a single good trial says
// "around here", not "exactly here".
func (m *mixture) bandwidth(i int, near float64) float64 {
	var values []float64
	for _, c := range m.centres {
		if c[i] != absent {
			values = append(values, c[i])
		}
	}
	if len(values) == 0 {
		return 1
	}
	mean, sum := 0.0, 0.0
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		sum += (v - mean) * (v - mean)
	}
	n := float64(len(values))
	scott := math.Sqrt(sum/n) * math.Pow(n, -1/(float64(len(m.space.Params))+4))
	return min(max(scott, near), 0.5)
}

// draw is a place near one of the centres.
func (m *mixture) draw(r *rand.Rand) []float64 {
	if len(m.centres) == 0 || r.Float64() < priorShare {
		return m.space.draw(r)
	}
	centre := m.centres[r.IntN(len(m.centres))]
	at := m.space.draw(r)
	for i := range at {
		p := &m.space.Params[i]
		switch {
		case centre[i] == absent:
		case p.values() > 0:
			if r.Float64() >= m.stray(p.values()) {
				at[i] = centre[i]
			}
		default:
			at[i] = m.near(r, centre[i], m.width[i])
		}
	}
	for i := range at {
		if at[i] == absent && centre[i] != absent {
			at[i] = centre[i] // it may exist with the choices just made
		}
	}
	m.space.drop(at)
	return at
}

// near draws from a normal distribution cut at the ends of the range.
func (m *mixture) near(r *rand.Rand, mean, width float64) float64 {
	for range 20 {
		if v := mean + width*r.NormFloat64(); v >= 0 && v <= 1 {
			return v
		}
	}
	return clamp(mean)
}

// stray is how likely a kernel draws another value than its centre's.
func (m *mixture) stray(values int) float64 {
	return min(0.5, float64(values)/(float64(values)+float64(len(m.centres))+1))
}

// log is the density at a place.
func (m *mixture) log(at []float64) float64 {
	parts := make([]float64, 0, len(m.centres)+1)
	parts = append(parts, math.Log(priorShare)+m.uniform(at))
	for k, c := range m.centres {
		sum := math.Log((1 - priorShare) / float64(len(m.centres)))
		for i := range at {
			sum += m.kernel(i, at[i], c[i], m.mass[k][i])
		}
		parts = append(parts, sum)
	}
	top := slices.Max(parts)
	total := 0.0
	for _, p := range parts {
		total += math.Exp(p - top)
	}
	return top + math.Log(total)
}

// uniform is the density of the whole space.
func (m *mixture) uniform(at []float64) float64 {
	sum := 0.0
	for i := range at {
		if n := m.space.Params[i].values(); n > 0 && at[i] != absent {
			sum -= math.Log(float64(n))
		}
	}
	return sum
}

func (m *mixture) kernel(i int, at, centre, mass float64) float64 {
	n := m.space.Params[i].values()
	switch {
	case at == absent && centre == absent:
		return 0
	case at == absent || centre == absent: // the other one knows nothing of it
		if n > 0 {
			return -math.Log(float64(n)) - 1
		}
		return -1
	case n > 0:
		stray := m.stray(n)
		if at == centre {
			return math.Log(1 - stray + stray/float64(n))
		}
		return math.Log(stray / float64(n))
	}
	z := (at - centre) / m.width[i]
	return -z*z/2 - mass
}

func normalCDF(z float64) float64 { return 0.5 * math.Erfc(-z/math.Sqrt2) }
