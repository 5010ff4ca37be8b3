package compare

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"spate/internal/call"
	"spate/internal/judge/verdict"
	"spate/internal/result"
	"spate/internal/result/harvest"
)

func near(t *testing.T, what string, got *float64, want, within float64) {
	t.Helper()
	if got == nil || !(math.Abs(*got-want) <= within) {
		t.Errorf("%s is %v, want %v within %g", what, show(got), want, within)
	}
}

func show(v *float64) any {
	if v == nil {
		return "nothing"
	}
	return *v
}

// block is a result another tool printed.
func block(t *testing.T, name string, lines ...string) Sample {
	t.Helper()
	text := "============ Serving Benchmark Result ============\n" + strings.Join(lines, "\n") +
		"\n==================================================\n"
	h, err := harvest.Read(name, strings.NewReader(text))
	if err != nil || len(h.Entries) != 1 {
		t.Fatalf("read block: %v, %d results", err, len(h.Entries))
	}
	return Sample{Entry: result.Named(h.Entries[0])}
}

func ttftBlock(t *testing.T, name, mean string) Sample {
	t.Helper()
	return block(t, name, "Successful requests:   100", "Benchmark duration (s):  10.00", "Total input tokens:  1000",
		"Total generated tokens:  500", "Mean TTFT (ms):  "+mean)
}

// Two repeats a side of 100 and 102 against 110 and 112.2 ms. The logarithms differ by log 1.1 = 0.09531.
// Each side's two logs lie log(1.02)/2 = 0.0099013 from their mean, so the variance is twice the square of
// that and the standard error of the mean of two is 0.0099013. Both together: 0.0140026, with Welch's
// 2 degrees of freedom and t = 4.30265: ±0.0602484 on the scale of logarithms.
func TestRepeatsByHand(t *testing.T) {
	a := Side{Name: "A", Samples: []Sample{ttftBlock(t, "a1", "100.00"), ttftBlock(t, "a2", "102.00")}}
	b := Side{Name: "B", Samples: []Sample{ttftBlock(t, "b1", "110.00"), ttftBlock(t, "b2", "112.20")}}
	rep, err := Compare(a, []Side{b}, Options{Metrics: []string{"mean_ttft_ms"}})
	if err != nil {
		t.Fatal(err)
	}
	m := row(t, &rep.Comparisons[0], "mean_ttft_ms")
	near(t, "change", m.Change, 10, 1e-9)
	near(t, "low", m.Low, 100*math.Expm1(0.0953102-0.0602484), 1e-3)
	near(t, "high", m.High, 100*math.Expm1(0.0953102+0.0602484), 1e-3)
	// t = 6.80661 on 2 degrees of freedom: p = 1 - t/sqrt(t²+2).
	near(t, "p", m.P, 1-6.80661/math.Sqrt(6.80661*6.80661+2), 1e-5)
	// 80 % power adds the one-sided t at 80 %, 1.06066: (4.30265+1.06066)*0.0140026.
	near(t, "smallest detectable", m.Detectable, 100*math.Expm1((4.30265+1.06066)*0.0140026), 1e-3)
	if m.Verdict != Worse || rep.Comparisons[0].Verdict != Worse {
		t.Errorf("verdict %s (%s), overall %s; want worse", m.Verdict, m.Why, rep.Comparisons[0].Verdict)
	}
}

// Gains of 0.09, 0.10 and 0.11 have a standard deviation of 0.01 and a standard error of 0.0057735; with 2 degrees of
// freedom t is 4.30265, the half width 0.0248413.
func TestRoundsByHand(t *testing.T) {
	m := Rounds([]float64{0.09, 0.10, 0.11}, 0.02)
	near(t, "change", m.Change, 100*math.Expm1(0.10), 1e-9)
	near(t, "low", m.Low, 100*math.Expm1(0.10-0.0248413), 1e-3)
	near(t, "high", m.High, 100*math.Expm1(0.10+0.0248413), 1e-3)
	for want, list := range map[Verdict][][]float64{
		Better:     {{0.09, 0.10, 0.11}, {0.1, 0.1}},
		Worse:      {{-0.09, -0.10, -0.11}},
		Same:       {{0.001, -0.001, 0}, {0, 0}},
		CannotTell: {{0.5, -0.4}, {0.3}, {0.0101, 0.0100, 0.0300}},
	} {
		for _, gains := range list {
			if m := Rounds(gains, 0.02); m.Verdict != want || m.Change == nil {
				t.Errorf("%v: %s (%s), want %s", gains, m.Verdict, m.Why, want)
			}
		}
	}
}

