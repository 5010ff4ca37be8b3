package stats

import "math"

// normalDF is where Student's distribution is the normal one for every purpose here.
const normalDF = 1e5

// CriticalT is the two-sided critical value of Student's distribution with df degrees of freedom, which
// need not be whole; the normal distribution's for an infinite df. CriticalT(10, 0.95) is 2.228.
func CriticalT(df, confidence float64) float64 {
	if df >= normalDF {
		return math.Sqrt2 * math.Erfinv(confidence)
	}
	lo, hi := 0.0, 1.0
	for TailT(hi, df) > 1-confidence && hi < 1e9 {
		hi *= 2
	}
	for hi-lo > 1e-14*hi {
		mid := (lo + hi) / 2
		if TailT(mid, df) > 1-confidence {
			lo = mid
		} else {
			hi = mid
		}
	}
	return (lo + hi) / 2
}

// TailT is the two-sided p value of t: the chance of a value at least as far from 0.
func TailT(t, df float64) float64 {
	t = math.Abs(t)
	switch {
	case math.IsNaN(t):
		return 1
	case math.IsInf(t, 1):
		return 0
	case df >= normalDF:
		return math.Erfc(t / math.Sqrt2)
	}
	return betaTail(df/2, 0.5, df/(df+t*t))
}

// betaTail is the regularized incomplete beta function I_x(a, b), which keeps its precision in tails
// where one minus an integral has none left.
func betaTail(a, b, x float64) float64 {
	switch {
	case x <= 0:
		return 0
	case x >= 1:
		return 1
	case x > (a+1)/(a+b+2):
		return 1 - betaTail(b, a, 1-x)
	}
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	lab, _ := math.Lgamma(a + b)
	front := math.Exp(lab - la - lb + a*math.Log(x) + b*math.Log1p(-x))
	return front * betaFraction(a, b, x) / a
}

// betaFraction evaluates the continued fraction of the incomplete beta function from the front, by
// the recurrences of its numerators and denominators kept as ratios.
func betaFraction(a, b, x float64) float64 {
	const tiny = 1e-300
	guard := func(v float64) float64 {
		if math.Abs(v) < tiny {
			return tiny
		}
		return v
	}
	num, den := 1.0, 1/guard(1-(a+b)*x/(a+1))
	value := den
	for m := 1.0; m < 10_000; m++ {
		even := m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		odd := -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		step := 1.0
		for _, c := range []float64{even, odd} {
			den = 1 / guard(1+c*den)
			num = guard(1 + c/num)
			step = num * den
			value *= step
		}
		if math.Abs(step-1) < 1e-14 {
			break
		}
	}
	return value
}
