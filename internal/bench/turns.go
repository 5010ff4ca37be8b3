package bench

import (
	"fmt"

	"spate/internal/call"
	"spate/internal/judge/stats"
)

// noteTurns says how each turn of conversations went: later ones carry longer prompts, most of which a prefix
// cache has.
func (t *tenant) noteTurns(all call.Set) {
	const shown = 8
	turns, more := make([]turn, shown), false
	for r := range t.records(all).All() {
		if r.Phase != call.Measure || r.Session == "" || r.Retried {
			continue
		}
		if r.Turn >= shown {
			more = true
			continue
		}
		turns[r.Turn].add(r)
	}
	for n := range turns {
		if turns[n].requests > 0 {
			t.note("%s", turns[n].note(n))
		}
	}
	if more {
		t.note("turns after the %dth are in the records", shown)
	}
}

// turn is what the requests of one turn came to.
type turn struct {
	requests, failed int
	ttft, in, cached []float64
}

func (t *turn) add(r *call.Record) {
	t.requests++
	if r.Outcome != call.OK {
		t.failed++
		return
	}
	if r.FirstToken != call.Unset {
		t.ttft = append(t.ttft, call.Millis(r.FirstToken-r.Sent))
	}
	t.in = append(t.in, float64(r.In.N))
	if r.Cached.From != call.FromNone && r.In.N > 0 {
		t.cached = append(t.cached, float64(r.Cached.N))
	}
}

func (t *turn) note(n int) string {
	text := fmt.Sprintf("turn %d: %d requests", n+1, t.requests)
	if t.failed > 0 {
		text += fmt.Sprintf(", %d failed", t.failed)
	}
	if len(t.ttft) > 0 {
		text += fmt.Sprintf(", mean prompt %.0f tokens, TTFT mean %.2f ms, p50 %.2f, p99 %.2f", stats.Mean(t.in), stats.Mean(t.ttft), stats.Percentile(t.ttft, 50), stats.Percentile(t.ttft, 99))
	}
	if len(t.cached) > 0 {
		text += fmt.Sprintf(", %.1f%% of the prompt from the cache", 100*stats.Mean(t.cached)/stats.Mean(t.in))
	}
	return text
}
