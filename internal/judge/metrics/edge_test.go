package metrics

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spate/internal/call"
)

// chat is an answer whose role message comes with its first token; the usage message ends it.
func chat() call.Record {
	r := done(stamped(0, 0, 0, 0, 0, 360), 350, 10, 3, at(100, 100, 200, 300))
	r.Chunks[0].Kind = 0
	return r
}

func TestChatRoleChunk(t *testing.T) {
	s := Summarize([]call.Record{chat()}, Run{End: time.Second, EndRule: LastEvent, Tokenizer: true})
	compare(t, []check{
		{"ttft", s.TTFT.Mean, 100},
		{"itl n", float64(s.ITL.N), 3}, // 0 100 100: the role message adds a gap of nothing
		{"itl mean", s.ITL.Mean, 200 / 3.0},
		{"no role n", float64(s.Streaming.ITLNoRole.N), 2},
		{"no role mean", s.Streaming.ITLNoRole.Mean, 100},
		{"token itl n", float64(s.Streaming.TokenITL.N), 2},
		{"token itl mean", s.Streaming.TokenITL.Mean, 100},
		{"e2el", s.E2EL.Mean, 350},
		{"tpot", s.TPOT.Mean, 125}, // (350-100)/2
		{"content chunks", float64(s.Streaming.ContentChunks), 3},
		{"max output/s counts the role message", s.MaxOutputPerS, 4},
		{"peak output/s does not", s.Throughput.PeakOutput, 3},
	})
}

func TestNoSuccess(t *testing.T) {
	recs := []call.Record{
		failed(stamped(0, 0, 0, 0, 0, 10), call.Failed, call.FaultReset, "reset"),
		failed(stamped(1, 5, 5, 5, 5, 20), call.Canceled, call.FaultStopped, "interrupted"),
	}
	run := Run{End: time.Second, MaxConcurrency: 2, Objectives: []Objective{{"ttft", 1e6}}}
	s := Summarize(recs, run)
	for name, d := range map[string]Dist{"ttft": s.TTFT, "tpot": s.TPOT, "itl": s.ITL, "e2el": s.E2EL} {
		if d.N != 0 || d.Mean != 0 || d.Median != 0 || d.Std != 0 || d.P(99) != 0 || d.CI95 != nil {
			t.Errorf("%s of nothing = %+v, want zeros", name, d)
		}
	}
	if *s.RequestGoodput != 0 || s.MaxOutputPerS != 0 || s.MaxConcurrent != 0 {
		t.Errorf("rates of nothing are not zero: %+v", s)
	}
	if s.ErrorAdjusted.Failures != 1 || !s.ErrorAdjusted.TTFT[0].Infinite {
		t.Errorf("the failure is not infinite, or the interruption counts: %+v", s.ErrorAdjusted)
	}
	if s.Failures.Stopped != 1 || s.Steady.Applies {
		t.Errorf("stopped %d, steady %v", s.Failures.Stopped, s.Steady)
	}
	if k := s.Failures.Kinds; len(k) != 1 || k[0].Kind != call.FaultReset || len(s.Failures.Statuses) != 0 {
		t.Errorf("what a stop cut off is among the failures: %+v, %v", k, s.Failures.Statuses)
	}
	if got := FirstErrors(call.List(recs), 10); len(got) != 1 || got[0] != "reset" {
		t.Errorf("errors %q, want that of the failure alone", got)
	}
	if _, err := json.Marshal(s); err != nil {
		t.Errorf("encode: %v", err)
	}
}

func TestNoRecords(t *testing.T) {
	s := Summarize(nil, Run{})
	if s.Tally.Due != 0 || s.DurationS != 0 || s.RequestThroughput != 0 || len(s.Series.Sent) != 1 {
		t.Errorf("summary of nothing: %+v", s)
	}
	if _, err := json.Marshal(s); err != nil {
		t.Errorf("encode: %v", err)
	}
}

func TestOutputWithoutCount(t *testing.T) {
	r := done(stamped(0, 0, 0, 0, 0, 100), 100, 5, 0, at(100))
	r.Out = call.Count{}
	for _, tt := range []struct {
		tokenizer bool
		want      int
	}{{false, 1}, {true, 0}} {
		s := Summarize([]call.Record{r}, Run{End: time.Second, Tokenizer: tt.tokenizer})
		if s.TotalOutput != tt.want || s.TPOT.N != 0 {
			t.Errorf("tokenizer %v: output %d, want %d", tt.tokenizer, s.TotalOutput, tt.want)
		}
	}
}

func TestSuccessWithoutChunks(t *testing.T) {
	// vLLM gives it a TTFT of 0 and one event at its start.
	r := done(stamped(0, 0, 0, 0, 50, 250), 250, 5, 2, nil)
	s := Summarize([]call.Record{r}, Run{End: time.Second, Tokenizer: true})
	compare(t, []check{
		{"ttft", s.TTFT.Mean, 0},
		{"e2el", s.E2EL.Mean, 200},
		{"tpot", s.TPOT.Mean, 200},
		{"max output/s", s.MaxOutputPerS, 1},
		{"ttft due n", float64(s.Clocks.TTFTDue.N), 0},
	})
}

