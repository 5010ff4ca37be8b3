package figure

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spate/internal/call"
	"spate/internal/judge/metrics"
)

// TestEntries holds what every entry must have.
func TestEntries(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range All() {
		for _, name := range append([]string{f.Name}, f.Also...) {
			if seen[name] {
				t.Errorf("%s means two figures", name)
			}
			seen[name] = true
		}
		if (f.dist == nil) == (f.value == nil && f.at == nil) {
			t.Errorf("%s has a distribution and one number, or neither", f.Name)
		}
		if f.Label == "" || f.Meaning == "" {
			t.Errorf("%s has no name for people", f.Name)
		}
		if f.HasStats() && f.Better == Neither {
			t.Errorf("%s does not say which way is better", f.Name)
		}
	}
	for _, tool := range []Tool{VLLM, SGLang, LMDeploy, AIPerf, GuideLLM} {
		names := 0
		for _, f := range All() {
			names += len(f.Spelled[tool])
		}
		if got := len(By(tool)); got == 0 || got != names {
			t.Errorf("%s has %d spellings of %d figures: one name for two", tool, names, got)
		}
	}
}

// TestKeys reads back every key that is written, and what users may leave out of it.
func TestKeys(t *testing.T) {
	for _, key := range Keys() {
		r, err := Find(key)
		if err != nil {
			t.Errorf("Find(%q): %v", key, err)
			continue
		}
		again, err := Find(r.Key())
		if err != nil || again.Key() != r.Key() || again != r {
			t.Errorf("Find(%q) is %+v, %v, not %+v", r.Key(), again, err, r)
		}
	}
	for text, want := range map[string]string{
		"p99_ttft": "p99_ttft_ms", "P99-TTFT-ms": "p99_ttft_ms", "p99.90_tpot": "p99.9_tpot_ms", "median_itl_ms": "median_itl_ms",
		"max_itl": "max_itl_ms", "rps": "request_throughput", "max_output_tokens_per_s": "max_output_tokens_per_s",
		"p5_user_tokens_per_s": "p5_user_tokens_per_s", "Mean_TTFT_due": "mean_ttft_due_ms", "p0_e2el": "p0_e2el_ms",
	} {
		if r, err := Find(text); err != nil || r.Key() != want {
			t.Errorf("Find(%q) is %q, %v, want %q", text, r.Key(), err, want)
		}
	}
	for text, want := range map[string]string{
		"p99_tfft": `unknown metric "p99_tfft": did you mean "p99_ttft"?`, "zzz": `unknown metric "zzz"`, "": `unknown metric ""`,
		"p101_ttft": `unknown statistic "p101"`, "pinf_ttft": `unknown statistic "pinf"`, "p1e1_ttft": `unknown statistic "p1e1"`, "avg_ttft": `unknown statistic "avg"`,
		"p_ttft": `unknown statistic "p"`, "p99_output_throughput": `did you mean "output_throughput"?`,
	} {
		_, err := Find(text)
		var unknown *Unknown
		if err == nil || !strings.Contains(err.Error(), want) || strings.HasPrefix(want, "unknown metric") != errors.As(err, &unknown) && !strings.HasPrefix(want, "did") {
			t.Errorf("Find(%q): %v, want %q", text, err, want)
		}
	}
}

// FuzzFind reads whatever users write: what it takes has a key that means the same.
func FuzzFind(f *testing.F) {
	for _, key := range append(Keys(), "p99.9_ttft_ms", "p_ttft", "_", "", "mean_", "p99_ttft_ms_ms") {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		r, err := Find(key)
		if err != nil {
			return
		}
		if again, err := Find(r.Key()); err != nil || again != r {
			t.Errorf("Find(%q) is %+v, and its key %q is %+v, %v", key, r, r.Key(), again, err)
		}
	})
}

// records are three answers and a failure: TTFTs of 10, 20 and 60 ms, 3, 1 and 2 tokens, within a second.
func records() []call.Record {
	var out []call.Record
	for i, chunks := range [][]time.Duration{{10, 30, 60}, {20}, {60, 100}} {
		r := call.NewRecord(&call.Request{ID: i, Phase: call.Measure})
		r.Due, r.Dispatched, r.Started, r.Sent = 0, 0, 0, 0
		for _, at := range chunks {
			r.Chunks = append(r.Chunks, call.Chunk{At: at * time.Millisecond, Kind: call.Visible, Tokens: 1})
		}
		first, last := r.Chunks[0].At, r.Chunks[len(chunks)-1].At
		r.FirstByte, r.FirstToken, r.FirstText, r.LastToken, r.LastEvent, r.End = first, first, first, last, last, last
		r.In.N, r.Out.N, r.Outcome = 7, len(chunks), call.OK
		out = append(out, r)
	}
	bad := call.NewRecord(&call.Request{ID: 3, Phase: call.Measure})
	bad.Due, bad.Dispatched, bad.Started, bad.Sent, bad.End = 0, 0, 0, 0, time.Millisecond
	bad.Outcome, bad.Fault = call.Failed, call.FaultStatus
	return append(out, bad)
}

