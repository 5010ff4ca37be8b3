package dialect

import (
	"fmt"
	"strconv"
	"strings"

	"spate/internal/pytext"
)

// lmdeployBlock is the block of profile_restful_api.py, with the blank line before it.
func lmdeployBlock(run *Run, f *figures) string {
	var b block
	b.WriteString("\n")
	b.title(" Serving Benchmark Result ", '=')
	b.word("Backend:", run.Asked.Backend)
	b.word("Traffic request rate:", rateText(run.Asked.Rate))
	b.count("Successful requests:", f.done)
	b.figure("Benchmark duration (s):", f.duration)
	b.count("Total input tokens:", f.input)
	if run.Asked.Pictures { // releases that send images tell them apart
		b.count("Total input text tokens:", f.text)
		b.count("Total input vision tokens:", f.input-f.text)
	}
	b.count("Total generated tokens:", f.output)
	b.count("Total generated tokens (retokenized):", f.counted)
	b.figure("Request throughput (req/s):", f.per(f.done))
	b.figure("Input token throughput (tok/s):", f.per(f.input))
	b.figure("Output token throughput (tok/s):", f.per(f.output))
	b.title("End-to-End Latency", '-')
	b.figure("Mean E2E Latency (ms):", mean(f.e2e))
	b.figure("Median E2E Latency (ms):", median(f.e2e))
	for _, part := range []struct {
		title, short string
		xs           []float64
	}{
		{"Time to First Token", "TTFT", f.ttft},
		{"Time per Output Token (excl. 1st token)", "TPOT", f.tpot},
		{"Inter-token Latency", "ITL", f.itl},
	} {
		b.title(part.title, '-')
		b.figure("Mean "+part.short+" (ms):", mean(part.xs))
		b.figure("Median "+part.short+" (ms):", median(part.xs))
		b.figure("P99 "+part.short+" (ms):", pct(part.xs, 99))
	}
	b.end()
	return b.String()
}

const lmdeployHeader = "backend,dataset_name,sharegpt_output_len,random_input_len,random_output_len,random_range_ratio,request_rate," +
	"completed,total_input_tokens,total_output_tokens,duration,request_throughput,input_throughput,output_throughput," +
	"mean_e2e_latency_ms,mean_ttft_ms,mean_tpot_ms,mean_itl_ms\n"

// lmdeployFile is the file's name; it is CSV whatever the name says.
func lmdeployFile(run *Run) string {
	a := &run.Asked
	switch {
	case a.File != "":
		return a.File
	case a.Dataset == "random":
		return fmt.Sprintf("%s_%s_%d_%s_%s.jsonl", a.Backend, run.Now.Format("0102"), a.Prompts, optional(a.Input), optional(a.Output))
	}
	return fmt.Sprintf("%s_%s_%d_sharegpt.csv", a.Backend, run.Now.Format("0102"), a.Prompts)
}

func lmdeployLine(run *Run, f *figures) string {
	a := &run.Asked
	cells := []string{
		a.Backend, a.Dataset, optional(a.ShareGPT), optional(a.Input), optional(a.Output), pytext.Float(a.RangeRatio), rateText(a.Rate),
		strconv.Itoa(f.done), strconv.Itoa(f.input), strconv.Itoa(f.output), pytext.Float(f.duration),
		pytext.Float(f.per(f.done)), pytext.Float(f.per(f.input)), pytext.Float(f.per(f.output)),
		pytext.Float(mean(f.e2e)), pytext.Float(mean(f.ttft)), pytext.Float(mean(f.tpot)), pytext.Float(mean(f.itl)),
	}
	return strings.Join(cells, ",") + "\n"
}

// optional is a number, or nothing where none was given, as Python's csv writes None.
func optional(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}
