package stats

import (
	"math"
	"testing"
)

func TestInverseAndCholesky(t *testing.T) {
	A := [][]float64{{4, 1, 0}, {1, 3, 1}, {0, 1, 2}}
	inv := Inverse(A)
	for i := range A {
		for k := range A {
			sum := 0.0
			for m := range A {
				sum += A[i][m] * inv[m][k]
			}
			want := 0.0
			if i == k {
				want = 1
			}
			if math.Abs(sum-want) > 1e-12 {
				t.Errorf("A times its inverse at %d, %d is %v", i, k, sum)
			}
		}
	}
	L := Cholesky(A)
	for i := range A {
		for k := range A {
			sum := 0.0
			for m := range A {
				sum += L[i][m] * L[k][m]
			}
			if math.Abs(sum-A[i][k]) > 1e-12 {
				t.Errorf("the root squared at %d, %d is %v, want %v", i, k, sum, A[i][k])
			}
		}
	}
}

// TestInverseOfUnlikeScales: 1e-8 and 1e8 beside each other, and two parameters that only their sum is known of.
func TestInverseOfUnlikeScales(t *testing.T) {
	inv := Inverse([][]float64{{2e-16, 1}, {1, 1e16}}) // determinant 1
	for i, want := range [][]float64{{1e16, -1}, {-1, 2e-16}} {
		for k := range want {
			near(t, "inverse", inv[i][k], want[k], 1e-9*math.Abs(want[k]))
		}
	}
	for _, row := range Inverse([][]float64{{1, 1}, {1, 1}}) {
		for _, v := range row {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Errorf("the inverse of a singular matrix has %v", v)
			}
		}
	}
}
