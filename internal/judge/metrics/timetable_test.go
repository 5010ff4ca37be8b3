package metrics

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"spate/internal/call"
)

const ms = time.Millisecond

// at makes chunks of visible text of unknown size at the given milliseconds.
func at(times ...int) []call.Chunk {
	cs := make([]call.Chunk, len(times))
	for i, t := range times {
		cs[i] = call.Chunk{At: time.Duration(t) * ms, Kind: call.Visible}
	}
	return cs
}

// stamped makes a measured record with its five first stamps and its end, in milliseconds; -1 is
// Unset.
func stamped(id, due, dispatched, started, sent, end int) call.Record {
	r := call.NewRecord(&call.Request{ID: id, Phase: call.Measure})
	for dst, v := range map[*time.Duration]int{
		&r.Due: due, &r.Dispatched: dispatched, &r.Started: started, &r.Sent: sent, &r.End: end,
	} {
		if v >= 0 {
			*dst = time.Duration(v) * ms
		}
	}
	return r
}

// done completes a record as a success.
func done(r call.Record, lastEvent, in, out int, chunks []call.Chunk) call.Record {
	r.Outcome, r.Status, r.Finish = call.OK, 200, "length"
	r.Chunks = chunks
	r.LastEvent = time.Duration(lastEvent) * ms
	r.In, r.Out = call.Count{N: in, From: call.FromServer}, call.Count{N: out, From: call.FromServer}
	r.Asked, r.AskedOut = call.Count{N: in, From: call.FromTokenizer}, out
	if n := len(chunks); n > 0 {
		r.FirstByte, r.FirstToken = chunks[0].At-5*ms, chunks[0].At
		r.FirstText, r.LastToken = chunks[0].At, chunks[n-1].At
	}
	return r
}

func failed(r call.Record, outcome call.Outcome, fault call.Fault, msg string) call.Record {
	r.Outcome, r.Fault, r.Err = outcome, fault, msg
	return r
}

// timetable is the run all hand-computed values below refer to. Milliseconds; the run is 0..4000.
//
//	id  due   dispatched started sent  chunks (tokens)        last event  end   in  out  asked out
//	0   0     0          0       0     100 200 300 400        410         420   10  4    4
//	1   500   510        600     610   710 910                920         930   20  5    5  (asked in 18)
//	2   1000  1000       1000    1000  1200                   1205        1210  30  1    4
//	3   1500  1500       1500    1500  failed, status 500                 1700
//	4   2000  dropped
//	5   2500  2500       2500    2500  2600, cut off                      4000
//	6   3000  3000       3000    3000  shed with 429, retried             3010
//	6'  3000  3000       3050    3100  3200(3) 3500(3)        3500        3500  40  6    6
//
// besides two warm-up requests and three probes.
func timetable() ([]call.Record, Run) {
	r0 := done(stamped(0, 0, 0, 0, 0, 420), 410, 10, 4, at(100, 200, 300, 400))
	r0.Dial, r0.Handshake, r0.InBand = 5*ms, 7*ms, true
	r0.Server = &call.ServerTimes{Queue: 20 * ms, FirstToken: 50 * ms, Generation: 290 * ms, MeanITL: 97 * ms}
	r0.Cached = call.Count{N: 8, From: call.FromServer}
	r1 := done(stamped(1, 500, 510, 600, 610, 930), 920, 20, 5, at(710, 910))
	r1.Asked.N, r1.Finish, r1.Reused, r1.Dial = 18, "stop", true, 5*ms
	r1.Cached = call.Count{N: 0, From: call.FromServer}
	r1.Reason, r1.ToolOut = call.Count{N: 2}, call.Count{N: 1}
	r2 := done(stamped(2, 1000, 1000, 1000, 1000, 1210), 1205, 30, 1, at(1200))
	r2.AskedOut, r2.Finish, r2.Reused = 4, "stop", true
	r2.Labels = map[string]string{call.RepeatLabel: "0"}
	r3 := failed(stamped(3, 1500, 1500, 1500, 1500, 1700), call.Failed, call.FaultStatus, "status 500: boom")
	r3.Status = 500
	r4 := failed(stamped(4, 2000, -1, -1, -1, -1), call.Dropped, call.FaultLocal, "no body")
	r5 := failed(stamped(5, 2500, 2500, 2500, 2500, 4000), call.Canceled, call.FaultCutoff, "cut off")
	r5.Chunks = at(2600)
	r6 := failed(stamped(6, 3000, 3000, 3000, 3000, 3010), call.Failed, call.FaultShed, "busy")
	r6.Retried, r6.Status, r6.RetryWait = true, 429, 40*ms
	r6b := done(stamped(6, 3000, 3000, 3050, 3100, 3500), 3500, 40, 6, at(3200, 3500))
	r6b.Attempt = 1
	r6b.Chunks[0].Tokens, r6b.Chunks[1].Tokens = 3, 3
	return append(outside(), r6b, r3, r1, r0, r2, r6, r5, r4),
		Run{End: 4 * time.Second, RequestRate: 2, Tokenizer: true, Percentiles: []float64{99, 99.9}}
}

