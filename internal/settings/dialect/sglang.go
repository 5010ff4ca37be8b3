package dialect

import (
	"fmt"
	"math"
	"strconv"

	"spate/internal/call"
	"spate/internal/result/interop"
)

// sglangBlock is the block of SGLang's bench_serving, with the blank line before it.
func sglangBlock(run *Run, f *figures) string {
	var b block
	b.WriteString("\n")
	b.title(" Serving Benchmark Result ", '=')
	b.word("Backend:", run.Asked.Backend)
	b.word("Traffic request rate:", rateText(run.Asked.Rate))
	slots := "not set"
	if run.Asked.Slots != nil {
		slots = strconv.Itoa(*run.Asked.Slots)
	}
	b.word("Max request concurrency:", slots)
	b.count("Successful requests:", f.done)
	b.figure("Benchmark duration (s):", f.duration)
	b.count("Total input tokens:", f.input)
	b.count("Total input text tokens:", f.text)
	if run.Asked.Pictures {
		b.count("Total input vision tokens:", f.input-f.text)
	}
	if !run.Asked.Pools {
		b.count("Total generated tokens:", f.output)
		b.count("Total generated tokens (retokenized):", f.counted)
	}
	b.figure("Request throughput (req/s):", f.per(f.done))
	b.figure("Input token throughput (tok/s):", f.per(f.input))
	if !run.Asked.Pools {
		b.figure("Output token throughput (tok/s):", f.per(f.output))
		b.figure("Peak output token throughput (tok/s):", float64(f.peakTokens))
	}
	b.count("Peak concurrent requests:", f.peakRequests)
	b.figure("Total token throughput (tok/s):", f.per(f.input+f.output))
	b.figure("Concurrency:", f.concurrency())
	parts := sglangParts(f)
	if run.Asked.Pools {
		parts = parts[:1]
	}
	for _, part := range parts {
		b.title(part.title, '-')
		b.figure("Mean "+part.label+" (ms):", mean(part.xs))
		b.figure("Median "+part.label+" (ms):", median(part.xs))
		for _, p := range []float64{90, 95, 99} {
			b.figure(fmt.Sprintf("P%.0f %s (ms):", p, part.label), pct(part.xs, p))
		}
		if part.key == "itl" {
			b.figure("Max ITL (ms):", highest(part.xs))
		}
	}
	b.end()
	return b.String()
}

type sglangPart struct {
	title, label, key string
	xs                []float64
}

func sglangParts(f *figures) []sglangPart {
	return []sglangPart{
		{"End-to-End Latency", "E2E Latency", "e2e_latency", f.e2e},
		{"Time to First Token", "TTFT", "ttft", f.ttft},
		{"Time per Output Token (excl. 1st token)", "TPOT", "tpot", f.tpot},
		{"Inter-Token Latency", "ITL", "itl", f.itl},
	}
}

// concurrency is the mean number of requests under way.
func (f *figures) concurrency() float64 {
	sum := 0.0
	for _, v := range f.e2e {
		sum += v
	}
	if f.duration <= 0 {
		return 0
	}
	return sum / f.duration
}

func sglangFile(run *Run) string {
	a := &run.Asked
	switch {
	case a.File != "":
		return a.File
	case a.Dataset == "random" || a.Dataset == "random-ids":
		return fmt.Sprintf("%s_%s_%d_%s_%s.jsonl", a.Backend, run.Now.Format("0102"), a.Prompts, optional(a.Input), optional(a.Output))
	}
	return fmt.Sprintf("%s_%s_%d_%s.jsonl", a.Backend, run.Now.Format("0102"), a.Prompts, a.Dataset)
}

// sglangLine is the object SGLang appends to its result file.
func sglangLine(run *Run, f *figures) string {
	a := &run.Asked
	var o interop.Object
	set := o.Set
	set("tag", word(a.Tag))
	set("backend", a.Backend)
	set("dataset_name", a.Dataset)
	rate := a.Rate
	if rate == 0 {
		rate = math.Inf(1)
	}
	set("request_rate", rate)
	set("max_concurrency", maybe(a.Slots))
	set("sharegpt_output_len", maybe(a.ShareGPT))
	set("random_input_len", maybe(a.Input))
	set("random_output_len", maybe(a.Output))
	set("random_range_ratio", a.RangeRatio)
	set("server_info", nil)
	set("duration", f.duration)
	set("completed", f.done)
	set("total_input_tokens", f.input)
	set("total_input_text_tokens", f.text)
	set("total_input_vision_tokens", f.input-f.text)
	set("total_output_tokens", f.output)
	set("total_output_tokens_retokenized", f.counted)
	set("request_throughput", f.per(f.done))
	set("input_throughput", f.per(f.input))
	set("output_throughput", f.per(f.output))
	set("total_throughput", f.per(f.input+f.output))
	for _, part := range sglangParts(f) {
		set("mean_"+part.key+"_ms", mean(part.xs))
		set("median_"+part.key+"_ms", median(part.xs))
		set("std_"+part.key+"_ms", std(part.xs))
		for _, p := range []float64{90, 95, 99} {
			set(fmt.Sprintf("p%.0f_%s_ms", p, part.key), pct(part.xs, p))
		}
	}
	set("concurrency", f.concurrency())
	set("accept_length", nil)
	set("max_output_tokens_per_s", float64(f.peakTokens))
	set("max_concurrent_requests", f.peakRequests)
	if a.Details {
		sglangDetails(&o, run)
	}
	line, err := interop.AppendPython(nil, o)
	if err != nil {
		return "" // every value above has a JSON form
	}
	return string(line) + "\n"
}

// sglangDetails are the arrays of --output-details, over all requests.
func sglangDetails(o *interop.Object, run *Run) {
	in, out := []int{}, []int{}
	ttfts, itls := []float64{}, [][]float64{}
	texts, errs := []string{}, []string{}
	for i := range run.Records {
		r := &run.Records[i]
		if r.Phase != call.Measure || r.Retried {
			continue
		}
		in, out = append(in, r.Asked.N), append(out, r.Out.N)
		ttft := 0.0
		if r.FirstToken >= 0 {
			ttft = seconds(r.FirstToken - r.Sent)
		}
		gaps := tokenGaps(r)
		if gaps == nil {
			gaps = []float64{}
		}
		ttfts, itls = append(ttfts, ttft), append(itls, gaps)
		texts, errs = append(texts, r.Text), append(errs, r.Err)
	}
	o.Set("input_lens", in)
	o.Set("output_lens", out)
	o.Set("ttfts", ttfts)
	o.Set("itls", itls)
	o.Set("generated_texts", texts)
	o.Set("errors", errs)
}

// word is a text, or Python's None.
func word(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func maybe(n *int) any {
	if n == nil {
		return nil
	}
	return *n
}
