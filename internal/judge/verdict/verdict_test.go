package verdict

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spate/internal/call"
	"spate/internal/judge/metrics"
)

// dist is a distribution all of whose figures are v.
func dist(n int, v float64) metrics.Dist {
	return metrics.Dist{N: n, Mean: v, Median: v, Max: v, Percentiles: metrics.Percentiles{{P: 99, Value: v}}}
}

func ptr(x float64) *float64 { return &x }

// healthy is a run of 1000 requests with nothing wrong: TTFT 100 ms, ITL 10 ms, E2EL 1000 ms.
func healthy() Input {
	in := Input{Self: &Self{}, Server: &Server{PrefixQueries: 1e6}}
	s := &in.Summary
	s.Tally = call.Tally{Due: 1000, OK: 1000, Attempts: 1000}
	s.Completed, s.TotalInput = 1000, 1e6
	s.TTFT, s.E2EL, s.ITL = dist(1000, 100), dist(1000, 1000), dist(90000, 10)
	s.Streaming.ITLNoRole, s.Streaming.TokenITL = s.ITL, s.ITL
	s.Streaming.Chunks, s.Streaming.TokensPerChunk = 91000, 1
	s.Clocks.FirstToken = s.TTFT
	s.Clocks.DispatchLag, s.Clocks.SendLag, s.Clocks.Queue = dist(1000, 0), dist(1000, 0), dist(1000, 0)
	s.Rates = metrics.Rates{Scheduled: ptr(10), Sent: ptr(10), Achieved: ptr(1)}
	s.Concurrency = metrics.Concurrency{Cap: 8, Peak: 8}
	s.Lengths.OutMatch = metrics.Match{N: 1000, Exact: 1000, Honoured: 1, MeanRatio: 1}
	s.Lengths.InputMatch = s.Lengths.OutMatch
	s.Lengths.Finish = map[string]int{"length": 1000}
	in.Settings = Settings{OpenLoop: true, IgnoreEOS: true, Percentiles: []float64{99}}
	return in
}

