package table

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spate/internal/result"
)

// engines is a page of the same models and workloads on three engines, a heading for each model, as people publish
// them: sglang has 10 % more throughput at rate 2 and 20 % less at rate 8; lmdeploy was not run at rate 8.
func engines() string {
	text := ""
	for _, engine := range []string{"vllm", "sglang", "lmdeploy"} {
		for m, model := range []string{"m/A", "m/B", "m/C"} {
			for _, rate := range []int{2, 8} {
				if engine == "lmdeploy" && rate == 8 {
					continue
				}
				out := float64(100 * (m + 1) * rate)
				if engine == "sglang" {
					out *= map[int]float64{2: 1.1, 8: 0.8}[rate]
				}
				text += strings.NewReplacer("backend='vllm'", "backend='"+engine+"'", "model='m/Q'", "model='"+model+"'").
					Replace(block(model, rate, 200, fmt.Sprintf("%.2f", out), "50.00", "10.00"))
			}
		}
	}
	return text
}

// TestEnginesAreCompared: of the same models and workloads on three engines the engine is what is compared, by itself.
func TestEnginesAreCompared(t *testing.T) {
	set := entries(t, engines())
	p, err := NewPivot(set, "", "", []string{"output_throughput"})
	if err != nil || p == nil {
		t.Fatalf("%+v, %v", p, err)
	}
	if p.Factor.Key != "engine" || !slices.Equal(p.Levels, []string{"vllm", "sglang", "lmdeploy"}) || p.Baseline != 0 || len(p.Conditions) != 6 {
		t.Fatalf("%+v", p)
	}
	var b strings.Builder
	if err := p.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	want := `Output Token Throughput (tok/s) by engine (higher is better)
Condition   vllm (baseline)  sglang          lmdeploy
m/A, QPS 2  200.00           220.00 * 1.10x  200.00 1.00x
m/A, QPS 8  800.00 *         640.00 0.80x    -
m/B, QPS 2  400.00           440.00 * 1.10x  400.00 1.00x
m/B, QPS 8  1600.00 *        1280.00 0.80x   -
m/C, QPS 2  600.00           660.00 * 1.10x  600.00 1.00x
m/C, QPS 8  2400.00 *        1920.00 0.80x   -

`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	says := Says(set, Options{})
	if want := "Output Token Throughput (tok/s): vllm is best in 3 of 6 conditions, sglang in 3. sglang is better than vllm in 3 of 6: 0.95 times its figure in the median, 0.80 to 1.10." +
		" lmdeploy is better than vllm in 0 of 3, within 2 % in 3: 1.00 times its figure in the median, 1.00 to 1.00."; !slices.Contains(says, want) {
		t.Errorf("says\n  %s", strings.Join(says, "\n  "))
	}
	for _, s := range says { // models are conditions: none is set against another
		if strings.Contains(s, "m/A") && strings.Contains(s, "m/B") {
			t.Errorf("compares models: %s", s)
		}
	}
}

func TestPivotMarkdownAndBaseline(t *testing.T) {
	p, err := NewPivot(entries(t, engines()), "backend", "sglang", []string{"output_throughput"})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := p.WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| Condition | vllm | sglang (baseline) | lmdeploy |", "| m/A, QPS 8 | **800.00** (1.25x) | 640.00 | - |", "| m/B, QPS 2 | 400.00 (0.91x) | **440.00** | 400.00 (0.91x) |"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestPivotByOtherSettings(t *testing.T) {
	set := entries(t, page()) // settings plain and chunked at two rates
	if p, err := NewPivot(set, "", "", nil); err != nil || p.Factor.Key != result.TheSetting || len(p.Conditions) != 2 {
		t.Errorf("%+v, %v", p, err)
	}
	for i := range set { // a label for GPUs, and a flag of the server
		set[i].Labels = map[string]string{"gpu": []string{"H100", "H100", "A100", "A100"}[i]}
		set[i].Context = append(set[i].Context, result.Fact{Name: "server_arguments", Value: map[string]any{"max-num-seqs": 64 << (i / 2), "port": i}})
	}
	for by, levels := range map[string][]string{"gpu": {"H100", "A100"}, "max-num-seqs": {"64", "128"}, "max_num_seqs": {"64", "128"}, "request-rate": {"8", "2"}, "request_rate": {"8", "2"}} {
		if p, err := NewPivot(set, by, "", nil); err != nil || !slices.Equal(p.Levels, levels) || len(p.Conditions) != 2 {
			t.Errorf("by %s: %+v, %v", by, p, err)
		}
	}
	for _, c := range [][3]string{
		{"gpus", "", `--by gpus: the results have no such setting: did you mean "gpu"?`},
		{"model", "", "--by model: it is m/Q in all results; what varies is gpu, max-num-seqs, setting, request_rate"},
		{"gpu", "H10", `--baseline H10: no result has this gpu: did you mean "H100"?`},
	} {
		if _, err := NewPivot(set, c[0], c[1], nil); err == nil || err.Error() != c[2] {
			t.Errorf("--by %s: %v", c[0], err)
		}
	}
}

// TestEqualFiguresHaveNoBest: where all are equal nobody is marked, and one short sentence says so.
func TestEqualFiguresHaveNoBest(t *testing.T) {
	p, err := NewPivot(entries(t, engines()), "", "", []string{"mean_ttft_ms"})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range p.Measures[0].Cells {
		if slices.ContainsFunc(row, func(s Spot) bool { return s.Best }) {
			t.Errorf("%+v: one of equals is marked", row)
		}
	}
	if got := p.Says(); !slices.Equal(got, []string{"Mean TTFT (ms): the same in 6 conditions."}) {
		t.Errorf("says %q", got)
	}
}

// TestPivotLeavesOutInvalid: a figure that may not be used is named in its cell and wins nothing; repeats are one median.
func TestPivotLeavesOutInvalid(t *testing.T) {
	set := entries(t, block("a", 2, 200, "10.00", "1.00", "1.00")+block("a", 2, 200, "20.00", "1.00", "1.00")+block("b", 2, 200, "90.00", "1.00", "1.00")+block("c", 2, 200, "14.00", "1.00", "1.00"))
	p, err := NewPivot(judged(set, "VALID", "VALID", "INVALID", "VALID"), "", "", []string{"output_throughput"})
	if err != nil {
		t.Fatal(err)
	}
	row := p.Measures[0].Cells[0]
	if row[0].Value != 15 || row[0].Runs != 2 || !row[0].Best || row[1].Text != "INVALID" || row[1].Best || p.Note == "" {
		t.Errorf("%+v, note %q", row, p.Note)
	}
}