// outside is what must not count: warm-up that ended before the run's start, and probes.
func outside() []call.Record {
	phase := func(r call.Record, p call.Phase) call.Record { r.Phase = p; return r }
	return []call.Record{
		phase(done(stamped(100, -1, -1, -1, 0, 0), 700, 9, 9, at(700)), call.Warmup),
		phase(failed(stamped(101, 0, 0, 0, -1, 0), call.Failed, call.FaultReset, "gone"), call.Warmup),
		phase(done(stamped(102, 0, 0, 0, 100, 110), 110, 9, 1, at(110)), call.Probe),
		phase(done(stamped(103, 0, 0, 0, 200, 230), 230, 9, 1, at(230)), call.Probe),
		phase(failed(stamped(104, 0, 0, 0, 300, 310), call.Failed, call.FaultReset, "gone"), call.Probe),
	}
}

type check struct {
	name      string
	got, want float64
}

func compare(t *testing.T, checks []check) {
	t.Helper()
	for _, c := range checks {
		if math.Abs(c.got-c.want) > 1e-9*math.Max(1, math.Abs(c.want)) {
			t.Errorf("%s = %v, want %v", c.name, c.got, c.want)
		}
	}
}

func TestVLLMByHand(t *testing.T) {
	s := Summarize(timetable())
	compare(t, []check{
		{"duration", s.DurationS, 4},
		{"completed", float64(s.Completed), 4}, // 0 1 2 6'
		{"failed", float64(s.Failed), 1},       // 3
		{"input", float64(s.TotalInput), 100},  // 10+20+30+40
		{"output", float64(s.TotalOutput), 16}, // 4+5+1+6
		{"requests/s", s.RequestThroughput, 1}, // 4/4
		{"output/s", s.OutputThroughput, 4},    // 16/4
		{"total/s", s.TotalTokenThroughput, 29},
		// Seconds since the first send: second 0 has the 4 chunks of 0 and the 2 of 1.
		{"max output/s", s.MaxOutputPerS, 6},
		{"max concurrent", float64(s.MaxConcurrent), 2}, // 0 and 1 both touch second 0
		{"rtfx", s.RTFx, 0},
		// TTFT 100 100 200 100
		{"ttft n", float64(s.TTFT.N), 4},
		{"ttft mean", s.TTFT.Mean, 125},
		{"ttft median", s.TTFT.Median, 100},
		{"ttft std", s.TTFT.Std, math.Sqrt(1875)}, // (3*25^2+75^2)/4
		{"ttft min", s.TTFT.Min, 100},
		{"ttft max", s.TTFT.Max, 200},
		{"ttft p99", s.TTFT.P(99), 197},       // rank 2.97: 100+0.97*100
		{"ttft p99.9", s.TTFT.P(99.9), 199.7}, // rank 2.997
		// TPOT (400-100)/3, (300-100)/4, none for one token, (400-100)/5 = 100 50 60
		{"tpot n", float64(s.TPOT.N), 3},
		{"tpot mean", s.TPOT.Mean, 70},
		{"tpot median", s.TPOT.Median, 60},
		{"tpot p90", s.TPOT.P(90), 92}, // rank 1.8 of 50 60 100
		// ITL 100 100 100 | 200 | 300
		{"itl n", float64(s.ITL.N), 5},
		{"itl mean", s.ITL.Mean, 160},
		{"itl median", s.ITL.Median, 100},
		{"itl p99", s.ITL.P(99), 296}, // rank 3.96
		// E2EL to the last chunk: 400 300 200 400
		{"e2el mean", s.E2EL.Mean, 325},
		{"e2el median", s.E2EL.Median, 350},
	})
	if s.RequestGoodput != nil || s.Goodput != nil {
		t.Error("goodput without objectives")
	}
	if s.TTFT.CI95 != nil {
		t.Error("an interval from 4 requests")
	}
}

