package calibrate

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"spate/internal/forecast/predict"
	"spate/internal/forecast/profile"
	"spate/internal/judge/stats"
)

// rowsOf makes a rows file of one engine; each workload is requests, input, output.
func rowsOf(t *testing.T, engine string, loads ...[3]int) *predict.File {
	t.Helper()
	var rows []string
	for i, l := range loads {
		rows = append(rows, fmt.Sprintf(`{"id": "r%d", "group": "g", "metrics": {"completed": 1}, "workload":
		  {"num_prompts": %d, "request_rate": "inf", "dataset": "fixed", "input_len": %d, "output_len": %d, "ignore_eos": true}}`, i, l[0], l[1], l[2]))
	}
	f, err := predict.ParseRows([]byte(`{"engines": {"g": ` + engine + `}, "rows": [` + strings.Join(rows, ",") + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

const (
	knownEngine = `{"engine": "vllm", "version": "0.10.1", "gpu": "A100-80GB", "model": "Qwen3-8B", "tensor_parallel": 1, "kv_tokens": 400000}`
	blackBox    = `{"engine": "vllm", "note": "unknown"}`
)

var spanning = [][3]int{{1, 100, 20}, {1, 4000, 20}, {8, 4000, 30}, {64, 200, 30}, {96, 600, 20}}

// measured fills in the figures that true parameters give.
func measured(t *testing.T, f *predict.File, truth map[string]float64) {
	t.Helper()
	fams, err := families(f)
	if err != nil {
		t.Fatal(err)
	}
	fam := fams[0]
	values := fam.values(make([]float64, len(fam.params)))
	for i := range fam.params {
		if v, ok := truth[fam.params[i].Name]; ok {
			values[i] = v
		}
	}
	got, err := fam.predict(values, shown, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.Rows {
		f.Rows[i].Metrics = got[f.Rows[i].ID]
	}
}

// TestFitRecoversParameters fits rows that the model itself made. The truth then has no residuals, so its
// loss is its squared distance from what is expected, and the fit must not end above that. Near the
// minimum the loss is quadratic with the matrix A = J'J + 1; so the fit is off by A^-1 times the truth,
// which is at most sqrt(A^-1[i][i]) times the truth's length, and by what the search leaves over.
func TestFitRecoversParameters(t *testing.T) {
	f := rowsOf(t, knownEngine, spanning...)
	truth := map[string]float64{"step": 11, "prefill": 60, "decode": 150, "kv": 80, "mixed_kv": 60, "base": 25, "request": 3}
	measured(t, f, truth)
	fams, err := families(f)
	if err != nil {
		t.Fatal(err)
	}
	fam := fams[0]
	j := &job{fam: fam, use: shown}
	fit, err := j.fit(j.starts(effort{}), 0)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]float64, len(fam.params))
	length := 0.0
	for i := range want {
		if v, ok := truth[fam.params[i].Name]; ok {
			want[i] = fam.params[i].toX(v)
			delete(truth, fam.params[i].Name)
		}
		length += want[i] * want[i]
	}
	if len(truth) > 0 {
		t.Fatalf("there are no parameters %v", truth)
	}
	left := enough*fit.Loss + enoughNoise
	if fit.Loss > length+left {
		t.Errorf("loss %.4g, the truth has %.4g", fit.Loss, length)
	}
	p := j.problem()
	mat, _ := normal(p.slopes(fit.at, laterReach), fit.at)
	inverse := stats.Inverse(mat)
	for i := range want {
		bound := math.Sqrt(inverse[i][i]) * (math.Sqrt(length) + math.Sqrt(left))
		if off := math.Abs(fit.at.x[i] - want[i]); off > bound {
			t.Errorf("%s is off by %.3g of its spread, at most %.3g follows from the rows", fam.params[i].Name, off, bound)
		}
		if fam.params[i].Name == "step" && bound > 0.3 {
			t.Errorf("the rows leave %.3g of step's spread open; the test shows nothing", bound)
		}
	}
}

func TestProvenanceNamesTheRows(t *testing.T) {
	f := rowsOf(t, knownEngine, spanning[:2]...)
	measured(t, f, nil)
	done, err := Run(f, Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := done.Profiles[0]
	if len(p.Provenance.Rows) != 2 || !p.Calibrated {
		t.Errorf("provenance %+v does not name the rows", p.Provenance)
	}
	for name, e := range p.Provenance.Fit {
		if e > 0.01 { // the truth is what is expected, where the search begins
			t.Errorf("%s of fitted rows is off by %.2f %%", name, e)
		}
	}
}

func TestCalibrationIsDeterministic(t *testing.T) {
	var texts []string
	for range 2 {
		f := rowsOf(t, blackBox, [3]int{1, 80, 10}, [3]int{8, 80, 10}, [3]int{40, 80, 10})
		measured(t, f, map[string]float64{"step": 10})
		done, err := Run(f, Options{Cross: true})
		if err != nil {
			t.Fatal(err)
		}
		data, err := done.Profiles[0].Encode()
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(data))
		if _, err := profile.Decode(data); err != nil {
			t.Errorf("a profile just written cannot be read: %v", err)
		}
	}
	if texts[0] != texts[1] {
		t.Error("two calibrations of the same rows differ")
	}
}

func TestUndeterminedParametersAreHeld(t *testing.T) {
	// A lone short request says nothing on batches, long contexts or queues.
	f := rowsOf(t, knownEngine, [3]int{1, 50, 40})
	measured(t, f, map[string]float64{"step": 9})
	done, err := Run(f, Options{})
	if err != nil {
		t.Fatal(err)
	}
	free := map[string]bool{}
	for _, q := range done.Profiles[0].Params {
		free[q.Name] = q.Free
		if !q.Free && (q.Note == "" || math.Abs(q.Value-q.Prior) > 1e-9) {
			t.Errorf("%s is held at %v, expected %v, with the note %q", q.Name, q.Value, q.Prior, q.Note)
		}
	}
	if !free["step"] {
		t.Error("the fixed cost of a step is held though a lone request shows it")
	}
	for _, name := range []string{"kv", "decode"} {
		if free[name] {
			t.Errorf("%s was fitted though the row does not depend on it", name)
		}
	}
}

func TestRefusesWhatNothingDetermines(t *testing.T) {
	f := rowsOf(t, blackBox, [3]int{1, 1, 40})
	measured(t, f, nil)
	delete(f.Rows[0].Metrics, "mean_ttft_ms")
	_, err := Run(f, Options{})
	if !errors.Is(err, ErrUnknown) {
		t.Fatalf("error %v, want a refusal", err)
	}
	if !strings.Contains(err.Error(), "token") || !strings.Contains(err.Error(), "two concurrencies") {
		t.Errorf("%q does not say which run would help", err)
	}
}

func TestCrossPredictsWithoutTheRow(t *testing.T) {
	f := rowsOf(t, blackBox, [3]int{1, 80, 12}, [3]int{4, 80, 12}, [3]int{16, 80, 12}, [3]int{40, 80, 12})
	measured(t, f, map[string]float64{"step": 20, "token": 200})
	f.Rows[2].Metrics["output_throughput"] /= 10 // a row nobody could predict from the others
	f.Rows[2].Metrics["mean_tpot_ms"] *= 10
	f.Rows[2].Metrics["mean_itl_ms"] *= 10
	done, err := Run(f, Options{Cross: true})
	if err != nil {
		t.Fatal(err)
	}
	left := done.Cross["r2"]["mean_tpot_ms"] / f.Rows[2].Metrics["mean_tpot_ms"]
	if left > 0.2 {
		t.Errorf("left out, the odd row is predicted at %.2f of its figure: it was not left out", left)
	}
}

func TestRowsWithoutFiguresGetNoProfile(t *testing.T) {
	f := rowsOf(t, knownEngine, [3]int{1, 50, 4})
	f.Rows[0].Metrics = nil
	if _, err := Run(f, Options{}); err == nil {
		t.Error("no error though there is nothing to fit")
	}
}

func TestReportHasEveryRowAndPicture(t *testing.T) {
	f := rowsOf(t, blackBox, [3]int{1, 80, 40}, [3]int{16, 80, 40}, [3]int{64, 80, 40})
	measured(t, f, map[string]float64{"step": 20})
	done, err := Run(f, Options{Cross: true})
	if err != nil {
		t.Fatal(err)
	}
	docs := Report(f, done)
	text := string(docs[0].Data)
	for _, r := range f.Rows {
		if !strings.Contains(text, "| "+r.ID+" | g |") {
			t.Errorf("row %s is not in the report", r.ID)
		}
	}
	for _, d := range docs[1:] {
		if !strings.Contains(text, d.Name) || !strings.HasPrefix(string(d.Data), "<svg") {
			t.Errorf("picture %s is not shown or not a picture", d.Name)
		}
		if n := strings.Count(string(d.Data), "<circle"); n != 2*len(f.Rows) {
			t.Errorf("picture %s has %d dots, want two per row", d.Name, n)
		}
	}
}

// TestTells: a P99 ITL counts where it is the wait for a prompt.
func TestTells(t *testing.T) {
	for _, c := range []struct {
		name        string
		rate        predict.Rate
		prompts     int
		median, p99 float64
		want        bool
	}{
		{"tokens waited", 0, 100, 50, 80, true},
		{"chance", 0, 100, 50, 75, false},
		{"a lone request", 0, 1, 50, 80, false},
		{"at a rate", 4, 100, 50, 80, false},
		{"no figure", 0, 100, 50, 0, false},
		{"no median", 0, 100, 0, 80, false},
	} {
		r := &predict.Row{
			Workload: predict.Workload{Rate: c.rate, Prompts: c.prompts},
			Metrics:  predict.Metrics{"median_itl_ms": c.median, "p99_itl_ms": c.p99},
		}
		if got := (&Measure{Name: "p99_itl_ms"}).tells(r); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if got := (&Measure{Name: "median_itl_ms"}).tells(r); got != (c.median > 0) {
			t.Errorf("%s: the median counts: %v", c.name, got)
		}
	}
}

// TestMixedIsExpected works out the attention of a decoding request beside a prompt by hand: 36 layers of
// 32 heads of 128, a tile of 64 rows, four operations for each, at half of an A100's 312 TFLOPS.
func TestMixedIsExpected(t *testing.T) {
	g, err := newGroup("a", profile.Facts{Engine: "vllm", Version: "0.10.1", GPU: "A100-80GB", Model: "Qwen3-8B", DType: "bf16", TP: 1})
	if err != nil {
		t.Fatal(err)
	}
	want := 1e9 * 4 * 64 * 36 * 32 * 128 / (312e12 * 0.5)
	if got := g.shape.mixedNS(); math.Abs(got-want) > 1e-9*want {
		t.Errorf("%v ns per token of context, want %v", got, want)
	}
	for _, f := range []profile.Facts{
		{GPU: "A100-80GB", Model: "gpt-oss-20b", DType: "mxfp4", TP: 1},
		{GPU: "H200", Model: "DeepSeek-V3", TP: 8, MaxModelLen: 8192},
	} {
		f.Engine, f.Version = "vllm", "0.10.1"
		g, err := newGroup("b", f)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := g.shape.mixedNS(), g.shape.kvNS(); got != want || !(got > 0) {
			t.Errorf("%s: %v ns, want the %v of reading", f.Model, got, want)
		}
	}
}

// TestUnknownGroup: a group that is not there is told, with the nearest that is.
func TestUnknownGroup(t *testing.T) {
	fams := []*Family{{groups: []*group{{name: "001-plain"}, {name: "001-tcp"}}}}
	for _, c := range []struct{ group, want string }{{"", ""}, {"001-tcp", ""}, {"001-tpc", `did you mean "001-tcp"`}, {"x", `--group "x" is none`}} {
		err := known(fams, c.group)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.group, err, c.want)
		}
	}
}
