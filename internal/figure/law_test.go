package figure_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spate/internal/call"
	"spate/internal/figure"
	"spate/internal/forecast/predict"
	"spate/internal/judge/compare"
	"spate/internal/judge/metrics"
	"spate/internal/result"
	"spate/internal/result/harvest"
	"spate/internal/result/interop"
	"spate/internal/search/capacity"
	"spate/internal/search/tune"
	"spate/internal/view/curve"
	"spate/internal/view/report"
	"spate/internal/view/table"
)

// anyRecord draws a request with its stamps in order: most are answered, others failed, were cut off or never left.
func anyRecord(t *rapid.T, id int) call.Record {
	at := time.Duration(rapid.IntRange(0, 5000).Draw(t, "due")) * time.Millisecond
	next := func(name string, most int) time.Duration {
		at += time.Duration(rapid.IntRange(0, most).Draw(t, name)) * time.Microsecond
		return at
	}
	r := call.NewRecord(&call.Request{ID: id, Phase: call.Measure, MaxOut: 8})
	r.Due = at
	fate := rapid.IntRange(0, 11).Draw(t, "fate")
	if fate == 0 {
		r.Outcome, r.Fault = call.Dropped, call.FaultLocal
		return r
	}
	r.Dispatched, r.Started, r.Sent = next("lag", 2000), next("queue", 90_000), next("send", 900)
	if fate <= 2 {
		r.End, r.Outcome, r.Fault = next("end", 90_000), call.Failed, call.FaultStatus
		if fate == 2 {
			r.Outcome, r.Fault = call.Canceled, call.FaultCutoff
		}
		return r
	}
	for i := range rapid.IntRange(1, 6).Draw(t, "chunks") {
		r.Chunks = append(r.Chunks, call.Chunk{At: next("gap", 400_000), Kind: call.Visible, Tokens: 1})
		if i == 0 {
			r.FirstByte, r.FirstToken, r.FirstText = at, at, at
		}
	}
	r.LastToken, r.LastEvent, r.End = at, next("usage", 900), next("close", 900)
	r.In = call.Count{N: rapid.IntRange(1, 500).Draw(t, "in"), From: call.FromServer}
	r.Out = call.Count{N: rapid.IntRange(1, 12).Draw(t, "out"), From: call.FromServer}
	r.Outcome, r.Status = call.OK, 200
	return r
}

// anyRun draws a run and what its records say.
func anyRun(t *rapid.T) (*result.Run, []call.Record) {
	plan := metrics.Run{
		Tokenizer: true, EndRule: rapid.SampledFrom([]metrics.EndRule{metrics.LastChunk, metrics.LastEvent}).Draw(t, "rule"),
		Percentiles: []float64{25, 75, 99.9},
	}
	if rapid.Bool().Draw(t, "goodput") {
		plan.Objectives = []metrics.Objective{{Metric: "ttft", Bound: 150}, {Metric: "max_itl", Bound: 300}}
	}
	recs := make([]call.Record, rapid.IntRange(0, 40).Draw(t, "n"))
	for i := range recs {
		recs[i] = anyRecord(t, i)
		plan.End = max(plan.End, recs[i].End)
	}
	run := &result.Run{ID: "law", State: result.Complete, Plan: result.NewPlan(plan, "law"), Command: []string{"spate", "bench"}}
	run.Block = result.Block{Percentiles: []float64{25, 50, 75, 90, 95, 99, 99.9}, Metrics: figure.Latencies(), Tokenizer: true}
	run.Compute(call.List(recs))
	return run, recs
}

// place is somewhere that shows figures of a run: what it shows by key, and how exactly.
type place struct {
	name  string
	shown map[string]float64
	exact bool    // to the last digit; else to within off
	off   float64 // of what is printed rounded
}

// TestOneNumber is the law of the catalogue: whatever shows a figure of a run shows the same number.
func TestOneNumber(t *testing.T) {
	met := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		run, recs := anyRun(t)
		for _, p := range []place{
			block(t, run), vllmJSON(t, run), resultJSON(t, run), slo(t, run), capacityReads(t, run), compares(t, "compare", run, recs), compares(t, "compare without records", run, nil),
			{name: "tune", shown: (&tune.File{}).FromSummary(&run.Summary), exact: true},
			{name: "predict", shown: predict.FromSummary(&run.Summary), exact: true},
			tables(t, run), exports(t, run), samples(run, recs),
		} {
			for _, key := range slices.Sorted(maps.Keys(p.shown)) {
				r, err := figure.Find(key)
				if err != nil {
					t.Fatalf("%s shows %s: %v", p.name, key, err)
				}
				want, got := r.Of(&run.Summary), p.shown[key]
				if !want.OK && got == 0 {
					continue // vLLM's block and file have zeros where there is nothing
				}
				off := math.Abs(got - want.V)
				if !want.OK || p.exact && off != 0 || off > p.off*max(1, math.Abs(want.V)) {
					t.Fatalf("%s shows %s as %v, the catalogue has %+v", p.name, key, got, want)
				}
				met[p.name]++
			}
		}
	})
	for _, name := range []string{"block", "JSON of vLLM", "result.json", "--slo", "capacity", "compare", "compare without records", "tune", "predict", "table as CSV", "export", "page"} {
		if met[name] == 0 {
			t.Errorf("%s was never looked at", name)
		}
	}
}

