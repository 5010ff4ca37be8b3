package serve

import (
	"strconv"
	"strings"
)

// prometheus answers /metrics under vLLM's names.
func (s *Server) prometheus() answer {
	st := s.State()
	p := &page{labels: `engine="0",model_name=` + string(quote(s.cfg.Models[0]))}
	s.gauges(p, &st)
	s.tokens(p, &st)
	s.histograms(p)
	s.engineInfo(p, &st)
	s.lag(p)
	return answer{status: 200, ctype: "text/plain; version=0.0.4; charset=utf-8", body: p.b}
}

// gauges tells what the engine holds now.
func (s *Server) gauges(p *page, st *EngineState) {
	n := &s.cfg.Names
	p.gauge("vllm:num_requests_running", "Requests being answered.", float64(st.Running))
	p.gauge("vllm:num_requests_waiting", "Requests waiting to be answered.", float64(st.Waiting))
	usage := 0.0
	if st.CacheCapacity > 0 {
		usage = float64(st.CacheBlocks) / float64(st.CacheCapacity)
	}
	if n.V0 {
		p.gauge("vllm:num_requests_swapped", "Requests moved to CPU memory.", float64(st.Swapped))
		p.gauge("vllm:cpu_cache_usage_perc", "Share of CPU cache blocks in use.", st.HostUsage)
	}
	if n.V0 || n.V10 {
		p.gauge("vllm:gpu_cache_usage_perc", "Share of cache blocks in use.", usage)
	}
	if n.V0 {
		return
	}
	p.gauge("vllm:kv_cache_usage_perc", "Share of cache blocks in use.", usage)
	if !n.V10 {
		p.head("vllm:num_requests_waiting_by_reason", "gauge", "Requests waiting, by what they wait for.")
		p.value("vllm:num_requests_waiting_by_reason", `,reason="capacity"`, float64(st.Waiting-st.Deferred))
		p.value("vllm:num_requests_waiting_by_reason", `,reason="deferred"`, float64(st.Deferred))
	}
}

// tokens tells what was done since the start.
func (s *Server) tokens(p *page, st *EngineState) {
	c, n := &s.metrics, &s.cfg.Names
	if !n.V0 {
		p.counter("vllm:prefix_cache_queries", "Prompt tokens looked up in the prefix cache.", st.CacheQueries)
		p.counter("vllm:prefix_cache_hits", "Prompt tokens found in the prefix cache.", st.CacheHits)
	}
	if n.V10 {
		p.counter("vllm:gpu_prefix_cache_queries", "Prompt tokens looked up in the prefix cache.", st.CacheQueries)
		p.counter("vllm:gpu_prefix_cache_hits", "Prompt tokens found in the prefix cache.", st.CacheHits)
	}
	p.counter("vllm:num_preemptions", "Times a running request lost its blocks.", st.Preemptions)
	p.counter("vllm:prompt_tokens", "Prompt tokens of finished requests.", c.prompt.Load())
	if !n.V0 && !n.V10 {
		p.counter("vllm:prompt_tokens_cached", "Those taken from the prefix cache.", c.cached.Load())
		p.head("vllm:prompt_tokens_by_source", "counter", "Prompt tokens by where their KV came from.")
		p.value("vllm:prompt_tokens_by_source_total", `,source="local_compute"`, float64(c.prompt.Load()-c.cached.Load()))
		p.value("vllm:prompt_tokens_by_source_total", `,source="local_cache_hit"`, float64(c.cached.Load()))
		p.value("vllm:prompt_tokens_by_source_total", `,source="external_kv_transfer"`, 0)
	}
	p.counter("vllm:generation_tokens", "Tokens written.", c.generated.Load())
	p.head("vllm:request_success", "counter", "Finished requests by reason.")
	for _, r := range []struct {
		reason string
		n      int64
	}{{"stop", c.stop.Load()}, {"length", c.length.Load()}, {"abort", c.abort.Load()}, {"error", c.failed.Load()}} {
		p.value("vllm:request_success_total", `,finished_reason="`+r.reason+`"`, float64(r.n))
	}
	if st.Transfers+st.LostKV > 0 {
		p.counter("spate:sim_kv_transfers", "Prompts whose KV reached the engine that decodes.", st.Transfers)
		p.counter("spate:sim_kv_transfers_lost", "Transfers that were lost, retries included.", st.LostKV)
	}
	if st.Drafts > 0 {
		p.counter("vllm:spec_decode_num_drafts", "Rounds of speculation.", st.Drafts)
		p.counter("vllm:spec_decode_num_draft_tokens", "Tokens drafted.", st.Drafted)
		p.counter("vllm:spec_decode_num_accepted_tokens", "Drafted tokens accepted.", st.Accepted)
	}
}

