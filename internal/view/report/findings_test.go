package report

import (
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"spate/internal/call"
	"spate/internal/judge/metrics"
	"spate/internal/judge/verdict"
	"spate/internal/result"
	"spate/internal/safe/escape"
)

// answered is a request of the measured part: due and sent at its time, first token after 50 ms and a
// little more with each request, one token every 10 ms.
func answered(id, out int, at time.Duration) call.Record {
	r := call.NewRecord(&call.Request{ID: id, Phase: call.Measure, In: call.Count{N: 100, From: call.FromTokenizer}, MaxOut: out})
	r.Due, r.Dispatched = at, at+20*time.Microsecond
	r.Started = r.Dispatched + time.Duration(id%4)*5*time.Millisecond
	r.Sent = r.Started + 30*time.Microsecond
	first := r.Sent + 50*time.Millisecond + time.Duration(id%7)*time.Millisecond
	for i := range out {
		r.Chunks = append(r.Chunks, call.Chunk{At: first + time.Duration(i)*10*time.Millisecond, Tokens: 1, Kind: call.Visible})
	}
	r.FirstByte, r.Headers = first-time.Millisecond, first-time.Millisecond
	r.FirstToken, r.FirstText = first, first
	last := r.Chunks[out-1].At
	r.LastToken, r.LastEvent, r.End = last, last+time.Millisecond, last+2*time.Millisecond
	r.In, r.Out = call.Count{N: 100, From: call.FromServer}, call.Count{N: out, From: call.FromServer}
	r.Finish, r.Status, r.Outcome, r.Reused = "length", 200, call.OK, id > 4
	r.Dial = 300 * time.Microsecond
	return r
}

// runOf computes a run from records.
func runOf(recs []call.Record, plan metrics.Run) *result.Run {
	run := &result.Run{
		Schema: result.Schema, ID: "20260822-030405-tiny-00ff", State: result.Complete,
		Started: time.Date(2026, 8, 22, 3, 4, 5, 0, time.UTC),
		Command: []string{"spate", "bench", "--model", "tiny"},
		Plan:    result.NewPlan(plan, "closed loop, 4 at a time"),
		Block:   result.Block{Metrics: []string{"ttft", "tpot", "itl"}, Percentiles: []float64{99}, Tokenizer: true},
		Dir:     "spate-runs/20260822-030405-tiny-00ff",
	}
	run.Compute(call.List(recs))
	return run
}

func goodRun() *result.Run {
	var recs []call.Record
	for id := range 400 {
		recs = append(recs, answered(id, 20, time.Duration(id)*50*time.Millisecond))
	}
	run := runOf(recs, metrics.Run{
		Requested: 400, MaxConcurrency: 4, Tokenizer: true, Seed: 1,
		Objectives: []metrics.Objective{{Metric: "ttft", Bound: 53}, {Metric: "tpot", Bound: 20}},
	})
	run.Verdict = verdict.Judge(verdict.Input{Summary: run.Summary})
	run.Verdict.Grade, run.Verdict.Sentence = verdict.Valid, "Nothing found that would make these numbers wrong."
	for i := range run.Verdict.Findings { // made-up stamps need not pass; how a pass is printed is the point
		run.Verdict.Findings[i].Level = verdict.OK
	}
	run.Files = []string{"results/openai-infqps-concurrency4-tiny-20260822-030405.json"}
	return run
}

