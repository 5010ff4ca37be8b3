package harvest

import (
	"regexp"
	"strings"
)

// trtllm-bench: a report file in sections, and the same printed.

func isTRTBench(n *node) bool {
	return n.has("performance", "request_info") && n.get("performance").has("request_throughput_req_s")
}

func readTRTBench(n *node) []Result {
	r := Result{Format: FormatTRTBenchJSON}
	m := &r.Metrics
	m.copyNumber("completed", n, "request_info", "num_requests")
	m.converted("duration", 0.001, "milliseconds / 1000", n, "performance", "total_latency_ms")
	m.copyNumber("request_throughput", n, "performance", "request_throughput_req_s")
	m.copyNumber("output_throughput", n, "performance", "system_output_throughput_tok_s")
	m.copyNumber("total_token_throughput", n, "performance", "system_total_throughput_tok_s")
	m.copyNumber("mean_e2el_ms", n, "performance", "avg_request_latency_ms")
	m.distribution("e2el", 1, "", n, "performance", "request_latency_percentiles_ms")
	m.copyNumber("mean_ttft_ms", n, "streaming_metrics", "avg_ttft_ms")
	m.distribution("ttft", 1, "", n, "streaming_metrics", "ttft_percentiles")
	m.copyNumber("mean_tpot_ms", n, "streaming_metrics", "avg_tpot_ms")
	m.distribution("tpot", 1, "", n, "streaming_metrics", "tpot_percentiles")
	for _, key := range []string{"output_throughput_per_user_tok_s", "output_throughput_per_gpu_tok_s"} {
		r.Extra.flatten(key, n.get("performance", key))
	}
	for _, key := range []string{"avg_input_length", "avg_output_length", "avg_num_concurrent_requests"} {
		r.Extra.flatten(key, n.get("request_info", key))
	}
	r.Extra.flatten("decoding_stats", n.get("decoding_stats"))
	r.Context.fact("model", n, "engine", "model")
	r.Context.fact("engine_version", n, "engine", "version")
	r.Context.fact("gpu", n, "machine", "name")
	r.Context.fact("tensor_parallel_size", n, "world_info", "tp_size")
	r.Context.fact("world", n, "world_info")
	return []Result{r}
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
	result Result
	seen   bool // its figures began
	noise  int
}

// inReport begins, continues or ends a printed report of trtllm-bench.
func (s *scanner) inReport(text string, line int) bool {
	if m := trtSection.FindStringSubmatch(text); m != nil {
		if s.trt == nil {
			s.endAll(line)
			s.trt = &trtReport{result: Result{Source: Source{File: s.file, Line: line}, Format: FormatTRTBench}}
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
			t.result.Metrics.set(Figure{Name: stat + "_" + latency + "_ms", Text: value, From: label})
		}
		t.result.Source.EndLine = line
		return ok
	}
	name, known := trtRows[label]
	switch {
	case label == "Total Latency (ms)" && number:
		t.result.Metrics.set(scaled(Figure{Name: "duration", Text: value, From: label}, 0.001, "milliseconds / 1000"))
	case name != "" && number:
		t.result.Metrics.set(Figure{Name: name, Text: value, From: label})
	case known && number:
		t.result.Extra.set(Figure{Name: label, Text: value})
	case label == "Model" || label == "TP Size" || label == "Version":
		fact := map[string]string{"Model": "model", "TP Size": "tensor_parallel_size", "Version": "engine_version"}[label]
		t.result.Context.propose(Fact{fact, printedValue(value), "report: " + label, line})
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
		t.result.Problems = append(t.result.Problems, Problem{s.file, t.result.Source.Line, Truncated, "report of trtllm-bench without its request throughput"})
	}
	s.keep(t.result)
}
