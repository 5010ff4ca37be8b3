package table

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spate/internal/result"
	"spate/internal/result/harvest"
)

// block is a result as vLLM prints it, under two headings.
func block(setting string, rate, done int, out, ttft, tpot string) string {
	return fmt.Sprintf(`## qps = %[2]d
### %[1]s

Namespace(backend='vllm', dataset_name='sonnet', model='m/Q', num_prompts=200, request_rate=%[2]d.0, sonnet_input_len=256, sonnet_output_len=6)
============ Serving Benchmark Result ============
Successful requests:                     %[3]d       
Benchmark duration (s):                  100.00     
Total input tokens:                      49054    
Total generated tokens:                  1200      
Request throughput (req/s):              %[2]d.00      
Output token throughput (tok/s):         %[4]s     
Total Token throughput (tok/s):          509.06   
---------------Time to First Token----------------
Mean TTFT (ms):                          %[5]s    
Median TTFT (ms):                        55.80    
P99 TTFT (ms):                           134.96   
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          %[6]s     
Median TPOT (ms):                        12.19     
P99 TPOT (ms):                           39.43    
---------------Inter-token Latency----------------
Mean ITL (ms):                           14.85     
Median ITL (ms):                         12.17     
P99 ITL (ms):                            59.28   
==================================================
`, setting, rate, done, out, ttft, tpot)
}

