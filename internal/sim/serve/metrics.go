package serve

import (
	"strconv"
	"sync/atomic"
	"time"
)

// counters are what /metrics reports, kept with atomic adds only: the pacer counts every event.
type counters struct {
	prompt, generated, cached                    atomic.Int64
	stop, length, abort, failed                  atomic.Int64
	ttft, itl, e2e, queue, prefill, decode, tpot hist
	promptLen, outLen                            hist
}

var (
	ttftBounds = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	itlBounds  = []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	e2eBounds  = []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	lenBounds  = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000}
)

// hist is a histogram with fixed bounds; values are nanoseconds, or counts where scale is 1.
type hist struct {
	bounds []float64
	scale  float64
	bucket []atomic.Int64
	sum    atomic.Int64
}

func (h *hist) init(bounds []float64, scale float64) {
	h.bounds, h.scale, h.bucket = bounds, scale, make([]atomic.Int64, len(bounds)+1)
}

func (h *hist) observe(v int64) {
	x := float64(v) * h.scale
	i := 0
	for i < len(h.bounds) && x > h.bounds[i] {
		i++
	}
	h.bucket[i].Add(1)
	h.sum.Add(v)
}

func (c *counters) init() {
	const second = 1 / float64(time.Second)
	c.ttft.init(ttftBounds, second)
	for _, h := range []*hist{&c.itl, &c.tpot} {
		h.init(itlBounds, second)
	}
	for _, h := range []*hist{&c.e2e, &c.queue, &c.prefill, &c.decode} {
		h.init(e2eBounds, second)
	}
	for _, h := range []*hist{&c.promptLen, &c.outLen} {
		h.init(lenBounds, 1)
	}
}

// finished counts a settled stream.
func (c *counters) finished(s *stream) {
	t := s.truth
	c.prompt.Add(int64(t.Prompt))
	c.cached.Add(int64(t.Cached))
	switch {
	case t.Status == "abort" || t.Status == "cut":
		c.abort.Add(1)
	case t.Status != "ok":
		c.failed.Add(1)
	case t.Finish == "length":
		c.length.Add(1)
	default:
		c.stop.Add(1)
	}
	if t.Status != "ok" || s.n == 0 {
		return
	}
	c.e2e.observe(s.last - t.Arrived)
	c.queue.observe(t.Scheduled - t.Arrived)
	c.prefill.observe(s.first - t.Scheduled)
	c.decode.observe(s.last - s.first)
	if t.Tokens > 1 {
		c.tpot.observe((s.last - s.first) / int64(t.Tokens-1))
	}
	c.promptLen.observe(int64(t.Prompt))
	c.outLen.observe(int64(t.Tokens))
}

// page is a Prometheus text page being written.
type page struct {
	b      []byte
	labels string // model_name="...",engine="0"
}

func (p *page) head(name, kind, help string) {
	p.b = append(p.b, "# HELP "+name+" "+help+"\n# TYPE "+name+" "+kind+"\n"...)
}

func (p *page) value(name, extra string, v float64) {
	p.b = append(p.b, name+"{"+p.labels+extra+"} "...)
	p.b = strconv.AppendFloat(p.b, v, 'g', -1, 64)
	p.b = append(p.b, '\n')
}

func (p *page) gauge(name, help string, v float64) {
	p.head(name, "gauge", help)
	p.value(name, "", v)
}

func (p *page) counter(name, help string, v int64) {
	p.head(name, "counter", help)
	p.value(name+"_total", "", float64(v))
}

func (p *page) hist(name, help string, h *hist) {
	p.head(name, "histogram", help)
	n := int64(0)
	for i, b := range h.bounds {
		n += h.bucket[i].Load()
		p.value(name+"_bucket", `,le="`+strconv.FormatFloat(b, 'f', -1, 64)+`"`, float64(n))
	}
	n += h.bucket[len(h.bounds)].Load()
	p.value(name+"_bucket", `,le="+Inf"`, float64(n))
	p.value(name+"_count", "", float64(n))
	p.value(name+"_sum", "", float64(h.sum.Load())*h.scale)
}

// prometheus answers /metrics under vLLM's names.
func (s *Server) prometheus() answer {
	var st EngineState
	s.pacer.ask(func(e Engine) { st = e.State() })
	c := &s.metrics
	p := &page{labels: `engine="0",model_name=` + string(quote(s.cfg.Models[0]))}
	p.gauge("vllm:num_requests_running", "Requests being answered.", float64(st.Running))
	p.gauge("vllm:num_requests_waiting", "Requests waiting to be answered.", float64(st.Waiting))
	usage := 0.0
	if st.CacheCapacity > 0 {
		usage = float64(st.CacheBlocks) / float64(st.CacheCapacity)
	}
	p.gauge("vllm:kv_cache_usage_perc", "Share of cache blocks in use.", usage)
	p.counter("vllm:prefix_cache_queries", "Prompt tokens looked up in the prefix cache.", st.CacheQueries)
	p.counter("vllm:prefix_cache_hits", "Prompt tokens found in the prefix cache.", st.CacheHits)
	p.counter("vllm:num_preemptions", "Preemptions; none happen here.", 0)
	p.counter("vllm:prompt_tokens", "Prompt tokens of finished requests.", c.prompt.Load())
	p.counter("vllm:prompt_tokens_cached", "Those taken from the prefix cache.", c.cached.Load())
	p.counter("vllm:generation_tokens", "Tokens written.", c.generated.Load())
	p.head("vllm:request_success", "counter", "Finished requests by reason.")
	for _, r := range []struct {
		reason string
		n      int64
	}{{"stop", c.stop.Load()}, {"length", c.length.Load()}, {"abort", c.abort.Load()}, {"error", c.failed.Load()}} {
		p.value("vllm:request_success_total", `,finished_reason="`+r.reason+`"`, float64(r.n))
	}
	p.hist("vllm:time_to_first_token_seconds", "Arrival to first token.", &c.ttft)
	p.hist("vllm:inter_token_latency_seconds", "Between token events.", &c.itl)
	p.hist("vllm:request_time_per_output_token_seconds", "Decode time per token after the first, by request.", &c.tpot)
	p.hist("vllm:e2e_request_latency_seconds", "Arrival to last token.", &c.e2e)
	p.hist("vllm:request_queue_time_seconds", "Arrival to scheduling.", &c.queue)
	p.hist("vllm:request_prefill_time_seconds", "Scheduling to first token.", &c.prefill)
	p.hist("vllm:request_decode_time_seconds", "First to last token.", &c.decode)
	p.hist("vllm:request_prompt_tokens", "Prompt lengths.", &c.promptLen)
	p.hist("vllm:request_generation_tokens", "Output lengths.", &c.outLen)
	p.head("vllm:cache_config_info", "gauge", "How the cache is set up.")
	p.value("vllm:cache_config_info", `,block_size="`+strconv.Itoa(orInt(s.cfg.Timetable.BlockSize, defaultBlockSize))+
		`",enable_prefix_caching="`+pyBool(s.cfg.Timetable.PrefixCache)+`",num_gpu_blocks="`+strconv.Itoa(st.CacheCapacity)+`"`, 1)
	return answer{status: 200, ctype: "text/plain; version=0.0.4; charset=utf-8", body: p.b}
}

func pyBool(b bool) string {
	if b {
		return "True"
	}
	return "False"
}