func TestRunFromRecords(t *testing.T) {
	recs := []call.Record{
		done(stamped(1, 400, 400, 400, 400, 900), 880, 5, 2, at(500, 850)),
		done(stamped(0, 200, 200, 210, 220, 700), 690, 5, 2, at(500, 650)),
	}
	if s := Summarize(recs, Run{}); s.DurationS != 0.7 {
		t.Errorf("duration %v, want 0.7: first dispatch to last end", s.DurationS)
	}
}

func TestDamagedStampsDoNotPanic(t *testing.T) {
	r := done(stamped(0, 900, 10, 800, 700, 5), 3, 5, 2, at(900, 100))
	q := done(stamped(1, -1, -1, -1, -1, -1), 0, 0, 9, at(5, 1))
	q.LastEvent = call.Unset
	s := Summarize([]call.Record{r, q}, Run{Start: 400 * ms, End: 500 * ms, MaxConcurrency: 1})
	if s.Completed != 2 {
		t.Errorf("completed %d, want 2", s.Completed)
	}
}

// Two slots. In flight (successes, to the last chunk): 0 in 0..2000, 1 in 1000..3000, 2 in
// 2000..5000, 3 in 3000..4000, so two from 1000 to 4000; ends come before starts at 2000 and 3000.
func TestSteadyWindowByHand(t *testing.T) {
	recs := []call.Record{
		done(stamped(0, 0, 0, 0, 0, 2000), 2000, 10, 2, at(500, 2000)),
		done(stamped(1, 0, 0, 0, 1000, 3000), 3000, 20, 3, at(1500, 2500, 3000)),
		done(stamped(2, 0, 0, 0, 2000, 5000), 5000, 30, 4, at(2100, 5000)),
		done(stamped(3, 0, 0, 0, 3000, 4000), 4000, 40, 2, at(3700, 4000)),
	}
	s := Summarize(recs, Run{End: 5 * time.Second, MaxConcurrency: 2, Tokenizer: true}).Steady
	if !s.Applies || !s.Short || s.Threshold != 2 {
		t.Fatalf("steady = %+v", s)
	}
	compare(t, []check{
		{"start", s.StartS, 1},
		{"end", s.EndS, 4},
		{"window", s.WindowS, 3},
		{"completed", float64(s.Completed), 3}, // 0 1 3
		{"started", float64(s.Started), 3},     // 1 2 3
		{"requests/s", s.Request, 1},
		// chunks at 2000 1500 2500 3000 2100 3700 4000
		{"chunks/s", s.Chunks, 7 / 3.0},
		// tokens 1 + 1+1+1 + 2 (of 4 over two chunks) + 1+1
		{"tokens/s", s.Output, 8 / 3.0},
		{"input/s", s.Input, 90 / 3.0},
		{"ttft mean", s.TTFT.Mean, (500 + 100 + 700) / 3.0},
		// (2000-500)/2, (3000-100)/3, (1000-700)/1
		{"tpot mean", s.TPOT.Mean, (750 + 2900/3.0 + 300) / 3},
	})
}

func TestSteadySettings(t *testing.T) {
	recs := []call.Record{
		done(stamped(0, 0, 0, 0, 0, 2000), 2000, 10, 2, at(500, 2000)),
		done(stamped(1, 0, 0, 0, 1000, 4000), 4000, 20, 3, at(1500, 4000)),
		done(stamped(2, 0, 0, 0, 2000, 4000), 4000, 30, 4, at(2100, 4000)),
	}
	for _, tt := range []struct {
		name    string
		run     Run
		applies bool
		short   bool
	}{
		{"the floor of 10 s", Run{}, true, true},
		{"a window as long as asked for", Run{SteadyMinWindow: 3}, true, false},
		{"a window shorter than asked for", Run{SteadyMinWindow: 3.5}, true, true},
		{"left out", Run{NoSteady: true}, false, false},
	} {
		tt.run.End, tt.run.MaxConcurrency, tt.run.Tokenizer = 5*time.Second, 2, true
		s := Summarize(recs, tt.run).Steady
		if s.Applies != tt.applies || s.Short != tt.short || (s.Reason != "") != tt.short {
			t.Errorf("%s: %+v", tt.name, s)
		}
	}
}

func TestSteadyDoesNotApply(t *testing.T) {
	recs := []call.Record{done(stamped(0, 0, 0, 0, 0, 100), 100, 1, 1, at(100))}
	for _, tt := range []struct {
		name, want string
		run        Run
	}{
		{"no cap", "no concurrency cap", Run{End: time.Second}},
		{"paced", "paced by a rate", Run{End: time.Second, MaxConcurrency: 1, RequestRate: 5}},
		{"never reached", "never reached 4", Run{End: time.Second, MaxConcurrency: 4}},
	} {
		s := Summarize(recs, tt.run).Steady
		if s.Applies || !strings.Contains(s.Reason, tt.want) {
			t.Errorf("%s: %+v", tt.name, s)
		}
	}
}

