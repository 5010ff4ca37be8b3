package compare

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"math"
	"strings"
	"testing"
)

func slowReport(t *testing.T, by float64, opt Options) *Report {
	t.Helper()
	s := enough()
	a := s.run(t, "a", 1)
	s.slow = by
	base, others := sides(a, s.run(t, "b", 2))
	rep, err := Compare(base, others, opt)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

func TestGate(t *testing.T) {
	for name, c := range map[string]struct {
		slow   float64
		given  []string
		all    string
		strict bool
		passed bool
		why    string
	}{
		"no thresholds, slower":         {1.1, nil, "", false, false, "worse than allowed: mean_ttft_ms of B +"},
		"no thresholds, equal":          {1, nil, "", false, true, ""},
		"within what is allowed":        {1.1, nil, "20%", false, true, ""},
		"beyond what is allowed":        {1.1, nil, "5%", false, false, "5 % allowed"},
		"one metric may":                {1.1, []string{"ttft=30%", "tpot=30%", "itl=30%", "e2el=30%", "request_throughput=30%", "output_throughput=30%"}, "5%", false, true, ""},
		"only one is held":              {1.1, []string{"mean_ttft_ms=5%"}, "", false, false, "mean_ttft_ms"},
		"only one is held, and may":     {1.1, []string{"mean_ttft_ms=15%"}, "", false, true, "nothing is worse"},
		"faster":                        {0.8, nil, "5%", false, true, ""},
		"below the margin, but not ok":  {1.018, []string{"mean_tpot_ms=1%"}, "", false, false, "mean_tpot_ms"},
		"cannot tell passes":            {1, []string{"p99_ttft_ms=0.1%"}, "", false, true, "could have been missed on p99_ttft_ms; with --fail-unsure this fails"},
		"cannot tell fails when strict": {1, []string{"p99_ttft_ms=0.1%"}, "", true, false, "could have been missed on p99_ttft_ms"},
	} {
		held := []string{"mean_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "output_throughput", "error_rate"}
		var ts Thresholds
		if c.all != "" {
			share, err := ParseShare(c.all)
			if err != nil {
				t.Fatal(err)
			}
			ts = append(ts, Threshold{Max: share})
		}
		for _, text := range c.given {
			th, err := ParseThreshold(text)
			if err != nil {
				t.Fatal(err)
			}
			ts = append(ts, th)
		}
		rep := slowReport(t, c.slow, Options{Thresholds: ts, Metrics: held})
		rep.Hold(ts, c.strict)
		if rep.Gate.Passed != c.passed || !strings.Contains(rep.Gate.Why, c.why) || strings.Contains(rep.Gate.Why, "\n") {
			t.Errorf("%s: passed %v because %q; want %v because of %q", name, rep.Gate.Passed, rep.Gate.Why, c.passed, c.why)
		}
	}
}

func TestParseThreshold(t *testing.T) {
	for in, want := range map[string]struct {
		metric string
		max    float64
		err    string
	}{
		"mean_ttft_ms=10%":  {"mean_ttft_ms", 0.10, ""},
		"mean_ttft = 2.5 %": {"mean_ttft_ms", 0.025, ""},
		"TTFT=3%":           {"ttft", 0.03, ""},
		"error_rate=1%":     {"error_rate", 0.01, ""},
		"mean_ttft_ms":      {err: "not of the form"},
		"mean_ttft_ms=10":   {err: "write 10%"},
		"mean_ttft_ms=x%":   {err: "not a share"},
		"mean_ttft_ms=-1%":  {err: "between"},
		"mean_tftt_ms=5%":   {err: `did you mean "mean_ttft_ms"?`},
		"=5%":               {err: "unknown metric"},
	} {
		got, err := ParseThreshold(in)
		switch {
		case want.err != "":
			if err == nil || !strings.Contains(err.Error(), want.err) {
				t.Errorf("%q: %v, want %q", in, err, want.err)
			}
		case err != nil || got.Metric != want.metric || math.Abs(got.Max-want.max) > 1e-12:
			t.Errorf("%q: %+v, %v; want %s %v", in, got, err, want.metric, want.max)
		}
	}
}

func FuzzParseThreshold(f *testing.F) {
	for _, seed := range []string{"mean_ttft_ms=10%", "ttft=0%", "p99.9_itl=1e2%", "=", "x=NaN%", "mean_ttft_ms=inf%", "error_rate=5"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseThreshold(text)
		if err != nil {
			return
		}
		if !(got.Max >= 0 && got.Max <= 10) || got.Metric == "" {
			t.Errorf("%q gave %+v", text, got)
		}
		if _, err := readMetric(got.Metric); err != nil {
			t.Errorf("%q gave a metric that is none: %v", text, err)
		}
	})
}

func FuzzReadNoise(f *testing.F) {
	f.Add([]byte(`{"schema":1,"places":[{"host":"h","metrics":[{"metric":"mean_ttft_ms","sum_of_squared_logs":0.01,"degrees_of_freedom":4}]}]}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := ReadNoise(data)
		if err != nil {
			return
		}
		for i := range n.Places {
			for k := range n.Places[i].Metrics {
				if v := n.Places[i].Metrics[k].band(1, 1); math.IsNaN(v) || v < 0 {
					t.Errorf("a floor of %v", v)
				}
			}
		}
	})
}

// The file is read back as CI servers do: counts agree with what is inside.
func TestJUnit(t *testing.T) {
	rep := slowReport(t, 1.1, Options{})
	rep.Comparisons[0].B.Name = `B<&">`
	rep.Hold(nil, false)
	var b bytes.Buffer
	if err := rep.WriteJUnit(&b); err != nil {
		t.Fatal(err)
	}
	var got junitSuites
	if err := xml.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatalf("%v in\n%s", err, b.String())
	}
	suite := got.Suites[0]
	failed, skipped := 0, 0
	for _, c := range suite.Cases {
		if c.Name == "" || c.Class == "" || c.Out == nil {
			t.Errorf("a test without name: %+v", c)
		}
		if c.Failure != nil {
			failed++
			if !strings.Contains(c.Failure.Message, "is worse than A") {
				t.Errorf("failure %q", c.Failure.Message)
			}
		}
		if c.Skipped != nil {
			skipped++
		}
	}
	if len(suite.Cases) != suite.Tests || suite.Tests != got.Tests || failed != suite.Failures || failed != got.Failures || failed == 0 ||
		skipped != suite.Skipped || skipped != got.Skipped || !strings.HasPrefix(suite.Name, `B<&">`) {
		t.Errorf("%d tests, %d failed, %d skipped; attributes say %+v", len(suite.Cases), failed, skipped, suite)
	}
	if !strings.HasPrefix(b.String(), "<?xml") {
		t.Error("no XML header")
	}
}

func TestAnnotations(t *testing.T) {
	rep := slowReport(t, 1.1, Options{})
	rep.Comparisons[0].B.Name = "B:1,\n%x"
	rep.Hold(nil, false)
	var b bytes.Buffer
	if err := rep.WriteAnnotations(&b); err != nil {
		t.Fatal(err)
	}
	errorsSeen, notices := 0, 0
	for line := range strings.Lines(b.String()) {
		switch {
		case strings.HasPrefix(line, "::error title=regression%3A "):
			errorsSeen++
		case strings.HasPrefix(line, "::notice title=B%3A1%2C%0A%25x against A%3A worse::"):
			notices++
		default:
			t.Errorf("a line that is no command: %q", line)
		}
	}
	if errorsSeen == 0 || notices != 1 {
		t.Errorf("%d errors and %d notices", errorsSeen, notices)
	}
}

func TestMarkdown(t *testing.T) {
	rep := slowReport(t, 1.1, Options{})
	rep.Comparisons[0].A.Name = "x|y"
	var b bytes.Buffer
	if err := rep.WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	columns := -1
	for line := range strings.Lines(b.String()) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
		if columns < 0 {
			columns = n
		}
		if n != columns {
			t.Errorf("%d columns in %q, %d above", n, line, columns)
		}
	}
	if columns != 9 || !strings.Contains(b.String(), "**worse**") {
		t.Errorf("page:\n%s", b.String())
	}
}

func TestTextAndJSON(t *testing.T) {
	rep := slowReport(t, 1.1, Options{})
	rep.Hold(Thresholds{{Max: 0.05}}, false)
	var text, js bytes.Buffer
	if err := rep.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"METRIC", "mean_ttft_ms", "COULD SHOW", "WORSE: B is worse than A on", "gate: failed: "} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("text lacks %q:\n%s", want, text.String())
		}
	}
	if err := rep.WriteJSON(&js); err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(js.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if back.Comparisons[0].Verdict != Worse || back.Gate == nil || back.Gate.Passed || back.Comparisons[0].Metrics[0].Gate == "" {
		t.Errorf("read back: %+v", back)
	}
}

func TestSigned(t *testing.T) {
	for in, want := range map[float64]string{0: "0.0", -0.001: "0.0", 0.5: "+0.50", -12.34: "-12.3", 1.0: "+1.0"} {
		if got := signed(in); got != want {
			t.Errorf("%v is %q, want %q", in, got, want)
		}
	}
}
