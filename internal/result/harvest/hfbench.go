package harvest

// Hugging Face's inference-benchmarker: a list of results, one per rate.

func isHFBench(n *node) bool {
	list := n.get("results")
	return list != nil && list.kind == '[' && len(list.kids) > 0 && list.kids[0].has("executor_type", "token_throughput_secs")
}

func readHFBench(n *node) []Result {
	var out []Result
	for _, one := range n.get("results").kids {
		r := Result{Format: FormatHFBench, Source: Source{Line: one.line}}
		m := &r.Metrics
		m.copyNumber("completed", one, "successful_requests")
		m.copyNumber("failed", one, "failed_requests")
		m.converted("duration", 0.001, "milliseconds / 1000", one, "duration_ms")
		m.copyNumber("total_input_tokens", one, "total_tokens_sent")
		m.copyNumber("total_output_tokens", one, "total_tokens")
		m.copyNumber("request_throughput", one, "request_rate")
		m.copyNumber("output_throughput", one, "token_throughput_secs")
		m.distribution("ttft", 1, "", one, "time_to_first_token_ms")
		m.distribution("itl", 1, "", one, "inter_token_latency_ms")
		m.distribution("e2el", 1, "", one, "e2e_latency_ms")
		r.Context.fact("label", one, "id")
		r.Context.fact("executor", one, "executor_type")
		r.Context.fact("num_prompts", one, "total_requests")
		r.Context.fact("request_rate", one, "config", "rate")
		r.Context.fact("max_concurrency", one, "config", "max_vus")
		r.Context.fact("model", n, "config", "model_name")
		r.Context.fact("settings", n, "config")
		out = append(out, r)
	}
	return out
}