// Three rounds: A 100, 200, 400 and B 10 % above each time but for 1 %, which only pairs can see.
func TestRoundsTakeDriftOut(t *testing.T) {
	side := func(name string, means ...string) Side {
		s := Side{Name: name}
		for i, m := range means {
			one := ttftBlock(t, name, m)
			one.Entry.Labels = map[string]string{RoundLabel: string(rune('1' + i))}
			s.Samples = append(s.Samples, one)
		}
		return s
	}
	a, b := side("A", "100.00", "200.00", "400.00"), side("B", "110.00", "222.00", "436.00")
	rep, err := Compare(a, []Side{b}, Options{Metrics: []string{"mean_ttft_ms"}})
	if err != nil {
		t.Fatal(err)
	}
	m := row(t, &rep.Comparisons[0], "mean_ttft_ms")
	if m.Verdict != Worse || !strings.Contains(rep.Comparisons[0].Method, "round by round") {
		t.Errorf("%s by %q: %s; want worse, by rounds", m.Verdict, rep.Comparisons[0].Method, m.Why)
	}
	for i := range a.Samples { // without rounds there is nothing but drift
		a.Samples[i].Entry.Labels, b.Samples[i].Entry.Labels = nil, nil
	}
	if rep, err = Compare(a, []Side{b}, Options{Metrics: []string{"mean_ttft_ms"}}); err != nil {
		t.Fatal(err)
	}
	if m := row(t, &rep.Comparisons[0], "mean_ttft_ms"); m.Verdict != CannotTell {
		t.Errorf("without rounds: %s, want cannot tell", m.Verdict)
	}
}