// badRun has a rate, few answers, failures of all sorts, server times, a cache, retries and text that
// means harm.
func badRun() *result.Run {
	var recs []call.Record
	for id := range 20 {
		r := answered(id, 10, time.Duration(id)*100*time.Millisecond)
		r.Dispatched += 3 * time.Millisecond
		r.Cached = call.Count{N: 50, From: call.FromServer}
		r.Server = &call.ServerTimes{Queue: time.Millisecond, FirstToken: 40 * time.Millisecond, Generation: 90 * time.Millisecond, MeanITL: 10 * time.Millisecond}
		switch {
		case id%5 == 4:
			r.Outcome, r.Fault, r.Err, r.Status = call.Failed, call.FaultStatus, "HTTP 500: \x1b[2J"+strings.Repeat("long words ", 40), 500
		case id == 3:
			r.Outcome, r.Fault, r.Err = call.Canceled, call.FaultCutoff, "still running"
		case id == 7:
			first := r
			first.Retried, first.Outcome, first.Fault = true, call.Failed, call.FaultReset
			recs = append(recs, first)
			r.Attempt = 1
		case id == 8:
			r.Out.N, r.AskedOut = 9, 10
			r.Chunks = r.Chunks[:9]
		}
		recs = append(recs, r)
	}
	warm := answered(0, 5, 0)
	warm.Phase = call.Warmup
	probe := answered(0, 1, 0)
	probe.Phase = call.Probe
	run := runOf(append(recs, warm, probe), metrics.Run{Requested: 20, Due: 21, RequestRate: 12, Tokenizer: true, Seed: 1})
	run.State = result.Interrupted
	run.Verdict = verdict.Verdict{
		Grade: verdict.InvalidRun, Sentence: "Do not use these numbers: the client was too slow (and one more finding)",
		Findings: []verdict.Finding{
			{Name: "send_lag", Level: verdict.Suspect, Measured: true, Figure: 3.2, Unit: "ms", Bound: 1, Limit: 10, Sentence: "requests left late: p99 send lag 3.20 ms against a median TTFT of 53.00 ms, which is more than the bound allows.", Hint: "give the client more cores"},
			{Name: "late_work", Level: verdict.Invalid, Measured: true, Figure: 0.25, Unit: "share", Bound: 0.01, Limit: 0.1, Sentence: "25.0 % of requests left more than 10 ms late."},
			{Name: "clock", Level: verdict.OK, Measured: true, Sentence: "Clocks agree."},
			{Name: "own_cpu", Level: verdict.OK, Sentence: "Not measured."},
			{Name: "endless", Level: verdict.Suspect, Measured: true, Figure: math.MaxFloat64, Unit: "requests", Bound: 1, Sentence: "x."},
		},
	}
	run.Server.Change = json.RawMessage(`{"requests":20,"generation_tokens":149,"preemptions":2,"prefix_cache_hit_rate":0.5,
		"running_before":3,"times":{"ttft":{"n":20,"mean_s":0.05},"queue":{"n":20,"mean_s":0.001}}}`)
	run.Notes = []string{"stopped by the user after 2 s", strings.Repeat("x", 150) + " and é"}
	return run
}

func emptyRun() *result.Run {
	run := runOf(nil, metrics.Run{RequestRate: math.Inf(1)})
	run.State, run.Command, run.Block = result.Recovered, nil, result.Block{}
	return run
}

var findingCases = []struct {
	name string
	run  func() *result.Run
}{{"good", goodRun}, {"bad", badRun}, {"empty", emptyRun}}

func text(t *testing.T, run *result.Run) string {
	t.Helper()
	var b strings.Builder
	if err := Text(&b, run); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTextGolden(t *testing.T) {
	for _, c := range findingCases {
		t.Run(c.name, func(t *testing.T) {
			golden(t, "text-"+c.name+".txt", text(t, c.run()))
		})
	}
}

// TestTextLaws holds for every report: plain text, within the margin but for a word that is longer than a line, notes
// whole, and fates that add up.
func TestTextLaws(t *testing.T) {
	fates := regexp.MustCompile(`(\d+) due = (\d+) ok \+ (\d+) failed \+ (\d+) dropped \+ (\d+) canceled`)
	for _, c := range findingCases {
		t.Run(c.name, func(t *testing.T) {
			run := c.run()
			out := text(t, run)
			inBlock := false
			for line := range strings.Lines(out) {
				line = strings.TrimSuffix(line, "\n")
				if strings.HasPrefix(line, "Failed requests during") || strings.Contains(line, "Benchmark Result") {
					inBlock = true
				}
				if !inBlock && len(line) > maxColumns && !slices.ContainsFunc(strings.Fields(line), func(w string) bool { return len(w) > maxColumns/2 }) {
					t.Errorf("%d columns: %q", len(line), line)
				}
				if !inBlock && strings.TrimRight(line, " ") != line {
					t.Errorf("trailing spaces: %q", line)
				}
				if strings.IndexFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) >= 0 {
					t.Errorf("not plain ASCII: %q", line)
				}
				if line == strings.Repeat("=", 50) {
					inBlock = false
				}
			}
			for _, note := range run.Notes {
				if words := strings.Join(strings.Fields(out), " "); !strings.Contains(words, escape.ASCII(note)) {
					t.Errorf("a note is not there whole: %q", note)
				}
			}
			if m := fates.FindStringSubmatch(out); m != nil {
				var n [5]int
				for i := range n {
					_, _ = fmt.Sscan(m[i+1], &n[i])
				}
				if lost := run.Summary.Failures.Lost; n[0] != n[1]+n[2]+n[3]+n[4]+lost {
					t.Errorf("fates do not add up: %s, %d lost", m[0], lost)
				}
			} else if run.Tally.Due != run.Tally.OK {
				t.Error("not all requests are ok, and no line says what became of them")
			}
			if again := text(t, run); again != out {
				t.Error("the same run printed differently")
			}
		})
	}
}

