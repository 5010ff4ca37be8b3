package stats

import (
	"math"
	"slices"
)

// Solve solves mat x = b by elimination with pivots; it overwrites both. Where mat is singular to within rounding, x is
// large but finite.
func Solve(mat [][]float64, b []float64) []float64 {
	const least = 1e-14
	n := len(b)
	for i := range n {
		p := i
		for k := i + 1; k < n; k++ {
			if math.Abs(mat[k][i]) > math.Abs(mat[p][i]) {
				p = k
			}
		}
		mat[i], mat[p] = mat[p], mat[i]
		b[i], b[p] = b[p], b[i]
		if math.Abs(mat[i][i]) < least {
			mat[i][i] = least
		}
		for k := i + 1; k < n; k++ {
			f := mat[k][i] / mat[i][i]
			for j := i; j < n; j++ {
				mat[k][j] -= f * mat[i][j]
			}
			b[k] -= f * b[i]
		}
	}
	x := make([]float64, n)
	for i := n - 1; i >= 0; i-- {
		x[i] = b[i]
		for j := i + 1; j < n; j++ {
			x[i] -= mat[i][j] * x[j]
		}
		x[i] /= mat[i][i]
	}
	return x
}

// Inverse is the inverse of a positive definite matrix, by way of a copy scaled to a unit diagonal: parameters differ by
// many orders of magnitude.
func Inverse(mat [][]float64) [][]float64 {
	n := len(mat)
	scale, scaled, out := make([]float64, n), make([][]float64, n), make([][]float64, n)
	for i := range n {
		scale[i] = 1 / math.Sqrt(max(mat[i][i], 1e-300))
	}
	for i := range n {
		for c := range n {
			scaled[c] = slices.Clone(mat[c])
			for j := range n {
				scaled[c][j] *= scale[c] * scale[j]
			}
		}
		unit := make([]float64, n)
		unit[i] = 1
		out[i] = Solve(scaled, unit)
		for j := range out[i] {
			out[i][j] *= scale[i] * scale[j]
		}
	}
	return out
}

// Cholesky is the lower triangular root of a positive definite matrix. What is positive only but for rounding counts
// as 0.
func Cholesky(mat [][]float64) [][]float64 {
	root := make([][]float64, len(mat))
	for i := range mat {
		root[i] = make([]float64, len(mat))
		for k := range i + 1 {
			sum := mat[i][k]
			for m := range k {
				sum -= root[i][m] * root[k][m]
			}
			switch {
			case i == k:
				root[i][i] = math.Sqrt(max(sum, 0))
			case root[k][k] > 0:
				root[i][k] = sum / root[k][k]
			}
		}
	}
	return root
}
