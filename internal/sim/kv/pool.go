package kv

import (
	"fmt"

	"spate/internal/rng"
)

// none ends the linked lists.
const none int32 = -1

// block is one slot of the pool. A free block sits in the free list and may still hold its contents.
type block struct {
	hash       uint64 // 0: contents unknown
	ref        int32
	born       int32 // when it was given its hash
	prev, next int32 // neighbours in the free list
	back, fore int32 // neighbours in its chain of the index
}

// chain is a list of blocks, oldest first, so that the oldest of several with the same contents is
// found. Positions are one more than block numbers; zero is none.
type chain struct{ first, last int32 }

// Pool is a set of equal blocks. Free blocks are reused least recently freed first.
type Pool struct {
	blocks        []block
	head, tail    int32
	free          int
	index         []chain // blocks with contents, by the low bits of their hash
	hashed        int
	unhashedFirst bool
	births        int32
}

// NewPool makes a pool of n empty blocks. With unhashedFirst, freed blocks without a hash are reused
// before any that could still be hit.
func NewPool(n int, unhashedFirst bool) *Pool {
	size := 16
	for size < 2*n {
		size *= 2
	}
	p := &Pool{blocks: make([]block, n), index: make([]chain, size), unhashedFirst: unhashedFirst}
	p.Reset()
	return p
}

// Reset empties the pool; every block must be free.
func (p *Pool) Reset() {
	clear(p.index)
	p.hashed = 0
	n := int32(len(p.blocks))
	for i := range n {
		p.blocks[i] = block{prev: i - 1, next: i + 1}
	}
	p.head, p.tail, p.free = none, none, int(n)
	if n > 0 {
		p.head, p.tail = 0, n-1
		p.blocks[n-1].next = none
	}
}

// Total is the number of blocks.
func (p *Pool) Total() int { return len(p.blocks) }

// Free is the number of blocks that no request uses, cached ones included.
func (p *Pool) Free() int { return p.free }

// Cached is the number of blocks that can be hit.
func (p *Pool) Cached() int { return p.hashed }

// Lookup finds a block by its hash.
func (p *Pool) Lookup(hash uint64) (int32, bool) {
	for at := p.chain(hash).first; at != 0; at = p.blocks[at-1].fore {
		if p.blocks[at-1].hash == hash {
			return at - 1, true
		}
	}
	return none, false
}

func (p *Pool) chain(hash uint64) *chain { return &p.index[hash&uint64(len(p.index)-1)] }

// Find is a block that Lookup found, to be looked at again without another search.
type Find struct{ Block, born int32 }

// Found notes a block that Lookup found.
func (p *Pool) Found(b int32) Find { return Find{b, p.blocks[b].born} }

// Still reports whether Lookup would find the same block again.
func (p *Pool) Still(f Find) bool {
	x := &p.blocks[f.Block]
	return x.hash != 0 && x.born == f.born
}

// Idle reports whether nobody holds block b, so that holding it takes a free block away.
func (p *Pool) Idle(b int32) bool { return p.blocks[b].ref == 0 }

// Hold adds a holder to a block that Lookup found.
func (p *Pool) Hold(b int32) {
	if p.blocks[b].ref == 0 {
		p.unlink(b)
	}
	p.blocks[b].ref++
}

// Take removes the oldest free block from the list, forgets what it held and gives it one holder.
// There must be a free block.
func (p *Pool) Take() int32 {
	b := p.head
	p.unlink(b)
	p.forget(b)
	p.blocks[b].ref = 1
	return b
}

// Publish names the contents of a held block, so that it can be hit.
func (p *Pool) Publish(b int32, hash uint64) {
	x := &p.blocks[b]
	if x.hash != 0 {
		return
	}
	x.hash = hash
	x.born = p.births
	p.births++
	p.hashed++
	c := p.chain(hash)
	x.back, x.fore = c.last, 0
	if c.last != 0 {
		p.blocks[c.last-1].fore = b + 1
	} else {
		c.first = b + 1
	}
	c.last = b + 1
}

