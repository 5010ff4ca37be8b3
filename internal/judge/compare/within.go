package compare

import (
	"fmt"
	"math"
	"slices"

	"spate/internal/judge/stats"
	"spate/internal/rng"
)

// contrast is the difference of one metric on the scale of logarithms, where twice as slow and half as
// slow are equally far from equal: est is log(b/a).
type contrast struct {
	est, se, df float64
	none        string // why there is no se; empty when there is
	lent        bool   // se is that of equal runs, learned before
}

// scatter is the standard error of a logarithm and the degrees of freedom it is known with.
type scatter struct{ se, df float64 }

// fewRequests is how many requests with a value a side needs to tell its own spread.
const fewRequests = 8

// within compares two single runs by how much the requests of each scatter. Neighbouring requests share a
// batch, a queue and a moment of the machine, so blocks of them are resampled, as long as their
// autocorrelation asks for. Where both runs sent the same requests in the same order, both sides are
// resampled at the same positions: what a request costs on either side then cancels.
type within struct {
	a, b   *measured
	paired bool
	apart  []string             // settings by which requests of equal lengths are not the same
	wanted map[string][]float64 // percentiles by latency
	found  map[string][]contrast
	block  int     // longest used
	size   float64 // smallest effective number of requests
}

func newWithin(a, b *measured, defs []def) *within {
	w := &within{a: a, b: b, wanted: map[string][]float64{}, found: map[string][]contrast{}, size: math.Inf(1)}
	w.apart = a.entry.Run.DrawnApart(b.entry.Run) // whoever has records has a run
	w.paired = len(w.apart) == 0 && sameLengths(a.slots, b.slots)
	for _, d := range defs {
		if d.latency != "" && d.pct > 0 {
			w.wanted[d.latency] = append(w.wanted[d.latency], d.pct)
		}
	}
	return w
}

// sameLengths reports whether two runs sent requests of the same lengths in the same order, but for a few
// tokens of the text that keeps a cache from knowing them.
func sameLengths(a, b []slot) bool {
	const few = 16
	return len(a) > 0 && slices.EqualFunc(a, b, func(x, y slot) bool {
		return x.id == y.id && x.out == y.out && max(x.in-y.in, y.in-x.in) <= few
	})
}

func (w *within) describe() string {
	how := fmt.Sprintf("%d against %d requests of one run each", len(w.a.slots), len(w.b.slots))
	if w.paired {
		how = fmt.Sprintf("%d pairs of equal requests, one run each", len(w.a.slots))
	}
	if w.block > 0 {
		how += fmt.Sprintf(", bootstrap in blocks of up to %d", w.block)
	}
	return how
}

// metric is the contrast of one metric other than a share.
func (w *within) metric(d def) contrast {
	if d.latency == "" {
		return w.rate(d)
	}
	ga, gb := w.a.lat[d.latency], w.b.lat[d.latency]
	if n := min(filledGroups(ga), filledGroups(gb)); n < fewRequests {
		return contrast{none: fmt.Sprintf("%d requests with a value are too few to tell their spread", n)}
	}
	if d.pct > 0 {
		if n, floor := min(len(ga.Values), len(gb.Values)), stats.Floor(d.pct, Confidence); n < floor {
			return contrast{none: fmt.Sprintf("%d samples; this percentile needs at least %d", n, floor)}
		}
	}
	found, ok := w.found[d.latency]
	if !ok {
		found = w.latency(d.latency)
		w.found[d.latency] = found
	}
	if d.pct == 0 {
		return found[0]
	}
	at := found[1+slices.Index(w.wanted[d.latency], d.pct)]
	if at.df <= 1 {
		return contrast{none: "requests depend on each other too much: in effect, none is beyond this percentile"}
	}
	return at
}

func filledGroups(g stats.Groups) int {
	n, from := 0, 0
	for _, end := range g.Ends {
		if end > from {
			n++
		}
		from = end
	}
	return n
}

// latency bootstraps the mean and all wanted percentiles of one latency.
func (w *within) latency(name string) []contrast {
	ga, gb, ps := w.a.lat[name], w.b.lat[name], w.wanted[name]
	if w.paired {
		pulls := influence(ga, gb)
		dep := stats.Depend(pulls)
		w.note(dep)
		da := stats.Redraw(ga, ps, dep.Block, rng.New(0, "compare/"+name))
		db := stats.Redraw(gb, ps, dep.Block, rng.New(0, "compare/"+name))
		out := make([]contrast, 1+len(ps))
		for i := range out {
			out[i] = contrast{se: spread(ratios(da.Draws[i], db.Draws[i])), df: freedom(dep.Size, ps, i)}
		}
		grow := growth(out[0].se, pulls, dep)
		for i := range out {
			out[i].se *= grow
		}
		return out
	}
	// The streams go by the samples, not by their places, so that swapping the sides swaps the answer.
	first, second := uint64(0), uint64(1)
	if stats.Mean(gb.Values) < stats.Mean(ga.Values) {
		first, second = second, first
	}
	sa, sb := w.alone(name, ga, ps, first), w.alone(name, gb, ps, second)
	out := make([]contrast, 1+len(ps))
	for i := range out {
		out[i] = join(sa[i], sb[i])
	}
	return out
}