func find(t *testing.T, v Verdict, name string) Finding {
	t.Helper()
	for _, f := range v.Findings {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("no finding %q", name)
	return Finding{}
}

func TestHealthyRunIsValid(t *testing.T) {
	v := Judge(sharedOut(healthy()))
	if v.Grade != Valid || len(v.Bad()) != 0 {
		t.Fatalf("verdict %s: %+v", v.Grade, v.Bad())
	}
	if want := fmt.Sprintf("%d checks found nothing that would make these numbers wrong.", len(checks)); v.Sentence != want {
		t.Errorf("sentence %q, want %q", v.Sentence, want)
	}
	for _, f := range v.Findings {
		if f.Sentence == "" || !f.Measured || f.Unit == "" || f.Hint != "" {
			t.Errorf("%s: incomplete finding %+v", f.Name, f)
		}
	}
}

// Each check at its bound, just above it, at its limit and just above that.
func TestBounds(t *testing.T) {
	lag := func(d *metrics.Dist, v float64) { *d = dist(1000, v) }
	for _, tt := range []struct {
		name         string
		bound, limit float64 // limit 0: never invalid
		set          func(in *Input, x float64)
	}{
		{"failures", 0.01, 0.10, func(in *Input, x float64) { in.Summary.Failures.Share = x }},
		{"cut_off", 0.01, 0.10, func(in *Input, x float64) {
			in.Summary.Tally.Due = 1e9
			in.Summary.Failures.CutOff = int(math.Round(x * 1e9))
		}},
		{"workers", 0, 0.10, func(in *Input, x float64) {
			*in = sharedOut(*in)
			in.Workers[1].Gone = true
			in.Summary.Tally.Due, in.Summary.Failures.Gone = 1e9, int(math.Round(x*1e9))
		}},
		{"worker_clocks", 10, 1000, func(in *Input, x float64) {
			*in = sharedOut(*in)
			in.Workers[1].Skew, in.Workers[1].Uncertainty = fromMS(-4), fromMS(x-4)
		}},
		// A thousandth and a tenth of a run of 200 s.
		{"worker_clocks", 200, 20000, func(in *Input, x float64) {
			*in = sharedOut(*in)
			in.Workers[1].Uncertainty, in.Summary.DurationS = fromMS(x), 200
		}},
		// One of two workers is late; that the other was not makes it no better.
		{"send_lag", 10, 50, func(in *Input, x float64) {
			*in = sharedOut(*in)
			lag(&in.Workers[1].DispatchLag, x)
		}},
		{"own_cpu", 0.80, 0.95, func(in *Input, x float64) {
			*in = sharedOut(*in)
			in.Workers[1].Self = &Self{CPUShare: x}
		}},
		{"dropped_work", 0, 0.01, func(in *Input, x float64) {
			in.Summary.Tally.Due = 1e9
			in.Summary.Tally.Dropped = int(math.Round(x * 1e9))
		}},
		// 10 % and 50 % of the median TTFT of 100 ms.
		{"send_lag", 10, 50, func(in *Input, x float64) { lag(&in.Summary.Clocks.DispatchLag, x) }},
		{"send_lag", 10, 50, func(in *Input, x float64) { lag(&in.Summary.Clocks.SendLag, x) }},
		{"achieved_rate", 0.05, 0.20, func(in *Input, x float64) { in.Summary.Rates.Achieved = ptr(1 - x) }},
		// 10 % of the mean E2EL of 1000 ms.
		{"client_queue", 0.1, 0, func(in *Input, x float64) { lag(&in.Summary.Clocks.Queue, x*1000) }},
		// 10 % and 50 % of the median ITL of 10 ms.
		{"stamp_lag", 1, 5, func(in *Input, x float64) { in.Self.StampLagP99 = fromMS(x) }},
		{"scheduler_lag", 1, 0, func(in *Input, x float64) { in.Self.SchedLagP99 = fromMS(x) }},
		// One and three median gaps of 10 ms, where the kernel stamps arrivals.
		{"stamp_lag", 10, 30, func(in *Input, x float64) { in.Self.Arrivals, in.Self.StampLagP99 = true, fromMS(x) }},
		{"scheduler_lag", 30, 0, func(in *Input, x float64) { in.Self.Arrivals, in.Self.SchedLagP99 = true, fromMS(x) }},
		{"gc_pauses", 30, 300, func(in *Input, x float64) { in.Self.Arrivals, in.Self.GCPauseMax = true, fromMS(x) }},
		// In a closed loop, 5 % and 20 % of the mean E2EL of 1000 ms.
		{"send_lag", 0.05, 0.20, func(in *Input, x float64) {
			in.Settings.OpenLoop = false
			lag(&in.Summary.Clocks.DispatchLag, 600*x)
			lag(&in.Summary.Clocks.SendLag, 400*x)
		}},
		{"input_lengths", 0.25, 0, func(in *Input, x float64) { in.Settings.Guessed, in.Summary.Lengths.InputMatch.MeanRatio = true, 1-x }},
		{"client_gap", 100, 1000, func(in *Input, x float64) { in.Self.Gap = fromMS(x) }},
		// A thousandth and a tenth of a run of 200 s.
		{"client_gap", 200, 20000, func(in *Input, x float64) { in.Self.Gap, in.Summary.DurationS = fromMS(x), 200 }},
		{"gc_pauses", 5, 50, func(in *Input, x float64) { in.Self.GCPauseMax = fromMS(x) }},
		{"own_cpu", 0.80, 0.95, func(in *Input, x float64) { in.Self.CPUShare = x }},
		{"host_steal", 0.10, 0.30, func(in *Input, x float64) { in.Self.StealShare = x }},
		{"cpu_quota", 0.01, 0.10, func(in *Input, x float64) { in.Self.Throttled = x }},
		{"clock", 100, 5000, func(in *Input, x float64) { in.Self.ClockJump = -fromMS(x) }},
		{"record_log", 0, 0.01, func(in *Input, x float64) {
			in.Summary.Tally.Attempts = 1e9
			in.Self.LogDropped = int(math.Round(x * 1e9))
		}},
		{"prefix_cache", 0.10, 0.50, func(in *Input, x float64) { in.Server.PrefixHits = x * in.Server.PrefixQueries }},
		{"prefix_cache", 0.10, 0.50, func(in *Input, x float64) {
			in.Server = nil
			in.Summary.Cache = metrics.Cache{Reported: 10, Share: x}
		}},
		{"prefix_cache", 0.5, 0, func(in *Input, x float64) {
			in.Server = nil
			in.Summary.Cache = metrics.Cache{Repeats: 5, FirstTTFT: 100, RepeatTTFT: 100 * (1 - x)}
		}},
		{"prefix_cache", 0.5, 0, func(in *Input, x float64) {
			in.Server = nil
			in.Earlier = &Earlier{MedianTTFT: 100}
			in.Summary.TTFT.Median = 100 * (1 - x)
		}},
		{"output_lengths", 0.01, 0.10, func(in *Input, x float64) { in.Summary.Lengths.OutMatch.Honoured = 1 - x }},
		{"finish_reasons", 0.01, 0, func(in *Input, x float64) {
			n := int(math.Round(x * 1e9))
			in.Summary.Lengths.Unexplained, in.Summary.Lengths.Finish = n, map[string]int{"none": n, "length": 1e9 - n}
		}},
		{"input_lengths", 0.10, 0, func(in *Input, x float64) { in.Summary.Lengths.InputMatch.MeanRatio = 1 + x }},
		{"input_lengths", 0.10, 0, func(in *Input, x float64) { in.Summary.Lengths.InputMatch.MeanRatio = 1 - x }},
		{"first_chunk", 0.10, 0, func(in *Input, x float64) { in.Summary.TTFT.Median = in.Summary.Clocks.FirstToken.Median * (1 - x) }},
		{"chunk_tokens", 1.05, 0, func(in *Input, x float64) { in.Summary.Streaming.TokensPerChunk = x }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			judge := func(x float64, want Level) {
				t.Helper()
				in := healthy()
				tt.set(&in, x)
				f := find(t, Judge(in), tt.name)
				if f.Level != want {
					t.Errorf("at %v: %s, want %s: %+v", x, f.Level, want, f)
				}
				if want != OK && (f.Sentence == "" || f.Hint == "") {
					t.Errorf("at %v: a bad finding needs a sentence and a hint: %+v", x, f)
				}
			}
			eps := 1e-6 * math.Max(tt.bound, 0.01)
			judge(math.Max(0, tt.bound-eps), OK)
			judge(tt.bound+eps, Suspect)
			if tt.limit > 0 {
				judge(tt.limit-eps, Suspect)
				judge(tt.limit+eps, Invalid)
			} else {
				judge(0.9999*math.Max(1, 10*tt.bound), Suspect)
			}
		})
	}
}

