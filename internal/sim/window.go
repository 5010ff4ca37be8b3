package sim

// windowSize is the number of prefix-cache queries whose hit rate vLLM logs.
const windowSize = 1000

// window keeps the prefix-cache figures of the most recent queries.
type window struct {
	ring          []query
	next          int
	tokens, found int64
}

type query struct{ tokens, found int32 }

func (w *window) add(tokens, found int) {
	q := query{int32(tokens), int32(found)}
	if len(w.ring) < windowSize {
		w.ring = append(w.ring, q)
	} else {
		old := w.ring[w.next]
		w.tokens -= int64(old.tokens)
		w.found -= int64(old.found)
		w.ring[w.next] = q
		w.next = (w.next + 1) % windowSize
	}
	w.tokens += int64(tokens)
	w.found += int64(found)
}

func (w *window) rate() float64 {
	if w.tokens == 0 {
		return 0
	}
	return float64(w.found) / float64(w.tokens)
}
