package curve

import (
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"spate/internal/call"
	"spate/internal/host/enginelog"
	"spate/internal/host/observe"
	"spate/internal/judge/metrics"
	"spate/internal/judge/stats"
	"spate/internal/result"
	"spate/internal/rng"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const ms = time.Millisecond

// made is a run of n requests, 20 a second, of which every seventeenth fails.
func made(n int) ([]call.Record, metrics.Run) {
	r := rng.New(7, "curve test")
	run := metrics.Run{Start: 300 * ms, Tokenizer: true, RequestRate: 20}
	recs := make([]call.Record, 0, n)
	for i := range n {
		at := run.Start + time.Duration(i)*50*ms
		rec := call.NewRecord(&call.Request{ID: i, Phase: call.Measure, In: call.Count{N: 100}})
		rec.Due, rec.Dispatched, rec.Started, rec.Sent = at, at, at, at+time.Duration(r.IntN(3))*ms
		rec.Outcome, rec.Out = call.OK, call.Count{N: 8}
		now := rec.Sent + time.Duration(40+r.IntN(200))*ms
		for range 8 {
			rec.Chunks = append(rec.Chunks, call.Chunk{At: now, Tokens: 1, Kind: call.Visible})
			now += time.Duration(5+r.IntN(30)) * ms
		}
		rec.End, rec.LastEvent = now, now
		if i%17 == 16 {
			rec.Outcome, rec.Chunks, rec.End = call.Failed, nil, rec.Sent+100*ms
		}
		recs = append(recs, rec)
		run.End = max(run.End, rec.End)
	}
	return recs, run
}

func ascending(xs []float64) bool { return slices.IsSorted(xs) }

func TestSamplesAgreeWithTheSummary(t *testing.T) {
	recs, run := made(300)
	run.Percentiles = []float64{50, 90, 99}
	sum := metrics.Summarize(recs, run)
	s := SamplesOf(recs, run)
	for _, c := range []struct {
		l    Latency
		want metrics.Dist
	}{{TTFT, sum.TTFT}, {TPOT, sum.TPOT}, {ITL, sum.ITL}, {E2EL, sum.E2EL}} {
		xs := s.Of(c.l)
		if len(xs) != c.want.N || !ascending(xs) {
			t.Errorf("%s: %d samples, ascending %v; the summary has %d", c.l, len(xs), ascending(xs), c.want.N)
		}
		for _, p := range []float64{50, 90, 99} {
			if got := stats.SortedPercentile(xs, p); math.Abs(got-c.want.P(p)) > 1e-6 {
				t.Errorf("%s p%v: %v, the summary says %v", c.l, p, got, c.want.P(p))
			}
		}
	}
	if (*Samples)(nil).Of(TTFT) != nil {
		t.Error("no samples have samples")
	}
}

// anySamples draws up to a few thousand positive numbers, with ties.
func anySamples(t *rapid.T) []float64 {
	n := rapid.OneOf(rapid.IntRange(1, 5), rapid.IntRange(395, 405), rapid.IntRange(1000, 3000)).Draw(t, "n")
	seed := rapid.Uint64().Draw(t, "seed")
	spread := rapid.SampledFrom([]float64{0, 0.1, 4}).Draw(t, "spread")
	r := rng.New(seed, "samples")
	xs := make([]float64, n)
	for i := range xs {
		xs[i] = math.Round(1000*math.Exp(spread*r.NormFloat64())) / 10
	}
	slices.Sort(xs)
	return xs
}

func TestCDFRisesToAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		xs := anySamples(t)
		l := CDFs(TTFT, []Named{{"a", xs}, {"none", nil}}).Lines
		if len(l) != 1 || len(l[0].X) > maxPoints+1 {
			t.Fatalf("%d lines, %d points", len(l), len(l[0].X))
		}
		if !ascending(l[0].X) || !ascending(l[0].Y) {
			t.Fatal("the curve goes back")
		}
		if n := len(l[0].Y); l[0].Y[n-1] != 100 || l[0].X[n-1] != xs[len(xs)-1] {
			t.Fatalf("ends at %v, %v; longest is %v", l[0].X[n-1], l[0].Y[n-1], xs[len(xs)-1])
		}
		for i, x := range l[0].X { // exact: as many samples at or below x as the line says, but for ties
			below, _ := slices.BinarySearch(xs, x)
			upTo, _ := slices.BinarySearch(xs, math.Nextafter(x, math.Inf(1)))
			if k := l[0].Y[i] / 100 * float64(len(xs)); k < float64(below)+1-1e-6 || k > float64(upTo)+1e-6 {
				t.Fatalf("%v of %d samples at or below %v, but there are %d to %d", k, len(xs), x, below, upTo)
			}
		}
	})
}