func TestLastEventEndsChat(t *testing.T) {
	recs, run := timetable()
	run.EndRule = LastEvent
	s := Summarize(recs, run)
	compare(t, []check{
		{"e2el mean", s.E2EL.Mean, (410 + 310 + 205 + 400) / 4.0},
		{"tpot mean", s.TPOT.Mean, (310/3.0 + 210/4.0 + 300/5.0) / 3},
		{"ttft mean", s.TTFT.Mean, 125},
	})
}

func TestClocksByHand(t *testing.T) {
	c := Summarize(timetable()).Clocks
	compare(t, []check{
		{"ttft due mean", c.TTFTDue.Mean, (100 + 210 + 200 + 200) / 4.0},
		{"e2el due mean", c.E2ELDue.Mean, (400 + 410 + 200 + 500) / 4.0},
		{"first byte mean", c.FirstByte.Mean, 120},
		{"first token mean", c.FirstToken.Mean, 125},
		{"first text n", float64(c.FirstText.N), 4},
		{"last token mean", c.E2ELToken.Mean, 325},
		{"close mean", c.E2ELClose.Mean, (420 + 320 + 210 + 400) / 4.0},
		{"queue n", float64(c.Queue.N), 6}, // all but the dropped one
		{"queue max", c.Queue.Max, 90},
		{"queue mean", c.Queue.Mean, (90 + 50) / 6.0},
		{"lag max", c.DispatchLag.Max, 10},
		{"lag mean", c.DispatchLag.Mean, 10 / 6.0},
		{"slot to send max", c.SendLag.Max, 50},
		{"slot to send mean", c.SendLag.Mean, (10 + 50) / 6.0},
	})
}

func TestStreamingByHand(t *testing.T) {
	s := Summarize(timetable())
	st := s.Streaming
	compare(t, []check{
		// 0: one token per chunk, gaps of 100. 1: 5 tokens over 2 chunks are 3+2, gap 200 = 2x100.
		// 2: a single token. 6': 3+3 counted, gap 300 = 3x100.
		{"token itl n", float64(st.TokenITL.N), 8},
		{"token itl mean", st.TokenITL.Mean, 100},
		{"token itl max", st.TokenITL.Max, 100},
		{"no role n", float64(st.ITLNoRole.N), 5},
		{"chunks", float64(st.Chunks), 9},
		{"content chunks", float64(st.ContentChunks), 9},
		{"tokens per chunk", st.TokensPerChunk, 16 / 9.0},
		{"max tokens per chunk", float64(st.MaxChunkTokens), 3},
		{"multi share", st.MultiShare, 4 / 9.0},
		{"reasoning share", st.ReasoningShare, 2 / 16.0},
		{"tool share", st.ToolShare, 1 / 16.0},
		// The second ending at 910 holds 1+1+1+1+3+2.
		{"peak output/s", s.Throughput.PeakOutput, 9},
		{"input/s", s.Throughput.Input, 25},
		// 4/0.4 5/0.3 1/0.2 6/0.4
		{"user speed mean", s.Speed.User.Mean, (10 + 50/3.0 + 5 + 15) / 4},
		{"decode speed mean", s.Speed.Decode.Mean, (10 + 20 + 50/3.0) / 3},
	})
	want := map[string]int{"one_per_chunk": 2, "spread": 1, "counted": 1}
	if diff := cmp.Diff(want, st.TokenITLSource); diff != "" {
		t.Errorf("token sources: %s", diff)
	}
}

func TestLoadByHand(t *testing.T) {
	s := Summarize(timetable())
	compare(t, []check{
		{"requested", *s.Rates.Requested, 2},
		{"scheduled", *s.Rates.Scheduled, 7 / 3.0},   // 7 due, the last at 3 s
		{"dispatched", *s.Rates.Dispatched, 6 / 3.0}, // all but the dropped one
		{"sent", *s.Rates.Sent, 6 / 3.1},
		{"achieved", *s.Rates.Achieved, 6 / 3.1 / (7 / 3.0)},
		{"late 1 ms", float64(s.Rates.Late1ms), 1},
		{"late 10 ms", float64(s.Rates.Late10ms), 0}, // exactly 10 is not over 10
		{"peak", float64(s.Concurrency.Peak), 2},     // 5 and 6'
		// 420+320+210+200+1500+10+400 ms on the wire in 4 s
		{"mean", s.Concurrency.Mean, 3.060 / 4},
		{"rate times latency", s.Concurrency.Little, 1 * 0.3375},
		{"little ratio", s.Concurrency.Ratio, 0.3375 / 0.765},
	})
	want := Series{
		StepS: 1, Sent: []int{2, 2, 1, 1}, Finished: []int{2, 1, 0, 1}, Failed: []int{0, 1, 0, 0},
		InFlight: []float64{0.74, 0.41, 0.5, 1.41}, Output: []int{9, 1, 0, 6},
	}
	if diff := cmp.Diff(want, s.Series, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("series: %s", diff)
	}
}

