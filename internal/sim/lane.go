package sim

import (
	"time"

	"spate/internal/sim/kv"
)

// lane is one scheduler with its queue and its blocks. The new engine has one; the old one has one
// per pipeline stage.
type lane struct {
	cfg     *Config
	index   int
	pool    *kv.Pool
	waiting queue
	swapped queue
	parked  int // blocks in the host's memory
	since   int // decode steps since the last decision
	running []*seq
	busy    int // batches under way
	stats   *Stats
	fetches []int // requests that were given blocks for KV from elsewhere
	fetched int   // requests in the queue that hold blocks
	edges   []int32
	shared  bool // some request generates tokens that others may share
	ratio   float64

	promptTook  time.Duration // duration of the last step with prompts
	lastPlanned time.Duration

	hits []int32 // scratch
}

func (l *lane) size() int { return l.cfg.BlockSize }

func (l *lane) ceil(tokens int) int { return (tokens + l.cfg.BlockSize - 1) / l.cfg.BlockSize }

// sideWanted is the number of window blocks a request with n full blocks holds.
func (l *lane) sideWanted(n int) int {
	if l.cfg.WindowGroups == 0 {
		return 0
	}
	return l.cfg.WindowGroups * min(n, l.ceil(l.cfg.Window)+1)
}

// lookup lists the cached blocks that a queued request can start from. At least one token is always
// left to compute, since something has to be sampled from.
func (l *lane) lookup(s *seq) []int32 {
	l.hits = l.hits[:0]
	if !l.caches(s) {
		return l.hits
	}
	for k := 0; (k+1)*l.size() < s.known(); k++ {
		if k < len(s.finds) && l.pool.Still(s.finds[k]) {
			l.hits = append(l.hits, s.finds[k].Block)
			continue
		}
		s.finds = s.finds[:min(k, len(s.finds))]
		b, ok := l.pool.Lookup(s.hash(k, l.size()))
		if !ok {
			break
		}
		l.hits = append(l.hits, b)
		s.finds = append(s.finds, l.pool.Found(b))
	}
	return l.hits
}

// need is the number of free blocks it takes to hold upto tokens of s, given blocks found in the
// cache; those that nobody holds come out of the free ones too.
func (l *lane) need(s *seq, upto int, hits []int32) int {
	n := l.ceil(upto)
	side := max(0, l.sideWanted(n)-len(s.side))
	n = max(0, n-len(s.blocks)-len(hits))
	for _, b := range hits {
		if l.pool.Idle(b) {
			n++
		}
	}
	return n + side
}

// adopt gives s the cached blocks it starts from.
func (l *lane) adopt(s *seq, hits []int32) {
	for _, b := range hits {
		l.pool.Hold(b)
	}
	s.blocks = append(s.blocks, hits...)
	s.named = len(hits)
	s.computed = len(hits) * l.size()
}

// grow takes blocks so that s holds upto tokens, and publishes those that became full.
func (l *lane) grow(s *seq, upto int) {
	for want := l.ceil(upto); len(s.blocks) < want; {
		l.extend(s)
	}
	l.publish(s, upto)
}

// extend takes one more block, and window blocks beside it.
func (l *lane) extend(s *seq) {
	s.blocks = append(s.blocks, l.pool.Take())
	for want := l.sideWanted(len(s.blocks)); len(s.side) < want; {
		s.side = append(s.side, l.pool.Take())
	}
}

// caches reports whether the blocks of s can be found by others: by all, or by other answers to its prompt.
func (l *lane) caches(s *seq) bool { return l.cfg.PrefixCaching || s.Group != 0 }

func (l *lane) publish(s *seq, upto int) {
	if !l.cfg.PrefixCaching {
		if s.Group == 0 {
			return
		}
		upto = min(upto, s.in) // answers are nobody else's
	}
	for ; (s.named+1)*l.size() <= upto; s.named++ {
		l.pool.Publish(s.blocks[s.named], s.hash(s.named, l.size()))
	}
}

// release gives back all blocks of s. Their contents stay findable until they are reused.
func (l *lane) release(s *seq) {
	l.pool.Release(s.side)
	l.pool.Release(s.blocks)
	s.blocks, s.side = s.blocks[:0], s.side[:0]
	s.named, s.computed = 0, 0
}

// tryGrow makes room for upto tokens of a running request if free blocks suffice.
func (l *lane) tryGrow(s *seq, upto int) bool {
	if upto > len(s.blocks)*l.size() {
		if l.need(s, upto, nil) > l.pool.Free() {
			return false
		}
		l.grow(s, upto)
		return true
	}
	l.publish(s, upto)
	return true
}

// preempt takes the blocks of the last running request and puts it back at the front of the queue.
func (l *lane) preempt(f *flight) *seq {
	last := len(l.running) - 1
	s := l.running[last]
	l.running[last] = nil
	l.running = l.running[:last]
	s.preempted++
	l.stats.Preemptions++
	f.preempted = append(f.preempted, s.ID)
	if l.swaps(s) {
		l.swapOut(f, s)
		return s
	}
	l.release(s)
	s.stage = queued
	l.waiting.pushFront(s)
	return s
}

// growOrPreempt makes room for a running request, preempting from the end of the list until it fits.
// It reports false when the request itself had to go.
func (l *lane) growOrPreempt(f *flight, s *seq, upto int) bool {
	for !l.tryGrow(s, upto) {
		if l.preempt(f) == s {
			return false
		}
	}
	return true
}

// admit moves queue position i to the running list.
func (l *lane) admit(f *flight, i int) *seq {
	s := l.waiting.at(i)
	l.waiting.drop(i)
	f.admitted = append(f.admitted, Admission{ID: s.ID, Cached: s.computed, Again: s.preempted > 0})
	s.stage = active
	l.running = append(l.running, s)
	return s
}

// watermark is the number of blocks admission leaves free.
func (l *lane) watermark() int { return int(l.cfg.Watermark * float64(l.pool.Total())) }

// sweep drops requests that have ended from the running list, keeping its order.
func (l *lane) sweep() {
	k := 0
	for _, s := range l.running {
		if s.stage == active {
			l.running[k] = s
			k++
		}
	}
	clear(l.running[k:])
	l.running = l.running[:k]
}