func TestHistogramCountsEverySample(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anySamples(t), anySamples(t)
		one := Histograms(TTFT, []Named{{"a", a}}).Lines[0]
		if got := stats.Sum(one.Y); got != float64(len(a)) {
			t.Fatalf("bars of one run sum to %v of %d", got, len(a))
		}
		if len(one.X) != len(one.Y)+1 || !ascending(one.X) {
			t.Fatalf("%d edges for %d bars", len(one.X), len(one.Y))
		}
		both := Histograms(TTFT, []Named{{"a", a}, {"b", b}})
		for _, l := range both.Lines {
			if got := stats.Sum(l.Y); math.Abs(got-100) > 1e-6 {
				t.Fatalf("shares sum to %v %%", got)
			}
		}
		if diff := cmp.Diff(both.Lines[0].X, both.Lines[1].X); diff != "" {
			t.Fatalf("two runs have different edges:\n%s", diff)
		}
	})
}

func TestLadderClimbs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		xs := anySamples(t)
		l := Ladder(TTFT, []Named{{"a", xs}}, nil).Lines[0]
		if !ascending(l.X) || !ascending(l.Y) || l.X[0] != 0 || l.Y[0] != xs[0] {
			t.Fatal("the ladder does not climb from the shortest")
		}
		if last := l.Y[len(l.Y)-1]; last > xs[len(xs)-1] {
			t.Fatalf("ends at %v, beyond the longest %v", last, xs[len(xs)-1])
		}
		if last := l.X[len(l.X)-1]; len(xs) > 2 && last > 100*(1-1/float64(len(xs)))+1e-9 {
			t.Fatalf("asks %d samples for percentile %v", len(xs), last)
		}
	})
}

func TestRatesIntegrateToRequests(t *testing.T) {
	for _, n := range []int{1, 5, 40, 333} {
		recs, run := made(n)
		sum := metrics.Summarize(recs, run)
		charts := OverTime(&sum, recs, WindowOf(run, &sum), nil)
		area := map[string]float64{}
		for _, c := range charts {
			if c.X != timeAxis() {
				t.Errorf("%s has a time axis of its own", c.ID)
			}
			for _, l := range c.Lines {
				for i := range l.X[:len(l.X)-1] {
					if l.Kind == Steps {
						area[c.ID+" "+l.Name] += l.Y[i] * (l.X[i+1] - l.X[i])
					}
				}
			}
		}
		for name, want := range map[string]int{
			"time-rate sent": n, "time-rate finished": sum.Completed, "time-rate failed": sum.Failed,
			"time-tokens output, client": sum.TotalOutput,
		} {
			if math.Abs(area[name]-float64(want)) > 1e-6 {
				t.Errorf("%d requests: area below %s is %v, not %d", n, name, area[name], want)
			}
		}
		held := sum.Concurrency.Mean * sum.DurationS
		if got := area["time-in-flight in flight, client"]; math.Abs(got-held) > 1e-6*max(1, held) {
			t.Errorf("%d requests: area below in-flight is %v request seconds, not %v", n, got, held)
		}
	}
}