func TestLengthsByHand(t *testing.T) {
	l := Summarize(timetable()).Lengths
	in := Match{N: 4, Exact: 3, Long: 1, Honoured: 0.75, MeanRatio: 100 / 98.0, MaxOff: 2}
	out := Match{N: 4, Exact: 3, Short: 1, Honoured: 0.75, MeanRatio: 16 / 19.0, MaxOff: 3}
	if diff := cmp.Diff([]Match{in, out}, []Match{l.InputMatch, l.OutMatch}); diff != "" {
		t.Errorf("matches: %s", diff)
	}
	if diff := cmp.Diff(map[string]int{"length": 2, "stop": 2}, l.Finish); diff != "" {
		t.Errorf("finish reasons: %s", diff)
	}
	compare(t, []check{
		{"input mean", l.Input.Mean, 25},
		{"output mean", l.Output.Mean, 4},
		{"output max", l.Output.Max, 6},
		{"from server", float64(l.OutputFrom["server"]), 4},
	})
}

// TestUnexplainedByHand: of four answers without a finish reason only the one of 1 token, where 4 were
// asked for, may be incomplete.
func TestUnexplainedByHand(t *testing.T) {
	recs, run := timetable()
	for i := range recs {
		recs[i].Finish = ""
	}
	l := Summarize(recs, run).Lengths
	if l.Finish["none"] != 4 || l.Unexplained != 1 {
		t.Errorf("%d without a finish reason, %d of them short; want 4 and 1", l.Finish["none"], l.Unexplained)
	}
	if l := Summarize(timetable()).Lengths; l.Unexplained != 0 {
		t.Errorf("%d unexplained answers where all have a finish reason", l.Unexplained)
	}
}

func TestGoodputByHand(t *testing.T) {
	recs, run := timetable()
	run.Objectives = []Objective{{"ttft", 100}, {"tpot", 60}}
	s := Summarize(recs, run)
	// ttft <= 100: 0 1 6'. tpot <= 60: 1 (50), 2 (one token counts as 0), 6' (60). Both: 1 and 6'.
	// Seven requests are judged: the failed, the dropped and the cut-off one missed everything.
	want := &Goodput{Good: 2, Share: 2 / 7.0, PerSecond: 0.5, Objectives: []Attainment{
		{"ttft", 100, 3, 3 / 7.0}, {"tpot", 60, 3, 3 / 7.0},
	}}
	if diff := cmp.Diff(want, s.Goodput); diff != "" {
		t.Errorf("goodput: %s", diff)
	}
	if s.RequestGoodput == nil || *s.RequestGoodput != 0.5 {
		t.Errorf("request goodput = %v, want 0.5", s.RequestGoodput)
	}
}

func TestEachObjective(t *testing.T) {
	recs, run := timetable()
	for _, tt := range []struct {
		metric string
		bound  float64
		met    int
	}{
		{"ttft", 99, 0},
		{"ttft", 200, 4},
		{"e2el", 300, 2},             // 300 200
		{"itl", 100, 2},              // 0 (mean 100) and 2 (no gap)
		{"max_itl", 200, 3},          // not 6'
		{"ttft_due", 200, 3},         // not 1
		{"e2el_due", 400, 2},         // 400 200
		{"first_token", 100, 3},      // not 2
		{"first_text", 100, 3},       // likewise
		{"user_tokens_per_s", 15, 2}, // 16.7 and 15
		{"no such metric", 1e9, 0},   // never met
	} {
		run.Objectives = []Objective{{tt.metric, tt.bound}}
		if got := Summarize(recs, run).Goodput.Good; got != tt.met {
			t.Errorf("%s:%v met by %d, want %d", tt.metric, tt.bound, got, tt.met)
		}
	}
}