func fromMS(x float64) time.Duration { return time.Duration(math.Round(x * float64(time.Millisecond))) }

func TestCountedBounds(t *testing.T) {
	in := healthy()
	in.Summary.Concurrency.Peak = 9
	if f := find(t, Judge(in), "concurrency_cap"); f.Level != Invalid || !strings.Contains(f.Sentence, "9 requests were in flight at once under a cap of 8") {
		t.Errorf("over the cap: %+v", f)
	}
	for n, want := range map[int]Level{299: OK, 298: Suspect} { // the floor of p99
		in := healthy()
		in.Summary.TTFT.N = n
		f := find(t, Judge(in), "sample_size")
		if f.Level != want || (want == Suspect && !strings.Contains(f.Sentence, "298 requests are too few for p99: 299 would")) {
			t.Errorf("%d samples: %+v", n, f)
		}
	}
	in = healthy()
	in.Summary.Tally.Due, in.Summary.Failures.Lost = 2000, 1
	if f := find(t, Judge(in), "dropped_work"); f.Level != Suspect {
		t.Errorf("one request without a record: %+v", f)
	}
}

// Lags are judged against what they disturb, but never below what any client can do.
// TestTemplateTokensAreNoFinding: 12 tokens around a prompt of 50 are a chat template; 12 too few are not, nor 300 too
// many.
func TestTemplateTokensAreNoFinding(t *testing.T) {
	for _, c := range []struct {
		meant, counted int
		want           Level
	}{{50, 62, OK}, {50, 38, Suspect}, {1000, 1300, Suspect}, {1000, 1040, OK}} {
		in := healthy()
		in.Summary.TotalInput = 1000 * c.counted
		in.Summary.Lengths.InputMatch.MeanRatio = float64(c.counted) / float64(c.meant)
		if f := find(t, Judge(in), "input_lengths"); f.Level != c.want {
			t.Errorf("%d tokens where %d were meant: %s", c.counted, c.meant, f.Level)
		}
	}
}

