package client

import (
	"sync/atomic"
	"time"

	"spate/internal/call"
)

// Pulse counts answers while they arrive, for the live view of the run; figures are computed from records only.
type Pulse struct {
	// Tokens are those of measured answers that are still coming: as many as their messages say they
	// carry, else one a message.
	Tokens atomic.Int64
	// First, where set, is told the time to a measured answer's first message. It is called by who reads,
	// and must be quick.
	First func(ttft time.Duration)
}

// tell counts a message that was just added to the chunks.
func (x *exchange) tell(tokens int) {
	if x.pulse == nil || x.rec.Phase != call.Measure {
		return
	}
	if len(x.chunks) == 1 && x.pulse.First != nil && x.rec.Sent >= 0 {
		x.pulse.First(x.at - x.rec.Sent)
	}
	if x.chunks[len(x.chunks)-1].Kind != 0 {
		tokens = max(tokens, 1)
	}
	x.told += int64(tokens)
	x.pulse.Tokens.Add(int64(tokens))
}

// untell takes back what was told of an answer that has come to its end: its record says it better.
func (x *exchange) untell() {
	if x.told > 0 {
		x.pulse.Tokens.Add(-x.told)
		x.told = 0
	}
}
