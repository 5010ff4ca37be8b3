package driver

import "sync"

// queue holds requests that are due and wait for a slot, first in first out, without bound: an open
// loop must never slow down because the server does.
type queue struct {
	mu     sync.Mutex
	more   *sync.Cond
	items  []item
	closed bool
}

func (q *queue) push(it item) {
	q.mu.Lock()
	q.items = append(q.items, it)
	q.mu.Unlock()
	q.more.Signal()
}

// pop waits for the next request; false means that the queue is closed and empty.
func (q *queue) pop() (item, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.items) == 0 && !q.closed {
		q.more.Wait()
	}
	if len(q.items) == 0 {
		return item{}, false
	}
	it := q.items[0]
	q.items[0] = item{} // let go of the request's body
	q.items = q.items[1:]
	return it, true
}

// close ends the queue; with drop, what still waits is taken out and returned.
func (q *queue) close(drop bool) []item {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.more.Broadcast()
	if !drop {
		return nil
	}
	left := q.items
	q.items = nil
	return left
}
