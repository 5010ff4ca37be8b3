package call

import "iter"

// Set is records that can be gone through again and again, wherever they are kept: a run of ten million requests
// does not fit in memory. A record that a Set gives out, with all it leads to, is valid until the next one.
type Set interface {
	// Len is how many records there are.
	Len() int
	// All goes through them in the order they came.
	All() iter.Seq[*Record]
	// Pick goes through those with the given numbers, which count from 0 in the order they came.
	Pick(numbers []int32) iter.Seq[*Record]
}

// List is a Set in memory.
type List []Record

// Len implements Set.
func (l List) Len() int { return len(l) }

// All implements Set.
func (l List) All() iter.Seq[*Record] {
	return func(yield func(*Record) bool) {
		for i := range l {
			if !yield(&l[i]) {
				return
			}
		}
	}
}

// Pick implements Set.
func (l List) Pick(numbers []int32) iter.Seq[*Record] {
	return func(yield func(*Record) bool) {
		for _, i := range numbers {
			if !yield(&l[i]) {
				return
			}
		}
	}
}

// Part is the records of a set for which keep holds.
func Part(s Set, keep func(*Record) bool) Set {
	p := part{set: s}
	i := int32(0)
	for r := range s.All() {
		if keep(r) {
			p.numbers = append(p.numbers, i)
		}
		i++
	}
	return p
}

type part struct {
	set     Set
	numbers []int32
}

func (p part) Len() int { return len(p.numbers) }

func (p part) All() iter.Seq[*Record] { return p.set.Pick(p.numbers) }

func (p part) Pick(numbers []int32) iter.Seq[*Record] {
	mapped := make([]int32, len(numbers))
	for i, n := range numbers {
		mapped[i] = p.numbers[n]
	}
	return p.set.Pick(mapped)
}