// TestByHand holds figures against numbers computed by hand.
func TestByHand(t *testing.T) {
	s := metrics.Summarize(records(), metrics.Run{End: time.Second, Tokenizer: true, Percentiles: []float64{25}, Objectives: []metrics.Objective{{Metric: "ttft", Bound: 30}}})
	for key, want := range map[string]float64{
		"completed": 3, "failed": 1, "duration": 1, "total_input_tokens": 21, "total_output_tokens": 6,
		"request_throughput": 3, "output_throughput": 6, "total_token_throughput": 27, "input_throughput": 21,
		"error_rate": 0.25, "goodput_ratio": 0.5, "request_goodput": 2,
		"mean_ttft_ms": 30, "median_ttft_ms": 20, "min_ttft_ms": 10, "max_ttft_ms": 60, "p50_ttft_ms": 20, "p25_ttft_ms": 15,
		"mean_tpot_ms": 32.5, "mean_itl_ms": 30, "mean_e2el_ms": 60, "mean_first_byte_ms": 30, "max_e2el_close_ms": 100,
		"min_user_tokens_per_s": 20, "max_decode_tokens_per_s": 40,
	} {
		if got := Must(key).Of(&s); !got.OK || math.Abs(got.V-want) > 1e-9 {
			t.Errorf("%s is %+v, want %v", key, got, want)
		}
	}
	for _, key := range []string{"p42_ttft_ms", "rtfx", "input_sequence_throughput"} {
		if got := Must(key).Of(&s); got.OK {
			t.Errorf("%s is %+v of a run that has none", key, got)
		}
	}
	empty := metrics.Summarize(nil, metrics.Run{})
	for _, key := range []string{"error_rate", "goodput_ratio", "request_goodput", "mean_ttft_ms", "p99_ttft_ms"} {
		if got := Must(key).Of(&empty); got.OK || got.V != 0 {
			t.Errorf("%s is %+v of a run without requests", key, got)
		}
	}
}

// TestEach holds the formula for one request against the figure over all of them.
func TestEach(t *testing.T) {
	recs := records()
	run := metrics.Run{End: time.Second, Tokenizer: true}
	s := metrics.Summarize(recs, run)
	for _, name := range PerRequest() {
		f := Get(name)
		if f == nil || name == "itl" { // its mean is over all gaps, a request's own over its gaps
			if name != "itl" && name != "max_itl" {
				t.Errorf("--goodput takes %s, which is not in the catalogue", name)
			}
			continue
		}
		sum, n := 0.0, 0
		for i := range recs {
			if v, ok := f.Each(run)(&recs[i]); ok && recs[i].Outcome == call.OK {
				sum, n = sum+v, n+1
			}
		}
		if got := f.Stat("mean").Of(&s); math.Abs(sum/float64(n)-got.V) > 1e-9 {
			t.Errorf("mean %s over requests is %v, in the summary %v", name, sum/float64(n), got.V)
		}
	}
	if Get("duration").Each(run) != nil {
		t.Error("a request has a duration of the run")
	}
}