func (s *Server) histograms(p *page) {
	c := &s.metrics
	between := s.cfg.Names.TPOT
	if between == "" {
		between = "vllm:inter_token_latency_seconds"
	}
	p.hist("vllm:time_to_first_token_seconds", "Arrival to first token.", &c.ttft)
	p.hist(between, "Between token events.", &c.itl)
	if !s.cfg.Names.V0 {
		p.hist("vllm:request_time_per_output_token_seconds", "Decode time per token after the first, by request.", &c.tpot)
	}
	p.hist("vllm:e2e_request_latency_seconds", "Arrival to last token.", &c.e2e)
	p.hist("vllm:request_queue_time_seconds", "Arrival to scheduling.", &c.queue)
	p.hist("vllm:request_inference_time_seconds", "Scheduling to last token.", &c.inference)
	p.hist("vllm:request_prefill_time_seconds", "Scheduling to first token.", &c.prefill)
	p.hist("vllm:request_decode_time_seconds", "First to last token.", &c.decode)
	p.hist("vllm:request_prompt_tokens", "Prompt lengths.", &c.promptLen)
	p.hist("vllm:request_generation_tokens", "Output lengths.", &c.outLen)
	p.hist("vllm:request_max_num_generation_tokens", "Output lengths asked for.", &c.maxTokens)
	p.hist("vllm:request_params_max_tokens", "max_tokens of requests.", &c.maxTokens)
	p.hist("vllm:request_params_n", "n of requests.", &c.params)
}

// engineInfo tells how the engine is set up.
func (s *Server) engineInfo(p *page, st *EngineState) {
	if b := st.StepTokens; b != nil {
		p.buckets("vllm:iteration_tokens_total", "Tokens per step.", b)
	}
	block, prefix := st.BlockSize, st.PrefixCache
	if block == 0 {
		block, prefix = orInt(s.cfg.Timetable.BlockSize, defaultBlockSize), s.cfg.Timetable.PrefixCache
	}
	p.head("vllm:cache_config_info", "gauge", "How the cache is set up.")
	p.value("vllm:cache_config_info", `,block_size="`+strconv.Itoa(block)+`",enable_prefix_caching="`+pyBool(prefix)+
		`",num_gpu_blocks="`+strconv.Itoa(st.CacheCapacity)+`"`, 1)
	if len(s.cfg.Adapters) > 0 {
		p.head("vllm:lora_requests_info", "gauge", "Adapters in use.")
		p.value("vllm:lora_requests_info", `,max_lora="`+strconv.Itoa(len(s.cfg.Adapters))+`",running_lora_adapters="`+
			strings.Join(st.Adapters, ",")+`",waiting_lora_adapters=""`, 1)
	}
}

// lag tells how late this server itself was: figures of a server that lags are not the engine's.
// Tokens of one step are written one after the other, so that writes take longer than the lag.
func (s *Server) lag(p *page) {
	l := s.pacer.lag.summary()
	p.gauge("spate:sim_lag_p99_seconds", "How late the engine's deadlines were met, 99th percentile.", l.P99.Seconds())
	p.gauge("spate:sim_lag_max_seconds", "The latest of them.", l.Max.Seconds())
	p.gauge("spate:sim_write_lag_p99_seconds", "How late token events were written, 99th percentile.", s.late.summary().P99.Seconds())
	lagging := 0.0
	if l.Lagging {
		lagging = 1
	}
	p.gauge("spate:sim_lagging", "1 when the 99th percentile is above one millisecond.", lagging)
}

// buckets writes a histogram that the engine kept.
func (p *page) buckets(name, help string, h *Buckets) {
	p.head(name, "histogram", help)
	n := int64(0)
	for i, b := range h.Bounds {
		n += h.Counts[i]
		p.value(name+"_bucket", `,le="`+strconv.FormatFloat(b, 'f', -1, 64)+`"`, float64(n))
	}
	n += h.Counts[len(h.Bounds)]
	p.value(name+"_bucket", `,le="+Inf"`, float64(n))
	p.value(name+"_count", "", float64(n))
	p.value(name+"_sum", "", h.Sum)
}

func pyBool(b bool) string {
	if b {
		return "True"
	}
	return "False"
}