func TestServerSeriesJoinTheTimeAxis(t *testing.T) {
	recs, run := made(60)
	sum := metrics.Summarize(recs, run)
	points := func(values ...float64) (out []observe.Point) {
		for i, v := range values {
			out = append(out, observe.Point{At: run.Start + time.Duration(i)*time.Second, Value: v})
		}
		return out
	}
	charts := OverTime(&sum, recs, WindowOf(run, &sum), []observe.Series{
		{Name: "cpu", Unit: "share", Source: observe.Host, Points: points(0.5, 0.5)},
		{Name: "power", Unit: "W", Source: "gpu0", Points: points(300, 310)},
		{Name: "kv_usage", Unit: "share", Source: observe.Server, Points: points(0.25, 0.5)},
		{Name: "running", Unit: "requests", Source: observe.Server, Points: append(points(3, 4), observe.Point{At: time.Hour, Value: 9})},
		{Name: "prompt_rate", Unit: "tokens/s", Source: observe.Log, Points: points(1, 2)},
	})
	var ids []string
	for _, c := range charts {
		ids = append(ids, c.ID)
	}
	want := []string{"time-rate", "time-in-flight", "time-tokens", "time-prompt-tokens", "time-latency", "time-server-share", "time-gpu-w", "time-host-share"}
	if diff := cmp.Diff(want, ids); diff != "" {
		t.Fatalf("charts (-want +got):\n%s", diff)
	}
	running := charts[1].Lines[1]
	if diff := cmp.Diff(Line{Name: "running, server", Kind: Path, X: []float64{0, 1}, Y: []float64{3, 4}}, running); diff != "" {
		t.Errorf("running, without what came an hour later (-want +got):\n%s", diff)
	}
	if kv := charts[5]; kv.Y.Unit != "%" || kv.Lines[0].Y[1] != 50 {
		t.Errorf("a share of 0.5 is drawn as %v %s", kv.Lines[0].Y[1], kv.Y.Unit)
	}
}

func TestThinKeepsExtremes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 3000).Draw(t, "n")
		most := rapid.IntRange(4, 200).Draw(t, "most")
		r := rng.New(rapid.Uint64().Draw(t, "seed"), "thin")
		var l Line
		for i := range n {
			l.X, l.Y = append(l.X, float64(i)), append(l.Y, r.NormFloat64())
		}
		got := Thin(l, most)
		if len(got.X) > max(most, 0) && n > most || len(got.X) != len(got.Y) || !ascending(got.X) {
			t.Fatalf("%d points of %d, at most %d", len(got.X), n, most)
		}
		if n > 0 && (slices.Min(got.Y) != slices.Min(l.Y) || slices.Max(got.Y) != slices.Max(l.Y) || got.X[0] != 0 || got.X[len(got.X)-1] != float64(n-1)) {
			t.Fatal("an extreme or an end is lost")
		}
	})
}

func TestWaterfallLosesNothingNotable(t *testing.T) {
	recs, run := made(340)
	full := Requests(recs, run, 1000)
	if len(full.Bars) != 340 || full.Total != 340 {
		t.Fatalf("%d bars of %d", len(full.Bars), full.Total)
	}
	some := Requests(recs, run, 100)
	if len(some.Bars) > 100 || some.Total != 340 {
		t.Fatalf("%d bars of %d, at most 100", len(some.Bars), some.Total)
	}
	failed, longest := 0, time.Duration(0)
	for _, b := range some.Bars {
		if b.Outcome == call.Failed {
			failed++
		} else {
			longest = max(longest, b.End-b.Sent)
		}
		if b.Due > b.Sent || b.Sent > b.First || b.First > b.End || b.Due < 0 {
			t.Errorf("bar out of order: %+v", b)
		}
	}
	if failed != 20 {
		t.Errorf("%d of 20 failures are drawn", failed)
	}
	want := time.Duration(0)
	for _, b := range full.Bars {
		if b.Outcome == call.OK {
			want = max(want, b.End-b.Sent)
		}
	}
	if longest != want {
		t.Errorf("the longest drawn took %v, the longest %v", longest, want)
	}
	if got := Requests(recs, run, 0); len(got.Bars) != 0 || got.Total != 340 {
		t.Errorf("no room: %d bars of %d", len(got.Bars), got.Total)
	}
	never := call.NewRecord(&call.Request{ID: 1, Phase: call.Measure})
	never.Due, never.Outcome = run.Start+ms, call.Dropped
	if b := Requests([]call.Record{never}, run, 10).Bars[0]; b.Sent != ms || b.End != ms || b.Outcome != call.Dropped {
		t.Errorf("a dropped request is drawn as %+v", b)
	}
}