// alone bootstraps one side.
func (w *within) alone(name string, g stats.Groups, ps []float64, stream uint64) []scatter {
	mean := stats.Mean(g.Values)
	pulls := relative(groupMeans(g), mean)
	dep := stats.Depend(pulls)
	w.note(dep)
	d := stats.Redraw(g, ps, dep.Block, rng.New(0, "compare/"+name, stream))
	out := make([]scatter, len(d.Draws))
	for i, col := range d.Draws {
		out[i] = scatter{se: spread(logs(col)), df: freedom(dep.Size, ps, i)}
	}
	grow := growth(out[0].se, pulls, dep)
	for i := range out {
		out[i].se *= grow
	}
	return out
}

func (w *within) note(d stats.Dependence) {
	w.block, w.size = max(w.block, d.Block), min(w.size, d.Size)
}

// freedom is how well a standard error is known: for a mean by all requests, for a percentile by those
// beyond it, which alone decide how far out it lies.
func freedom(size float64, ps []float64, i int) float64 {
	if i > 0 {
		q := ps[i-1] / 100
		size *= min(q, 1-q)
	}
	return max(1, size-1)
}

// growth is by how much a bootstrapped standard error is too small. Cutting a series into blocks loses the
// dependence across their ends, and few blocks scatter too little about their own mean; the first is made
// up for where the series' autocorrelations, which lose nothing, say that the mean is less certain.
func growth(se float64, pulls []float64, dep stats.Dependence) float64 {
	k := float64(len(pulls)) / float64(max(1, dep.Block))
	few := math.Sqrt(max(1.5, k) / max(0.5, k-1))
	if se <= 0 {
		return few
	}
	return max(1, seriesScatter(pulls, dep).se/se) * few
}

// join adds two independent scatters, with Welch's and Satterthwaite's degrees of freedom.
func join(a, b scatter) contrast {
	va, vb := a.se*a.se, b.se*b.se
	df := math.Inf(1)
	if va+vb > 0 {
		df = (va + vb) * (va + vb) / (va*va/a.df + vb*vb/b.df)
	}
	return contrast{se: math.Sqrt(va + vb), df: df}
}

// influence is how much each pair of requests pulls the logarithm of the ratio of means.
func influence(a, b stats.Groups) []float64 {
	meanA, meanB := stats.Mean(a.Values), stats.Mean(b.Values)
	if meanA == 0 || meanB == 0 {
		return nil
	}
	out := make([]float64, 0, a.Len())
	for i := range a.Len() {
		if xa, xb := a.At(i), b.At(i); len(xa) > 0 && len(xb) > 0 {
			out = append(out, stats.Mean(xb)/meanB-stats.Mean(xa)/meanA)
		}
	}
	return out
}

func groupMeans(g stats.Groups) []float64 {
	out := make([]float64, 0, g.Len())
	for i := range g.Len() {
		if xs := g.At(i); len(xs) > 0 {
			out = append(out, stats.Mean(xs))
		}
	}
	return out
}

func ratios(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = math.Log(b[i] / a[i])
	}
	return out
}

func logs(xs []float64) []float64 {
	out := make([]float64, len(xs))
	for i, x := range xs {
		out[i] = math.Log(x)
	}
	return out
}

// spread is the standard error that replicates show: their deviation, or where they have heavier sides,
// that of a normal sample with as wide a 95 % range.
func spread(draws []float64) float64 {
	draws = slices.DeleteFunc(draws, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) })
	slices.Sort(draws)
	width := stats.SortedPercentile(draws, 97.5) - stats.SortedPercentile(draws, 2.5)
	return max(stats.Std(draws), width/(2*1.959964))
}

// rate is the contrast of a throughput, from how evenly the work was done.
func (w *within) rate(d def) contrast {
	k := slices.Index(rates, d.name)
	if w.a.work == nil || w.b.work == nil {
		return contrast{none: fmt.Sprintf("a run shorter than %d mean latencies has one throughput and no spread of it", fewStretches)}
	}
	xa, xb := w.a.work[k], w.b.work[k]
	meanA, meanB := stats.Mean(xa), stats.Mean(xb)
	if meanA <= 0 || meanB <= 0 {
		return contrast{none: "no work was done"}
	}
	if w.paired && len(xa) == len(xb) {
		u := make([]float64, len(xa))
		for i := range u {
			u[i] = xb[i]/meanB - xa[i]/meanA
		}
		s := seriesScatter(u, stats.Depend(u))
		return contrast{se: s.se, df: s.df}
	}
	ua, ub := relative(xa, meanA), relative(xb, meanB)
	return join(seriesScatter(ua, stats.Depend(ua)), seriesScatter(ub, stats.Depend(ub)))
}

func relative(xs []float64, mean float64) []float64 {
	out := make([]float64, len(xs))
	for i, x := range xs {
		out[i] = x / mean
	}
	return out
}

// seriesScatter is the standard error of the mean of a series whose values may depend on each other.
func seriesScatter(u []float64, dep stats.Dependence) scatter {
	n := float64(len(u))
	return scatter{se: stats.Std(u) * math.Sqrt(n/(n-1)/dep.Size), df: max(1, dep.Size-1)}
}

// ranks is the second opinion on a latency.
func (w *within) ranks(d def) *Ranks {
	if d.latency == "" || d.pct != 0 && d.pct != 50 {
		return nil
	}
	a, b := groupMeans(w.a.lat[d.latency]), groupMeans(w.b.lat[d.latency])
	if len(a) < fewRequests || len(b) < fewRequests {
		return nil
	}
	t := stats.MannWhitney(a, b, stats.Depend(a).Size, stats.Depend(b).Size)
	return &Ranks{Test: "Mann-Whitney on requests", Superior: &t.Superior, P: t.P}
}
