package report

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"spate/internal/judge/metrics"
	"spate/internal/result"
)

// figures makes a Dist whose every number tells where it belongs.
func figures(base float64) metrics.Dist {
	return metrics.Dist{
		N: 100, Mean: base + 0.125, Median: base + 0.5,
		Percentiles: metrics.Percentiles{{P: 99, Value: base + 99}, {P: 50, Value: base + 0.5}, {P: 99.9, Value: base + 99.9}},
	}
}

func blockInput() BlockInput {
	return BlockInput{
		Summary: &metrics.Summary{
			DurationS: 12.345, Completed: 97, Failed: 3, TotalInput: 102400, TotalOutput: 12800,
			RequestThroughput: 7.857432, OutputThroughput: 1036.857, TotalTokenThroughput: 9331.7,
			MaxOutputPerS: 1500, MaxConcurrent: 66,
			TTFT: figures(1000), TPOT: figures(2000), ITL: figures(3000), E2EL: figures(4000),
		},
		RequestRate: math.Inf(1), Tokenizer: true,
		Metrics: []string{"ttft", "tpot", "itl"}, Percentiles: []float64{99},
	}
}

var blockCases = []struct {
	name   string
	change func(*BlockInput)
}{
	{"head", func(*BlockInput) {}},
	{"head-everything", func(in *BlockInput) {
		in.MaxConcurrency, in.RequestRate = ptr(64), 10
		in.Metrics, in.Percentiles = []string{"e2el", "itl", "ttft", "tpot"}, []float64{50, 99, 99.9}
		in.Summary.RequestGoodput = ptr(5.5)
		in.Summary.RTFx = 1.25
		in.Summary.Probe = metrics.Probe{Completed: 9, Failed: 1, Median: 12.345, P99: 20, Max: 30}
		in.Spec = &result.SpecDecode{Rate: 66.666, Length: 2.333, Drafts: 100, DraftTokens: 300, Accepted: 200, PerPosition: []float64{0.9, 0.7, 0.4}}
		in.Errors = []string{"Bad Gateway", "timeout after 10 s", "x"}
	}},
	{"head-no-tokenizer", func(in *BlockInput) {
		in.Tokenizer = false
		in.Metrics = append(in.Metrics, "e2el")
		in.Summary.RequestGoodput = ptr(0.0)
	}},
	{"head-pooling", func(in *BlockInput) {
		in.MaxConcurrency, in.RequestRate = ptr(8), 10
		in.Metrics = []string{"e2el", "ttft"}
		in.Summary.TotalOutput, in.Summary.OutputThroughput, in.Summary.TotalTokenThroughput = 0, 0, 8294.856
		in.Summary.RequestGoodput = ptr(5.5)
		in.Summary.Pooling = &metrics.Pooling{Inputs: 388, Throughput: 31.43}
	}},
	{"head-pooling-no-tokenizer", func(in *BlockInput) {
		in.Tokenizer, in.Metrics = false, []string{"e2el"}
		in.Summary.Pooling = &metrics.Pooling{Inputs: 97, Throughput: 7.857432}
	}},
	{"v10", func(in *BlockInput) { in.Style, in.MaxConcurrency, in.RequestRate = V10, ptr(64), 0.5 }},
	{"v6", func(in *BlockInput) { in.Style, in.MaxConcurrency, in.RequestRate = V6, ptr(64), 0.5 }},
}