// One run against several is taken to scatter as they do.
func TestOneAgainstSeveral(t *testing.T) {
	many := Side{Name: "A", Samples: []Sample{ttftBlock(t, "1", "100.00"), ttftBlock(t, "2", "101.00"), ttftBlock(t, "3", "99.00"), ttftBlock(t, "4", "100.00")}}
	for name, c := range map[string]struct {
		mean string
		want Verdict
	}{"far": {"120.00", Worse}, "near": {"101.50", CannotTell}, "far below": {"80.00", Better}} {
		one := Side{Name: "B", Samples: []Sample{ttftBlock(t, "b", c.mean)}}
		rep, err := Compare(many, []Side{one}, Options{Metrics: []string{"mean_ttft_ms"}})
		if err != nil {
			t.Fatal(err)
		}
		if got := rep.Comparisons[0].Metrics[0].Verdict; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestSummariesSupportNoVerdict(t *testing.T) {
	c := compared(t, ttftBlock(t, "a", "100.00"), ttftBlock(t, "b", "150.00"), Options{})
	m := row(t, c, "mean_ttft_ms")
	near(t, "change", m.Change, 50, 1e-9)
	if m.Verdict != CannotTell || m.Low != nil || !strings.Contains(m.Why, "no spread") || c.Verdict != CannotTell {
		t.Errorf("verdict %s because %q, overall %s", m.Verdict, m.Why, c.Verdict)
	}
	if !strings.Contains(strings.Join(c.Notes, "\n"), "summaries support no verdict") {
		t.Errorf("notes %q do not say what summaries lack", c.Notes)
	}
}

// edit changes a copy of a run.
func edit(s Sample, change func(r *result.Run)) Sample {
	run := *s.Entry.Run
	change(&run)
	labels := s.Entry.Labels
	s.Entry = result.FromRun(&run)
	if s.Entry.Labels == nil {
		s.Entry.Labels = labels
	}
	return s
}

func TestRefusals(t *testing.T) {
	s := usual()
	s.requests, s.tokens = 20, 2
	a := s.run(t, "first", 1)
	for name, c := range map[string]struct {
		b    Sample
		want string
	}{
		"another rate": {edit(s.run(t, "second", 2), func(r *result.Run) {
			r.Config = json.RawMessage(strings.Replace(string(r.Config), `"seed":0`, `"seed":3,"request_rate":4`, 1))
		}), "load.request_rate"},
		"another dialect": {edit(s.run(t, "second", 2), func(r *result.Run) {
			r.Config = json.RawMessage(strings.Replace(string(r.Config), `"openai"`, `"openai-chat"`, 1))
		}), "target.backend"},
		"other counting": {edit(s.run(t, "second", 2), func(r *result.Run) {
			r.Summary.Lengths.OutputFrom = map[string]int{"chunks": 20}
		}), "output tokens are counted differently"},
		"predicted": {edit(s.run(t, "second", 2), func(r *result.Run) { r.Labels = map[string]string{"predicted": "true"} }), "second is predicted"},
		"invalid": {edit(s.run(t, "second", 2), func(r *result.Run) {
			r.Verdict = verdict.Verdict{Grade: verdict.InvalidRun, Sentence: "the client was the limit"}
		}), "second is INVALID: the client was the limit"},
		"cut short":  {edit(s.run(t, "second", 2), func(r *result.Run) { r.State = result.Interrupted }), "state"},
		"other tool": {block(t, "page", "Backend: sglang", "Successful requests: 20", "Mean TTFT (ms): 3.00"), ""},
	} {
		base, others := sides(a, c.b)
		_, err := Compare(base, others, Options{})
		if c.want == "" { // comparable by what little the page tells
			continue
		}
		cure := "(measure again so that they agree, or compare them all the same with --force)"
		if name == "invalid" {
			cure = "(measure again what is INVALID, or compare them all the same with --force)"
		}
		var refused *NotComparable
		if !errors.As(err, &refused) || !IsNotComparable(err) || !strings.Contains(err.Error(), c.want) || !strings.HasSuffix(err.Error(), cure) {
			t.Errorf("%s: %v; want a refusal that names %q and helps with %q", name, err, c.want, cure)
			continue
		}
		rep, err := Compare(base, others, Options{Force: true})
		if err != nil {
			t.Errorf("%s, forced: %v", name, err)
			continue
		}
		if !strings.Contains(strings.Join(rep.Comparisons[0].Notes, "\n"), c.want) {
			t.Errorf("%s, forced: notes %q do not name %q", name, rep.Comparisons[0].Notes, c.want)
		}
	}
}

func TestOtherSeedsAndSaltsAreComparable(t *testing.T) {
	s := usual()
	s.requests, s.tokens = 20, 2
	reseed := func(name, seed, salt string) Sample {
		return edit(s.run(t, name, 1), func(r *result.Run) {
			cfg := strings.Replace(string(r.Config), `"seed":0`, `"seed":`+seed, 1)
			r.Config = json.RawMessage(strings.Replace(cfg, `"name":"random"`, `"name":"random","salt":"`+salt+`"`, 1))
		})
	}
	base, others := sides(reseed("a", "1", "xx"), reseed("b", "2", "yy"))
	if _, err := Compare(base, others, Options{}); err != nil {
		t.Error(err)
	}
	base, others = sides(reseed("a", "1", ""), reseed("b", "1", "yy"))
	if _, err := Compare(base, others, Options{}); !IsNotComparable(err) {
		t.Errorf("one side salted: %v; want a refusal", err)
	}
}

func TestOtherToolsWorkloads(t *testing.T) {
	a := ttftBlock(t, "a", "100.00")
	long := block(t, "b", "Successful requests:  100", "Total input tokens:  9000", "Mean TTFT (ms):  100.00")
	base, others := sides(a, long)
	if _, err := Compare(base, others, Options{}); !IsNotComparable(err) || !strings.Contains(err.Error(), "input tokens") {
		t.Errorf("other prompts: %v", err)
	}
	foreign := ttftBlock(t, "b", "100.00")
	foreign.Entry.Format = result.FormatGuideLLM
	base, others = sides(a, foreign)
	if _, err := Compare(base, others, Options{}); !IsNotComparable(err) || !strings.Contains(err.Error(), "dialect") {
		t.Errorf("another tool: %v", err)
	}
}

// Two folders of a sweep are compared setting by setting.
func TestSettingsMeetTheirCounterparts(t *testing.T) {
	at := func(name, rate string, seed uint64) Sample {
		s := usual()
		s.requests, s.tokens = 60, 2
		return edit(s.run(t, name, seed), func(r *result.Run) {
			r.Config = json.RawMessage(strings.Replace(string(r.Config), `"seed":0`, `"request_rate":`+rate, 1))
			r.Plan.Text = rate + " requests/s"
		})
	}
	a := Side{Name: "old", Samples: []Sample{at("a2", "2", 1), at("a4", "4", 2), at("a8", "8", 3)}}
	b := Side{Name: "new", Samples: []Sample{at("b4", "4", 4), at("b2", "2", 5), at("b16", "16", 6)}}
	rep, err := Compare(a, []Side{b}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range rep.Comparisons {
		got = append(got, c.Setting+": "+c.A.Runs[0]+" "+c.B.Runs[0])
	}
	if want := "2 requests/s: a2 b2, 4 requests/s: a4 b4"; strings.Join(got, ", ") != want {
		t.Errorf("compared %q, want %q", got, want)
	}
	if len(rep.Notes) != 2 || !strings.Contains(rep.Notes[0], "8 requests/s has no counterpart in new") {
		t.Errorf("notes %q", rep.Notes)
	}
	for i := range b.Samples { // what they have in common is INVALID
		b.Samples[i] = edit(b.Samples[i], func(r *result.Run) {
			r.Verdict = verdict.Verdict{Grade: verdict.InvalidRun, Sentence: "the client was the limit."}
		})
	}
	_, err = Compare(a, []Side{b}, Options{})
	if !IsNotComparable(err) || strings.Contains(err.Error(), "no setting in common") || !strings.Contains(err.Error(), "4 requests/s: left out: b4 is INVALID: the client was the limit; ") || !strings.Contains(err.Error(), "measure again what is INVALID") {
		t.Errorf("all INVALID: %v", err)
	}
}

func TestFailures(t *testing.T) {
	s := usual()
	s.requests, s.tokens = 200, 2
	a, b := s.run(t, "a", 1), s.run(t, "b", 2)
	for i := range 30 {
		b.Records[i].Outcome, b.Records[i].Fault = call.Failed, call.FaultReset
	}
	b = sampleOf("b", b.Records, s.slots)
	c := compared(t, a, b, Options{})
	m := row(t, c, "error_rate")
	near(t, "change", m.Change, 15, 1e-9)
	if m.Verdict != Worse || !strings.Contains(strings.Join(c.Notes, " "), "30 of 200") {
		t.Errorf("%s (%s), notes %q", m.Verdict, m.Why, c.Notes)
	}
	if m := row(t, compared(t, a, s.run(t, "b", 2), Options{}), "error_rate"); m.Verdict != Same {
		t.Errorf("no failures: %s", m.Verdict)
	}
	for i := range 30 { // 30 were cut off or not sent when the run was stopped, one failed
		b.Records[i].Outcome, b.Records[i].Fault = []call.Outcome{call.Canceled, call.Dropped}[i%2], call.FaultStopped
	}
	b.Records[30].Outcome, b.Records[30].Fault = call.Failed, call.FaultReset
	c = compared(t, a, sampleOf("b", b.Records, s.slots), Options{})
	near(t, "change", row(t, c, "error_rate").Change, 100.0/170, 1e-9)
}

func TestFewRequests(t *testing.T) {
	s := usual()
	s.requests, s.tokens = 5, 2
	c := compared(t, s.run(t, "a", 1), s.run(t, "b", 2), Options{})
	for _, name := range []string{"mean_ttft_ms", "p99_ttft_ms", "request_throughput"} {
		if m := row(t, c, name); m.Verdict != CannotTell || m.Low != nil || m.Change == nil {
			t.Errorf("%s of 5 requests: %s, %s", name, m.Verdict, m.IntervalText())
		}
	}
	s.requests = 100
	c = compared(t, s.run(t, "a", 1), s.run(t, "b", 2), Options{})
	if m := row(t, c, "p99_ttft_ms"); m.Verdict != CannotTell || !strings.Contains(m.Why, "at least 299") {
		t.Errorf("p99 of 100 requests: %s because %q", m.Verdict, m.Why)
	}
}

// A run that answers everything in the same time has no spread; the least difference is one.
func TestRunsWithoutSpread(t *testing.T) {
	s := usual()
	s.noise, s.requests, s.tokens = 0, 120, 1
	a := s.run(t, "a", 1)
	if c := compared(t, a, a, Options{}); c.Verdict != Same {
		t.Errorf("a run against itself: %s (%s)", c.Verdict, c.Sentence)
	}
	s.slow = 1.03
	if m := row(t, compared(t, a, s.run(t, "b", 1), Options{}), "mean_ttft_ms"); m.Verdict != Worse {
		t.Errorf("3 %% slower without noise: %s (%s)", m.Verdict, m.Why)
	}
}

func TestMetricNames(t *testing.T) {
	for name, c := range map[string]struct {
		in   []string
		want string
		err  string
	}{
		"default":       {nil, strings.Join(DefaultMetrics(), " "), ""},
		"family":        {[]string{"ttft"}, "mean_ttft_ms median_ttft_ms p99_ttft_ms", ""},
		"without unit":  {[]string{"p90_tpot", "P99.9_ITL_ms"}, "p90_tpot_ms p99.9_itl_ms", ""},
		"twice":         {[]string{"mean_ttft", "ttft"}, "mean_ttft_ms median_ttft_ms p99_ttft_ms", ""},
		"misspelt":      {[]string{"mean_tfft_ms"}, "", `did you mean "mean_ttft_ms"?`},
		"no percentile": {[]string{"p0_ttft_ms"}, "", "above 0"},
	} {
		defs, err := readMetrics(c.in)
		var got []string
		for _, d := range defs {
			got = append(got, d.name)
		}
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %q", name, err, c.err)
			}
			continue
		}
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
	}
}

// Percentiles no summary holds are computed from the records.
func TestPercentilesFromRecords(t *testing.T) {
	s := usual()
	s.tokens = 2
	c := compared(t, s.run(t, "a", 1), s.run(t, "b", 2), Options{Metrics: []string{"p75_ttft_ms"}})
	if m := row(t, c, "p75_ttft_ms"); m.A <= 0 || m.Low == nil {
		t.Errorf("p75: %+v", m)
	}
}

// Three equal runs of 100, 104 and 108.16: logs 0.03922 apart, so the sum of squares is 2*0.03922² = 0.0030766
// with 2 degrees of freedom; the band of two single runs is 4.30265*sqrt(2*0.0015383) = 0.23865.
func TestNoiseFloorByHand(t *testing.T) {
	s := usual()
	s.requests, s.tokens = 40, 2
	equal := func(id string, mean float64) Sample {
		one := edit(s.run(t, id, 1), func(r *result.Run) { r.Summary.TTFT.Mean = mean })
		one.Records = []call.Record{} // figures only
		return one
	}
	noise := &Noise{}
	lesson := []Sample{equal("1", 100), equal("2", 104), equal("3", 108.16)}
	place, err := noise.Learn(lesson, time.Unix(5, 0))
	if err != nil {
		t.Fatal(err)
	}
	if place.Host != "here" || place.Server != "m s" || len(place.Runs) != 3 || place.Workload == "" {
		t.Errorf("learned at %+v", place)
	}
	l := place.Metrics[0]
	floor := l.Floor()
	near(t, "floor", &floor, 100*math.Expm1(0.23865), 0.05)
	if l.Name != "mean_ttft_ms" || l.DF != 2 {
		t.Errorf("learned %+v", l)
	}
	if _, err := noise.Learn(lesson, time.Unix(6, 0)); err == nil || !strings.Contains(err.Error(), "0 of the 3 runs are new") {
		t.Errorf("learning the same twice: %v", err)
	}

	data, err := noise.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := ReadNoise(data)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		mean float64
		want Verdict
	}{"below the floor": {115, Same}, "above the floor": {150, Worse}} {
		m := row(t, compared(t, equal("x", 100), equal("y", c.mean), Options{Noise: again, Metrics: []string{"mean_ttft_ms"}}), "mean_ttft_ms")
		if m.Verdict != c.want {
			t.Errorf("%s: %s (%s), want %s", name, m.Verdict, m.Why, c.want)
		}
		near(t, name+": floor", m.Floor, floor, 1e-9)
	}
}

