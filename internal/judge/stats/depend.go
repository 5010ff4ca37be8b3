package stats

import "math"

// Dependence says how far a series is from independent samples.
type Dependence struct {
	Block int     // block length a moving-block bootstrap should use
	Size  float64 // effective sample size: independent samples that would fix the mean as well
}

// Depend measures a series in its time order by the automatic rule of Politis and White (2004) with
// the correction of Patton, Politis and White (2009): autocorrelations are followed until a run of
// them is indistinguishable from noise, then weighted by a flat-top window.
func Depend(xs []float64) Dependence {
	n := len(xs)
	if n < 4 {
		return Dependence{1, float64(n)}
	}
	quiet := max(5, int(math.Ceil(math.Sqrt(math.Log10(float64(n))))))
	limit := min(n-1, int(math.Ceil(math.Sqrt(float64(n))))+quiet)
	lags := newLags(xs)
	if !(lags.at(0) > 0) {
		return Dependence{1, float64(n)}
	}
	m := lastSignal(lags, limit, quiet, 2*math.Sqrt(math.Log10(float64(n))/float64(n)))
	if m == 0 {
		return Dependence{1, float64(n)}
	}
	window := min(2*m, limit)
	long, slope := lags.at(0), 0.0
	for k := 1; k <= window; k++ {
		w := 2 * flatTop(float64(k)/float64(window)) * lags.at(k)
		long += w
		slope += w * float64(k)
	}
	if !(long > 0) { // strongly alternating: no variance is lost to dependence
		return Dependence{1, float64(n)}
	}
	ratio := slope / long
	block := math.Ceil(math.Cbrt(1.5 * ratio * ratio * float64(n)))
	most := math.Ceil(math.Min(3*math.Sqrt(float64(n)), float64(n)/3))
	return Dependence{
		Block: int(math.Max(1, math.Min(block, most))),
		Size:  math.Max(1, math.Min(float64(n), float64(n)*lags.at(0)/long)),
	}
}

// lastSignal is the lag after which `quiet` autocorrelations in a row stay within the noise bound.
func lastSignal(lags *lags, limit, quiet int, bound float64) int {
	still, last := 0, 0
	for k := 1; k <= limit; k++ {
		if math.Abs(lags.at(k)/lags.at(0)) >= bound {
			last, still = k, 0
			continue
		}
		if still++; still == quiet {
			return last
		}
	}
	return last
}

// lags computes autocovariances as they are asked for: an independent series needs only a few.
type lags struct {
	dev []float64 // deviations from the mean
	cov []float64
}

func newLags(xs []float64) *lags {
	mean := Mean(xs)
	dev := make([]float64, len(xs))
	for i, x := range xs {
		dev[i] = x - mean
	}
	return &lags{dev: dev}
}

// at is the autocovariance at lag k, divided by n.
func (l *lags) at(k int) float64 {
	for len(l.cov) <= k {
		s, shifted := 0.0, l.dev[len(l.cov):]
		for i, d := range shifted {
			s += d * l.dev[i]
		}
		l.cov = append(l.cov, s/float64(len(l.dev)))
	}
	return l.cov[k]
}

// flatTop is 1 up to one half and falls to 0 at one.
func flatTop(x float64) float64 {
	if x <= 0.5 {
		return 1
	}
	return math.Max(0, 2*(1-x))
}