func TestChunkTokens(t *testing.T) {
	role := call.Chunk{At: 0}
	text := call.Chunk{At: 1, Kind: call.Visible}
	told := func(n int32) call.Chunk { return call.Chunk{Kind: call.Visible, Tokens: n} }
	for _, tt := range []struct {
		name   string
		chunks []call.Chunk
		out    int
		want   []int32
		source TokenSource
	}{
		{"no chunks", nil, 4, nil, TokensNone},
		{"one each", []call.Chunk{text, text}, 2, []int32{1, 1}, TokensSingle},
		{"role and one each", []call.Chunk{role, text, text}, 2, []int32{0, 1, 1}, TokensSingle},
		{"text of a token may be empty", []call.Chunk{text, role, text}, 3, []int32{1, 1, 1}, TokensSingle},
		{"role, then an empty token", []call.Chunk{role, text, role, text}, 3, []int32{0, 1, 1, 1}, TokensSingle},
		{"told", []call.Chunk{role, told(2), told(3)}, 5, []int32{0, 2, 3}, TokensCounted},
		{"told otherwise than usage", []call.Chunk{told(2), told(3)}, 7, []int32{2, 3}, TokensCounted},
		{"told in part, adding up", []call.Chunk{told(5), text}, 5, []int32{5, 0}, TokensCounted},
		{"told in part", []call.Chunk{told(1), text}, 4, []int32{2, 2}, TokensSpread},
		{"spread", []call.Chunk{text, text, text}, 7, []int32{3, 2, 2}, TokensSpread},
		{"fewer tokens than chunks", []call.Chunk{text, text, text}, 2, []int32{1, 1, 0}, TokensSpread},
		{"no text at all", []call.Chunk{role, role}, 6, []int32{3, 3}, TokensSpread},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, source := chunkTokens(nil, tt.chunks, tt.out)
			if diff := cmp.Diff(tt.want, got); diff != "" || source != tt.source {
				t.Errorf("tokens %v from %s, want %v from %s", got, source, tt.want, tt.source)
			}
		})
	}
}

func TestDetailedByHand(t *testing.T) {
	recs, run := timetable()
	recs[len(recs)-5].Text = "hello" // request 0
	got := Detailed(recs, run)
	want := Detail{
		InputLens:  []int{10, 20, 30, 0, 0, 0, 40},
		OutputLens: []int{4, 5, 1, 0, 0, 0, 6},
		TTFTs:      []float64{0.1, 0.1, 0.2, 0, 0, 0, 0.1},
		ITLs:       [][]float64{{0.1, 0.1, 0.1}, {0.2}, {}, {}, {}, {}, {0.3}},
		StartTimes: []float64{0, 0.61, 1, 1.5, 2, 2.5, 3.1},
		Texts:      []string{"hello", "", "", "", "", "", ""},
		Errors:     []string{"", "", "", "status 500: boom", "no body", "cut off", ""},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("detail: %s", diff)
	}
	text, err := json.Marshal(Detailed(recs[:0], run))
	if err != nil || strings.Contains(string(text), "null") {
		t.Errorf("empty detail = %s, %v", text, err)
	}
}

func TestParseObjective(t *testing.T) {
	if o, err := ParseObjective("ttft:200"); err != nil || o != (Objective{"ttft", 200}) {
		t.Errorf("ttft:200 = %v, %v", o, err)
	}
	for in, want := range map[string]string{
		"ttft": "no bound", "ttfx:1": "use one of ttft", "ttft:x": "not a bound", "ttft:-1": "not below 0", "ttft:NaN": "not a bound",
	} {
		if _, err := ParseObjective(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", in, err, want)
		}
	}
}

func FuzzParseObjective(f *testing.F) {
	for _, s := range []string{"ttft:200", "tpot:", ":", "e2el:1e3", "itl:-0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		o, err := ParseObjective(s)
		if err == nil && (math.IsNaN(o.Bound) || o.Bound < 0 || !strings.HasPrefix(s, o.Metric+":")) {
			t.Errorf("%q parsed as %+v", s, o)
		}
	})
}

func FuzzPercentilesJSON(f *testing.F) {
	for _, s := range []string{`{"p99":{"value":1,"floor":299,"enough":true,"low":null,"high":2}}`, `{}`, `null`, `[]`, `{"p":1}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var a, b Percentiles
		if json.Unmarshal([]byte(s), &a) != nil {
			return
		}
		text, err := json.Marshal(a)
		if err != nil {
			t.Fatalf("encode %+v: %v", a, err)
		}
		if err := json.Unmarshal(text, &b); err != nil {
			t.Fatalf("decode %s: %v", text, err)
		}
		again, err := json.Marshal(b)
		if err != nil || !bytes.Equal(again, text) {
			t.Errorf("%s became %s (%v)", text, again, err)
		}
	})
}