// What requests alone would call a difference is none below the floor of equal runs.
func TestBelowTheFloorIsTheSame(t *testing.T) {
	s := enough()
	s.drift = 0.05
	noise := &Noise{}
	var lesson []Sample
	for i := range uint64(8) {
		lesson = append(lesson, s.run(t, string(rune('a'+i)), 50+i))
	}
	if _, err := noise.Learn(lesson, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	s.drift = 0
	a := s.run(t, "x", 1)
	s.slow = 1.06
	b := s.run(t, "y", 2)
	if c := compared(t, a, b, Options{}); c.Verdict != Worse {
		t.Errorf("6 %% slower without a floor: %s", c.Verdict)
	}
	c := compared(t, a, b, Options{Noise: noise})
	m := row(t, c, "mean_e2el_ms")
	if m.Verdict != Same || !strings.Contains(m.Why, "noise floor") || m.Floor == nil {
		t.Errorf("6 %% slower where equal runs drift 5 %%: %s (%s)", m.Verdict, m.Why)
	}
	s.slow = 1.5
	if c := compared(t, a, s.run(t, "z", 3), Options{Noise: noise}); c.Verdict != Worse {
		t.Errorf("50 %% slower where equal runs drift 5 %%: %s (%s)", c.Verdict, c.Sentence)
	}
}

func TestNoiseRefusals(t *testing.T) {
	s := usual()
	s.requests, s.tokens = 20, 2
	n := &Noise{}
	if _, err := n.Learn([]Sample{s.run(t, "a", 1)}, time.Time{}); err == nil {
		t.Error("learned from one run")
	}
	if _, err := n.Learn([]Sample{ttftBlock(t, "a", "1.00"), ttftBlock(t, "b", "1.00")}, time.Time{}); err == nil || !strings.Contains(err.Error(), "not a run of spate") {
		t.Errorf("learned from blocks: %v", err)
	}
	for want, change := range map[string]func(*result.Run){
		"b is INVALID: the client was the limit (nothing is learned from an INVALID run: leave it out or measure it again": func(r *result.Run) {
			r.Verdict = verdict.Verdict{Grade: verdict.InvalidRun, Sentence: "the client was the limit."}
		},
		"leave out those that differ": func(r *result.Run) {
			r.Config = json.RawMessage(strings.Replace(string(r.Config), `"seed":0`, `"request_rate":4`, 1))
		},
	} {
		_, err := n.Learn([]Sample{s.run(t, "a", 1), edit(s.run(t, "b", 2), change)}, time.Time{})
		if !IsNotComparable(err) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "with --force") {
			t.Errorf("%v; want %q", err, want)
		}
	}
	for name, data := range map[string]string{
		"not JSON": "{", "later version": `{"schema": 9}`,
		"damaged": `{"schema":1,"places":[{"metrics":[{"metric":"x","sum_of_squared_logs":-1,"degrees_of_freedom":2}]}]}`,
	} {
		if _, err := ReadNoise([]byte(data)); err == nil {
			t.Errorf("%s: read without error", name)
		}
	}
	if n, err := ReadNoise(nil); err != nil || len(n.Places) != 0 {
		t.Errorf("no file: %+v, %v", n, err)
	}
}

