// Package stats is the arithmetic under every figure spate prints: moments and percentiles that
// agree with NumPy's, sample floors and intervals for percentiles, and block-bootstrap intervals
// for samples that depend on each other. It is pure maths on float64 slices; metrics calls it, and
// it calls nothing but the standard library. Read this file first, then quantile.go and
// bootstrap.go.
package stats

import "math"

// sumBlock is the longest run NumPy adds up without splitting it.
const sumBlock = 128

// Sum adds xs pairwise, in the order NumPy's add.reduce uses on contiguous float64 data, so that a
// mean printed here has the same last digit as one printed there. The empty sum is 0.
func Sum(xs []float64) float64 {
	n := len(xs)
	switch {
	case n < 8:
		s := 0.0
		for _, x := range xs {
			s += x
		}
		return s
	case n <= sumBlock:
		return sumLanes(xs)
	default:
		half := n / 2
		half -= half % 8
		return Sum(xs[:half]) + Sum(xs[half:])
	}
}

// sumLanes adds 8 to 128 values in eight interleaved lanes.
func sumLanes(xs []float64) float64 {
	var r [8]float64
	copy(r[:], xs[:8])
	whole := len(xs) - len(xs)%8
	for i := 8; i < whole; i += 8 {
		lane := xs[i : i+8 : i+8]
		for j, x := range lane {
			r[j] += x
		}
	}
	s := ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]))
	for _, x := range xs[whole:] {
		s += x
	}
	return s
}

// Mean is the arithmetic mean; 0 of an empty slice, which is what vLLM reports.
func Mean(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	return Sum(xs) / float64(len(xs))
}

// Std is the population standard deviation (ddof 0); 0 of an empty slice.
func Std(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	return math.Sqrt(sumSquares(xs, Mean(xs)) / float64(len(xs)))
}

// sumSquares adds the squared distances from mean in the order of Sum.
func sumSquares(xs []float64, mean float64) float64 {
	if n := len(xs); n > sumBlock {
		half := n / 2
		half -= half % 8
		return sumSquares(xs[:half], mean) + sumSquares(xs[half:], mean)
	}
	var buf [sumBlock]float64
	for i, x := range xs {
		d := x - mean
		buf[i] = float64(d * d)
	}
	return Sum(buf[:len(xs)])
}
