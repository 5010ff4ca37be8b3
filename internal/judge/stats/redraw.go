package stats

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// redrawValues bounds the values of one replicate. It is twice what a single run's own interval uses:
// a comparison is made once, by someone who waits for its answer.
const redrawValues = 2 * bootDraw

// Redrawn holds the replicates of a block bootstrap, for statistics of two samples together.
type Redrawn struct {
	Estimates []float64   // mean, then the percentiles, of the whole sample
	Draws     [][]float64 // for each of them one value a round, its spread already that of the whole sample
}

// Redraw resamples blocks of consecutive groups and returns every replicate. Blocks wrap around, so
// that each group is drawn as often as any other. Empty groups stay in their places: two samples with
// as many groups, the same block and equal streams are redrawn at the same positions, which keeps the
// pairs of a paired comparison together.
func Redraw(g Groups, percentiles []float64, block int, r *rand.Rand) Redrawn {
	b := booter{g: g, r: r, percentiles: percentiles, falling: make([]int, len(percentiles))}
	for i := range b.falling {
		b.falling[i] = i
	}
	slices.SortFunc(b.falling, func(i, j int) int { return cmp.Compare(percentiles[j], percentiles[i]) })
	out := Redrawn{Estimates: b.estimates(), Draws: make([][]float64, 1+len(percentiles))}
	for i := range out.Draws {
		out.Draws[i] = make([]float64, bootRounds)
	}
	n := g.Len()
	if n == 0 || len(g.Values) == 0 {
		return out
	}
	b.groups = min(n, max(bootGroups, redrawValues*n/len(g.Values)))
	block = max(1, min(block, b.groups))
	buf := make([]float64, 0, 2*redrawValues)
	for round := range bootRounds {
		buf = b.circle(buf[:0], block)
		if len(buf) == 0 { // nothing but empty groups: no news
			for i := range out.Draws {
				out.Draws[i][round] = out.Estimates[i]
			}
			continue
		}
		out.Draws[0][round] = Mean(buf)
		b.pick(buf, out.Draws, round)
	}
	out.rescale(math.Sqrt(float64(b.groups) / float64(n)))
	return out
}

// circle fills buf with one replicate.
func (b *booter) circle(buf []float64, block int) []float64 {
	n := b.g.Len()
	for left := b.groups; left > 0; {
		from, take := b.r.IntN(n), min(block, left)
		for i := from; i < from+take; i++ {
			buf = append(buf, b.g.At(i%n)...)
		}
		left -= take
	}
	return buf
}

// rescale brings the spread of replicates smaller than the sample down to the sample's.
func (d *Redrawn) rescale(by float64) {
	if by >= 1 {
		return
	}
	for i, col := range d.Draws {
		for j := range col {
			col[j] = d.Estimates[i] + by*(col[j]-d.Estimates[i])
		}
	}
}
