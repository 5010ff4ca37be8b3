package curve

import (
	"cmp"
	"slices"
	"time"

	"spate/internal/call"
	"spate/internal/judge/metrics"
)

// Bar is one request on the run's time axis, which starts with the measured part.
type Bar struct {
	ID      int
	Due     time.Duration // when the schedule wanted it
	Sent    time.Duration
	First   time.Duration // first message; End when none came
	End     time.Duration
	In, Out int // tokens
	Outcome call.Outcome
}

// Waterfall is the bars in the order requests were sent.
type Waterfall struct {
	Bars  []Bar
	Total int // requests; more than there are bars when not all are drawn
}

// Requests draws at most this many requests. Where there are more, neighbours are drawn as one: the one that
// failed or, where none did, the one that took longest, so that what stands out is never lost.
func Requests(recs []call.Record, run metrics.Run, most int) Waterfall {
	all := measured(recs)
	w := Waterfall{Total: len(all)}
	if most <= 0 {
		return w
	}
	chunk := (len(all) + most - 1) / most
	for len(all) > 0 {
		n := min(max(1, chunk), len(all))
		w.Bars = append(w.Bars, bar(slices.MaxFunc(all[:n], notable), run))
		all = all[n:]
	}
	return w
}

// notable orders requests by how much they deserve to be seen.
func notable(a, b *call.Record) int {
	failed := func(r *call.Record) int {
		if r.Outcome == call.OK {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(failed(a), failed(b)), cmp.Compare(a.End-start(a), b.End-start(b)))
}

// bar puts the stamps into order: one that was never taken is where the request stood by then.
func bar(r *call.Record, run metrics.Run) Bar {
	b := Bar{
		ID: r.ID, Due: r.Due - run.Start, Sent: start(r) - run.Start, Outcome: r.Outcome,
		In: metrics.InputTokens(r), Out: metrics.OutputTokens(r, run.Tokenizer),
	}
	if r.Due == call.Unset || b.Due > b.Sent {
		b.Due = b.Sent
	}
	b.End = max(b.Sent, r.End-run.Start)
	b.First = b.End
	if len(r.Chunks) > 0 {
		b.First = min(b.End, max(b.Sent, r.Chunks[0].At-run.Start))
	}
	return b
}
