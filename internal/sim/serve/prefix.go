package serve

import (
	"container/list"

	"spate/internal/rng"
)

const (
	defaultBlockSize   = 16
	defaultCacheBlocks = 65536
)

// prefixCache remembers prompts block by block, as vLLM does: a block is known by the hash of its
// tokens and of all blocks before it, and the least recently used is forgotten first.
type prefixCache struct {
	capacity int
	block    int
	known    map[uint64]*list.Element
	order    *list.List // most recently used first; values are hashes
}

func newPrefixCache(capacity, block int) *prefixCache {
	if capacity <= 0 {
		capacity = defaultCacheBlocks
	}
	if block <= 0 {
		block = defaultBlockSize
	}
	c := &prefixCache{capacity: capacity, block: block}
	c.reset()
	return c
}

func (c *prefixCache) reset() {
	c.known = make(map[uint64]*list.Element)
	c.order = list.New()
}

func (c *prefixCache) len() int { return len(c.known) }

// lookup returns how many leading tokens of prompt were known, and remembers all its full blocks.
// At least one token is always left to compute, because the first output needs it.
func (c *prefixCache) lookup(prompt []int32) int {
	hit, missed := 0, false
	h := uint64(14695981039346656037)
	for i := 0; i+c.block <= len(prompt); i += c.block {
		for _, id := range prompt[i : i+c.block] {
			h = rng.SplitMix(h ^ uint64(uint32(id)))
		}
		if e, ok := c.known[h]; ok {
			c.order.MoveToFront(e)
			if !missed && i+c.block < len(prompt) {
				hit += c.block
			}
			continue
		}
		missed = true
		c.add(h)
	}
	return hit
}

func (c *prefixCache) add(h uint64) {
	if len(c.known) >= c.capacity {
		last := c.order.Back()
		delete(c.known, c.order.Remove(last).(uint64))
	}
	c.known[h] = c.order.PushFront(h)
}
