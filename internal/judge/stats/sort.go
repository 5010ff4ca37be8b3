package stats

import (
	"slices"
	"strconv"
)

// A radix pass handles one byte: its 256 open places fit the nearest cache, which measured as fast as
// fewer passes over wider digits.
const (
	digitBits = 8
	radix     = 1 << digitBits
)

// radixFrom is the length from which the radix sort beats the comparison sort.
const radixFrom = 4096

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

// scatterUints moves src to dst ordered by the digit at shift, keeping the order of equal digits. It
// reports false when all digits are equal and nothing moved.
func scatterUints(dst, src []uint64, shift int) bool {
	var count [radix]int
	for _, k := range src {
		count[k>>shift&(radix-1)]++
	}
	if !places(&count, len(src)) {
		return false
	}
	for _, k := range src {
		d := k >> shift & (radix - 1)
		dst[count[d]] = k
		count[d]++
	}
	return true
}

// places turns counts into first places; false when one digit has all n.
func places(count *[radix]int, n int) bool {
	at := 0
	for i, c := range count {
		if c == n {
			return false
		}
		count[i] = at
		at += c
	}
	return true
}

// formatShort writes x with as few digits as it needs.
func formatShort(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