// TestFewSamplesAreNoProof: late requests are judged by the lower end of the interval of their share (Wilson's, 98 %),
// and a p99 by the sample that it is above, so that one late request in thirty is no finding.
func TestFewSamplesAreNoProof(t *testing.T) {
	for _, c := range []struct {
		late, of int
		want     Level
	}{ // the lower ends are 0.5, 1.5, 0.5, 1.05, 8.9 and 10.7 %
		{1, 30, OK}, {2, 30, Suspect}, {10, 1000, OK}, {18, 1000, Suspect}, {110, 1000, Suspect}, {130, 1000, Invalid},
	} {
		in := healthy()
		in.Summary.Clocks.DispatchLag.N, in.Summary.Rates.Late10ms = c.of, c.late
		if f := find(t, Judge(in), "late_work"); f.Level != c.want {
			t.Errorf("%d of %d late: %s (%v), want %s", c.late, c.of, f.Level, f.Figure, c.want)
		}
	}
	in := healthy()
	in.Summary.Clocks.DispatchLag.N, in.Summary.Rates.Late10ms = 60, 4 // 6.7 %, and the lower end is 2.2 %
	if f := find(t, Judge(in), "late_work"); !strings.Contains(f.Sentence, "4 of 60 requests (6.7 %)") || !strings.Contains(f.Sentence, "at least 2.2 %") {
		t.Errorf("the sentence does not say what the figure is: %q", f.Sentence)
	}
	in = healthy()
	in.Summary.Clocks.DispatchLag.Percentiles = metrics.Percentiles{{P: 99, Value: 30, Low: ptr(9)}}
	if f := find(t, Judge(in), "send_lag"); f.Level != OK || f.Figure != 9 {
		t.Errorf("a p99 of 30 ms that may be 9: %+v", f)
	}
}

func TestLagBoundsFollowTheMeasurement(t *testing.T) {
	for _, tt := range []struct {
		name   string
		itl    float64
		lagMS  float64
		want   Level
		change func(*Input)
	}{
		{"fast stream: floor of 0.5 ms", 1, 0.5, OK, nil},
		{"fast stream above the floor", 1, 0.6, Suspect, nil},
		{"slow stream", 100, 9, OK, nil},
		{"no stream: TTFT of 100 ms counts", 0, 9, OK, func(in *Input) { in.Summary.Streaming.ITLNoRole = metrics.Dist{} }},
		{"no stream, above", 0, 11, Suspect, func(in *Input) { in.Summary.Streaming.ITLNoRole = metrics.Dist{} }},
		// The mean gap stays 10 ms when most chunks share a stamp with the one before: 50 % of it is the limit.
		{"chunks read together", 0, 1, OK, nil},
		{"chunks read together: 10 % of the mean gap", 0, 1.1, Suspect, nil},
		{"chunks read together, by a late client", 0, 5.1, Invalid, nil},
		{"chunks of whole answers read together: the floors", 0, 5.1, Invalid, func(in *Input) { in.Summary.Streaming.ITLNoRole.Mean = 0 }},
		{"stamped by the kernel: three mean gaps", 0, 31, Invalid, func(in *Input) { in.Self.Arrivals = true }},
	} {
		in := healthy()
		in.Summary.Streaming.ITLNoRole.Median = tt.itl
		in.Self.StampLagP99 = fromMS(tt.lagMS)
		if tt.change != nil {
			tt.change(&in)
		}
		if f := find(t, Judge(in), "stamp_lag"); f.Level != tt.want {
			t.Errorf("%s: %+v", tt.name, f)
		}
	}
}

