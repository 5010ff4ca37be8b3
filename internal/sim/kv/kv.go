// Package kv keeps an engine's KV cache: a pool of fixed-size blocks, the chain of hashes that gives
// a full block its identity, and the least-recently-used reuse of blocks nobody holds. The engine
// simulator (package sim) decides who gets blocks; this package only keeps the books. Start with
// Pool.
//
// Prompts are not held as token ids. A prompt is a list of segments, each the beginning of a named
// stream of tokens; two prompts share a prefix exactly when their segments do.
package kv

import "spate/internal/rng"

// Segment is the first Len tokens of a stream. Equal streams hold equal tokens, different streams
// different ones.
type Segment struct {
	Stream uint64 `json:"stream"`
	Len    int    `json:"len"`
}

// Length is the number of tokens in a list of segments.
func Length(segs []Segment) int {
	n := 0
	for _, s := range segs {
		n += s.Len
	}
	return n
}

// Chain computes the hashes of the consecutive blocks of one token sequence: its segments, then an
// endless tail stream (what the request generates). Each hash covers everything before it.
type Chain struct {
	segs   []Segment
	tail   uint64
	i, off int // next token: off tokens into segment i
	parent uint64
}

// NewChain starts a chain. Salt separates contents that must not be shared, such as adapters.
func NewChain(segs []Segment, tail, salt uint64) Chain {
	return Chain{segs: segs, tail: tail, parent: rng.SplitMix(salt)}
}

// Next is the hash of the next block of size tokens. It is never zero.
func (c *Chain) Next(size int) uint64 {
	h := c.parent
	for left := size; left > 0; {
		stream, n := c.tail, left
		if c.i < len(c.segs) {
			s := c.segs[c.i]
			if s.Len == c.off {
				c.i, c.off = c.i+1, 0
				continue
			}
			stream, n = s.Stream, min(left, s.Len-c.off)
		}
		h = rng.Mix(h ^ rng.Mix(stream))
		h = rng.Mix(h ^ uint64(c.off)<<24 ^ uint64(n))
		c.off += n
		left -= n
	}
	if h == 0 {
		h = 1
	}
	c.parent = h
	return h
}