// TestCommandCanBePasted gives the printed command to a shell: it reads the words that were typed.
func TestCommandCanBePasted(t *testing.T) {
	run := goodRun()
	run.Command = []string{"spate", "bench", "--slo", "p99_ttft<500ms", "--extra-body", `{"a": "it's  here"}`, "--metadata", "x=$HOME", "--label", ""}
	for i := range 20 {
		run.Command = append(run.Command, "--metadata", fmt.Sprintf("key-%d=some words", i))
	}
	_, after, _ := strings.Cut(text(t, run), "Command  ")
	printed, _, _ := strings.Cut(after, "\nPlan ")
	got, err := exec.Command("sh", "-c", "spate() { printf '%s\\n' \"$@\"; }\n"+printed).Output()
	if want := strings.Join(run.Command[1:], "\n") + "\n"; err != nil || string(got) != want {
		t.Errorf("%v: a shell reads\n%s\nof\n%s", err, got, printed)
	}
}

func TestBlockOfARun(t *testing.T) {
	run := goodRun()
	in := BlockOf(run)
	if *in.MaxConcurrency != 4 || !math.IsInf(in.RequestRate, 1) || in.Summary.Completed != 400 || len(in.Errors) != 0 {
		t.Errorf("%+v", in)
	}
	run = badRun()
	if in := BlockOf(run); len(in.Errors) != 5 || in.RequestRate != 12 {
		t.Errorf("%d errors, rate %v", len(in.Errors), in.RequestRate)
	}
}

func TestCountersThatSayNothing(t *testing.T) {
	for raw, want := range map[string]string{`{"reset":true,"requests":1}`: "restarted", `[`: "unreadable"} {
		s := new(sheet)
		counters(s, json.RawMessage(raw))
		if !strings.Contains(s.String(), want) || strings.Contains(s.String(), "finished") {
			t.Errorf("%s printed as %s", raw, s.String())
		}
	}
}

// TestFindingsOfPooling checks that a run which generated nothing is told without tokens it never had,
// and that refused load stands apart.
func TestFindingsOfPooling(t *testing.T) {
	recs := make([]call.Record, 0, 12)
	for i := range 12 {
		r := call.NewRecord(&call.Request{ID: i, Phase: call.Measure})
		at := time.Duration(i) * 100 * time.Millisecond
		r.Due, r.Dispatched, r.Started, r.Sent = at, at, at, at
		r.FirstByte, r.Headers, r.LastEvent, r.End = at+19e6, at+20e6, at+30e6, at+30e6
		r.Inputs, r.In, r.Outcome, r.Status = 4, call.Count{N: 40, From: call.FromServer}, call.OK, 200
		if i >= 10 {
			r.Outcome, r.Fault, r.Status, r.Err, r.RetryWait = call.Failed, call.FaultShed, 429, "HTTP 429", 2*time.Second
		}
		recs = append(recs, r)
	}
	run := &result.Run{Plan: result.Plan{End: 2 * time.Second, EndRule: metrics.Headers}}
	run.Compute(call.List(recs))
	run.Verdict = verdict.Judge(verdict.Input{Summary: run.Summary, Settings: verdict.Settings{IgnoreEOS: true}})
	var b strings.Builder
	if err := Findings(&b, run); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	flat := strings.Join(strings.Fields(text), " ")
	for _, want := range []string{
		"inputs/s 20.0", "E2EL, from sending 20.0", "to the end of the answer 30.0",
		"refused for load 2 attempts, answered in 30.0 ms (median), 30.0 ms at most; 2 of them said to wait 2.00 s (median)",
	} {
		if !strings.Contains(flat, want) {
			t.Errorf("the findings lack %q:\n%s", want, text)
		}
	}
	for _, unwanted := range []string{"TTFT", "TPOT", "ITL", "output tokens", "a chunk", "answers ended", "What limited"} {
		if strings.Contains(text, unwanted) {
			t.Errorf("the findings tell of %q:\n%s", unwanted, text)
		}
	}
}
