package result

import (
	"encoding/json"
	"math"
	"testing"
)

// TestFigureOfATool keeps the digits that were printed beside the value, and says how a figure was obtained.
func TestFigureOfATool(t *testing.T) {
	e := Entry{Format: FormatVLLMBlock}
	for _, c := range []struct {
		f     Figure
		value float64
		ok    bool
		text  string
		json  string
		how   How
	}{
		{NewPrinted("mean_ttft_ms", "12.50", ""), 12.5, true, "12.50", "12.50", Printed},
		{NewPrinted("mean_ttft_ms", "0.0125", "ttft").Scaled(1000, "seconds × 1000"), 12.5, true, "12.5", "12.5", Derived},
		{NewPrinted("mean_ttft_ms", "12.50", "ttft.avg").Scaled(1, ""), 12.5, true, "12.50", "12.50", Printed},
		{Figure{Name: "request_throughput", Value: 1.0 / 3, From: "completed / duration"}, 1.0 / 3, true, "0.3333333333333333", "0.3333333333333333", Derived},
		{NewPrinted("request_rate", "inf", ""), 0, false, "inf", `"inf"`, Printed},
		{NewPrinted("huge", "1e400", ""), math.Inf(1), false, "1e400", "1e400", Printed},
		{NewPrinted("tiny", "1e-7", "").Scaled(0.001, "milliseconds / 1000"), 1e-7 * 0.001, true, "1e-10", "1e-10", Derived},
	} {
		v, ok := c.f.Float()
		data, err := json.Marshal(Figures{c.f})
		if v != c.value || ok != c.ok || c.f.String() != c.text || err != nil || string(data) != `{"`+c.f.Name+`":`+c.json+"}" || e.How(c.f) != c.how {
			t.Errorf("%+v: value %v %v, text %q, JSON %s %v, %s", c.f, v, ok, c.f, data, err, e.How(c.f))
		}
	}
}

// TestOwnFiguresAreNotPrinted: an entry of spate's own run has the very floats of its summary, also after a trip through
// an export.
func TestOwnFiguresAreNotPrinted(t *testing.T) {
	run := &Run{ID: "r", Schema: Schema, State: Complete, Labels: map[string]string{}}
	run.Summary.DurationS, run.Summary.Completed, run.Summary.OutputThroughput = 1.0/3, 7, 1e22/3
	e := FromRun(run)
	data, err := Encode(&e)
	if err != nil {
		t.Fatal(err)
	}
	again, err := DecodeEntry(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []*Entry{&e, &again} {
		for name, want := range map[string]float64{"duration": 1.0 / 3, "completed": 7, "output_throughput": 1e22 / 3} {
			f, ok := e.Metrics.Get(name)
			if !ok || f.Value != want || f.Text != "" || e.How(f) != Measured {
				t.Errorf("%s is %+v, %s; want %v, measured and not printed", name, f, e.How(f), want)
			}
		}
	}
	e.Labels[PredictedLabel] = "true"
	if how := e.How(e.Metrics[0]); how != Predicted {
		t.Errorf("a figure of the simulator is %s", how)
	}
}

// TestNumbersOfSettings takes numbers as the result has them; text is read only where users or tools wrote it.
func TestNumbersOfSettings(t *testing.T) {
	third := 1.0 / 3
	e := Entry{
		Labels: map[string]string{"tp": "2", "team": "a"},
		Context: Context{
			{Name: "request_rate", Value: third},
			{Name: "num_prompts", Value: 12},
			{Name: "output_len", Value: json.Number("1e2")},
			{Name: "max_concurrency", Value: "inf"},
			{Name: "tp", Value: 8},
			{Name: "dataset", Value: "random"},
			{Name: "empty", Value: nil},
			{Name: "server_arguments", Value: map[string]any{"max-num-seqs": json.Number("64")}},
		},
	}
	for name, want := range map[string]float64{"request_rate": third, "num_prompts": 12, "output_len": 100, "max_concurrency": math.Inf(1), "tp": 2, "max_num_seqs": 64} {
		if v, ok := e.Number(name); !ok || v != want {
			t.Errorf("%s is %v %v, want %v", name, v, ok, want)
		}
	}
	for _, name := range []string{"team", "dataset", "empty", "nothing"} {
		if v, ok := e.Number(name); ok {
			t.Errorf("%s is the number %v", name, v)
		}
	}
	if v, ok := e.Context.Number("max_concurrency"); ok {
		t.Errorf("no limit is the fact %v", v)
	}
}
