package metrics

import (
	"testing"
	"time"

	"spate/internal/call"
)

// pooled is a request of some inputs that took 20 ms to its headers and 50 ms to its end.
func pooled(id, inputs, tokens int) call.Record {
	r := call.NewRecord(&call.Request{ID: id, Phase: call.Measure})
	at := time.Duration(id) * 100 * time.Millisecond
	r.Due, r.Dispatched, r.Started, r.Sent = at, at, at, at
	r.FirstByte, r.Headers = at+19*time.Millisecond, at+20*time.Millisecond
	r.LastEvent, r.End = at+50*time.Millisecond, at+50*time.Millisecond
	r.Inputs, r.In = inputs, call.Count{N: tokens, From: call.FromServer}
	r.Outcome, r.Status = call.OK, 200
	return r
}

func TestPooling(t *testing.T) {
	failed := pooled(3, 5, 0)
	failed.Outcome, failed.Fault, failed.Status = call.Failed, call.FaultStatus, 500
	recs := []call.Record{pooled(0, 1, 10), pooled(1, 4, 40), pooled(2, 1, 10), failed}
	for _, tokenizer := range []bool{false, true} {
		s := Summarize(recs, Run{End: 2 * time.Second, EndRule: Headers, Tokenizer: tokenizer})
		if s.Pooling == nil || s.Pooling.Inputs != 6 || s.Pooling.Throughput != 3 {
			t.Errorf("pooling %+v, want 6 inputs at 3/s", s.Pooling)
		}
		if s.TotalInput != 60 || s.TotalOutput != 0 || s.TotalTokenThroughput != 30 || s.OutputThroughput != 0 || s.Completed != 3 || s.Failed != 1 {
			t.Errorf("%d in, %d out, %v tokens/s, %d ok, %d failed", s.TotalInput, s.TotalOutput, s.TotalTokenThroughput, s.Completed, s.Failed)
		}
		for name, d := range map[string]Dist{"e2el": s.E2EL, "ttft": s.TTFT, "ttft due": s.Clocks.TTFTDue} {
			if d.N != 3 || d.Min != 20 || d.Max != 20 {
				t.Errorf("%s: %d values from %v to %v ms, want the 20 ms to the headers", name, d.N, d.Min, d.Max)
			}
		}
		for name, d := range map[string]Dist{"tpot": s.TPOT, "itl": s.ITL, "speed": s.Speed.User, "output": s.Lengths.Output, "first token": s.Clocks.FirstToken} {
			if d.N != 0 {
				t.Errorf("%s has %d values where nothing is generated", name, d.N)
			}
		}
		if s.Lengths.OutMatch.N != 0 || len(s.Lengths.Finish) != 0 || len(s.Lengths.OutputFrom) != 0 || len(s.Streaming.TokenITLSource) != 0 || s.MaxOutputPerS != 0 {
			t.Errorf("the summary tells of output: %+v", s.Lengths)
		}
	}
	if s := Summarize(recs, Run{End: time.Second}); s.Pooling != nil {
		t.Error("a run that generates has inputs to count")
	}
}

func TestRTFx(t *testing.T) {
	recs := []call.Record{pooled(0, 0, 10), pooled(1, 0, 10), pooled(2, 0, 10)}
	for i := range recs {
		recs[i].Audio = 10 * time.Second
	}
	recs[2].Outcome, recs[2].Fault = call.Failed, call.FaultCut
	if s := Summarize(recs, Run{End: 4 * time.Second}); s.RTFx != 5 {
		t.Errorf("rtfx %v, want 20 s of speech in 4 s", s.RTFx)
	}
}
