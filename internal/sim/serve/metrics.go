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
	promptLen, outLen, maxTokens, inference      hist
	params                                       hist
}

// MetricNames says which of vLLM's names /metrics uses, as they changed with its versions. The zero
// value means today's.
type MetricNames struct {
	TPOT string // histogram of times between tokens; vllm:inter_token_latency_seconds when empty
	V0   bool   // gauges of the first engine: gpu_cache_usage_perc, num_requests_swapped, ...
	V10  bool   // both old and new names of cache gauges and counters
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
	for _, h := range []*hist{&c.e2e, &c.queue, &c.prefill, &c.decode, &c.inference} {
		h.init(e2eBounds, second)
	}
	for _, h := range []*hist{&c.promptLen, &c.outLen, &c.maxTokens} {
		h.init(lenBounds, 1)
	}
	c.params.init([]float64{1, 2, 5, 10, 20}, 1)
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
	c.inference.observe(s.last - t.Scheduled)
	c.maxTokens.observe(int64(s.req.MaxTokens))
	c.params.observe(1)
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