func TestChecksThatDoNotApply(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Input)
	}{
		{"late_work", func(in *Input) { in.Settings.OpenLoop = false; in.Summary.Rates.Late10ms = 999 }},
		{"achieved_rate", func(in *Input) { in.Settings.OpenLoop = false; in.Summary.Rates.Achieved = ptr(0.1) }},
		{"client_queue", func(in *Input) { in.Summary.Concurrency.Cap = 0; in.Summary.Clocks.Queue = dist(9, 1e6) }},
		{"concurrency_cap", func(in *Input) { in.Summary.Concurrency.Cap = 0 }},
		{"stamp_lag", func(in *Input) { in.Self = nil }},
		{"own_cpu", func(in *Input) { in.Self = nil }},
		{"record_log", func(in *Input) { in.Self = nil }},
		{"client_gap", func(in *Input) { in.Self = nil }},
		{"prefix_cache", func(in *Input) { in.Server = nil }},
		{"output_lengths", func(in *Input) { in.Summary.Lengths.OutMatch = metrics.Match{} }},
		{"finish_reasons", func(in *Input) { in.Summary.Lengths.Finish = nil }},
		{"input_lengths", func(in *Input) { in.Summary.Lengths.InputMatch = metrics.Match{} }},
		{"first_chunk", func(in *Input) { in.Summary.Clocks.FirstToken = metrics.Dist{} }},
		{"chunk_tokens", func(in *Input) { in.Summary.Streaming.Chunks = 0 }},
		{"sample_size", func(in *Input) { in.Settings.Percentiles = nil; in.Summary.TTFT.N = 1 }},
		{"send_lag", func(in *Input) { in.Summary.Clocks.DispatchLag = metrics.Dist{} }},
	} {
		in := healthy()
		tt.change(&in)
		if f := find(t, Judge(in), tt.name); f.Level != OK || f.Measured || f.Sentence == "" {
			t.Errorf("%s: %+v, want ok and not measured", tt.name, f)
		}
	}
}

func TestAllowedBySettings(t *testing.T) {
	in := healthy()
	in.Settings.SharedPrefix, in.Server.PrefixHits = true, 0.9*in.Server.PrefixQueries
	if f := find(t, Judge(in), "prefix_cache"); f.Level != OK || !strings.Contains(f.Sentence, "on purpose") || f.Figure != 0.9 {
		t.Errorf("shared prefixes: %+v", f)
	}
	in = healthy()
	in.Settings.IgnoreEOS = false
	in.Summary.Lengths.OutMatch = metrics.Match{N: 10, Exact: 1, Honoured: 0.1, MeanRatio: 0.4}
	if f := find(t, Judge(in), "output_lengths"); f.Level != OK || !strings.Contains(f.Sentence, "40.0 %") {
		t.Errorf("free to end early: %+v", f)
	}
}

func TestKilledRunIsSuspect(t *testing.T) {
	in := healthy()
	in.Killed = true
	v := Judge(in)
	if f := find(t, v, "cut_off"); v.Grade != SuspectRun || f.Level != Suspect || !strings.Contains(v.Sentence, "the run was killed") || f.Hint == "" {
		t.Errorf("%s: %+v", v.Grade, f)
	}
}

func TestHintNamesTheCap(t *testing.T) {
	in := healthy()
	in.Summary.Rates.Achieved, in.Summary.Clocks.Queue = ptr(0.5), dist(1000, 5)
	if f := find(t, Judge(in), "achieved_rate"); !strings.Contains(f.Hint, "--max-concurrency") {
		t.Errorf("hint %q", f.Hint)
	}
}

func TestOverall(t *testing.T) {
	in := healthy()
	in.Self.CPUShare, in.Summary.Streaming.TokensPerChunk = 0.9, 2
	v := Judge(in)
	if v.Grade != SuspectRun || !strings.HasPrefix(v.Sentence, "Mind before comparing: the client used 90.0 %") ||
		!strings.HasSuffix(v.Sentence, "(and one more finding)") {
		t.Errorf("%s: %q", v.Grade, v.Sentence)
	}
	in.Self.StealShare = 0.5
	v = Judge(in)
	if v.Grade != InvalidRun || !strings.HasPrefix(v.Sentence, "Do not use these numbers: other machines") ||
		!strings.HasSuffix(v.Sentence, "(and 2 more findings)") {
		t.Errorf("%s: %q", v.Grade, v.Sentence)
	}
	if bad := v.Bad(); bad[0].Name != "host_steal" || len(bad) != 3 {
		t.Errorf("worst first: %+v", bad)
	}
}

func TestNothingSucceeded(t *testing.T) {
	in := healthy()
	in.Summary.Completed = 0
	in.Summary.Failures.Kinds = []metrics.FailureKind{{Kind: call.FaultConnect, Count: 7, Example: "refused"}}
	f := find(t, Judge(in), "failures")
	if f.Level != Invalid || !strings.Contains(f.Sentence, "none of 1000") || !strings.Contains(f.Hint, "connect (7): refused") {
		t.Errorf("no success: %+v", f)
	}
	if v := Judge(Input{}); v.Grade != InvalidRun || !strings.Contains(v.Sentence, "no request fell due") {
		t.Errorf("nothing at all: %s %q", v.Grade, v.Sentence)
	}
}

