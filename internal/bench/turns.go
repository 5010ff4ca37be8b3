package bench

import (
	"fmt"
	"time"

	"spate/internal/call"
	"spate/internal/stats"
)

// noteTurns says how each turn of conversations went: later ones carry longer prompts, most of which a prefix
// cache has.
func (s *session) noteTurns(recs []call.Record) {
	const shown = 8
	if s.tenants != nil {
		for i, t := range s.tenants {
			t.noteTurns(s.run.Tenants[i].Of(recs))
		}
		return
	}
	var turns [][]*call.Record
	for i := range recs {
		r := &recs[i]
		if r.Phase != call.Measure || r.Session == "" || r.Retried {
			continue
		}
		for len(turns) <= r.Turn {
			turns = append(turns, nil)
		}
		turns[r.Turn] = append(turns[r.Turn], r)
	}
	for n, list := range turns {
		if n == shown {
			s.note("turns after the %dth are in the records", shown)
			return
		}
		if len(list) > 0 {
			s.note("%s", turnNote(n, list))
		}
	}
}

func turnNote(n int, list []*call.Record) string {
	var ttft, in, cached []float64
	failed := 0
	for _, r := range list {
		if r.Outcome != call.OK {
			failed++
			continue
		}
		if r.FirstToken != call.Unset {
			ttft = append(ttft, float64(r.FirstToken-r.Sent)/float64(time.Millisecond))
		}
		in = append(in, float64(r.In.N))
		if r.Cached.From != call.FromNone && r.In.N > 0 {
			cached = append(cached, float64(r.Cached.N))
		}
	}
	text := fmt.Sprintf("turn %d: %d requests", n+1, len(list))
	if failed > 0 {
		text += fmt.Sprintf(", %d failed", failed)
	}
	if len(ttft) > 0 {
		text += fmt.Sprintf(", mean prompt %.0f tokens, TTFT mean %.2f ms, p50 %.2f, p99 %.2f", mean(in), mean(ttft), stats.Percentile(ttft, 50), stats.Percentile(ttft, 99))
	}
	if len(cached) > 0 {
		text += fmt.Sprintf(", %.1f%% of the prompt from the cache", 100*mean(cached)/mean(in))
	}
	return text
}

func mean(vs []float64) float64 {
	sum := 0.0
	for _, v := range vs {
		sum += v
	}
	return sum / float64(max(1, len(vs)))
}