// 100 and 102: the logs lie log(1.02)/2 = 0.0099013 from their mean; one run varies by sqrt(2) times that, the
// mean of two is known to 12.7062 times it.
func TestSpreadByHand(t *testing.T) {
	list, err := Spread([]Sample{ttftBlock(t, "1", "100.00"), ttftBlock(t, "2", "102.00")}, []string{"mean_ttft_ms"})
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	s := list[0]
	near(t, "mean", &s.Mean, math.Sqrt(100*102), 1e-9)
	near(t, "variation", s.CV, 100*math.Sqrt2*0.0099013, 1e-4)
	near(t, "half width", s.Half, 100*math.Expm1(12.7062*0.0099013), 1e-2)
	if s.Low != 100 || s.High != 102 {
		t.Errorf("from %v to %v", s.Low, s.High)
	}
	var b strings.Builder
	if err := WriteSpread(&b, 2, list); err != nil || !strings.Contains(b.String(), "1.4 %") {
		t.Errorf("%v:\n%s", err, b.String())
	}
}

// Requests of equal lengths at equal places are the same ones only where both runs drew them alike.
func TestPairsAreOfTheSameRequests(t *testing.T) {
	s := usual()
	s.requests, s.tokens = 40, 4
	a := s.run(t, "a", 1)
	with := func(from, to string) Sample {
		return edit(s.run(t, "b", 2), func(r *result.Run) {
			r.Config = json.RawMessage(strings.Replace(string(r.Config), from, to, 1))
		})
	}
	for name, c := range map[string]struct {
		b     Sample
		apart string // what a note must name; empty where requests are paired
	}{
		"same seed":     {s.run(t, "b", 2), ""},
		"other server":  {with(`"backend":"openai"`, `"backend":"vllm"`), ""},
		"other salt":    {with(`"name":"random"`, `"name":"random","salt":"x"`), ""},
		"other seed":    {with(`"seed":0`, `"seed":77`), "--seed 0 against 77"},
		"other dataset": {with(`"random"`, `"sonnet"`), `dataset.name: "random" against "sonnet"`},
		"other file":    {with(`"random"`, `"random","path":"x"`), `dataset.path: unset against "x"`},
		"no settings, other seed": {edit(s.run(t, "b", 2), func(r *result.Run) {
			r.Config, r.Plan.Seed = nil, 5
		}), "--seed 0 against 5"},
	} {
		got := compared(t, a, c.b, Options{Force: true})
		notes := strings.Join(got.Notes, "\n")
		if paired := strings.Contains(got.Method, "40 pairs of equal requests"); paired != (c.apart == "") {
			t.Errorf("%s: compared as %q", name, got.Method)
		}
		if says := strings.Contains(notes, "the runs sent different requests, which are not compared in pairs: "+c.apart); says != (c.apart != "") {
			t.Errorf("%s: notes %q, want %q", name, notes, c.apart)
		}
	}
}

