// Package trace reads, writes and looks at traces of real traffic: when requests came, how long they and
// their answers were, and which blocks of tokens their prompts are made of. It comes before workload,
// which turns rows into requests with the same shared beginnings, and serves `spate dataset`.
//
// A prompt is a list of block ids: equal ids at the same place, after equal beginnings, are equal tokens.
// Read this file first, then tree.go, which says what two prompts share.
package trace

import (
	"fmt"
	"math"
	"time"
)

// Row is one request of a trace.
type Row struct {
	At      time.Duration // since the trace's begin, or whatever its timestamps count from
	In, Out int           // tokens of prompt and answer
	Blocks  []uint64      // ids of the prompt's blocks; nil when the trace has none
}

// Format says how a trace is written down.
type Format struct {
	Labels Labels
	Chunk  int     // tokens of a block; the last one of a prompt has what is left
	Unit   float64 // seconds to one of its timestamps
}

// Labels are the names of the columns.
type Labels struct{ Time, In, Out, Blocks string }

// Timed is the format vLLM's timed_trace takes unless told otherwise: Alibaba's traces have it.
func Timed() Format {
	return Format{Labels{"timestamp", "input_length", "output_length", "hash_ids"}, 16, 1}
}

// Mooncake is the format of the traces published with Mooncake: milliseconds, blocks of 512.
func Mooncake() Format {
	f := Timed()
	f.Chunk, f.Unit = 512, 1e-3
	return f
}

// Check finds what is wrong with a format.
func (f *Format) Check() error {
	switch {
	case f.Chunk < 1:
		return fmt.Errorf("a block of %d tokens: at least 1 is needed", f.Chunk)
	case !(f.Unit > 0) || math.IsInf(f.Unit, 1):
		return fmt.Errorf("%v seconds to a unit of time: a number above 0 is needed", f.Unit)
	case f.Labels.In == "" || f.Labels.Out == "":
		return fmt.Errorf("the columns of input and output length have no name")
	}
	return nil
}

// Replay makes times fit for sending: the earliest becomes 0, speed divides what lies between requests (2 is
// twice as fast), and no gap stays longer than longest, where that is above 0. Rows keep their order; a row
// that came before its predecessor goes with it.
func Replay(rows []Row, speed float64, longest time.Duration) ([]time.Duration, error) {
	if !(speed > 0) || math.IsInf(speed, 1) {
		return nil, fmt.Errorf("a trace cannot be sent at %v times its speed: a number above 0 is needed", speed)
	}
	times := make([]time.Duration, len(rows))
	var at, before time.Duration
	for i, r := range rows {
		if i > 0 && r.At > before {
			gap := float64(r.At-before) / speed
			if longest > 0 {
				gap = min(gap, float64(longest))
			}
			if gap > math.MaxInt64-float64(at) {
				return nil, fmt.Errorf("the time of row %d is too large", i+1)
			}
			at += time.Duration(math.RoundToEven(gap))
		}
		if i == 0 || r.At > before {
			before = r.At
		}
		times[i] = at
	}
	return times, nil
}

// Sizes are the tokens of each block of a prompt: chunk for all but the last. A prompt with too few blocks is
// shorter than its length says, as in vLLM; further ones are left out.
func (r *Row) Sizes(chunk int) []int {
	var out []int
	left := r.In
	for range r.Blocks {
		if left <= 0 {
			break
		}
		out = append(out, min(chunk, left))
		left -= chunk
	}
	return out
}

// Tokens is how long the prompt is that the blocks make.
func (r *Row) Tokens(chunk int) int { return min(r.In, len(r.Blocks)*chunk) }

// Named gives rows without blocks their own unique blocks, so that their prompts share nothing.
func Named(rows []Row, chunk int) {
	for i := range rows {
		if rows[i].Blocks != nil {
			continue
		}
		n := (rows[i].In + chunk - 1) / chunk
		rows[i].Blocks = make([]uint64, n)
		for k := range rows[i].Blocks {
			rows[i].Blocks[k] = 1<<63 | uint64(i)<<24 | uint64(k)
		}
	}
}
