package predict

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"spate/internal/forecast/profile"
	"spate/internal/sim"
	"spate/internal/sim/cluster"
	"spate/internal/sim/latency"
)

// toy is a server whose steps take 10 ms and 1 ms per sequence.
func toy() *profile.Profile {
	return &profile.Profile{
		Schema: profile.Schema, Name: "toy", Calibrated: true,
		Sim:  sim.Config{Policy: sim.V1, MaxSeqs: 8, MaxTokens: 64, BlockSize: 16, PrefixCaching: true},
		Cost: profile.Cost{Blocks: 1000, Step: latency.Reference{StepNS: 10e6, DecodeNS: 1e6, PrefillNS: 1e5}},
	}
}

const toyRows = `{"engines": {"toy": {"engine": "vllm"}}, "rows": [
 {"id": "a", "group": "toy", "workload": {"num_prompts": 1, "request_rate": "inf", "dataset": "fixed", "input_len": 10, "output_len": 5, "ignore_eos": true},
  "metrics": {"output_throughput": 80, "mean_ttft_ms": 12, "backend": "vllm"}},
 {"id": "b", "group": "toy", "workload": {"num_prompts": 4, "request_rate": 2, "dataset": "fixed", "input_len": 10, "output_len": 5, "ignore_eos": true}, "metrics": null}
]}`

func TestParseRowsFillsIn(t *testing.T) {
	f, err := ParseRows([]byte(toyRows))
	if err != nil {
		t.Fatal(err)
	}
	a, b := &f.Rows[0], &f.Rows[1]
	if !a.Workload.Rate.Burst() || b.Workload.Rate != 2 {
		t.Errorf("rates %v and %v, want a burst and 2", a.Workload.Rate, b.Workload.Rate)
	}
	if a.Workload.In != 10 || b.Workload.Out != 20 || b.Workload.Completed != 4 {
		t.Errorf("totals %+v and %+v do not follow from lengths", a.Workload, b.Workload)
	}
	if len(a.Metrics) != 2 || b.Metrics != nil {
		t.Errorf("figures %v and %v, want two numbers and none", a.Metrics, b.Metrics)
	}
	if got := f.Shown(); len(got) != 1 || got[0].ID != "a" {
		t.Errorf("shown rows %v, want a", got)
	}
}

func TestParseRowsRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"not JSON":      `{`,
		"no rows":       `{"engines": {}}`,
		"unknown group": strings.Replace(toyRows, `"group": "toy"`, `"group": "other"`, 1),
		"twice":         strings.Replace(toyRows, `"id": "b"`, `"id": "a"`, 1),
		"bad rate":      strings.Replace(toyRows, `"request_rate": 2`, `"request_rate": "fast"`, 1),
		"negative rate": strings.Replace(toyRows, `"request_rate": 2`, `"request_rate": -2`, 1),
		"no requests":   strings.Replace(toyRows, `"num_prompts": 4`, `"num_prompts": 0`, 1),
		"too many":      strings.Replace(toyRows, `"num_prompts": 4`, `"num_prompts": 999999999`, 1),
	} {
		if _, err := ParseRows([]byte(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzParseRows(f *testing.F) {
	f.Add([]byte(toyRows))
	f.Add([]byte(`{"engines":{"":{}},"rows":[{"id":"x","workload":{"num_prompts":1,"total_input_tokens":1,"total_output_tokens":1}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := ParseRows(data)
		if err != nil {
			return
		}
		for i := range file.Rows {
			w := &file.Rows[i].Workload
			if w.Completed > 1000 || w.In > 1e6 || w.Out > 1e6 {
				continue
			}
			for _, r := range w.Requests(uint64(i)) {
				if r.Out < 1 || len(r.Prompt) == 0 || r.Prompt[0].Len < 1 || r.At < 0 {
					t.Fatalf("row %s makes the request %+v", file.Rows[i].ID, r)
				}
			}
		}
	})
}

func TestWorkloadKeepsTotals(t *testing.T) {
	for name, w := range map[string]Workload{
		"sharegpt": {Completed: 1000, Dataset: "sharegpt", In: 225858, Out: 199218, IgnoreEOS: true},
		"sonnet":   {Completed: 200, Dataset: "sonnet", Input: 1024, Output: 6, In: 202314, Out: 1200},
		"random":   {Completed: 50, Dataset: "random", Input: 1024, Output: 1024, In: 50977, Out: 51200, Client: "vllm"},
		"capped":   {Completed: 64, Dataset: "unknown", Input: 80, Cap: 150, In: 5189, Out: 3842},
	} {
		in, out := 0, 0
		for _, r := range w.Requests(0) {
			in += r.Prompt[0].Len
			out += r.Out - r.Uncounted
		}
		if in != w.In {
			t.Errorf("%s: %d input tokens, want %d", name, in, w.In)
		}
		if math.Abs(float64(out-w.Out)) > 0.01*float64(w.Out) {
			t.Errorf("%s: %d output tokens, want %d", name, out, w.Out)
		}
	}
}

func TestEarlyStopsMakeUpTheTotal(t *testing.T) {
	w := Workload{Completed: 100, Dataset: "random", Input: 1024, Output: 1024, In: 102140, Out: 100633, Client: "vllm"}
	total, early := 0, 0
	for _, r := range w.Requests(0) {
		total += r.Out
		if r.Out < 1024 {
			early++
		}
	}
	if early != 2 || total != w.Out { // 1,767 tokens are missing, of at most 1,023 in each
		t.Errorf("%d answers end early and %d tokens come out, want 2 and %d", early, total, w.Out)
	}
}

func TestRepeatedPromptsShareTheirBeginning(t *testing.T) {
	short := Workload{Completed: 2, Dataset: "random", Input: 100, Output: 4, In: 200, Out: 8, Client: "vllm-0.10"}
	other := Workload{Completed: 2, Dataset: "random", Input: 100, Output: 4, In: 200, Out: 8, Client: "lmdeploy"}
	if a, b := short.Requests(1), short.Requests(2); a[1].Prompt[0].Stream != b[1].Prompt[0].Stream {
		t.Error("prompts of one index differ between runs")
	}
	if a, b := other.Requests(1), other.Requests(2); a[1].Prompt[0].Stream == b[1].Prompt[0].Stream {
		t.Error("prompts that nothing shares are equal")
	}
}

func TestOldClientSleepsAfterEachSend(t *testing.T) {
	w := Workload{Completed: 3, Rate: 2, Dataset: "sonnet", Input: 10, Output: 2, In: 30, Out: 6, Client: "vllm-0.6 script"}
	list := w.Requests(0)
	if list[0].At != 0 {
		t.Errorf("first request at %v, want 0", list[0].At)
	}
	// numpy.random.seed(0): the first exponential gap is 0.7958..., divided by the rate.
	if want := 397937254 * time.Nanosecond; (list[1].At - want - sleepDrift).Abs() > time.Microsecond {
		t.Errorf("second request at %v, want %v and a drift of %v", list[1].At, want, sleepDrift)
	}
}

func TestValidateNeedsAProfile(t *testing.T) {
	f, err := ParseRows([]byte(toyRows))
	if err != nil {
		t.Fatal(err)
	}
	p := toy()
	list, err := Validate(f, []*profile.Profile{p}, 0, false)
	if err != nil {
		t.Fatal(err)
	}
	if got := list[0].ErrorPct["mean_ttft_ms"]; math.Abs(got-100*(11.0/12-1)) > 0.01 {
		t.Errorf("mean TTFT is off by %v %%, want 11 ms against 12", got)
	}
	p.Name = "tay"
	if _, err := Validate(f, []*profile.Profile{p}, 0, false); err == nil || !strings.Contains(err.Error(), "tay") {
		t.Errorf("error %v, want a hint at the profile tay", err)
	}
}

func TestFiguresByHand(t *testing.T) {
	w := Workload{Completed: 1, Input: 10, Output: 5, In: 10, Out: 5, IgnoreEOS: true}
	list := w.Requests(0)
	p := toy()
	server, err := cluster.New(p.Cluster(&p.Cost, 0))
	if err != nil {
		t.Fatal(err)
	}
	res, err := server.Run(cluster.Load{Calls: calls(list)})
	if err != nil {
		t.Fatal(err)
	}
	m := Metrics{}
	figures(m, res, func(r *cluster.Request) *Request { return &list[r.Index] })
	// One prompt step of 10 + 10 x 0.1 ms, then four steps of 10 + 1 ms.
	for name, want := range map[string]float64{
		"mean_ttft_ms": 11, "mean_tpot_ms": 11, "p99_itl_ms": 11, "duration": 0.055, "output_throughput": 5 / 0.055, "completed": 1,
	} {
		if math.Abs(m[name]-want) > 1e-9*want {
			t.Errorf("%s is %v, want %v", name, m[name], want)
		}
	}
}

func TestUncountedEnd(t *testing.T) {
	w := Workload{Completed: 1, Dataset: "unknown", Input: 10, Cap: 150, In: 10, Out: 5}
	list := w.Requests(0)
	if list[0].Out != 6 || list[0].Uncounted != 1 {
		t.Fatalf("request %+v, want six steps of which five count", list[0])
	}
	p := toy()
	server, _ := cluster.New(p.Cluster(&p.Cost, 0))
	res, err := server.Run(cluster.Load{Calls: calls(list)})
	if err != nil {
		t.Fatal(err)
	}
	m := Metrics{}
	figures(m, res, func(r *cluster.Request) *Request { return &list[r.Index] })
	if math.Abs(m["mean_tpot_ms"]-55.0/4) > 1e-9 || math.Abs(m["mean_itl_ms"]-11) > 1e-9 {
		t.Errorf("TPOT %v and ITL %v, want 13.75 and 11: five gaps, four of them counted", m["mean_tpot_ms"], m["mean_itl_ms"])
	}
}

// corpus is a small stand-in for the reference rows: the test data keeps two real ones.
func corpus(t *testing.T) *File {
	t.Helper()
	data, err := os.ReadFile("testdata/rows.json")
	if err != nil {
		t.Fatal(err)
	}
	f, err := ParseRows(data)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestValidateShippedProfiles(t *testing.T) {
	profiles, err := profile.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	f := corpus(t)
	list, err := Validate(f, profiles, 0, true)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != len(f.Rows) {
		t.Fatalf("%d rows judged, want %d", len(list), len(f.Rows))
	}
	for i := range list {
		j := &list[i]
		if j.Measured == nil {
			if len(j.ErrorPct) != 0 || j.Predicted["output_throughput"] <= 0 {
				t.Errorf("row %s has no figures, yet errors %v, or no prediction", j.ID, j.ErrorPct)
			}
			continue
		}
		for name, bound := range map[string]float64{"output_throughput": 5, "mean_ttft_ms": 25, "mean_tpot_ms": 10} {
			if e, ok := j.ErrorPct[name]; !ok || math.Abs(e) > bound {
				t.Errorf("row %s: %s is off by %v %%, want at most %v", j.ID, name, e, bound)
			}
			if j.Low[name] > j.Predicted[name]+1e-3 || j.High[name] < j.Predicted[name]-1e-3 {
				t.Errorf("row %s: %s %v lies outside %v to %v", j.ID, name, j.Predicted[name], j.Low[name], j.High[name])
			}
		}
	}
}

func TestValidateIsDeterministic(t *testing.T) {
	profiles, err := profile.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for range 2 {
		list, err := Validate(corpus(t), profiles, 0, false)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := WriteJSON(&b, list); err != nil {
			t.Fatal(err)
		}
		texts = append(texts, b.String())
	}
	if texts[0] != texts[1] {
		t.Error("two validations of the same rows differ")
	}
	var shape []map[string]json.RawMessage
	if err := json.Unmarshal([]byte(texts[0]), &shape); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"id", "group", "predicted", "measured", "error_pct"} {
		if _, ok := shape[0][name]; !ok {
			t.Errorf("a judged row has no %q", name)
		}
	}
}

func TestTableSaysMeans(t *testing.T) {
	list := []Judged{
		{ID: "a", Group: "g", Predicted: Metrics{"output_throughput": 110}, Measured: Metrics{"output_throughput": 100}, ErrorPct: map[string]float64{"output_throughput": 10}},
		{ID: "b", Group: "g", Predicted: Metrics{"output_throughput": 80}, Measured: Metrics{"output_throughput": 100}, ErrorPct: map[string]float64{"output_throughput": -20}},
		{ID: "c", Group: "h", Predicted: Metrics{"output_throughput": 80}},
	}
	var b strings.Builder
	if err := WriteTable(&b, list); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "all") || !strings.Contains(last, "15.00") {
		t.Errorf("last line %q, want a mean of 15.00 over all", last)
	}
	if !slices.ContainsFunc(lines, func(s string) bool { return strings.HasPrefix(s, "h ") && strings.HasSuffix(s, " 0") }) {
		t.Error("a group without figures has no line that says so")
	}
}

func TestPrefixCacheOutlivesARun(t *testing.T) {
	text := strings.ReplaceAll(toyRows, `"dataset": "fixed"`, `"dataset": "random", "client": "vllm"`)
	text = strings.ReplaceAll(text, `"input_len": 10`, `"input_len": 60`)
	text = strings.ReplaceAll(text, `"request_rate": 2`, `"request_rate": "inf"`)
	text = strings.Replace(text, `"id": "a",`, `"id": "a", "process": "p", "order": 0,`, 1)
	text = strings.Replace(text, `"id": "b",`, `"id": "b", "process": "p", "order": 1,`, 1)
	f, err := ParseRows([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p := toy()
	replay := func() Metrics {
		procs := Processes(f)
		if len(procs) != 1 {
			t.Fatalf("%d processes, want one", len(procs))
		}
		got, err := procs[0].Replay(p, &p.Cost, 0)
		if err != nil {
			t.Fatal(err)
		}
		return got["b"]
	}
	with := replay()
	p.Sim.PrefixCaching = false
	if without := replay(); with["mean_ttft_ms"] >= without["mean_ttft_ms"] {
		t.Errorf("mean TTFT %v with a cache, %v without", with["mean_ttft_ms"], without["mean_ttft_ms"])
	}
}
