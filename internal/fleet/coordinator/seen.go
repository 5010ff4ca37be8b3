package coordinator

import (
	"sync"

	"spate/internal/call"
)

// seen knows which records came: a batch may come twice, and a worker that was cut off sends its whole log again. One bit
// a request, in pages, so that a number far off costs a page and no more.
type seen struct {
	mu    sync.Mutex
	first map[page]*[pageBits / 64]uint64 // first attempts of first turns
	other map[attempt]struct{}            // all others
	final map[page]*[pageBits / 64]uint64 // requests whose fate is known
}

const pageBits = 1 << 16

type page struct {
	phase call.Phase
	n     int
}

type attempt struct {
	phase         call.Phase
	id, turn, try int
}

func newSeen() *seen {
	return &seen{first: map[page]*[pageBits / 64]uint64{}, other: map[attempt]struct{}{}, final: map[page]*[pageBits / 64]uint64{}}
}

// add reports whether a record is new.
func (s *seen) add(r *call.Record) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh := false
	if r.Attempt == 0 && r.Turn == 0 {
		fresh = set(s.first, r.Phase, r.ID)
	} else {
		k := attempt{r.Phase, r.ID, r.Turn, r.Attempt}
		if _, has := s.other[k]; !has {
			s.other[k], fresh = struct{}{}, true
		}
	}
	if !r.Retried {
		set(s.final, r.Phase, r.ID)
	}
	return fresh
}

// has reports whether the fate of a request is known.
func (s *seen) has(phase call.Phase, id int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	bits := s.final[page{phase, id / pageBits}]
	return bits != nil && bits[id%pageBits/64]&(1<<(id%64)) != 0
}

// set sets a bit, and reports whether it was clear.
func set(pages map[page]*[pageBits / 64]uint64, phase call.Phase, id int) bool {
	k := page{phase, id / pageBits}
	bits := pages[k]
	if bits == nil {
		bits = new([pageBits / 64]uint64)
		pages[k] = bits
	}
	word, bit := &bits[id%pageBits/64], uint64(1)<<(id%64)
	fresh := *word&bit == 0
	*word |= bit
	return fresh
}