func TestFrontierIsNotDominated(t *testing.T) {
	beats := func(ax, ay, bx, by float64) bool { return ax >= bx && ay >= by && (ax > bx || ay > by) }
	rapid.Check(t, func(t *rapid.T) {
		coord := rapid.Map(rapid.IntRange(0, 12), func(i int) float64 { return float64(i) })
		n := rapid.IntRange(0, 30).Draw(t, "n")
		x, y := rapid.SliceOfN(coord, n, n).Draw(t, "x"), rapid.SliceOfN(coord, n, n).Draw(t, "y")
		front := Frontier(x, y)
		on := map[[2]float64]bool{}
		for k, i := range front {
			if k > 0 && (x[front[k-1]] >= x[i] || y[front[k-1]] <= y[i]) {
				t.Fatal("the frontier does not fall from left to right")
			}
			on[[2]float64{x[i], y[i]}] = true
		}
		for i := range x {
			dominated := false
			for j := range x {
				dominated = dominated || beats(x[j], y[j], x[i], y[i])
			}
			if on[[2]float64{x[i], y[i]}] == dominated {
				t.Fatalf("point %v,%v: dominated %v, on the frontier %v", x[i], y[i], dominated, !dominated)
			}
		}
	})
}

// entry is a result with the given settings and figures.
func entry(name string, labels map[string]string, figures map[string]string) result.Entry {
	e := result.Entry{ID: name, Name: name, Labels: labels}
	for _, key := range slices.Sorted(keys(figures)) {
		e.Metrics = append(e.Metrics, result.NewPrinted(key, figures[key], ""))
	}
	return e
}