// Table, sentence and gate speak of the same metrics.
func TestUntoldMetricsAreCountedAlike(t *testing.T) {
	metric := func(name string, primary bool, v Verdict, high float64) Metric {
		low := -high
		return Metric{Name: name, Primary: primary, Verdict: v, Low: &low, High: &high}
	}
	c := Comparison{A: Shown{Name: "A"}, B: Shown{Name: "B"}, Metrics: []Metric{
		metric("mean_ttft_ms", true, CannotTell, 9), metric("p99_ttft_ms", false, CannotTell, 9),
		metric("mean_tpot_ms", true, Same, 1), metric("p99_tpot_ms", false, CannotTell, 3),
	}}
	c.conclude()
	if want := "whether A and B differ cannot be told on 3 of 4 metrics: mean_ttft_ms, p99_ttft_ms, p99_tpot_ms"; c.Verdict != CannotTell || c.Sentence != want {
		t.Errorf("%s: %q, want %q", c.Verdict, c.Sentence, want)
	}
	rep := &Report{Comparisons: []Comparison{c}}
	rep.Hold(Thresholds{{Max: 0.05}}, false)
	if want := "missed on mean_ttft_ms, p99_ttft_ms (2 of the 3 metrics without a verdict); with --fail-unsure this fails"; !strings.HasSuffix(rep.Gate.Why, want) {
		t.Errorf("gate: %q, want %q", rep.Gate.Why, want)
	}
	rep.Hold(nil, false)
	if want := "missed on mean_ttft_ms, p99_ttft_ms, p99_tpot_ms; with --fail-unsure this fails"; !strings.HasSuffix(rep.Gate.Why, want) {
		t.Errorf("gate: %q, want %q", rep.Gate.Why, want)
	}
	c.Metrics[0].Verdict = Same
	c.conclude()
	if want := "B is the same as A on 2 of 4 metrics and different on none; 2 cannot be told: p99_ttft_ms, p99_tpot_ms"; c.Verdict != Same || c.Sentence != want {
		t.Errorf("%s: %q, want %q", c.Verdict, c.Sentence, want)
	}
}
