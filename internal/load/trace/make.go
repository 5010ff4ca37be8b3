package trace

import (
	"errors"
	"fmt"
	"time"
)

// Draw gives a number from 0 to below n.
type Draw func(n int) int

// Like makes n requests that are like those of a trace: lengths and gaps drawn from its rows, blocks that
// several of its prompts begin with kept, all others new.
func Like(rows []Row, n, chunk int, which, pause Draw) ([]Row, error) {
	if len(rows) == 0 || n < 1 {
		return nil, errors.New("a trace is made from at least one row, and has at least one")
	}
	sharedTo := sharedBlocks(rows, chunk)
	gaps := []time.Duration{0}
	for i := 1; i < len(rows); i++ {
		gaps = append(gaps, max(0, rows[i].At-rows[i-1].At))
	}
	var at time.Duration
	out := make([]Row, n)
	for i := range out {
		if i > 0 && len(gaps) > 1 {
			at += gaps[1+pause(len(gaps)-1)]
		}
		k := which(len(rows))
		out[i] = Row{At: at, In: rows[k].In, Out: rows[k].Out}
		for b, id := range rows[k].Blocks {
			if b >= sharedTo[k] {
				id = fresh(i, b)
			}
			out[i].Blocks = append(out[i].Blocks, id)
		}
	}
	return out, nil
}

// fresh is a block id nobody else has.
func fresh(row, block int) uint64 { return 1<<52 + uint64(row)<<20 + uint64(block) }

// sharedBlocks says how many of each row's blocks, from the front, another row begins with too.
func sharedBlocks(rows []Row, chunk int) []int {
	t := NewTree(chunk, 1)
	seen := map[edge]int{}
	walk := func(r *Row, each func(i int, at edge)) {
		parent := int32(-1)
		for i := range r.Sizes(chunk) {
			at := edge{parent, r.Blocks[i]}
			each(i, at)
			parent = t.nodes[at]
		}
	}
	for i := range rows {
		t.Add(&rows[i])
		walk(&rows[i], func(_ int, at edge) { seen[at]++ })
	}
	out := make([]int, len(rows))
	for i := range rows {
		walk(&rows[i], func(k int, at edge) {
			if seen[at] > 1 && out[i] == k {
				out[i] = k + 1
			}
		})
	}
	return out
}

// Spec is a trace by its statistics.
type Spec struct {
	Requests int
	Chunk    int
	Length   func(i int) (in, out int)
	Due      func(yield func(time.Duration) bool) // when they come; nil: all at once
	Groups   int                                  // of prompts that begin alike; 0 for none
	Share    float64                              // of a prompt's tokens that its group has, up to whole blocks
	Group    Draw                                 // which of them a request belongs to
}

// Make makes a trace.
func Make(s Spec) ([]Row, error) {
	switch {
	case s.Requests < 1:
		return nil, fmt.Errorf("%d requests: at least 1 is needed", s.Requests)
	case s.Chunk < 1:
		return nil, fmt.Errorf("blocks of %d tokens: at least 1 is needed", s.Chunk)
	case !(s.Share >= 0 && s.Share <= 1):
		return nil, fmt.Errorf("a share of %v is not between 0 and 1", s.Share)
	case s.Groups > 0 && s.Group == nil || s.Share > 0 && s.Groups < 1:
		return nil, errors.New("shared tokens need at least one group of prompts")
	}
	rows := make([]Row, s.Requests)
	i := 0
	if s.Due != nil {
		for t := range s.Due {
			rows[i].At = t
			if i++; i == len(rows) {
				break
			}
		}
		rows = rows[:i]
	}
	for i := range rows {
		r := &rows[i]
		r.In, r.Out = s.Length(i)
		group := 0
		if s.Groups > 0 {
			group = s.Group(s.Groups)
		}
		alike := int(float64(r.In) * s.Share / float64(s.Chunk))
		for b := range (r.In + s.Chunk - 1) / s.Chunk {
			id := fresh(i, b)
			if b < alike {
				id = uint64(group)<<20 + uint64(b)
			}
			r.Blocks = append(r.Blocks, id)
		}
	}
	return rows, nil
}
