package lengths

import "math"

// List are the lengths of one side, in ascending order.
type List []int32

// Total is their sum.
func (l List) Total() int64 {
	var sum int64
	for _, n := range l {
		sum += int64(n)
	}
	return sum
}

// Mean is their average; 0 for none.
func (l List) Mean() float64 {
	if len(l) == 0 {
		return 0
	}
	return float64(l.Total()) / float64(len(l))
}

// At is the smallest length that at least the given share of all (0 to 1) does not exceed: At(0) is
// the shortest, At(1) the longest.
func (l List) At(share float64) int {
	if len(l) == 0 {
		return 0
	}
	rank := int(math.Ceil(share * float64(len(l))))
	return int(l[min(max(rank, 1), len(l))-1])
}
