package sim

// windowSize is the number of prefix-cache queries whose hit rate vLLM logs.
const windowSize = 1000

// window keeps the prefix-cache figures of recent steps, as vLLM does for its log line. The newer
// engine keeps steps that queried the cache until they hold a thousand queries. The older one also
// kept steps that did not, and dropped one step at most for each new one.
type window struct {
	older         bool
	entries       []tally
	head          int
	now           tally // of the step being planned
	queries       int64
	tokens, found int64
}

// tally is what one step asked of the cache, or a row of steps that asked nothing.
type tally struct {
	queries, idle int32
	tokens, found int64
}

func (w *window) add(tokens, found int) {
	w.now.queries++
	w.now.tokens += int64(tokens)
	w.now.found += int64(found)
}

// step closes the books of n steps, the last n-1 of which asked nothing.
func (w *window) step(n int) {
	if w.now.queries > 0 {
		w.push(w.now)
		w.now = tally{}
		n--
	}
	if w.older {
		for range n {
			w.push(tally{idle: 1})
		}
	}
}

func (w *window) push(t tally) {
	if last := len(w.entries) - 1; t.idle > 0 && last >= w.head && w.entries[last].idle > 0 {
		w.entries[last].idle++
	} else {
		w.entries = append(w.entries, t)
	}
	w.count(t, 1)
	for w.queries > windowSize && len(w.entries)-w.head > 1 {
		w.pop()
		if w.older {
			break
		}
	}
}

// pop drops the oldest step.
func (w *window) pop() {
	t := &w.entries[w.head]
	if t.idle > 1 {
		t.idle--
		return
	}
	w.count(*t, -1)
	w.head++
	if w.head > 1024 && w.head > len(w.entries)/2 {
		n := copy(w.entries, w.entries[w.head:])
		w.entries, w.head = w.entries[:n], 0
	}
}

func (w *window) count(t tally, sign int64) {
	w.queries += sign * int64(t.queries)
	w.tokens += sign * t.tokens
	w.found += sign * t.found
}

func (w *window) rate() float64 {
	if tokens := w.tokens + w.now.tokens; tokens > 0 {
		return float64(w.found+w.now.found) / float64(tokens)
	}
	return 0
}
