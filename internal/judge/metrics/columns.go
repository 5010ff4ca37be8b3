package metrics

import (
	"time"

	"spate/internal/call"
)

// column is one number of each request that has it, and what is made of all of them.
type column struct {
	all bool // of everything that counts, not of the successes alone
	of  func(*call.Record) (float64, bool)
	use func(xs []float64) // in dispatch order; use may reorder them
	xs  []float64
}

// columns are those still to be gathered. Going through a large set takes long and a column of ten million requests
// is 80 MB, so as many are gathered at a time as there is room for.
type columns []*column

func (c *columns) add(one column) { *c = append(*c, &one) }

func (c *columns) numbers(of func(*call.Record) (float64, bool), use func([]float64)) {
	c.add(column{of: of, use: use})
}

func (c *columns) times(of func(*call.Record) (time.Duration, bool), use func([]float64)) {
	c.add(column{of: timed(of), use: use})
}

// timed is a duration as a number of seconds.
func timed(f func(*call.Record) (time.Duration, bool)) func(*call.Record) (float64, bool) {
	return func(r *call.Record) (float64, bool) { return inSeconds(f(r)) }
}

// gather fills the columns and hands each to its use.
func (c *columns) gather(z *summarizer) {
	n := max(1, len(z.order))
	for len(*c) > 0 {
		some := (*c)[:min(len(*c), max(1, z.room/n))]
		*c = (*c)[len(some):]
		for r := range z.recs {
			for _, one := range some {
				if one.all || r.Outcome == call.OK {
					one.take(r, n)
				}
			}
		}
		for _, one := range some {
			one.use(one.xs)
			one.xs = nil
		}
	}
}

// take adds the number of a request. Room is made for all of them with the first: most columns have either every
// request or none.
func (c *column) take(r *call.Record, n int) {
	v, ok := c.of(r)
	if !ok {
		return
	}
	if c.xs == nil {
		c.xs = make([]float64, 0, n)
	}
	c.xs = append(c.xs, v)
}
