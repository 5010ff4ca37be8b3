package sim

import "spate/internal/sim/kv"

// stage is where a request is.
type stage uint8

const (
	queued  stage = iota
	fetched       // in the queue, holds blocks, waits for KV from elsewhere
	active
	parked // its blocks are in the host's memory
	gone
)

// seq is a request inside the engine.
type seq struct {
	Request
	in       int // prompt tokens
	gen      int // tokens sampled
	pending  int // tokens scheduled but not yet sampled (asynchronous scheduling only)
	computed int // tokens whose KV exists or is being computed
	stage    stage
	flying   int // batches under way that hold it
	received bool

	blocks []int32
	side   []int32   // blocks of the groups that hold only the sliding window
	named  int       // blocks published
	finds  []kv.Find // what the last look into the cache gave
	hashes []uint64
	chain  kv.Chain

	host      int // blocks in the host's memory
	preempted int
	hit       int // prompt tokens found in the cache at first admission
	lane      *lane
}

// known is the number of tokens that can be computed.
func (s *seq) known() int { return s.in + s.gen + s.pending }

// prefilling reports whether the request still has to compute before it samples again.
func (s *seq) prefilling() bool { return s.known()-s.computed > 1 || s.gen+s.pending == 0 }

// hash is the identity of the request's k-th block.
func (s *seq) hash(k, size int) uint64 {
	for len(s.hashes) <= k {
		s.hashes = append(s.hashes, s.chain.Next(size))
	}
	return s.hashes[k]
}

// queue is a list of waiting requests, cheap at both ends.
type queue struct {
	buf  []*seq
	head int
}

func (q *queue) len() int       { return len(q.buf) - q.head }
func (q *queue) at(i int) *seq  { return q.buf[q.head+i] }
func (q *queue) push(s *seq)    { q.buf = append(q.buf, s) }
func (q *queue) live() []*seq   { return q.buf[q.head:] }
func (q *queue) rewind()        { q.buf, q.head = q.buf[:0], 0 }
func (q *queue) drop(i int)     { q.dropAt(q.head + i) }
func (q *queue) roomAhead() int { return q.head }

func (q *queue) pushFront(s *seq) {
	if q.roomAhead() == 0 {
		room := max(8, q.len()/2)
		grown := make([]*seq, room+len(q.buf), 2*(room+len(q.buf)))
		copy(grown[room:], q.buf)
		q.buf, q.head = grown, room
	}
	q.head--
	q.buf[q.head] = s
}

// dropAt removes the element at position i of the buffer, moving the shorter side.
func (q *queue) dropAt(i int) {
	copy(q.buf[q.head+1:i+1], q.buf[q.head:i])
	q.buf[q.head] = nil
	q.head++
	if q.head == len(q.buf) {
		q.rewind()
		return
	}
	if q.head > 64 && q.head > len(q.buf)/2 {
		n := copy(q.buf, q.buf[q.head:])
		clear(q.buf[n:])
		q.buf, q.head = q.buf[:n], 0
	}
}

func (q *queue) remove(s *seq) bool {
	for i := q.head; i < len(q.buf); i++ {
		if q.buf[i] == s {
			q.dropAt(i)
			return true
		}
	}
	return false
}
