package metrics

import (
	"time"

	"spate/internal/call"
)

// Sender is what the records say of one of several processes that sent the load of a run.
type Sender struct {
	Tally       call.Tally `json:"tally"`               // of its measured requests
	Lost        int        `json:"lost"`                // of those, due from it when it was gone
	DispatchLag Dist       `json:"dispatch_lag_ms"`     // due to dispatched, as of the whole run
	SendLag     Dist       `json:"slot_to_send_lag_ms"` // slot to first byte written, likewise
	Late10ms    int        `json:"late_10ms"`           // let go more than 10 ms after they were due
	TTFT        Dist       `json:"ttft_ms"`             // of its successes
	Output      int        `json:"output_tokens"`       // of its successes
}

// Senders computes what the records say of each process that sent some of them, by its name, in one pass.
func Senders(set call.Set, tokenizer bool) map[string]*Sender {
	type lags struct {
		Sender
		dispatch, send, ttft []float64
	}
	all := map[string]*lags{}
	for r := range set.All() {
		if r.Phase != call.Measure {
			continue
		}
		s := all[r.Worker]
		if s == nil {
			s = &lags{}
			all[r.Worker] = s
		}
		s.Tally.Add(r)
		if r.Retried {
			continue
		}
		s.Tally.Due++
		if r.Fault == call.FaultLost {
			s.Lost++
		}
		s.dispatch, s.send = appendTime(s.dispatch, r, DispatchLag), appendTime(s.send, r, SlotToSend)
		if lag, ok := DispatchLag(r); ok && lag > 10*time.Millisecond {
			s.Late10ms++
		}
		if r.Outcome == call.OK {
			s.ttft = appendTime(s.ttft, r, TTFT)
			s.Output += OutputTokens(r, tokenizer)
		}
	}
	b, out := builder{[]float64{50, 99}}, map[string]*Sender{}
	for name, s := range all {
		s.DispatchLag, s.SendLag, s.TTFT = b.dist(s.dispatch, milli), b.dist(s.send, milli), b.dist(s.ttft, milli)
		out[name] = &s.Sender
	}
	return out
}
