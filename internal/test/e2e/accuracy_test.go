package e2e

import (
	"math"
	"testing"
	"time"

	"spate/internal/call"
	"spate/internal/cli"
	"spate/internal/result"
	"spate/internal/sim/serve"
)

// TestScriptedTimetable gives every request another known timetable and compares what is reported
// with what the server knows to have written, without asking how fast this machine is.
func TestScriptedTimetable(t *testing.T) {
	t.Parallel()
	const n, tokens = 8, 9
	for _, backend := range []string{"openai", "openai-chat"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			script := &serve.Script{}
			for i := range n {
				ttft := time.Duration(10+15*i) * time.Millisecond
				gaps := []time.Duration{time.Duration(i) * time.Millisecond, 4 * time.Millisecond, time.Duration(9-i) * time.Millisecond}
				script.Rules = append(script.Rules, serve.Rule{Probability: 1, ID: "acc-" + string(rune('0'+i)), Timing: &serve.Timing{TTFT: &ttft, ITL: gaps}})
			}
			srv := sim(t, serve.Config{Truth: true, Script: script})
			e := benchCmd(t, "--base-url", srv.URL(), "--backend", backend, "--num-prompts", "8", "--request-id-prefix", "acc-",
				"--random-input-len", "16", "--random-output-len", "9", "--percentile-metrics", "ttft,tpot,itl,e2el").want(cli.ExitDone)
			run, recs := e.balanced(), e.measured()
			if len(recs) != n {
				t.Fatalf("%d records", len(recs))
			}
			sums := clockLaws(t, srv, recs, backend == "openai-chat", tokens)
			meansMatch(t, run, sums)
		})
	}
}

// sums are means of what the records say, computed here from their stamps alone, in milliseconds.
type sums struct{ ttft, tpot, itl, e2el, trueTTFT, trueE2EL float64 }

// clockLaws compares stamps with the server's true times. Both clocks are one clock with an unknown
// offset between their zeros: a request is read after it was sent and an event seen after it was
// written, so no request may lie further ahead than any event lies behind.
func clockLaws(t *testing.T, srv *serve.Server, recs []call.Record, chat bool, tokens int) (s sums) {
	t.Helper()
	ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
	early, late := time.Duration(math.MinInt64), time.Duration(math.MaxInt64)
	gaps := 0
	for i := range recs {
		r := &recs[i]
		truth := srv.Truth().Find(r.Name)
		if truth == nil {
			t.Fatalf("the server never saw %s", r.Name)
		}
		var wrote []int64 // events that carry choices, which is what vLLM's client times
		var usage int64
		for _, ev := range truth.Events {
			switch ev.Kind {
			case serve.EventToken, serve.EventRole:
				wrote = append(wrote, ev.At)
			case serve.EventUsage:
				usage = ev.At
			}
		}
		roles := 0
		if chat {
			roles = 1
		}
		if len(wrote) != len(r.Chunks) || len(wrote) != tokens+roles || truth.Tokens != r.Out.N {
			t.Fatalf("%s: %d events written, %d chunks seen; %d tokens written, %d counted", r.Name, len(wrote), len(r.Chunks), truth.Tokens, r.Out.N)
		}
		early = max(early, r.Sent-time.Duration(truth.Arrived))
		for k, c := range r.Chunks {
			late = min(late, c.At-time.Duration(wrote[k]))
			if k > 0 && c.At < r.Chunks[k-1].At {
				t.Errorf("%s: chunk %d is seen before the one ahead of it", r.Name, k)
			}
		}
		ttft, last, end := r.Chunks[0].At-r.Sent, r.Chunks[len(r.Chunks)-1].At, wrote[len(wrote)-1]
		if chat {
			last, end = r.LastEvent, usage
		}
		e2el := last - r.Sent
		trueTTFT, trueE2EL := time.Duration(wrote[0]-truth.Arrived), time.Duration(end-truth.Arrived)
		if ttft < trueTTFT || e2el < trueE2EL {
			t.Errorf("%s: TTFT %v reported, %v true; E2EL %v reported, %v true: an answer cannot come before it is written", r.Name, ttft, trueTTFT, e2el, trueE2EL)
		}
		if first := r.FirstToken - r.Sent; first < time.Duration(10+15*r.ID)*time.Millisecond {
			t.Errorf("%s: first token after %v, before its timetable", r.Name, first)
		}
		s.ttft += ms(ttft) / float64(len(recs))
		s.e2el += ms(e2el) / float64(len(recs))
		s.tpot += ms(e2el-ttft) / float64(tokens-1) / float64(len(recs))
		s.itl += ms(r.Chunks[len(r.Chunks)-1].At - r.Chunks[0].At)
		gaps += len(r.Chunks) - 1
		s.trueTTFT += ms(trueTTFT) / float64(len(recs))
		s.trueE2EL += ms(trueE2EL) / float64(len(recs))
		stampOrder(t, r)
	}
	s.itl /= float64(gaps)
	if early > late {
		t.Errorf("a request was sent %v after it had been read, or an event seen before it was written", early-late)
	}
	return s
}

// stampOrder checks the order every good request's stamps have.
func stampOrder(t *testing.T, r *call.Record) {
	t.Helper()
	order := []time.Duration{r.Due, r.Dispatched, r.Started, r.Sent, r.FirstByte, r.Headers, r.Chunks[0].At, r.FirstToken, r.LastToken, r.LastEvent, r.End}
	for i := 1; i < len(order); i++ {
		if order[i] < order[i-1] {
			t.Errorf("%s: stamp %d (%v) before stamp %d (%v)", r.Name, i, order[i], i-1, order[i-1])
		}
	}
}

// meansMatch compares the summary with means computed by hand.
func meansMatch(t *testing.T, run *result.Run, s sums) {
	t.Helper()
	sm := &run.Summary
	for _, m := range []struct {
		name      string
		got, want float64
	}{{"TTFT", sm.TTFT.Mean, s.ttft}, {"TPOT", sm.TPOT.Mean, s.tpot}, {"ITL", sm.ITL.Mean, s.itl}, {"E2EL", sm.E2EL.Mean, s.e2el}} {
		if math.Abs(m.got-m.want) > 1e-6*m.want {
			t.Errorf("mean %s is %.9f ms, by hand %.9f", m.name, m.got, m.want)
		}
	}
	if sm.TTFT.Mean < s.trueTTFT || sm.E2EL.Mean < s.trueE2EL {
		t.Errorf("mean TTFT %v (true %v), mean E2EL %v (true %v)", sm.TTFT.Mean, s.trueTTFT, sm.E2EL.Mean, s.trueE2EL)
	}
}
