package evidence

import "math"

// inverted is the inverse of a positive definite matrix, by elimination on a copy scaled to a unit
// diagonal: parameters differ by many orders of magnitude.
func inverted(mat [][]float64) [][]float64 {
	n := len(mat)
	scale := make([]float64, n)
	a := make([][]float64, n)
	for i := range n {
		scale[i] = 1 / math.Sqrt(max(mat[i][i], 1e-300))
	}
	for i := range n {
		a[i] = make([]float64, 2*n)
		for j := range n {
			a[i][j] = mat[i][j] * scale[i] * scale[j]
		}
		a[i][n+i] = 1
	}
	for i := range n {
		top := i
		for k := i + 1; k < n; k++ {
			if math.Abs(a[k][i]) > math.Abs(a[top][i]) {
				top = k
			}
		}
		a[i], a[top] = a[top], a[i]
		p := a[i][i]
		if math.Abs(p) < 1e-14 {
			p = 1e-14
		}
		for j := range a[i] {
			a[i][j] /= p
		}
		for k := range n {
			if f := a[k][i]; k != i && f != 0 {
				for j := range a[k] {
					a[k][j] -= f * a[i][j]
				}
			}
		}
	}
	out := make([][]float64, n)
	for i := range n {
		out[i] = a[i][n:]
		for j := range out[i] {
			out[i][j] *= scale[i] * scale[j]
		}
	}
	return out
}

// root is the lower triangular root of a positive definite matrix.
func root(mat [][]float64) [][]float64 {
	out := make([][]float64, len(mat))
	for i := range mat {
		out[i] = make([]float64, len(mat))
		for k := range i + 1 {
			sum := mat[i][k]
			for m := range k {
				sum -= out[i][m] * out[k][m]
			}
			switch {
			case i == k:
				out[i][i] = math.Sqrt(max(sum, 0))
			case out[k][k] > 0:
				out[i][k] = sum / out[k][k]
			}
		}
	}
	return out
}
