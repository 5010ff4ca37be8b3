package stats

import "math"

// studentT is the two-sided critical value of Student's distribution: found by bisection on its
// cumulative function, which needs no table and is called a handful of times per run.
func studentT(df int, confidence float64) float64 {
	lo, hi := 0.0, 1e4
	for range 200 {
		mid := (lo + hi) / 2
		if studentInside(mid, float64(df)) < confidence {
			lo = mid
		} else {
			hi = mid
		}
	}
	return (lo + hi) / 2
}

// studentInside is P(|T| <= t), by Simpson's rule on the density after t = sqrt(df)*tan(a), which
// turns it into a power of the cosine on a finite range.
func studentInside(t, df float64) float64 {
	top := math.Atan(t / math.Sqrt(df))
	const steps = 400
	h := top / steps
	f := func(a float64) float64 { return math.Pow(math.Cos(a), df-1) }
	s := f(0) + f(top)
	for i := 1; i < steps; i++ {
		w := 2.0
		if i%2 == 1 {
			w = 4
		}
		s += w * f(float64(i)*h)
	}
	a, _ := math.Lgamma((df + 1) / 2)
	b, _ := math.Lgamma(df / 2)
	norm := 2 * math.Exp(a-b) / math.Sqrt(math.Pi)
	return norm * s * h / 3
}