func printBlock(t *testing.T, change func(*BlockInput)) string {
	t.Helper()
	in := blockInput()
	change(&in)
	var b strings.Builder
	if err := Block(&b, in); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestBlockGolden(t *testing.T) {
	for _, c := range blockCases {
		t.Run(c.name, func(t *testing.T) {
			golden(t, "block-"+c.name+".txt", printBlock(t, c.change))
		})
	}
}

// TestBlockLaws holds what must be true of any block, whatever a golden says.
func TestBlockLaws(t *testing.T) {
	row := regexp.MustCompile(`^.{40} \S+ *$`)
	for _, c := range blockCases {
		t.Run(c.name, func(t *testing.T) {
			text := printBlock(t, c.change)
			_, text, _ = strings.Cut("\n"+text, "\n============ Serving Benchmark Result ============\n")
			lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
			for i, line := range lines {
				rule := strings.Trim(line, "=") == "" || strings.HasPrefix(line, "--") && strings.HasSuffix(line, "--")
				switch {
				case rule && len(line) != 50:
					t.Errorf("rule %q is %d columns, want 50", line, len(line))
				case rule, line == "Per-position acceptance (%):":
				case !row.MatchString(line) || len(line) != 51:
					t.Errorf("line %d %q: want 40 columns, a space and 10 columns", i, line)
				}
			}
			if last := lines[len(lines)-1]; last != strings.Repeat("=", 50) {
				t.Errorf("footer %q", last)
			}
		})
	}
}

// headLabels is the order of lines at vLLM HEAD when all of them are there.
var headLabels = strings.Split(`Successful requests:
Failed requests:
Maximum request concurrency:
Request rate configured (RPS):
Benchmark duration (s):
Total input tokens:
Total generated tokens:
Request throughput (req/s):
Request goodput (req/s):
Output token throughput (tok/s):
Peak output token throughput (tok/s):
Peak concurrent requests:
RTFx (Inverse Real-Time Factor):
Total token throughput (tok/s):
------------------Probe Requests------------------
Probe requests completed:
Probe requests failed:
Median probe E2EL (ms):
P99 probe E2EL (ms):
Max probe E2EL (ms):
---------------Time to First Token----------------
Mean TTFT (ms):
Median TTFT (ms):
P50 TTFT (ms):
P99 TTFT (ms):
P99.9 TTFT (ms):
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):
Median TPOT (ms):
P50 TPOT (ms):
P99 TPOT (ms):
P99.9 TPOT (ms):
---------------Inter-token Latency----------------
Mean ITL (ms):
Median ITL (ms):
P50 ITL (ms):
P99 ITL (ms):
P99.9 ITL (ms):
----------------End-to-end Latency----------------
Mean E2EL (ms):
Median E2EL (ms):
P50 E2EL (ms):
P99 E2EL (ms):
P99.9 E2EL (ms):
---------------Speculative Decoding---------------
Acceptance rate (%):
Acceptance length:
Drafts:
Draft tokens:
Accepted tokens:
Per-position acceptance (%):
  Position 0:
  Position 1:
  Position 2:
==================================================`, "\n")

func TestBlockOrder(t *testing.T) {
	text := printBlock(t, blockCases[1].change)
	_, text, _ = strings.Cut(text, "Result ============\n")
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		label := line
		if len(line) == 51 {
			label = strings.TrimRight(line[:40], " ")
		}
		if i >= len(headLabels) || label != headLabels[i] {
			t.Fatalf("line %d is %q, want %q", i, label, headLabels[i])
		}
	}
	if !slices.Contains(strings.Split(text, "\n"), "Peak concurrent requests:                66.00     ") {
		t.Error("peak concurrency must print with two decimals")
	}
}

func TestErrorsAreCapped(t *testing.T) {
	text := printBlock(t, func(in *BlockInput) {
		for i := range 12 {
			in.Errors = append(in.Errors, "no. "+strconv.Itoa(i))
		}
	})
	want := "Failed requests during benchmark run detected (capping to 10):\nError 0: no. 0\n"
	if !strings.HasPrefix(text, want) || strings.Count(text, "Error ") != 10 || strings.Contains(text, "no. 10") {
		t.Errorf("got %s", text)
	}
}

func TestTwoDecimals(t *testing.T) {
	for want, v := range map[string]float64{
		"inf": math.Inf(1), "-inf": math.Inf(-1), "nan": math.NaN(), "0.12": 0.125, "0.38": 0.375, "2.67": 2.675,
	} {
		if got := twoDecimals(v); got != want {
			t.Errorf("%v prints as %s, Python prints %s", v, got, want)
		}
	}
}