// What a stop cut off is no failure: where nothing was answered before it, that is the one finding.
func TestStoppedBeforeAnyAnswer(t *testing.T) {
	in := healthy()
	in.Summary = metrics.Summary{Tally: call.Tally{Due: 21, Canceled: 20, Dropped: 1}, Failures: metrics.Failures{Stopped: 20, Unsent: 1}}
	in.Self.StampLagP99, in.Self.SchedLagP99, in.Self.GCPauseMax = fromMS(9), fromMS(9), fromMS(90)
	v := Judge(in)
	if v.Grade != InvalidRun || v.Sentence != "Do not use these numbers: the run was stopped before any of its 21 requests was answered." {
		t.Errorf("%s: %q: %+v", v.Grade, v.Sentence, v.Bad())
	}
	if f := find(t, v, "failures"); f.Level != OK || f.Figure != 0 || f.Sentence != "0 of 21 requests failed." {
		t.Errorf("failures: %+v", f)
	}
	in.Summary.Tally, in.Summary.Failures.Share = call.Tally{Due: 25, Canceled: 20, Dropped: 1, Failed: 4}, 4.0/25
	f := find(t, Judge(in), "failures")
	if f.Level != Invalid || f.Figure != 1 || f.Sentence != "none of 4 requests succeeded." {
		t.Errorf("four that failed and 21 left undone: %+v", f)
	}
}

func TestVerdictJSONRoundTrip(t *testing.T) {
	in := healthy()
	in.Summary.Failures.Share = math.Inf(1)
	a := Judge(in)
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	var b Verdict
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatalf("decode: %v", err)
	}
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("round trip: %s", diff)
	}
}

// A real summary goes through every check without one of them standing on a missing figure.
func TestJudgeRealSummary(t *testing.T) {
	r := call.NewRecord(&call.Request{Phase: call.Measure})
	r.Due, r.Dispatched, r.Started, r.Sent = 0, 0, 0, 0
	r.Outcome, r.LastEvent, r.End = call.OK, 30*time.Millisecond, 30*time.Millisecond
	r.Chunks = []call.Chunk{{At: 10 * time.Millisecond, Kind: call.Visible}, {At: 20 * time.Millisecond, Kind: call.Visible}}
	r.Out = call.Count{N: 2, From: call.FromServer}
	s := metrics.Summarize([]call.Record{r}, metrics.Run{End: 30 * time.Millisecond})
	v := Judge(Input{Summary: s})
	if v.Grade != Valid || len(v.Findings) != len(checks) {
		t.Errorf("%s: %+v", v.Grade, v.Bad())
	}
}

// TestRefusedFields reads the errors of servers that take no fields of vLLM's.
func TestRefusedFields(t *testing.T) {
	for message, want := range map[string][]string{
		`HTTP 422 Unprocessable Entity: {"detail":"Unexpected fields in the request: {'repetition_penalty', 'ignore_eos'}"}`:          {"ignore_eos", "repetition_penalty"},
		`HTTP 400 Bad Request: Unrecognized request argument supplied: repetition_penalty`:                                            {"repetition_penalty"},
		`HTTP 400 Bad Request: [{'type': 'extra_forbidden', 'loc': ('body', 'ignore_eos'), 'msg': 'Extra inputs are not permitted'}]`: {"ignore_eos"},
		`HTTP 400 Bad Request: Unsupported parameter: 'logprobs' is not supported with this model`:                                    {"logprobs"},
		`HTTP 400 Bad Request: ignore_eos must be a boolean`:                                                                          nil,
		`HTTP 400 Bad Request: Unrecognized request argument supplied: flavour`:                                                       nil,
		`HTTP 500 Internal Server Error`: nil,
	} {
		if got := RefusedFields(message); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", message, got, want)
		}
	}
	s := metrics.Summary{}
	s.Tally.Due, s.Tally.Failed = 4, 4
	s.Failures.Kinds = []metrics.FailureKind{{Kind: "http_status", Count: 4, Example: "HTTP 400: Unrecognized request argument supplied: ignore_eos"}}
	if f := failures(&Input{Summary: s}); !strings.HasSuffix(f.Hint, "; to leave that out: --extra-body.ignore_eos null") {
		t.Errorf("hint %q", f.Hint)
	}
}