// Release gives up one hold on each block, last first, so that the end of a sequence is reused
// before its beginning.
func (p *Pool) Release(blocks []int32) {
	for i := len(blocks) - 1; i >= 0; i-- {
		b := blocks[i]
		x := &p.blocks[b]
		x.ref--
		switch {
		case x.ref > 0:
		case p.unhashedFirst && x.hash == 0:
			p.pushHead(b)
		default:
			p.pushTail(b)
		}
	}
}

func (p *Pool) forget(b int32) {
	x := &p.blocks[b]
	if x.hash == 0 {
		return
	}
	c := p.chain(x.hash)
	if x.back != 0 {
		p.blocks[x.back-1].fore = x.fore
	} else {
		c.first = x.fore
	}
	if x.fore != 0 {
		p.blocks[x.fore-1].back = x.back
	} else {
		c.last = x.back
	}
	x.hash = 0
	p.hashed--
}

func (p *Pool) unlink(b int32) {
	x := &p.blocks[b]
	if x.prev != none {
		p.blocks[x.prev].next = x.next
	} else {
		p.head = x.next
	}
	if x.next != none {
		p.blocks[x.next].prev = x.prev
	} else {
		p.tail = x.prev
	}
	p.free--
}

func (p *Pool) pushTail(b int32) {
	x := &p.blocks[b]
	x.prev, x.next = p.tail, none
	if p.tail != none {
		p.blocks[p.tail].next = b
	} else {
		p.head = b
	}
	p.tail = b
	p.free++
}

func (p *Pool) pushHead(b int32) {
	x := &p.blocks[b]
	x.prev, x.next = none, p.head
	if p.head != none {
		p.blocks[p.head].prev = b
	} else {
		p.tail = b
	}
	p.head = b
	p.free++
}

// Check verifies the books: the free list, its length, the holders and the index agree.
func (p *Pool) Check() error {
	listed, last := 0, none
	for b := p.head; b != none; b = p.blocks[b].next {
		if p.blocks[b].ref != 0 || p.blocks[b].prev != last {
			return fmt.Errorf("block %d in the free list has %d holders", b, p.blocks[b].ref)
		}
		last = b
		if listed++; listed > len(p.blocks) {
			return fmt.Errorf("the free list has a cycle")
		}
	}
	held, hashed := 0, 0
	for i := range p.blocks {
		if p.blocks[i].ref > 0 {
			held++
		}
		if p.blocks[i].hash != 0 {
			hashed++
		}
	}
	if listed != p.free || last != p.tail || listed+held != len(p.blocks) {
		return fmt.Errorf("%d blocks listed, %d counted free, %d held, %d in all", listed, p.free, held, len(p.blocks))
	}
	return p.checkIndex(hashed)
}

func (p *Pool) checkIndex(hashed int) error {
	found := 0
	for i := range p.index {
		last := int32(0)
		for at := p.index[i].first; at != 0; at = p.blocks[at-1].fore {
			x := &p.blocks[at-1]
			if found++; x.hash == 0 || p.chain(x.hash) != &p.index[i] || x.back != last || found > hashed {
				return fmt.Errorf("block %d is in a chain it does not belong to", at-1)
			}
			last = at
		}
		if p.index[i].last != last {
			return fmt.Errorf("chain %d does not end where it says", i)
		}
	}
	if found != hashed || found != p.hashed {
		return fmt.Errorf("%d blocks have a hash, %d are indexed, %d counted", hashed, found, p.hashed)
	}
	return nil
}

// Fingerprint is a hash of the whole pool: who is held, what is cached and in which order blocks
// will be reused.
func (p *Pool) Fingerprint() uint64 {
	h := uint64(p.hashed)
	for b := p.head; b != none; b = p.blocks[b].next {
		h = rng.Mix(h ^ uint64(b)<<8 ^ p.blocks[b].hash)
	}
	for i := range p.blocks {
		h = rng.Mix(h ^ p.blocks[i].hash ^ uint64(p.blocks[i].ref))
	}
	return h
}