func keys(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func TestGroups(t *testing.T) {
	at := func(name, gpu, rate, note string) result.Entry {
		return entry(name, map[string]string{"gpu": gpu, "request_rate": rate, "note": note}, nil)
	}
	for _, c := range []struct {
		name string
		set  []result.Entry
		by   []string
		want []Group
	}{
		{"one run", []result.Entry{at("a", "x", "1", "")}, nil, []Group{{"runs", []int{0}}}},
		{
			"by what differs, rising load, no rate last",
			[]result.Entry{at("a", "x", "4", "1"), at("b", "y", "2", "2"), at("c", "x", "inf", "3"), at("d", "x", "2", "4"), at("e", "y", "10", "5")},
			nil,
			[]Group{{"x", []int{3, 0, 2}}, {"y", []int{1, 4}}},
		},
		{
			"only the load differs",
			[]result.Entry{at("a", "x", "4", ""), at("b", "x", "2", "")},
			nil,
			[]Group{{"runs", []int{1, 0}}},
		},
		{
			"by name",
			[]result.Entry{at("a", "x", "4", "p"), at("b", "y", "2", "p"), at("c", "x", "2", "q")},
			[]string{"note"},
			[]Group{{"p", []int{1, 0}}, {"q", []int{2}}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Groups(c.set, c.by)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestGroupsPartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var set []result.Entry
		for range rapid.IntRange(0, 12).Draw(t, "n") {
			labels := map[string]string{}
			for _, k := range []string{"a", "b", "request_rate"} {
				labels[k] = rapid.SampledFrom([]string{"", "1", "2", "x"}).Draw(t, k)
			}
			set = append(set, entry("r", labels, nil))
		}
		var all []int
		for _, g := range Groups(set, nil) {
			all = append(all, g.Members...)
		}
		slices.Sort(all)
		for i := range set {
			if i >= len(all) || all[i] != i {
				t.Fatalf("members %v of %d runs", all, len(set))
			}
		}
		if names := Names(set); len(slices.Compact(slices.Sorted(slices.Values(names)))) != len(set) {
			t.Fatalf("names repeat: %v", names)
		}
	})
}

func TestLoadCurveAndPareto(t *testing.T) {
	at := func(name, rate, tput, ttft, gpus string) result.Entry {
		return entry(name, map[string]string{"request_rate": rate, "gpus": gpus}, map[string]string{
			"request_throughput": tput, "output_throughput": tput + "0", "p99_ttft_ms": ttft, "median_tpot_ms": "20",
		})
	}
	set := []result.Entry{at("b", "8", "6", "900", "2"), at("a", "2", "2", "20", "2"), at("c", "4", "4", "", "2")}
	groups := Groups(set, nil)
	c := LoadCurve(set, groups, Loads()[0], TTFT, Stats()[0])
	want := []Line{{Name: "runs", Kind: Marks, X: []float64{2, 6}, Y: []float64{20, 900}, Labels: []string{"a", "b"}}}
	if diff := cmp.Diff(want, c.Lines); diff != "" {
		t.Errorf("load curve (-want +got):\n%s", diff)
	}
	if c.Y.Scale != Log {
		t.Error("a factor of 45 is on a linear axis")
	}
	p := Pareto(set, groups)
	want = []Line{
		{Name: "runs", Kind: Dots, X: []float64{50, 50, 50}, Y: []float64{10, 20, 30}, Labels: []string{"a", "c", "b"}},
		{Name: "Frontier", Kind: Path, X: []float64{50}, Y: []float64{30}, Labels: []string{"b"}},
	}
	if diff := cmp.Diff(want, p.Lines); diff != "" {
		t.Errorf("pareto over two GPUs (-want +got):\n%s", diff)
	}
	set = append(set, at("d", "9", "9", "9", ""))
	if p = Pareto(set, Groups(set, nil)); len(p.Lines[0].X) != 3 || p.Note == "" {
		t.Errorf("a result without GPUs: %d points, note %q", len(p.Lines[0].X), p.Note)
	}
	for i := range set {
		set[i].Labels["gpus"] = ""
	}
	if p = Pareto(set, Groups(set, nil)); p.Y.Name != "Output throughput" || p.Note == "" {
		t.Errorf("no GPUs known: %q, note %q", p.Y.Name, p.Note)
	}
}

func TestReported(t *testing.T) {
	e := entry("r", nil, map[string]string{"median_ttft_ms": "10", "p99_ttft_ms": "30", "p90_ttft_ms": "20"})
	got, ok := Reported(TTFT, "r", &e)
	want := Line{Name: "r", Kind: Marks, X: []float64{50, 90, 99}, Y: []float64{10, 20, 30}}
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Errorf("ok %v (-want +got):\n%s", ok, diff)
	}
	if _, ok := Reported(ITL, "r", &e); ok {
		t.Error("a line of nothing")
	}
}

func TestEngineLog(t *testing.T) {
	lines := []enginelog.Sample{
		{Time: "08-15 10:00:00", Running: "2", KVUsage: "12.5"},
		{Time: "08-15 10:00:10", Running: "4", KVUsage: "50"},
		{Time: "garbage", Running: "9"},
		{Time: "08-15 09:59:00", Running: "9"},
		{Time: "08-15 10:00:20,123", Running: "3"},
	}
	p := func(s int, v float64) observe.Point {
		return observe.Point{At: time.Duration(s) * time.Second, Value: v}
	}
	want := []observe.Series{
		{Name: "running", Unit: "requests", Source: "log", Points: []observe.Point{p(0, 2), p(10, 4), p(20, 3)}},
		{Name: "kv_usage", Unit: "share", Source: "log", Points: []observe.Point{p(0, 0.125), p(10, 0.5)}},
	}
	if diff := cmp.Diff(want, EngineLog(lines)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := EngineLog(lines[:1]); got != nil {
		t.Errorf("one line makes %v", got)
	}
	if charts := OverTime(nil, nil, Window{}, EngineLog(lines)); len(charts) != 2 {
		t.Errorf("%d charts of a log, not 2", len(charts))
	}
}

func TestGolden(t *testing.T) {
	recs, run := made(40)
	sum := metrics.Summarize(recs, run)
	s := SamplesOf(recs, run)
	charts := OverTime(&sum, recs, WindowOf(run, &sum), nil)
	charts = append(charts, CDFs(TTFT, []Named{{"a", s.Of(TTFT)}}), Histograms(E2EL, []Named{{"a", s.Of(E2EL)}}))
	for _, c := range charts { // the last digits are the processor's
		for _, l := range c.Lines {
			for _, xs := range [][]float64{l.X, l.Y} {
				for i, x := range xs {
					xs[i] = math.Round(x*1e6) / 1e6
				}
			}
		}
	}
	got, err := json.MarshalIndent(charts, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "charts.json")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
		t.Errorf("charts changed (-want +got), run with -update if meant:\n%s", diff)
	}
}

// TestCurvesKeepApartWhatMayNotBeUsed: INVALID runs are points of a line of their own, predictions are curves of
// their own, and the frontier rests on neither.
func TestCurvesKeepApartWhatMayNotBeUsed(t *testing.T) {
	at := func(name, grade, rate, out string, predicted bool) result.Entry {
		e := entry(name, map[string]string{"request_rate": rate}, map[string]string{
			"request_throughput": rate, "output_throughput": out, "p99_ttft_ms": out, "median_tpot_ms": "20",
		})
		e.Context = append(e.Context, result.Fact{Name: "verdict", Value: grade})
		if predicted {
			e.Labels[result.PredictedLabel] = "true"
		}
		return e
	}
	set := []result.Entry{
		at("a", "VALID", "1", "10", false), at("b", "INVALID", "2", "90", false), at("c", "SUSPECT", "3", "30", false), at("d", "", "1", "70", true), at("e", "", "3", "80", true),
	}
	groups := Groups(set, nil)
	if diff := cmp.Diff([]Group{{"runs", []int{0, 1, 2}}, {"predicted", []int{3, 4}}}, groups); diff != "" {
		t.Fatalf("groups (-want +got):\n%s", diff)
	}
	want := []Line{
		{Name: "runs", Kind: Marks, X: []float64{1, 3}, Y: []float64{10, 30}, Labels: []string{"a", "c (SUSPECT)"}},
		{Name: "predicted", Kind: Marks, X: []float64{1, 3}, Y: []float64{70, 80}, Labels: []string{"d (predicted)", "e (predicted)"}},
		{Name: "INVALID", Kind: Dots, X: []float64{2}, Y: []float64{90}, Labels: []string{"b (INVALID)"}},
	}
	if diff := cmp.Diff(want, LoadCurve(set, groups, Loads()[0], TTFT, Stats()[0]).Lines); diff != "" {
		t.Errorf("load curve (-want +got):\n%s", diff)
	}
	p := Pareto(set, groups)
	if diff := cmp.Diff(Line{Name: "Frontier", Kind: Path, X: []float64{50}, Y: []float64{30}, Labels: []string{"c (SUSPECT)"}}, p.Lines[len(p.Lines)-1]); diff != "" {
		t.Errorf("frontier (-want +got):\n%s", diff)
	}
	if !strings.Contains(p.Note, "without 1 INVALID, 2 predicted (of 5)") {
		t.Errorf("note %q", p.Note)
	}
}

// TestRepeatsAreNotJoined: three runs at one load are three marks; the line goes through their median.
func TestRepeatsAreNotJoined(t *testing.T) {
	at := func(name, rate, ttft string) result.Entry {
		return entry(name, map[string]string{"request_rate": rate}, map[string]string{"request_throughput": rate, "p99_ttft_ms": ttft})
	}
	set := []result.Entry{at("a", "2", "9"), at("b", "1", "5"), at("c", "1", "4"), at("d", "1", "6")}
	got := LoadCurve(set, Groups(set, nil), Loads()[0], TTFT, Stats()[0]).Lines
	want := []Line{{
		Name: "runs", Kind: Marks, X: []float64{1, 1, 1, 2}, Y: []float64{5, 4, 6, 9}, Labels: []string{"b", "c", "d", "a"},
		JoinX: []float64{1, 2}, JoinY: []float64{5, 9},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
