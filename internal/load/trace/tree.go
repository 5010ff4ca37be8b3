package trace

import "spate/internal/rng"

// Tree holds the prompts seen so far as paths of blocks. It answers what an unbounded prefix cache would, and
// gives every block a first token that none of its siblings has, so that prompts made from it part where
// their blocks part.
type Tree struct {
	chunk int
	vocab int
	nodes map[edge]int32
	sizes []int32 // most tokens seen of each node's block
	first []int32 // of each node: which of vocab tokens begins it
	used  map[edge]struct{}
}

// edge leads from a node to a child, by block or by first token.
type edge struct {
	parent int32
	key    uint64
}

// NewTree makes an empty tree. vocab is how many first tokens there are to choose from; with more siblings
// than that, some share theirs.
func NewTree(chunk, vocab int) *Tree {
	return &Tree{chunk: chunk, vocab: max(1, vocab), nodes: map[edge]int32{}, used: map[edge]struct{}{}}
}

// Add takes a prompt in and says how many of its tokens, from the front, an earlier one had.
func (t *Tree) Add(r *Row) (hit int) {
	parent, cached := int32(-1), true
	for i, size := range r.Sizes(t.chunk) {
		at := edge{parent, r.Blocks[i]}
		node, known := t.nodes[at]
		if !known {
			node = t.grow(at)
		}
		if cached && known {
			hit += min(size, int(t.sizes[node]))
		}
		cached = cached && known && int(t.sizes[node]) >= size
		t.sizes[node] = max(t.sizes[node], int32(size))
		parent = node
	}
	return hit
}

func (t *Tree) grow(at edge) int32 {
	node := int32(len(t.sizes))
	t.nodes[at] = node
	t.sizes = append(t.sizes, 0)
	pick := rng.SplitMix(at.key) % uint64(t.vocab)
	for range t.vocab { // the next free one
		if _, taken := t.used[edge{at.parent, pick}]; !taken {
			break
		}
		pick = (pick + 1) % uint64(t.vocab)
	}
	t.used[edge{at.parent, pick}] = struct{}{}
	t.first = append(t.first, int32(pick))
	return node
}

// First calls each with every block of a prompt that was added: its id, its tokens, and which of vocab
// tokens it begins with.
func (t *Tree) First(r *Row, each func(block uint64, size, first int)) {
	parent := int32(-1)
	for i, size := range r.Sizes(t.chunk) {
		node, ok := t.nodes[edge{parent, r.Blocks[i]}]
		if !ok {
			return
		}
		each(r.Blocks[i], size, int(t.first[node]))
		parent = node
	}
}

// Ideal is how much of a trace's prompts a cache without bounds would have: what no server can beat.
type Ideal struct {
	Requests int
	Tokens   int64 // of all prompts
	Hit      int64 // of them, tokens an earlier prompt had at the same place after the same beginning
	Blocks   int   // different ones, by where they stand
}

// Rate is the share of prompt tokens that hit; 0 for no tokens.
func (i Ideal) Rate() float64 {
	if i.Tokens == 0 {
		return 0
	}
	return float64(i.Hit) / float64(i.Tokens)
}

// IdealHits goes through a trace in order.
func IdealHits(rows []Row, chunk int) Ideal {
	t := NewTree(chunk, 1<<20)
	out := Ideal{Requests: len(rows)}
	for i := range rows {
		out.Tokens += int64(rows[i].Tokens(chunk))
		out.Hit += int64(t.Add(&rows[i]))
	}
	out.Blocks = len(t.sizes)
	return out
}