func entries(t *testing.T, text string) []result.Entry {
	t.Helper()
	h, err := harvest.Read("page.md", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var out []result.Entry
	for _, r := range h.Entries {
		out = append(out, result.Named(r))
	}
	return out
}

// page has two settings at two rates, not in order.
func page() string {
	return block("plain", 8, 200, "48.12", "120.40", "42.95") + block("plain", 2, 200, "12.16", "63.68", "14.87") +
		block("chunked | on", 8, 200, "48.00", "240.80", "33.93") + block("chunked | on", 2, 200, "12.16", "64.55", "14.29")
}

func TestMarkdownHasEveryNumberAsPrinted(t *testing.T) {
	text := page()
	var b bytes.Buffer
	if err := Markdown(&b, entries(t, text), Options{}); err != nil {
		t.Fatal(err)
	}
	want := `Model: m/Q · Backend: vllm · Dataset: sonnet · Input Len: 256 · Output Len: 6 · Prompts: 200

| Setting | QPS | Successful Requests | Duration (s) | Total Input Tokens | Total Generated Tokens | Req Throughput (req/s) | Output Token Throughput (tok/s) | Total Token Throughput (tok/s) | Mean TTFT (ms) | Median TTFT (ms) | P99 TTFT (ms) | Mean TPOT (ms) | Median TPOT (ms) | P99 TPOT (ms) | Mean ITL (ms) | Median ITL (ms) | P99 ITL (ms) |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| plain | 2 | 200 | 100.00 | 49054 | 1200 | 2.00 | 12.16 | 509.06 | 63.68 | 55.80 | 134.96 | 14.87 | 12.19 | 39.43 | 14.85 | 12.17 | 59.28 |
| chunked \| on | 2 | 200 | 100.00 | 49054 | 1200 | 2.00 | 12.16 | 509.06 | 64.55 | 55.80 | 134.96 | 14.29 | 12.19 | 39.43 | 14.85 | 12.17 | 59.28 |
| plain | 8 | 200 | 100.00 | 49054 | 1200 | 8.00 | 48.12 | 509.06 | 120.40 | 55.80 | 134.96 | 42.95 | 12.19 | 39.43 | 14.85 | 12.17 | 59.28 |
| chunked \| on | 8 | 200 | 100.00 | 49054 | 1200 | 8.00 | 48.00 | 509.06 | 240.80 | 55.80 | 134.96 | 33.93 | 12.19 | 39.43 | 14.85 | 12.17 | 59.28 |
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for _, number := range regexp.MustCompile(`(?m): +([0-9.]+) *$`).FindAllStringSubmatch(text, -1) {
		if !strings.Contains(b.String(), "| "+number[1]+" |") {
			t.Errorf("%s of a block is not in the table", number[1])
		}
	}
}

func TestSplitTablesHoldTheSameRows(t *testing.T) {
	set := entries(t, page())
	var b bytes.Buffer
	if err := Markdown(&b, set, Options{Split: true, Columns: []string{"mean_ttft_ms"}}); err != nil {
		t.Fatal(err)
	}
	want := `Model: m/Q · Backend: vllm · Dataset: sonnet · Input Len: 256 · Output Len: 6 · Prompts: 200

### QPS = 2

| Setting | Mean TTFT (ms) |
| --- | ---: |
| plain | 63.68 |
| chunked \| on | 64.55 |

### QPS = 8

| Setting | Mean TTFT (ms) |
| --- | ---: |
| plain | 120.40 |
| chunked \| on | 240.80 |
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestOptionsThatDoNotExist(t *testing.T) {
	for name, c := range map[string]struct {
		opt  Options
		want string
	}{
		"column": {Options{Columns: []string{"mean_tftt_ms"}}, `--columns mean_tftt_ms: no result has such a figure: did you mean "mean_ttft_ms"?`},
		"group":  {Options{GroupBy: "request_rat"}, `--group-by request_rat: the results have no such setting: did you mean "request_rate"?`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := New(entries(t, page()), c.opt); err == nil || err.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	if _, err := New(nil, Options{}); err == nil {
		t.Error("a table of nothing")
	}
}

func TestRowsStandAsGivenWithoutAGroup(t *testing.T) {
	g, err := New(entries(t, page()), Options{GroupBy: "none"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range g.Rows {
		got = append(got, r.Entry.Text("mean_ttft_ms"))
	}
	if want := []string{"120.40", "63.68", "240.80", "64.55"}; !slices.Equal(got, want) {
		t.Errorf("rows %v, want %v", got, want)
	}
}

func TestDataViewsKeepEveryDigit(t *testing.T) {
	file := `{"date": "20250101-000000", "backend": "vllm", "model_id": "m", "tokenizer_id": "m", "num_prompts": 10, "request_rate": "inf", "duration": 2.123456789, "completed": 10, "total_input_tokens": 100, "total_output_tokens": 50, "request_throughput": 4.70930234, "output_throughput": 23.5465, "total_token_throughput": 70.6395, "mean_ttft_ms": 12.345678901, "median_ttft_ms": 12.0, "p99_ttft_ms": 20.0}`
	set := entries(t, file)
	var text, data, md bytes.Buffer
	for _, err := range []error{CSV(&text, set, Options{}), JSON(&data, set, Options{}), Markdown(&md, set, Options{})} {
		if err != nil {
			t.Fatal(err)
		}
	}
	rows, err := csv.NewReader(&text).ReadAll()
	if err != nil || len(rows) != 2 {
		t.Fatalf("%v: %v", rows, err)
	}
	if i := slices.Index(rows[0], "mean_ttft_ms"); i < 0 || rows[1][i] != "12.345678901" {
		t.Errorf("mean TTFT in %v", rows)
	}
	var objects []struct {
		Metrics map[string]json.Number
	}
	if err := json.Unmarshal(data.Bytes(), &objects); err != nil || objects[0].Metrics["duration"] != "2.123456789" {
		t.Errorf("%+v, %v", objects, err)
	}
	if !strings.Contains(md.String(), "| 12.35 |") {
		t.Errorf("a page wants two decimals:\n%s", md.String())
	}
}

func TestSays(t *testing.T) {
	ladder := ""
	for _, p := range []struct {
		n         int
		out, ttft string
	}{{1, "10.00", "50.00"}, {2, "20.00", "55.00"}, {4, "22.00", "220.00"}} {
		ladder += fmt.Sprintf("num_prompts: %d\n", p.n) + strings.NewReplacer("num_prompts=200", fmt.Sprintf("num_prompts=%d", p.n), "request_rate=2.0", "request_rate=inf").
			Replace(block("one", 2, p.n, p.out, p.ttft, "10.00"))
	}
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"contest": {page(), []string{
			"At QPS 2: every setting keeps up with the load, so output throughput does not show a difference (12.16 to 12.16 tok/s).",
			"At QPS 2: mean TTFT is within 2 % for all (63.68 to 64.55 ms).",
			"At QPS 2: chunked | on has the lowest mean TPOT, 14.29 ms, 3.9 % below the next (plain: 14.87).",
			"At QPS 8: plain has the lowest mean TTFT, 120.40 ms, 50 % below the next (chunked | on: 240.80).",
			"Each row is one run, so it is not known how much of a difference is noise; `spate compare` shows it where records or repeats exist.",
		}},
		"knee": {ladder, []string{
			"Output throughput goes from 10.00 tok/s at Prompts 1 to 22.00 at Prompts 4; the knee is at Prompts 2: 2 times that load gives 10 % more throughput and 4 times the mean TTFT (55.00 to 220.00 ms).",
		}},
		"failures": {block("a", 2, 150, "1.00", "1.00", "1.00") + block("b", 2, 200, "1.00", "1.00", "1.00"), []string{
			"50 of 200 requests did not succeed (a); latencies and throughput are of the others.",
		}},
		"repeats": {block("a", 2, 200, "10.00", "20.00", "1.00") + block("a", 2, 200, "15.00", "30.00", "1.00"), []string{
			"2 results with the same known settings differ by 50 % in Output Token Throughput (tok/s) (10.00 to 15.00).",
			"2 results with the same known settings differ by 50 % in Mean TTFT (ms) (20.00 to 30.00).",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Says(entries(t, c.text), Options{})
			for _, want := range c.want {
				if !slices.Contains(got, want) {
					t.Errorf("does not say\n  %s\nbut\n  %s", want, strings.Join(got, "\n  "))
				}
			}
		})
	}
}

// judged gives the results of a page a verdict, as spate's own runs have one.
func judged(set []result.Entry, grades ...string) []result.Entry {
	for i, g := range grades {
		if g == result.PredictedLabel {
			set[i].Labels = map[string]string{result.PredictedLabel: "true"}
			continue
		}
		set[i].Context = append(set[i].Context, result.Fact{Name: "verdict", Value: g}, result.Fact{Name: "state", Value: "complete"})
	}
	return set
}

// TestEveryTableShowsVerdictAndFailures: whoever sees a figure sees its grade.
func TestEveryTableShowsVerdictAndFailures(t *testing.T) {
	set := judged(entries(t, page()), "VALID", "INVALID", result.PredictedLabel, "SUSPECT")
	for i := range set {
		set[i].Metrics = append(set[i].Metrics, result.NewPrinted("failed", "0", ""))
	}
	var md, data, object bytes.Buffer
	for _, err := range []error{Markdown(&md, set, Options{}), CSV(&data, set, Options{}), JSON(&object, set, Options{})} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"| Setting | QPS | Verdict | Successful Requests | Failed Requests |", "| plain | 8 | VALID | 200 | 0 |", "| plain | 2 | INVALID |", "| chunked \\| on | 8 | predicted |"} {
		if !strings.Contains(md.String(), want) {
			t.Errorf("Markdown has no %q:\n%s", want, md.String())
		}
	}
	rows, err := csv.NewReader(&data).ReadAll()
	if err != nil || rows[0][1] != "verdict" || rows[0][2] != "state" || !slices.Contains(rows[0], "failed") {
		t.Fatalf("%v: %v", rows, err)
	}
	var got []string
	for _, r := range rows[1:] {
		got = append(got, r[1])
	}
	if want := []string{"INVALID", "SUSPECT", "VALID", "predicted"}; !slices.Equal(got, want) {
		t.Errorf("verdicts %v in CSV, want %v", got, want)
	}
	if !strings.Contains(object.String(), `"verdict": "predicted"`) || !strings.Contains(object.String(), `"verdict": "INVALID"`) {
		t.Errorf("JSON:\n%s", object.String())
	}
	if want := []string{"Model m/Q · Backend vllm · Dataset sonnet · Input Len 256 · Output Len 6 · Prompts 200", "1 VALID, 1 SUSPECT, 1 INVALID, 1 predicted · failed requests: 0"}; !slices.Equal(Heading(set), want) {
		t.Errorf("heading %q", Heading(set))
	}
}

// TestSaysLeavesOutWhatMayNotBeUsed: at QPS 8 the best is INVALID, at QPS 2 one is predicted.
func TestSaysLeavesOutWhatMayNotBeUsed(t *testing.T) {
	got := Says(judged(entries(t, page()), "INVALID", "VALID", "VALID", result.PredictedLabel), Options{})
	want := []string{
		"1 of 4 results is INVALID and not compared: plain, QPS 8.",
		"1 of 4 results is predicted and not compared: chunked | on, QPS 2.",
	}
	if !slices.Equal(got, want) {
		t.Errorf("says\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
	got = Says(judged(entries(t, page()), result.PredictedLabel, result.PredictedLabel, result.PredictedLabel, result.PredictedLabel), Options{})
	if len(got) < 3 || got[0] != "These results are predicted by the simulator, not measured." {
		t.Errorf("all predicted: %q", got)
	}
}

// TestNumbersHaveTheirName: the second of two repeats is "repeat 2", not "2".
func TestNumbersHaveTheirName(t *testing.T) {
	set := judged(entries(t, page()), "VALID", "INVALID", "VALID", "VALID")
	for i := range set {
		set[i].Labels = map[string]string{"repeat": strconv.Itoa(i + 1)}
	}
	if got := Says(set, Options{}); len(got) == 0 || !strings.Contains(got[0], "1 of 4 results is INVALID and not compared: ") || !strings.Contains(got[0], "repeat 2") {
		t.Errorf("says %q", got)
	}
}

// TestTextFitsTheTerminal: no line is longer than the terminal is wide, whatever is in it, and what is left out is named.
func TestTextFitsTheTerminal(t *testing.T) {
	set := judged(entries(t, page()), "VALID", "INVALID", "VALID", "VALID")
	for _, width := range []int{20, 40, 60, 80, 120, 300} {
		var b strings.Builder
		if err := Text(&b, set, width); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		for _, line := range lines[:5] {
			if n := len([]rune(line)); n > max(width, 25) {
				t.Errorf("width %d: %d columns: %s", width, n, line)
			}
		}
		if !strings.Contains(lines[1], "INVALI") || len(lines) != 6 && width < 120 || len(lines) != 5 && width == 300 {
			t.Errorf("width %d:\n%s", width, b.String())
		}
	}
	var b strings.Builder
	if err := Text(&b, set, 60); err != nil {
		t.Fatal(err)
	}
	want := `Setting       QPS  verdict   ok  failed  req/s  out tok/s
plain         2    INVALID  200       -   2.00      12.16
chunked | on  2    VALID    200       -   2.00      12.16
plain         8    VALID    200       -   8.00      48.12
chunked | on  8    VALID    200       -   8.00      48.00
7 columns did not fit: mean TTFT, P99 TTFT, mean TPOT, P99 TPOT, mean ITL, P99 ITL, s
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