// printed reads figures that are words in a table.
func printed(t *rapid.T, texts map[string]string) map[string]float64 {
	out := map[string]float64{}
	for key, text := range texts {
		if _, err := figure.Find(key); err != nil || text == "" {
			continue // a setting
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatalf("%s is %q", key, text)
		}
		out[key] = v
	}
	return out
}

// block is what the result block shows, read as import reads it.
func block(t *rapid.T, run *result.Run) place {
	var text bytes.Buffer
	if err := report.Block(&text, report.BlockOf(run)); err != nil {
		t.Fatal(err)
	}
	found, err := harvest.Read("block.txt", strings.NewReader(text.String()))
	if err != nil || len(found.Entries) != 1 {
		t.Fatalf("%v in\n%s", err, text.String())
	}
	texts := map[string]string{}
	for _, f := range found.Entries[0].Metrics {
		texts[f.Name] = f.Text
	}
	return place{name: "block", shown: printed(t, texts), off: 0.0051}
}

// vllmJSON is the file of --save-result.
func vllmJSON(t *rapid.T, run *result.Run) place {
	v := interop.VLLM{Summary: &run.Summary, Selected: run.Block.Metrics, Percentiles: run.Block.Percentiles}
	raw, err := v.Encode()
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(bytes.ReplaceAll(raw, []byte("Infinity"), []byte("0")), &all); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	p := place{name: "JSON of vLLM", shown: map[string]float64{}, exact: true}
	for key, x := range all {
		if v, ok := x.(float64); ok {
			if _, err := figure.Find(key); err == nil {
				p.shown[key] = v
			}
		}
	}
	return p
}

// all are the usual statistics of every figure, and the figures without.
func all() []figure.Ref { return figure.List(append(figure.Keys(), "p25_ttft", "p99.9_itl")...) }

// resultJSON is the summary as result.json keeps it.
func resultJSON(t *rapid.T, run *result.Run) place {
	raw, err := json.Marshal(&run.Summary)
	if err != nil {
		t.Fatal(err)
	}
	var s metrics.Summary
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	return place{name: "result.json", shown: figure.Values(&s, all()), exact: true}
}

// objective is one on a figure.
func objective(t *rapid.T, r figure.Ref) figure.Objective {
	o, err := figure.ParseObjective(r.Key() + "<1")
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func slo(t *rapid.T, run *result.Run) place {
	p := place{name: "--slo", shown: map[string]float64{}, exact: true}
	for _, r := range all() {
		if v := objective(t, r).Of(&run.Summary); !math.IsNaN(v) {
			p.shown[r.Key()] = v
		}
	}
	return p
}

func capacityReads(t *rapid.T, run *result.Run) place {
	p := place{name: "capacity", shown: map[string]float64{}, exact: true}
	for _, r := range all() {
		if got := capacity.Read([]figure.Objective{objective(t, r)}, &run.Summary)[0]; !math.IsNaN(float64(got.Value)) {
			p.shown[r.Key()] = float64(got.Value)
		}
	}
	return p
}

// compares is the run beside itself.
func compares(t *rapid.T, name string, run *result.Run, recs []call.Record) place {
	p := place{name: name, shown: map[string]float64{}, off: 1e-12}
	side := compare.Side{Name: "a", Samples: []compare.Sample{{Entry: result.FromRun(run), Records: recs}}}
	rep, err := compare.Compare(side, []compare.Side{side}, compare.Options{Force: true, Metrics: append(compare.DefaultMetrics(), "p75_itl", "p25_e2el", "total_token_throughput")})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range rep.Comparisons[0].Metrics {
		if m.Unit == "%" {
			m.A /= 100
		}
		p.shown[m.Name] = m.A
	}
	return p
}

// cells reads a CSV of one row.
func cells(t *rapid.T, text string) map[string]string {
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) != 2 {
		t.Fatalf("%d rows, %v in %s", len(rows), err, text)
	}
	out := map[string]string{}
	for i, name := range rows[0] {
		out[name] = rows[1][i]
	}
	return out
}

func tables(t *rapid.T, run *result.Run) place {
	var text bytes.Buffer
	if err := table.CSV(&text, []result.Entry{result.FromRun(run)}, table.Options{}); err != nil {
		t.Fatal(err)
	}
	return place{name: "table as CSV", shown: printed(t, cells(t, text.String())), exact: true}
}

func exports(t *rapid.T, run *result.Run) place {
	var text bytes.Buffer
	if err := result.WriteCSV(&text, []result.Entry{result.FromRun(run)}); err != nil {
		t.Fatal(err)
	}
	return place{name: "export", shown: printed(t, cells(t, text.String())), exact: true}
}

// samples are what pages show of latencies, which they compute from the records.
func samples(run *result.Run, recs []call.Record) place {
	p := place{name: "page", shown: map[string]float64{}, off: 1e-9}
	s := curve.SamplesOf(recs, run.Plan.Metrics())
	for _, l := range curve.Latencies() {
		if xs := s.Of(l); len(xs) > 0 {
			p.shown["min_"+string(l)+"_ms"], p.shown["max_"+string(l)+"_ms"] = xs[0], xs[len(xs)-1]
		}
	}
	return p
}