// TestTexts are the names in tables, sentences and blocks.
func TestTexts(t *testing.T) {
	for key, want := range map[string][5]string{
		"p99_ttft_ms":             {"P99 TTFT", "P99 TTFT ms", "P99 TTFT", "P99 TTFT (ms)", "P99 TTFT (ms)"},
		"mean_itl_ms":             {"mean ITL", "mean ITL ms", "mean ITL", "Mean ITL (ms)", "Mean ITL (ms)"},
		"output_throughput":       {"out tok/s", "out tok/s", "output throughput", "Output Token Throughput (tok/s)", "Output token throughput (tok/s)"},
		"max_concurrent_requests": {"peak concurrent requests", "peak concurrent requests", "peak concurrent requests", "Peak concurrent requests", "Peak concurrent requests"},
		"p5_user_tokens_per_s":    {"P5 speed for one user", "P5 speed for one user tok/s", "P5 speed for one user", "P5 speed for one user (tok/s)", "P5 speed for one user (tok/s)"},
	} {
		r := Must(key)
		if got := [5]string{r.Short(), r.ShortUnit(), r.Words(), r.Long(), r.BlockRow()}; got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
}

// TestDocumented holds docs/metrics.md against the catalogue, in order and with units and directions.
func TestDocumented(t *testing.T) {
	raw, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page, _ := strings.Cut(string(raw), "## Names in commands")
	rows := regexp.MustCompile("(?m)^\\| (`.*) \\|$").FindAllStringSubmatch(page, -1)
	all := All()
	if len(rows) != len(all) {
		t.Errorf("docs/metrics.md names %d figures, the catalogue %d", len(rows), len(all))
	}
	for i, f := range all[:min(len(all), len(rows))] {
		name := "`" + f.Name + "`"
		if len(f.Also) > 0 {
			name += " (`" + strings.Join(f.Also, "`, `") + "`)"
		}
		yes := func(b bool) string { return map[bool]string{true: "yes"}[b] }
		want := []string{name, string(f.Unit), f.Better.String(), yes(f.HasStats()), yes(slices.Contains(PerRequest(), f.Name))}
		cells := strings.Split(rows[i][1], "|")
		for k := range want {
			if got := strings.TrimSpace(cells[k]); got != want[k] {
				t.Errorf("docs/metrics.md row %d, cell %d is %q, the catalogue of %s has %q", i+1, k+1, got, f.Name, want[k])
			}
		}
	}
}

// TestKeysInSource finds every key that the program itself has, such as p99_ttft_ms, in the catalogue. Readers of other
// tools' files may have more.
func TestKeysInSource(t *testing.T) {
	literal := regexp.MustCompile(`"((?:mean|median|std|min|max|p[0-9.]+)_[a-z0-9_]+_ms|[a-z_]+_throughput)"`)
	found := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		if dir := filepath.ToSlash(path); strings.HasPrefix(dir, "../result/harvest/") || strings.HasPrefix(dir, "../host/") {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range literal.FindAllSubmatch(text, -1) {
			key := string(m[1])
			if r, bad := Find(key); (bad != nil || r.Key() != key) && By(SGLang)[key] == nil && By(AIPerf)[key] == nil {
				t.Errorf("%s has %q: %v", path, key, bad)
			}
			found++
		}
		return err
	})
	if err != nil || found < 50 {
		t.Errorf("%d keys found, %v", found, err)
	}
}

func TestCounted(t *testing.T) {
	for n, want := range []string{"0 runs", "1 run", "2 runs"} {
		if got := Counted(n, "run"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

// TestPutIsTheOppositeOfOf takes every headline out of a summary and puts it back.
func TestPutIsTheOppositeOfOf(t *testing.T) {
	goodput := 1.5
	was := metrics.Summary{
		DurationS: 2, Completed: 3, Failed: 1, TotalInput: 30, TotalOutput: 20, RequestThroughput: 1.5, RequestGoodput: &goodput,
		OutputThroughput: 10, TotalTokenThroughput: 25, MaxOutputPerS: 12, MaxConcurrent: 2,
	}
	for i, d := range []*metrics.Dist{&was.TTFT, &was.TPOT, &was.ITL, &was.E2EL} {
		k := float64(i + 1)
		*d = metrics.Dist{N: 3, Mean: k, Median: 2 * k, Std: 3 * k, Min: 4 * k, Max: 5 * k, Percentiles: metrics.Percentiles{{P: 90, Value: 6 * k}, {P: 95, Value: 7 * k}, {P: 99, Value: 8 * k}}}
	}
	refs := Headlines("mean", "median", "std", "p90", "p95", "p99")
	is := was
	for _, r := range refs {
		if v := r.Of(&is); !v.OK || v.V == 0 {
			t.Fatalf("%s is %+v: this test does not cover it", r.Key(), v)
		}
		if r.Put(&is, 0); r.Of(&is).V != 0 {
			t.Errorf("%s stays %v", r.Key(), r.Of(&is).V)
		}
	}
	for _, r := range refs {
		if r.Of(&was).V == 0 {
			t.Errorf("taking %s out of a copy changed the summary it was copied from", r.Key())
		}
		r.Put(&is, r.Of(&was).V)
	}
	if diff := cmp.Diff(was, is); diff != "" {
		t.Errorf("put back (-was +is):\n%s", diff)
	}
}
