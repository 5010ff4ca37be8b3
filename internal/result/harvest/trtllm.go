package harvest

import (
	"regexp"
	"strings"

	"spate/internal/result"
)

// trtllm-bench: a report file in sections, and the same printed.

func isTRTBench(n *node) bool {
	return n.has("performance", "request_info") && n.get("performance").has("request_throughput_req_s")
}

func readTRTBench(n *node) []result.Entry {
	r := result.Entry{Format: result.FormatTRTBenchJSON}
	m := &r.Metrics
	copyNumber(m, "completed", n, "request_info", "num_requests")
	converted(m, "duration", 0.001, "milliseconds / 1000", n, "performance", "total_latency_ms")
	copyNumber(m, "request_throughput", n, "performance", "request_throughput_req_s")
	copyNumber(m, "output_throughput", n, "performance", "system_output_throughput_tok_s")
	copyNumber(m, "total_token_throughput", n, "performance", "system_total_throughput_tok_s")
	copyNumber(m, "mean_e2el_ms", n, "performance", "avg_request_latency_ms")
	distribution(m, "e2el", 1, "", n, "performance", "request_latency_percentiles_ms")
	copyNumber(m, "mean_ttft_ms", n, "streaming_metrics", "avg_ttft_ms")
	distribution(m, "ttft", 1, "", n, "streaming_metrics", "ttft_percentiles")
	copyNumber(m, "mean_tpot_ms", n, "streaming_metrics", "avg_tpot_ms")
	distribution(m, "tpot", 1, "", n, "streaming_metrics", "tpot_percentiles")
	for _, key := range []string{"output_throughput_per_user_tok_s", "output_throughput_per_gpu_tok_s"} {
		flatten(&r.Extra, key, n.get("performance", key))
	}
	for _, key := range []string{"avg_input_length", "avg_output_length", "avg_num_concurrent_requests"} {
		flatten(&r.Extra, key, n.get("request_info", key))
	}
	flatten(&r.Extra, "decoding_stats", n.get("decoding_stats"))
	fact(&r.Context, "model", n, "engine", "model")
	fact(&r.Context, "engine_version", n, "engine", "version")
	fact(&r.Context, "gpu", n, "machine", "name")
	fact(&r.Context, "tensor_parallel_size", n, "world_info", "tp_size")
	fact(&r.Context, "world", n, "world_info")
	return []result.Entry{r}
}

var (
	trtSection = regexp.MustCompile(`^= (ENGINE DETAILS|PYTORCH BACKEND|WORLD \+ RUNTIME INFORMATION|REQUEST DETAILS|PERFORMANCE OVERVIEW|DATASET DETAILS)`)
	trtRow     = regexp.MustCompile(`^(.*\S)\s*:\s+(\S.*)$`)
	trtRank    = regexp.MustCompile(`^\[(Latency|TTFT|TPOT)\]\s*(\w+)$`)
)

// trtRows names the rows of the printed report.
var trtRows = map[string]string{
	"Number of requests":                             "completed",
	"Request Throughput (req/sec)":                   "request_throughput",
	"Total Output Throughput (tokens/sec)":           "output_throughput",
	"Total Token Throughput (tokens/sec)":            "total_token_throughput",
	"Average request latency (ms)":                   "mean_e2el_ms",
	"Average time-to-first-token [TTFT] (ms)":        "mean_ttft_ms",
	"Average time-per-output-token [TPOT] (ms)":      "mean_tpot_ms",
	"Average Input Length (tokens)":                  "",
	"Average Output Length (tokens)":                 "",
	"Per User Output Throughput [w/ ctx] (tps/user)": "",
	"Per User Output Speed (tps/user)":               "",
	"Per GPU Output Throughput (tps/gpu)":            "",
}

// trtReport is a printed report being read.
type trtReport struct {
	result result.Entry
	seen   bool // its figures began
	noise  int
}

// inReport begins, continues or ends a printed report of trtllm-bench.
func (s *scanner) inReport(text string, line int) bool {
	if m := trtSection.FindStringSubmatch(text); m != nil {
		if s.trt == nil {
			s.endAll(line)
			s.trt = &trtReport{result: result.Entry{Source: result.Source{File: s.file, Line: line}, Format: result.FormatTRTBench}}
		}
		if m[1] == "PERFORMANCE OVERVIEW" {
			s.trt.seen = true
		}
		return true
	}
	t := s.trt
	if t == nil {
		return false
	}
	if text == "" || strings.Trim(text, "=-") == "" || strings.HasPrefix(text, "-- ") {
		return true
	}
	if m := trtRow.FindStringSubmatch(text); m != nil && t.row(m[1], m[2], line) {
		t.noise = 0
		return true
	}
	if t.noise++; t.noise > 10 {
		s.endReport(line)
	}
	return false
}

// row takes one row; it reports whether it is one.
func (t *trtReport) row(label, value string, line int) bool {
	number := printed.MatchString(value)
	if m := trtRank.FindStringSubmatch(label); m != nil && number {
		stat, ok := statName(m[2])
		latency := map[string]string{"Latency": "e2el", "TTFT": "ttft", "TPOT": "tpot"}[m[1]]
		if ok {
			t.result.Metrics.Set(result.NewPrinted(stat+"_"+latency+"_ms", value, label))
		}
		t.result.Source.EndLine = line
		return ok
	}
	name, known := trtRows[label]
	switch {
	case label == "Total Latency (ms)" && number:
		t.result.Metrics.Set(result.NewPrinted("duration", value, label).Scaled(0.001, "milliseconds / 1000"))
	case name != "" && number:
		t.result.Metrics.Set(result.NewPrinted(name, value, label))
	case known && number:
		t.result.Extra.Set(result.NewPrinted(label, value, ""))
	case label == "Model" || label == "TP Size" || label == "Version":
		fact := map[string]string{"Model": "model", "TP Size": "tensor_parallel_size", "Version": "engine_version"}[label]
		t.result.Context.Propose(result.Fact{Name: fact, Value: printedValue(value), From: "report: " + label, Line: line})
	default:
		return !t.seen
	}
	t.result.Source.EndLine = line
	return true
}

func (s *scanner) endReport(_ int) {
	t := s.trt
	s.trt = nil
	if t == nil || !t.seen {
		return
	}
	if _, ok := t.result.Metrics.Get("request_throughput"); !ok {
		t.result.Problems = append(t.result.Problems, result.Problem{File: s.file, Line: t.result.Source.Line, Kind: result.Truncated, Text: "report of trtllm-bench without its request throughput"})
	}
	s.keep(t.result)
}
