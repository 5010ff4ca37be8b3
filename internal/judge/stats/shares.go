package stats

import "math"

// ShareDifference is the interval of pB-pA, where xA of nA and xB of nB had the property: Newcombe's
// method 10, which joins Wilson's intervals of both and holds at shares of 0 and 1, where a normal
// interval is empty.
func ShareDifference(xA, nA, xB, nB int, confidence float64) Interval {
	z := CriticalT(math.Inf(1), confidence)
	a, b := wilson(xA, nA, z), wilson(xB, nB, z)
	pA, pB := float64(xA)/float64(nA), float64(xB)/float64(nB)
	d := pB - pA
	return Interval{
		Low:  d - math.Hypot(pB-b.Low, a.High-pA),
		High: d + math.Hypot(b.High-pB, pA-a.Low),
	}
}

// Wilson is the score interval of a share: x of n had the property. It holds at shares of 0 and 1. Of nothing, nothing
// is known.
func Wilson(x, n int, confidence float64) Interval {
	if n <= 0 {
		return Interval{0, 1}
	}
	return wilson(x, n, CriticalT(math.Inf(1), confidence))
}

// wilson is the score interval of a share.
func wilson(x, n int, z float64) Interval {
	nf, p := float64(n), float64(x)/float64(n)
	mid := (p + z*z/(2*nf)) / (1 + z*z/nf)
	half := z / (1 + z*z/nf) * math.Sqrt(p*(1-p)/nf+z*z/(4*nf*nf))
	in := Interval{max(0, mid-half), min(1, mid+half)}
	switch x { // where what is left is rounding
	case 0:
		in.Low = 0
	case n:
		in.High = 1
	}
	return in
}

// FisherExact is the two-sided p value of two shares being equal: the chance, given the totals, of a
// table no more likely than the one seen.
func FisherExact(xA, nA, xB, nB int) float64 {
	hits := xA + xB
	logChance := func(x int) float64 {
		return logChoose(nA, x) + logChoose(nB, hits-x) - logChoose(nA+nB, hits)
	}
	seen := logChance(xA) + 1e-7
	p := 0.0
	for x := max(0, hits-nB); x <= min(nA, hits); x++ {
		if l := logChance(x); l <= seen {
			p += math.Exp(l)
		}
	}
	return min(1, p)
}

func logChoose(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}
