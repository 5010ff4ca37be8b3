package figure

import "spate/internal/judge/metrics"

// catalogue has vLLM's figures first, in the order of its result file; the rest follows docs/metrics.md, which
// describes every entry.
var catalogue = []Figure{
	{
		Name: "duration", Unit: Seconds, Label: "duration", Head: "s", Title: "Duration (s)", Meaning: "Benchmark duration in seconds", headline: true,
		Spelled: map[Tool][]string{VLLM: {"Benchmark duration (s)"}, AIPerf: {"benchmark_duration"}, GuideLLM: {"duration"}},
		at:      func(s *metrics.Summary) any { return &s.DurationS },
	},
	{
		Name: "completed", Better: Higher, Label: "requests answered", Head: "ok", Title: "Successful Requests", Meaning: "Successful requests", headline: true,
		Spelled: map[Tool][]string{VLLM: {"Successful requests"}, AIPerf: {"request_count"}, GuideLLM: {"successful"}},
		at:      func(s *metrics.Summary) any { return &s.Completed },
	},
	{
		Name: "failed", Better: Lower, Label: "requests failed", Head: "failed", Title: "Failed Requests", Meaning: "Failed requests", headline: true,
		Spelled: map[Tool][]string{VLLM: {"Failed requests"}, AIPerf: {"error_request_count"}, GuideLLM: {"errored"}},
		at:      func(s *metrics.Summary) any { return &s.Failed },
	},
	{
		Name: "total_input_tokens", Label: "input tokens", Title: "Total Input Tokens", Meaning: "Tokens of all prompts", headline: true,
		Spelled: map[Tool][]string{VLLM: {"Total input tokens"}, AIPerf: {"total_isl"}, GuideLLM: {"prompt_token_count"}},
		at:      func(s *metrics.Summary) any { return &s.TotalInput },
	},
	{
		Name: "total_output_tokens", Label: "output tokens", Title: "Total Generated Tokens", Meaning: "Tokens of all answers", headline: true,
		Spelled: map[Tool][]string{VLLM: {"Total generated tokens"}, AIPerf: {"total_osl"}, GuideLLM: {"output_token_count"}},
		at:      func(s *metrics.Summary) any { return &s.TotalOutput },
	},
	{
		Name: "request_throughput", Unit: RequestRate, Better: Higher, Label: "request throughput", Head: "req/s", Title: "Req Throughput (req/s)", Meaning: "Requests finished per second",
		Also: []string{"rps", "throughput"}, headline: true,
		Spelled: map[Tool][]string{VLLM: {"Request throughput (req/s)"}, AIPerf: {"request_throughput"}, GuideLLM: {"requests_per_second"}},
		at:      func(s *metrics.Summary) any { return &s.RequestThroughput },
		value: func(s *metrics.Summary) Value {
			return Value{V: s.RequestThroughput, OK: true, CI: s.Throughput.RequestCI95}
		},
	},
	{
		Name: "request_goodput", Unit: RequestRate, Better: Higher, Label: "goodput", Head: "good/s", Title: "Req Goodput (req/s)", Meaning: "Requests per second that met the objectives",
		Also: []string{"goodput"}, headline: true,
		Spelled: map[Tool][]string{VLLM: {"Request goodput (req/s)"}, AIPerf: {"request_goodput", "goodput"}},
		at:      func(s *metrics.Summary) any { return &s.RequestGoodput },
	},
	{
		Name: "output_throughput", Unit: TokenRate, Better: Higher, Label: "output throughput", Head: "out tok/s", Title: "Output Token Throughput (tok/s)", Meaning: "Output tokens per second",
		Also: []string{"output_token_throughput"}, headline: true,
		Spelled: map[Tool][]string{VLLM: {"Output token throughput (tok/s)"}, AIPerf: {"output_token_throughput"}, GuideLLM: {"output_tokens_per_second"}},
		at:      func(s *metrics.Summary) any { return &s.OutputThroughput },
		value: func(s *metrics.Summary) Value {
			return Value{V: s.OutputThroughput, OK: true, CI: s.Throughput.OutputCI95}
		},
	},
	{
		Name: "total_token_throughput", Unit: TokenRate, Better: Higher, Label: "total token throughput", Head: "total tok/s", Title: "Total Token Throughput (tok/s)", Meaning: "Input and output tokens per second", headline: true,
		Spelled: map[Tool][]string{VLLM: {"Total token throughput (tok/s)", "Total Token throughput (tok/s)"}, SGLang: {"total_throughput"}, AIPerf: {"total_token_throughput"}, GuideLLM: {"tokens_per_second"}},
		at:      func(s *metrics.Summary) any { return &s.TotalTokenThroughput },
	},
	{
		Name: "max_output_tokens_per_s", Unit: TokenRate, Better: Higher, Label: "peak output throughput", Meaning: "Most chunks within one whole second", headline: true,
		Spelled: map[Tool][]string{VLLM: {"Peak output token throughput (tok/s)"}},
		at:      func(s *metrics.Summary) any { return &s.MaxOutputPerS },
	},
	{
		Name: "max_concurrent_requests", Label: "peak concurrent requests", Meaning: "Most requests that touch one whole second", headline: true,
		Spelled: map[Tool][]string{VLLM: {"Peak concurrent requests"}},
		at:      func(s *metrics.Summary) any { return &s.MaxConcurrent },
	},
	{
		Name: "ttft", Unit: Milliseconds, Better: Lower, Label: "TTFT", Meaning: "Time to first token", headline: true,
		Spelled: map[Tool][]string{VLLM: {"Time to First Token"}, AIPerf: {"time_to_first_token"}, GuideLLM: {"time_to_first_token_ms"}},
		dist:    func(s *metrics.Summary) *metrics.Dist { return &s.TTFT },
	},
	{
		Name: "tpot", Unit: Milliseconds, Better: Lower, Label: "TPOT", Meaning: "Time per output token", headline: true,
		Spelled: map[Tool][]string{VLLM: {"Time per Output Token (excl. 1st token)"}, AIPerf: {"inter_token_latency"}}, // one mean per request, there
		dist:    func(s *metrics.Summary) *metrics.Dist { return &s.TPOT },
	},
	{
		Name: "itl", Unit: Milliseconds, Better: Lower, Label: "ITL", Meaning: "Inter-token latency", headline: true,
		Spelled: map[Tool][]string{VLLM: {"Inter-token Latency"}, AIPerf: {"inter_chunk_latency"}, GuideLLM: {"inter_token_latency_ms"}},
		dist:    func(s *metrics.Summary) *metrics.Dist { return &s.ITL },
	},
	{
		Name: "e2el", Unit: Milliseconds, Better: Lower, Label: "E2EL", Meaning: "End-to-end latency", headline: true,
		Spelled: map[Tool][]string{
			VLLM: {"End-to-end Latency"}, SGLang: {"e2e_latency", "E2E Latency"}, LMDeploy: {"e2e_latency", "E2E Latency"},
			AIPerf: {"request_latency"}, GuideLLM: {"request_latency"},
		},
		dist: func(s *metrics.Summary) *metrics.Dist { return &s.E2EL },
	},
	{
		Name: "error_rate", Unit: Ratio, Better: Lower, Label: "error rate", Meaning: "Share of requests that got no answer", Also: []string{"failure_rate"},
		value: func(s *metrics.Summary) Value {
			return Share(s.ErrorAdjusted.Failures, s.Completed+s.ErrorAdjusted.Failures) // a request that was cut off or never left was not answered either
		},
	},
	{
		Name: "unanswered", Better: Lower, Label: "requests without an answer", Head: "failed", Meaning: "Requests that failed, were cut off or never sent",
		at: func(s *metrics.Summary) any { return &s.ErrorAdjusted.Failures },
	},
	{
		Name: "goodput_ratio", Unit: Ratio, Better: Higher, Label: "share of good requests", Meaning: "Share of requests that met the objectives", Also: []string{"attainment"},
		value: func(s *metrics.Summary) Value {
			if s.Goodput == nil {
				return Value{}
			}
			v := Share(s.Goodput.Good, s.Completed+s.ErrorAdjusted.Failures)
			v.V = s.Goodput.Share // of tenants with objectives only, where there are tenants
			return v
		},
	},
	{
		Name: "input_throughput", Unit: TokenRate, Better: Higher, Label: "input throughput", Meaning: "Input tokens per second",
		Spelled: map[Tool][]string{SGLang: {"Input token throughput (tok/s)"}, LMDeploy: {"Input token throughput (tok/s)"}},
		at:      func(s *metrics.Summary) any { return &s.Throughput.Input },
	},
	{
		Name: "peak_output_tokens_per_s", Unit: TokenRate, Better: Higher, Label: "peak output tokens", Meaning: "Most tokens within any second",
		at: func(s *metrics.Summary) any { return &s.Throughput.PeakOutput },
	},
	{
		Name: "input_sequence_throughput", Unit: InputRate, Better: Higher, Label: "inputs embedded or ranked", Meaning: "Texts embedded or documents ranked per second",
		Spelled: map[Tool][]string{VLLM: {"Input throughput (inputs/s)"}},
		value: func(s *metrics.Summary) Value {
			if s.Pooling == nil {
				return Value{}
			}
			return Value{V: s.Pooling.Throughput, OK: true}
		},
	},
	{
		Name: "rtfx", Unit: Factor, Better: Higher, Label: "RTFx", Meaning: "Seconds of speech sent per second",
		Spelled: map[Tool][]string{VLLM: {"RTFx (Inverse Real-Time Factor)"}},
		value:   func(s *metrics.Summary) Value { return Value{V: s.RTFx, OK: s.RTFx > 0} },
	},
	latency("ttft_due", "TTFT from due time", "Time to first token from the time the request was due", func(s *metrics.Summary) *metrics.Dist { return &s.Clocks.TTFTDue }),
	latency("e2el_due", "E2EL from due time", "End-to-end latency from the time the request was due", func(s *metrics.Summary) *metrics.Dist { return &s.Clocks.E2ELDue }),
	latency("first_byte", "first byte", "Time to the first byte of the response", func(s *metrics.Summary) *metrics.Dist { return &s.Clocks.FirstByte }),
	latency("first_token", "first token", "Time to the first content of any kind", func(s *metrics.Summary) *metrics.Dist { return &s.Clocks.FirstToken }),
	latency("first_text", "first text", "Time to the first visible text", func(s *metrics.Summary) *metrics.Dist { return &s.Clocks.FirstText }),
	latency("e2el_last_token", "E2EL to last token", "Time to the last content", func(s *metrics.Summary) *metrics.Dist { return &s.Clocks.E2ELToken }),
	latency("e2el_close", "E2EL to end", "Time to the end of the response", func(s *metrics.Summary) *metrics.Dist { return &s.Clocks.E2ELClose }),
	latency("token_itl", "token ITL", "Inter-token latency, a chunk of several tokens counted as as many gaps", func(s *metrics.Summary) *metrics.Dist { return &s.Streaming.TokenITL }),
	latency("itl_no_role", "ITL without role", "Inter-token latency without the empty messages an answer opens with", func(s *metrics.Summary) *metrics.Dist { return &s.Streaming.ITLNoRole }),
	{
		Name: "user_tokens_per_s", Unit: TokenRate, Better: Higher, Label: "speed for one user", Meaning: "Output tokens over latency, of each request",
		dist: func(s *metrics.Summary) *metrics.Dist { return &s.Speed.User },
	},
	{
		Name: "decode_tokens_per_s", Unit: TokenRate, Better: Higher, Label: "decode speed", Meaning: "Tokens per second behind the first token, of each request",
		dist: func(s *metrics.Summary) *metrics.Dist { return &s.Speed.Decode },
	},
}

// latency is an entry of a time that only spate reports.
func latency(name, label, meaning string, dist func(*metrics.Summary) *metrics.Dist) Figure {
	return Figure{Name: name, Unit: Milliseconds, Better: Lower, Label: label, Meaning: meaning, dist: dist}
}

// Share is a ratio of counts; without a count there is no ratio.
func Share(n, of int) Value {
	if of == 0 {
		return Value{}
	}
	return Value{V: float64(n) / float64(of), OK: true, Count: n, Of: of}
}
