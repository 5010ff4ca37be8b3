package call

import (
	"fmt"
	"math"
	"time"
)

// What a server or a file says is bounded here before anything is computed from it. Check refuses what
// cannot be; Doubt sets aside counts that the answer itself contradicts.

// MaxTime bounds every stamp and every time within a record: no run lasts longer. Sums and differences
// of times within it stay far from the ends of an int64.
const MaxTime = 366 * 24 * time.Hour

// MaxCount bounds every count of tokens.
const MaxCount = math.MaxInt32

// Check says which value of a record is impossible.
func (r *Record) Check() error {
	for _, s := range []struct {
		name string
		at   time.Duration
	}{
		{"due_ns", r.Due},
		{"dispatched_ns", r.Dispatched},
		{"started_ns", r.Started},
		{"sent_ns", r.Sent},
		{"first_byte_ns", r.FirstByte},
		{"headers_ns", r.Headers},
		{"first_token_ns", r.FirstToken},
		{"first_text_ns", r.FirstText},
		{"last_token_ns", r.LastToken},
		{"last_event_ns", r.LastEvent},
		{"end_ns", r.End},
	} {
		if s.at != Unset && (s.at < 0 || s.at > MaxTime) {
			return fmt.Errorf("%s is %d: a time of a run is from 0 to %d", s.name, s.at, int64(MaxTime))
		}
	}
	for i := range r.Chunks {
		if c := &r.Chunks[i]; c.At < 0 || c.At > MaxTime || c.Tokens < 0 {
			return fmt.Errorf("chunk %d came at %d ns with %d tokens: want a time from 0 to %d and no fewer than 0 tokens", i, c.At, c.Tokens, int64(MaxTime))
		}
	}
	if err := r.checkSpans(); err != nil {
		return err
	}
	return r.checkCounts()
}

// checkSpans looks at the lengths of time.
func (r *Record) checkSpans() error {
	var s ServerTimes
	if r.Server != nil {
		s = *r.Server
	}
	for _, d := range []struct {
		name string
		span time.Duration
	}{
		{"dial_ns", r.Dial},
		{"handshake_ns", r.Handshake},
		{"audio_ns", r.Audio},
		{"retry_wait_ns", r.RetryWait},
		{"server.queue_ns", s.Queue},
		{"server.first_token_ns", s.FirstToken},
		{"server.generation_ns", s.Generation},
		{"server.mean_itl_ns", s.MeanITL},
	} {
		if d.span < 0 || d.span > MaxTime {
			return fmt.Errorf("%s is %d: want a time from 0 to %d", d.name, d.span, int64(MaxTime))
		}
	}
	return nil
}

func (r *Record) checkCounts() error {
	for _, c := range []struct {
		name string
		n    int
	}{
		{"id", r.ID},
		{"attempt", r.Attempt},
		{"turn", r.Turn},
		{"target", r.Target},
		{"asked.n", r.Asked.N},
		{"asked_out", r.AskedOut},
		{"inputs", r.Inputs},
		{"in.n", r.In.N},
		{"out.n", r.Out.N},
		{"cached.n", r.Cached.N},
		{"reason.n", r.Reason.N},
		{"tool_out.n", r.ToolOut.N},
		{"claimed", r.Claimed},
	} {
		if c.n < 0 || c.n > MaxCount {
			return fmt.Errorf("%s is %d: want a count from 0 to %d", c.name, c.n, MaxCount)
		}
	}
	if r.BytesIn < 0 {
		return fmt.Errorf("bytes_in is %d: want no fewer than 0", r.BytesIn)
	}
	return nil
}

// Doubt sets aside an output count that the answer contradicts, and keeps it as Claimed. No token takes
// less than a byte of an answer, unless it is one the server thought and did not send; those are among
// the tokens asked for. A count above both the tokens asked for and the bytes that came is therefore
// false, and so is what the chunks say when their sum is. Where the bytes are not known, nothing is doubted.
func (r *Record) Doubt() {
	most := max(int64(r.AskedOut), r.BytesIn)
	if r.BytesIn == 0 {
		return
	}
	told := int64(0)
	for i := range r.Chunks {
		told += int64(r.Chunks[i].Tokens)
	}
	if told > most {
		r.claim(told)
		for i := range r.Chunks {
			r.Chunks[i].Tokens = 0
		}
	}
	if r.Out.From == FromServer && int64(r.Out.N) > most {
		r.claim(int64(r.Out.N))
		r.Out = Count{}
	}
	if r.Reason.From == FromServer && r.Claimed > 0 && int64(r.Reason.N) > most {
		r.Reason = Count{}
	}
}

func (r *Record) claim(n int64) { r.Claimed = max(r.Claimed, int(min(n, MaxCount))) }
