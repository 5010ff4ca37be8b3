// Package des is the event queue of virtual time. Events come out ordered by time, then rank, then
// the order in which they went in, so that a simulation has exactly one history. sim/cluster drives
// engines with it.
package des

import "time"

// Event is something that happens at a time.
type Event[T any] struct {
	At   time.Duration
	Rank int // among events of the same time, lower ones come first
	Data T
	seq  uint64
}

// Queue holds future events. The zero value is empty.
type Queue[T any] struct {
	heap []Event[T]
	seq  uint64
}

// Len is the number of events.
func (q *Queue[T]) Len() int { return len(q.heap) }

// Reset drops all events.
func (q *Queue[T]) Reset() {
	clear(q.heap)
	q.heap, q.seq = q.heap[:0], 0
}

// Next is the time of the first event, or false when there is none.
func (q *Queue[T]) Next() (time.Duration, bool) {
	if len(q.heap) == 0 {
		return 0, false
	}
	return q.heap[0].At, true
}

// Push adds an event.
func (q *Queue[T]) Push(at time.Duration, rank int, data T) {
	q.heap = append(q.heap, Event[T]{At: at, Rank: rank, Data: data, seq: q.seq})
	q.seq++
	i := len(q.heap) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !before(&q.heap[i], &q.heap[up]) {
			return
		}
		q.heap[i], q.heap[up] = q.heap[up], q.heap[i]
		i = up
	}
}

// Pop removes the first event.
func (q *Queue[T]) Pop() (Event[T], bool) {
	var none Event[T]
	n := len(q.heap) - 1
	if n < 0 {
		return none, false
	}
	first := q.heap[0]
	q.heap[0] = q.heap[n]
	q.heap[n] = none
	q.heap = q.heap[:n]
	q.sink(0)
	return first, true
}

func (q *Queue[T]) sink(i int) {
	for {
		least := i
		for _, kid := range [2]int{2*i + 1, 2*i + 2} {
			if kid < len(q.heap) && before(&q.heap[kid], &q.heap[least]) {
				least = kid
			}
		}
		if least == i {
			return
		}
		q.heap[i], q.heap[least] = q.heap[least], q.heap[i]
		i = least
	}
}

func before[T any](a, b *Event[T]) bool {
	if a.At != b.At {
		return a.At < b.At
	}
	if a.Rank != b.Rank {
		return a.Rank < b.Rank
	}
	return a.seq < b.seq
}
