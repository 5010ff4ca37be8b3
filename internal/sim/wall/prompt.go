package wall

import (
	"sync"

	"spate/internal/rng"
	"spate/internal/sim/kv"
	"spate/internal/sim/serve"
)

// prompt is a prompt as the prefix cache knows it.
type prompt struct {
	segments []kv.Segment
	answer   uint64 // identity of its answer to be
}

// memory knows the answers of finished requests, so that a prompt that contains one, as the next
// turn of a conversation does, finds its blocks in the prefix cache. A prompt is otherwise cut into
// blocks, each named by its own tokens: equal beginnings then have equal names.
//
// Prompts are named on the goroutines that read them, hence the lock.
type memory struct {
	mu    sync.RWMutex
	turns map[uint64]turn // by hash of prompt and answer together
	maybe []uint64        // bit set of hashes that may be in turns; saves most look-ups
	order []uint64        // oldest first
	held  int             // segments in turns
	count uint64          // answers named
	ids   []int32         // scratch
}

// turn is a prompt and its answer as the cache knows them.
type turn struct {
	segments []kv.Segment
	tokens   int
}

const (
	maxHeld   = 1 << 20 // segments remembered at most; the cache itself forgets sooner
	maybeBits = 1 << 20
)

func (m *memory) reset() {
	m.mu.Lock()
	m.turns, m.order, m.maybe, m.held = nil, nil, nil, 0
	m.mu.Unlock()
}

// prompt names a request's prompt for the prefix cache, and its answer.
func (m *memory) prompt(req *serve.Request, block int) *prompt {
	m.mu.Lock()
	m.count++
	p := &prompt{answer: rng.Mix(m.count ^ 0x616e73776572)}
	m.mu.Unlock()
	if len(req.Prompt) == 0 { // only its length is known
		p.segments = []kv.Segment{{Stream: rng.Mix(uint64(req.Index)+1) | 1, Len: max(req.PromptTokens, 1)}}
		return p
	}
	known := m.longest(req.Prompt)
	p.segments = make([]kv.Segment, 0, len(known.segments)+(len(req.Prompt)-known.tokens)/block+1)
	p.segments = append(p.segments, known.segments...)
	for rest := req.Prompt[known.tokens:]; len(rest) > 0; {
		n := min(block, len(rest))
		p.segments = append(p.segments, kv.Segment{Stream: hash(seed, rest[:n]), Len: n})
		rest = rest[n:]
	}
	return p
}

// longest finds the longest remembered turn that a prompt goes on from.
func (m *memory) longest(ids []int32) turn {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var best turn
	if len(m.turns) == 0 {
		return best
	}
	h := uint64(seed)
	for i, id := range ids {
		h = fold(h, id)
		if b := h % maybeBits; m.maybe[b/64]&(1<<(b%64)) == 0 {
			continue
		}
		if t, ok := m.turns[h]; ok && t.tokens == i+1 {
			best = t
		}
	}
	return best
}

// learn remembers a request's prompt and answer.
func (m *memory) learn(c *call) {
	if len(c.req.Prompt) == 0 {
		return
	}
	m.ids = c.req.Answer(m.ids[:0], c.want)
	h := hash(hash(seed, c.req.Prompt), m.ids)
	segments := append(c.prompt[:len(c.prompt):len(c.prompt)], kv.Segment{Stream: c.stream, Len: c.want})
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.turns == nil {
		m.turns, m.maybe = make(map[uint64]turn), make([]uint64, maybeBits/64)
	}
	if _, ok := m.turns[h]; ok {
		return // its blocks have the older name
	}
	m.order = append(m.order, h)
	m.held += len(segments)
	m.turns[h] = turn{segments: segments, tokens: len(c.req.Prompt) + c.want}
	m.maybe[h%maybeBits/64] |= 1 << (h % 64)
	for m.held > maxHeld && len(m.order) > 1 {
		m.held -= len(m.turns[m.order[0]].segments)
		delete(m.turns, m.order[0])
		m.order = m.order[1:]
	}
}

const seed = 0x9e3779b97f4a7c15

// fold adds one token to a hash.
func fold(h uint64, id int32) uint64 { return (h^uint64(uint32(id)))*0x100000001b3 ^ h>>29 }

func hash(h uint64, ids []int32) uint64 {
	for _, id := range ids {
		h = fold(h, id)
	}
	return h
}
