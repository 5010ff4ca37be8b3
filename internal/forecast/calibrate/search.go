package calibrate

import (
	"math"
	"runtime"
	"sync"

	"spate/internal/judge/stats"
)

// problem is a sum of squares to make small. Coordinates are in units of the prior's spread, so the
// prior adds the squared length of the vector.
type problem struct {
	dims int
	eval func(x []float64) []float64 // residuals in units of their noise
	lo   []float64
	hi   []float64
	held []bool // coordinates that stay where they are

	loose bool // hold none
}

// huberAt is where a residual stops counting by its square: one odd figure must not bend the fit.
const huberAt = 2.0

// loss is the robust sum of squares of residuals and prior, with each residual's weight.
func loss(x, r []float64) (float64, []float64) {
	sum := 0.0
	w := make([]float64, len(r))
	for i, e := range r {
		a := math.Abs(e)
		if a <= huberAt {
			sum += e * e
			w[i] = 1
			continue
		}
		sum += 2*huberAt*a - huberAt*huberAt
		w[i] = huberAt / a
	}
	for _, v := range x {
		sum += v * v
	}
	return sum, w
}

// point is a place in the search.
type point struct {
	x, r []float64
	loss float64
}

// several evaluates places at once, as many at a time as there are processors.
func (p *problem) several(xs [][]float64) []point {
	out := make([]point, len(xs))
	gate := make(chan struct{}, max(1, runtime.GOMAXPROCS(0)))
	var wait sync.WaitGroup
	for i := range xs {
		wait.Add(1)
		gate <- struct{}{}
		go func() {
			defer wait.Done()
			r := p.eval(xs[i])
			l, _ := loss(xs[i], r)
			out[i] = point{xs[i], r, l}
			<-gate
		}()
	}
	wait.Wait()
	return out
}

// slopes are the derivatives of all residuals by every free coordinate.
func (p *problem) slopes(at point, h float64) [][]float64 {
	var xs [][]float64
	for i := range p.dims {
		if p.held[i] {
			continue
		}
		y := append([]float64(nil), at.x...)
		y[i] += p.inward(i, y[i], h)
		xs = append(xs, y)
	}
	pts := p.several(xs)
	out := make([][]float64, p.dims)
	k := 0
	for i := range p.dims {
		out[i] = make([]float64, len(at.r))
		if p.held[i] {
			continue
		}
		d := pts[k].x[i] - at.x[i]
		for j := range at.r {
			out[i][j] = (pts[k].r[j] - at.r[j]) / d
		}
		k++
	}
	return out
}

// inward is a step that stays within bounds.
func (p *problem) inward(i int, x, h float64) float64 {
	if x+h > p.hi[i] {
		return -h
	}
	return h
}

// Search settings: how far to look for slopes (a simulated figure moves in small jumps), and when to
// stop.
const (
	firstReach  = 0.15
	laterReach  = 0.06
	enough      = 0.003 // of the sum of squares ...
	enoughNoise = 0.05  // ... and of one figure's noise, squared

	// idle is the information, relative to the prior's, below which rows say nothing on a parameter.
	idle = 0.3
)

// descend is Levenberg's and Marquardt's method, trying two dampings at once. Coordinates that the
// residuals do not depend on are held where they are.
func (p *problem) descend(start []float64, rounds int) point {
	at := p.several([][]float64{start})[0]
	damping := 0.03
	for round := range rounds {
		h := laterReach
		if round == 0 {
			h = firstReach
		}
		slope := p.slopes(at, h)
		if round == 0 && !p.loose {
			p.hold(slope, at)
		}
		mat, g := normal(slope, at)
		dampings := []float64{damping, damping * 20}
		var xs [][]float64
		for _, d := range dampings {
			xs = append(xs, p.step(at.x, mat, g, d))
		}
		best, which := at, -1
		for i, c := range p.several(xs) {
			if c.loss < best.loss {
				best, which = c, i
			}
		}
		if which < 0 {
			if damping *= 400; damping > 1e4 {
				break
			}
			continue
		}
		gain := at.loss - best.loss
		at, damping = best, max(1e-3, dampings[which]/5)
		if gain < enough*at.loss+enoughNoise {
			break
		}
	}
	return at
}

// Settings of wander.
const (
	litter  = 4    // places tried at once
	stride  = 0.25 // first step, in units of the prior's spread
	longer  = 1.4  // after a success
	shorter = 0.87 // after a failure
)

// wander looks for lower ground nearby by random steps, whose length follows their success. Where the
// sum of squares is rough it finds what slopes do not show.
func (p *problem) wander(at point, rounds int, draw interface{ NormFloat64() float64 }) point {
	length := stride
	for range rounds {
		xs := make([][]float64, litter)
		for k := range xs {
			xs[k] = append([]float64(nil), at.x...)
			for i := range xs[k] {
				if z := draw.NormFloat64(); !p.held[i] {
					xs[k][i] = min(max(xs[k][i]+length*z/math.Sqrt(float64(p.dims)), p.lo[i]), p.hi[i])
				}
			}
		}
		found := false
		for _, c := range p.several(xs) {
			if c.loss < at.loss {
				at, found = c, true
			}
		}
		if found {
			length *= longer
		} else {
			length *= shorter
		}
	}
	return at
}

// hold keeps coordinates fixed that the residuals say nothing about.
func (p *problem) hold(slope [][]float64, at point) {
	_, w := loss(at.x, at.r)
	for i := range slope {
		info := 0.0
		for k, s := range slope[i] {
			info += s * s * w[k]
		}
		p.held[i] = p.held[i] || info < idle
	}
}

// normal are the normal equations of residuals and prior.
func normal(slope [][]float64, at point) (mat [][]float64, g []float64) {
	_, w := loss(at.x, at.r)
	n := len(slope)
	mat, g = make([][]float64, n), make([]float64, n)
	for i := range n {
		mat[i] = make([]float64, n)
		for j := range n {
			for k := range at.r {
				mat[i][j] += slope[i][k] * slope[j][k] * w[k]
			}
		}
		mat[i][i]++ // the prior
		g[i] = at.x[i]
		for k := range at.r {
			g[i] += slope[i][k] * at.r[k] * w[k]
		}
	}
	return mat, g
}

// maxStep bounds a step in units of the prior's spread.
const maxStep = 1.5

func (p *problem) step(x []float64, mat [][]float64, g []float64, damping float64) []float64 {
	n := len(x)
	lhs, b := make([][]float64, n), make([]float64, n)
	for i := range n {
		lhs[i] = append([]float64(nil), mat[i]...)
		lhs[i][i] += damping * mat[i][i]
		b[i] = -g[i]
	}
	d := stats.Solve(lhs, b)
	y := append([]float64(nil), x...)
	for i := range y {
		if !p.held[i] {
			y[i] = min(max(y[i]+min(max(d[i], -maxStep), maxStep), p.lo[i]), p.hi[i])
		}
	}
	return y
}
