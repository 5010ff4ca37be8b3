// Package deal says which of several workers sends which request of one load. It is a rule of numbers alone, so
// every worker, and whoever asks after one that is gone, comes to the same answer without a word between them.
//
// A load is dealt out by units: the slots of a closed loop or of a concurrency cap, and where there is neither, one
// for each worker. Request i belongs to unit i mod units, and a unit to worker unit mod workers. So each slot is
// somebody's, their sum is that of the whole load, and a worker's requests are those of its slots. A conversation is
// one request, under the number of its first.
package deal

import "fmt"

// MaxParts bounds how many workers one load is dealt out to.
const MaxParts = 4096

// Part is one worker's part of a load: worker Index of Of. The zero value is a load that is not dealt out at all;
// {0, 1} is dealt out to one worker.
type Part struct {
	Index int `json:"index"`
	Of    int `json:"of"`
}

// Check refuses parts that cannot be.
func (p Part) Check() error {
	switch {
	case p == Part{}:
		return nil
	case p.Of < 1 || p.Of > MaxParts:
		return fmt.Errorf("a load is dealt out to 1 to %d workers, not %d", MaxParts, p.Of)
	case p.Index < 0 || p.Index >= p.Of:
		return fmt.Errorf("there is no worker %d of %d: the first is 0", p.Index, p.Of)
	}
	return nil
}

// Split reports a worker's part, also of one worker.
func (p Part) Split() bool { return p.Of > 0 }

// String names the part for people, who count from 1.
func (p Part) String() string { return fmt.Sprintf("%d of %d", p.Index+1, p.Of) }

// Share is the part of a load with this many slots, or without a cap where that is 0.
func (p Part) Share(slots int) Share {
	if p.Of < 1 {
		p = Part{Of: 1}
	}
	s := Share{part: p, units: p.Of, capped: slots > 0}
	if s.capped {
		s.units = slots
	}
	return s
}

// Nobody is the share of who deals a load out and sends nothing of it.
func Nobody() Share { return Share{part: Part{Index: 1, Of: 2}, units: 1} }

// Share is the size of a part.
type Share struct {
	part   Part
	units  int
	capped bool
}

// Has reports whether request i, counted from 0, belongs to the share.
func (s Share) Has(i int) bool { return (i%s.units)%s.part.Of == s.part.Index }

// Count is how many of the requests 0 to n-1 belong to it.
func (s Share) Count(n int) int {
	if n <= 0 {
		return 0
	}
	return n/s.units*s.below(s.units) + s.below(n%s.units)
}

// below is how many of the units 0 to n-1 are the part's.
func (s Share) below(n int) int {
	if n <= s.part.Index {
		return 0
	}
	return (n-s.part.Index-1)/s.part.Of + 1
}

// Slots is how many of the slots are its own; 0 where there is no cap, and where it has none.
func (s Share) Slots() int {
	if !s.capped {
		return 0
	}
	return s.below(s.units)
}

// Idle reports a share without any request, however long the load is: there are fewer slots than workers.
func (s Share) Idle() bool { return s.below(s.units) == 0 }
