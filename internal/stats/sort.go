package stats

import (
	"math"
	"slices"
	"strconv"
)

// A radix pass handles this many bits; six of them cover a float64.
const (
	digitBits = 11
	digits    = 6
	radix     = 1 << digitBits
)

// radixFrom is the length from which the radix sort beats the comparison sort.
const radixFrom = 4096

// Sort sorts xs ascending. Long slices are sorted by radix, several times faster than by
// comparison; scratch is the second buffer that needs, and the (possibly grown) buffer is returned
// for the next call. NaN is not expected and lands at the end.
func Sort(xs, scratch []float64) []float64 {
	if len(xs) < radixFrom {
		slices.Sort(xs)
		return scratch
	}
	scratch = Resize(scratch, len(xs))
	var counts [digits][radix]int
	for _, x := range xs {
		k := sortKey(x)
		for d := range digits {
			counts[d][k>>(d*digitBits)&(radix-1)]++
		}
	}
	src, dst := xs, scratch
	for d := range digits {
		if counts[d][sortKey(src[0])>>(d*digitBits)&(radix-1)] == len(xs) {
			continue // every value has this digit
		}
		scatter(dst, src, &counts[d], d*digitBits)
		src, dst = dst, src
	}
	if &src[0] != &xs[0] {
		copy(xs, src)
	}
	return scratch
}

// scatter moves src to dst ordered by the digit at shift, keeping the order of equal digits.
func scatter(dst, src []float64, count *[radix]int, shift int) {
	at := 0
	for i, c := range count {
		count[i] = at
		at += c
	}
	for _, x := range src {
		d := sortKey(x) >> shift & (radix - 1)
		dst[count[d]] = x
		count[d]++
	}
}

// sortKey maps a float64 to an integer of the same order.
func sortKey(x float64) uint64 {
	b := math.Float64bits(x)
	return b ^ (uint64(int64(b)>>63) | 1<<63)
}

// SortUints sorts keys ascending by the bits from shift upwards, by radix; scratch is the second
// buffer, returned for the next call. Bits below shift may carry a payload.
func SortUints(keys, scratch []uint64, shift int) []uint64 {
	if len(keys) < radixFrom {
		slices.SortFunc(keys, func(a, b uint64) int {
			x, y := a>>shift, b>>shift
			switch {
			case x < y:
				return -1
			case x > y:
				return 1
			}
			return 0
		})
		return scratch
	}
	if cap(scratch) < len(keys) {
		scratch = make([]uint64, len(keys))
	}
	scratch = scratch[:len(keys)]
	top := slices.Max(keys)
	src, dst := keys, scratch
	for s := shift; s < 64 && top>>s != 0; s += digitBits {
		if scatterUints(dst, src, s) {
			src, dst = dst, src
		}
	}
	if &src[0] != &keys[0] {
		copy(keys, src)
	}
	return scratch
}

// scatterUints is one radix pass; it reports false when all digits are equal and nothing moved.
func scatterUints(dst, src []uint64, shift int) bool {
	var count [radix]int
	for _, k := range src {
		count[k>>shift&(radix-1)]++
	}
	if count[src[0]>>shift&(radix-1)] == len(src) {
		return false
	}
	at := 0
	for i, c := range count {
		count[i] = at
		at += c
	}
	for _, k := range src {
		d := k >> shift & (radix - 1)
		dst[count[d]] = k
		count[d]++
	}
	return true
}

// formatShort writes x with as few digits as it needs.
func formatShort(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