func TestErrorAdjustedByHand(t *testing.T) {
	e := Summarize(timetable()).ErrorAdjusted
	// TTFT 100 100 100 200 inf inf inf: rank of p50 is 3, of p90 5.4.
	if e.Failures != 3 {
		t.Errorf("failures = %d, want 3", e.Failures)
	}
	find := func(ps Percentiles, p float64) Quantile {
		q, _ := Dist{Percentiles: ps}.At(p)
		return q
	}
	if q := find(e.TTFT, 50); q.Infinite || q.Value != 200 {
		t.Errorf("p50 = %+v, want 200", q)
	}
	if q := find(e.TTFT, 90); !q.Infinite || q.Value != 0 {
		t.Errorf("p90 = %+v, want infinite", q)
	}
	// From the due time 100 200 200 210.
	if q := find(e.TTFTDue, 50); q.Value != 210 {
		t.Errorf("due p50 = %+v, want 210", q)
	}
	if q := find(e.E2EL, 50); q.Value != 400 {
		t.Errorf("e2el p50 = %+v, want 400", q)
	}
	if q := find(e.E2ELDue, 50); q.Value != 500 {
		t.Errorf("e2el due p50 = %+v, want 500", q)
	}
}

func TestFailuresByHand(t *testing.T) {
	s := Summarize(timetable())
	want := Failures{
		Share: 1 / 7.0,
		Kinds: []FailureKind{
			{Kind: call.FaultStatus, Status: 500, Count: 1, Example: "status 500: boom"},
			{Kind: call.FaultLocal, Count: 1, Example: "no body"},
			{Kind: call.FaultCutoff, Count: 1, Example: "cut off"},
		},
		Statuses: map[string]int{"500": 1},
		CutOff:   1, Attempts: 8, Retries: 1, Recovered: 1,
	}
	want.Shed.Count = 1
	got := s.Failures
	compare(t, []check{
		{"shed latency", got.Shed.Latency.Mean, 10}, {"retry after", got.Shed.RetryAfter.Mean, 40},
	})
	got.Shed.Latency, got.Shed.RetryAfter = Dist{}, Dist{}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("failures: %s", diff)
	}
	tally := call.Tally{Due: 7, OK: 4, Failed: 1, Dropped: 1, Canceled: 1, Attempts: 8}
	if diff := cmp.Diff(tally, s.Tally); diff != "" {
		t.Errorf("tally: %s", diff)
	}
}

func TestSidesByHand(t *testing.T) {
	s := Summarize(timetable())
	compare(t, []check{
		{"reused", s.Connections.ReusedShare, 2 / 6.0}, // 1 and 2 of six sent
		{"in band", float64(s.Connections.InBand), 1},
		{"dials", float64(s.Connections.Dial.N), 1}, // a reused connection's dial is not this request's
		{"dial", s.Connections.Dial.Mean, 5},
		{"tls", s.Connections.TLS.Mean, 7},
		{"server n", float64(s.Server.N), 1},
		{"server queue", s.Server.Queue.Mean, 20},
		{"server first token", s.Server.FirstToken.Mean, 50},
		{"server generation", s.Server.Generation.Mean, 290},
		{"server itl", s.Server.MeanITL.Mean, 97},
		{"ttft remainder", s.Server.TTFTRest.Mean, 30}, // 100-20-50
		{"e2el remainder", s.Server.E2ELRest.Mean, 40}, // 400-20-50-290
		{"cache reported", float64(s.Cache.Reported), 2},
		{"cached", float64(s.Cache.Cached), 8},
		{"cached share", s.Cache.Share, 8 / 30.0},
		{"hits", float64(s.Cache.Hits), 1},
		{"repeats", float64(s.Cache.Repeats), 1},
		{"first ttft", s.Cache.FirstTTFT, 100},
		{"repeat ttft", s.Cache.RepeatTTFT, 200},
		{"repeat ratio", s.Cache.RepeatRatio, 2},
		{"probes", float64(s.Probe.Completed), 2},
		{"probes failed", float64(s.Probe.Failed), 1},
		{"probe median", s.Probe.Median, 20},
		{"probe p99", s.Probe.P99, 29.8}, // 10 + 0.99*20
		{"probe max", s.Probe.Max, 30},
		{"warm-ups", float64(s.Warmup.Requests), 2},
		{"warm-ups failed", float64(s.Warmup.Failed), 1},
		{"warm-up ttft", s.Warmup.Median, 700},
	})
}
