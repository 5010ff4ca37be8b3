package dialect

import (
	"fmt"
	"math"
	"time"

	"spate/internal/call"
	"spate/internal/figure"
	"spate/internal/judge/metrics"
)

// Differs says where a tool's definitions make the numbers of this run misleading, each with the figure by spate's
// definition.
func (n Name) Differs(run *Run) []string {
	f := n.figures(run)
	s := &run.Summary
	var out []string
	say := func(when bool, format string, args ...any) {
		if when {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	say(s.Failed > 0 && n != VLLM, "%s does not show failed requests: %d of %d failed.", n, s.Failed, s.Failed+s.Completed)
	switch n {
	case LMDeploy:
		say(f.output != f.counted, "Total generated tokens is what was asked for, %d; %d came. TPOT and output throughput are over what was asked for: by what came the throughput is %.2f tok/s.", f.output, f.counted, f.per(f.counted))
		say(f.done > 0, "E2E latency includes the end mark of the stream: to the last token its mean is %.2f ms, not %.2f.", s.Clocks.E2ELToken.Mean, mean(f.e2e))
	case SGLang:
		say(f.peakRequests != s.Concurrency.Peak, "Peak concurrent requests counts a request in every second it touches, %d; at most %d were under way at once.", f.peakRequests, s.Concurrency.Peak)
		say(s.Streaming.MultiShare > 0, "Peak output throughput counts messages, and %.1f %% of them carried several tokens: the peak by tokens is %.2f tok/s.", 100*s.Streaming.MultiShare, s.Throughput.PeakOutput)
	case Backprop:
		honest := s.Clocks.FirstToken.Mean
		say(len(f.ttft) > 0 && math.Abs(honest-mean(f.ttft)) > 0.005, "time_to_first_token is to the first message, which may carry only a role: to the first token its mean is %.4f s, not %.4f.", honest/1000, mean(f.ttft)/1000)
		say(len(f.perToken) > 0, "time-per-output-token includes the time to the first token, and its percentiles are those of one number: without the first token the mean is %.4f s and the P99 %.4f s.", s.TPOT.Mean/1000, s.TPOT.P(99)/1000)
		say(f.output != f.counted, "total_output_tokens counts messages with a text, %d; %d tokens came.", f.output, f.counted)
		say(len(f.speed) > 0, "tokens_per_second is the speed of single requests: all together were served at %.2f tok/s.", f.per(f.counted))
	case VLLM6:
		say(f.done > 0, "vLLM 0.6 ends a request at the end mark of its stream, and counts only messages with a text: at HEAD the mean E2EL is %.2f ms, not %.2f.", s.E2EL.Mean, mean(f.e2e))
	}
	if line := arrivals(run); line != "" {
		out = append(out, line)
	}
	return out
}

// arrivals says what sleeping from one send to the next made of the rate that was asked for: nothing holds the
// sum of the gaps to it, and lateness adds up.
func arrivals(run *Run) string {
	if !run.Asked.Slept || math.IsInf(run.Asked.Rate, 1) {
		return ""
	}
	sent := 0
	var first, last, late time.Duration
	for i := range run.Records {
		r := &run.Records[i]
		if r.Phase != call.Measure || r.Attempt > 0 || r.Turn > 0 { // only these have a place in the schedule
			continue
		}
		if sent == 0 || r.Dispatched < first {
			first = r.Dispatched
		}
		last = max(last, r.Dispatched)
		late += r.Dispatched - r.Due
		sent++
	}
	if sent < 2 || last == first {
		return ""
	}
	span := seconds(last - first)
	return fmt.Sprintf("The gaps between requests are slept one after the other, and nothing holds them to the rate: %d requests left within %.2f s, %.2f a second where %g were asked for. "+
		"A schedule as vLLM's today ends at %.2f s. Waking late adds up: %.2f ms in all; the tool itself loses about 1 ms with each request.",
		sent, span, float64(sent-1)/span, run.Asked.Rate, float64(sent)/run.Asked.Rate, call.Millis(late))
}

// Summary is the run's summary by the definitions of vLLM 0.6: only messages with a visible text count, and
// a request ends with the end mark of its stream.
func (n Name) Summary(run *Run) *metrics.Summary {
	if n != VLLM6 {
		return &run.Summary
	}
	recs := make([]call.Record, len(run.Records))
	for i := range run.Records {
		recs[i] = run.Records[i]
		recs[i].LastEvent = recs[i].End
		recs[i].Chunks = nil
		for _, c := range run.Records[i].Chunks {
			if c.Kind&call.Visible != 0 {
				recs[i].Chunks = append(recs[i].Chunks, c)
			}
		}
	}
	plan := run.Plan.Metrics()
	plan.EndRule = metrics.LastEvent
	s := metrics.Summarize(recs, plan)
	return &s
}

// Figure is one number of a run under one tool's definition, in that tool's unit for vLLM's name.
func (n Name) Figure(run *Run, key string) (float64, bool) {
	if n == VLLM || n == VLLM10 {
		return headFigure(&run.Summary, key)
	}
	if n == VLLM6 {
		return headFigure(n.Summary(run), key)
	}
	f := n.figures(run)
	switch key {
	case "completed":
		return float64(f.done), true
	case "duration":
		return f.duration, true
	case "total_input_tokens":
		return float64(f.input), true
	case "total_output_tokens":
		return float64(f.output), true
	case "request_throughput":
		return f.per(f.done), true
	case "output_throughput":
		return f.per(f.output), true
	case "total_token_throughput":
		return f.per(f.input + f.output), true
	}
	tpot := f.tpot
	if n == Backprop {
		tpot = f.perToken
	}
	return statistic(key, map[string][]float64{"ttft": f.ttft, "tpot": tpot, "itl": f.itl, "e2el": f.e2e})
}

// statistic reads names such as mean_ttft_ms.
func statistic(key string, samples map[string][]float64) (float64, bool) {
	for name, xs := range samples {
		for _, k := range []struct {
			key string
			of  func([]float64) float64
		}{
			{"mean_", mean}, {"median_", median}, {"p99_", func(x []float64) float64 { return pct(x, 99) }}, {"p95_", func(x []float64) float64 { return pct(x, 95) }},
		} {
			if key == k.key+name+"_ms" {
				return k.of(xs), len(xs) > 0
			}
		}
	}
	return 0, false
}

// headFigure is a number by vLLM's definitions at HEAD.
func headFigure(s *metrics.Summary, key string) (float64, bool) {
	r, err := figure.Find(key)
	if err != nil {
		return 0, false
	}
	v := r.Of(s)
	return v.V, v.OK
}

// Keys are the figures tools have in common.
func Keys() []string {
	out := []string{"completed", "duration", "total_input_tokens", "total_output_tokens", "request_throughput", "output_throughput", "total_token_throughput"}
	for _, r := range figure.Stats("mean", "median", "p99") {
		out = append(out, r.Key())
	}
	return out
}

// Why describes a tool's definition of a figure.
func (n Name) Why(key string) string {
	about := map[string]map[Name]string{
		"ttft": {VLLM: "to the first message with choices", VLLM10: "to the first message with choices", VLLM6: "to the first message with a text", SGLang: "to the first message with a text", LMDeploy: "to the first message with a text", Backprop: "to the first message of any kind"},
		"tpot": {VLLM: "(E2EL - TTFT) / (tokens - 1)", VLLM10: "(E2EL - TTFT) / (tokens - 1)", VLLM6: "(E2EL to the end mark - TTFT) / (tokens - 1)", SGLang: "(E2EL to the end mark - TTFT) / (tokens - 1)", LMDeploy: "(E2EL to the end mark - TTFT) / (tokens asked for - 1)", Backprop: "E2EL / messages, the first token included"},
		"itl":  {VLLM: "between messages with choices", VLLM10: "between messages with choices", VLLM6: "between messages with a text", SGLang: "between messages, shared among their tokens where known", LMDeploy: "between messages with a text", Backprop: "not reported"},
		"e2el": {VLLM: "to the last message with choices (chat: to the usage message)", VLLM10: "to the last message with choices (chat: to the usage message)", VLLM6: "to the end mark", SGLang: "to the end mark", LMDeploy: "to the end mark", Backprop: "to the end of the stream"},
		"out":  {VLLM: "tokens by the server's count", VLLM10: "tokens by the server's count", VLLM6: "tokens counted again from the text", SGLang: "tokens by the server's count", LMDeploy: "tokens asked for", Backprop: "messages with a text"},
	}
	for part, words := range about {
		if part == "out" && (key == "total_output_tokens" || key == "output_throughput" || key == "total_token_throughput") {
			return words[n]
		}
		if part != "out" && (key == "mean_"+part+"_ms" || key == "median_"+part+"_ms" || key == "p99_"+part+"_ms") {
			return words[n]
		}
	}
	return ""
}
