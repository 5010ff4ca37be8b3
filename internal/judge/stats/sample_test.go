package stats

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestSampleAgainstMemory holds that a sample gone through piece by piece, with next to no room, has the figures of
// the same values in memory, to the last digit.
func TestSampleAgainstMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(
			rapid.Float64Range(-1, 1), rapid.SampledFrom([]float64{0, 0.01, 0.01, 0.02, -3, 1e9, math.Inf(1)}),
			rapid.Map(rapid.IntRange(0, 50), func(n int) float64 { return float64(n) / 1000 }),
		)
		xs := rapid.SliceOfN(value, 0, 700).Draw(t, "xs")
		piece := rapid.IntRange(1, 200).Draw(t, "piece")
		room := rapid.SampledFrom([]int{0, 1, 10, 1000}).Draw(t, "room")
		s := Sample{N: len(xs), Count: len(xs), Values: func(yield func([]float64, []int) bool) {
			for part := range slices.Chunk(xs, piece) {
				if !yield(part, nil) {
					return
				}
			}
		}}
		mean, std := s.Moments()
		same(t, "mean", Mean(xs), mean)
		same(t, "std", Std(xs), std)
		sorted := slices.Clone(xs)
		slices.Sort(sorted)
		ranks := Ranks(len(xs), []float64{0, 1, 50, 90, 99, 99.9, 100}, 0.95)
		o := s.arranged(ranks, room)
		for _, k := range ranks {
			same(t, "rank", sorted[k], o.At(k))
		}
	})
}

// TestSampleWeights holds that a weight counts as that many values.
func TestSampleWeights(t *testing.T) {
	if testing.Short() {
		t.Skip("short: draws thousands of samples")
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "n")
		xs, weights := make([]float64, n), make([]int, n)
		var all []float64
		for i := range xs {
			xs[i] = float64(rapid.IntRange(0, 30).Draw(t, "x")) / 8
			weights[i] = rapid.IntRange(1, 9).Draw(t, "w")
			for range weights[i] {
				all = append(all, xs[i])
			}
		}
		s := Sample{N: n, Count: len(all), Values: func(yield func([]float64, []int) bool) { yield(xs, weights) }}
		slices.Sort(all)
		ranks := make([]int, len(all))
		for i := range ranks {
			ranks[i] = i
		}
		for _, room := range []int{0, 5, 100} {
			o := s.arranged(ranks, room)
			for k, want := range all {
				same(t, "rank", want, o.At(k))
			}
		}
		mean, std := s.Moments()
		if math.Abs(mean-Mean(all)) > 1e-12 || math.Abs(std-Std(all)) > 1e-12 {
			t.Fatalf("mean %v and %v, std %v and %v", mean, Mean(all), std, Std(all))
		}
	})
}

func same(t *rapid.T, what string, want, got float64) {
	t.Helper()
	if want != got && math.Float64bits(want) != math.Float64bits(got) && !(math.IsNaN(want) && math.IsNaN(got)) {
		t.Fatalf("%s: %v in memory, %v piece by piece", what, want, got)
	}
}
