package probe

import (
	"maps"
	"slices"
	"strings"
)

// Change is what a server's counters say about the time between two looks at them. They are the server's, not the
// run's: other clients' requests count too, which RunningBefore hints at. Nil is "the server does not say".
type Change struct {
	Engine string `json:"engine,omitempty"`
	// Reset reports that a counter fell: the server was restarted in between and all differences are void.
	Reset bool `json:"reset,omitempty"`

	PrefixQueries *float64 `json:"prefix_cache_queries,omitempty"` // prompt tokens looked up
	PrefixHits    *float64 `json:"prefix_cache_hits,omitempty"`    // of these, found
	PrefixRate    *float64 `json:"prefix_cache_hit_rate,omitempty"`
	PromptTokens  *float64 `json:"prompt_tokens,omitempty"`
	OutputTokens  *float64 `json:"generation_tokens,omitempty"`
	Preemptions   *float64 `json:"preemptions,omitempty"`
	Requests      *float64 `json:"requests,omitempty"` // finished

	Finished map[string]float64 `json:"finished,omitempty"` // requests by reason
	Times    map[string]Mean    `json:"times,omitempty"`    // the server's own clocks, by what they time

	Spec      *Spec      `json:"spec_decode,omitempty"`
	Diffusion *Diffusion `json:"diffusion,omitempty"`

	RunningBefore *float64 `json:"running_before,omitempty"`
	WaitingBefore *float64 `json:"waiting_before,omitempty"`
	RunningAfter  *float64 `json:"running_after,omitempty"`
	WaitingAfter  *float64 `json:"waiting_after,omitempty"`

	Config map[string]string `json:"cache_config,omitempty"`
}

// Mean is a histogram's number of observations and their mean.
type Mean struct {
	N       float64 `json:"n"`
	Seconds float64 `json:"mean_s"`
}

// Spec are the figures of speculative decoding, as vLLM's client reports them.
type Spec struct {
	Drafts           float64   `json:"num_drafts"`
	DraftTokens      float64   `json:"draft_tokens"`
	Accepted         float64   `json:"accepted_tokens"`
	AcceptanceRate   float64   `json:"acceptance_rate"`   // percent of draft tokens
	AcceptanceLength float64   `json:"acceptance_length"` // tokens per step, the one that is always right included
	PerPosition      []float64 `json:"per_position_acceptance_rates"`
}

// Diffusion are the figures of diffusion models, which refine a canvas of positions before committing it.
type Diffusion struct {
	Steps            float64 `json:"steps"`
	Positions        float64 `json:"canvas_positions"`
	Committed        float64 `json:"committed_tokens"`
	Block            float64 `json:"block"`    // positions per step
	Canvases         float64 `json:"canvases"` // committed / block
	Denoising        float64 `json:"denoising_steps"`
	StepsPerCanvas   float64 `json:"steps_per_canvas"`
	CommittedPerStep float64 `json:"committed_per_step"`
}

// Names of the same figure in the engines and their versions, the preferred one first.
var (
	queryNames = []string{
		"vllm:prefix_cache_queries_total", "vllm:prefix_cache_queries",
		"vllm:gpu_prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries",
		"sglang:prompt_tokens_total", // SGLang looks up every prompt token
	}
	hitNames = []string{
		"vllm:prefix_cache_hits_total", "vllm:prefix_cache_hits",
		"vllm:gpu_prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits",
		"sglang:cached_tokens_total",
	}
	promptNames = []string{
		"vllm:prompt_tokens_total", "vllm:prompt_tokens", "sglang:prompt_tokens_total",
		"tgi_request_input_length_sum", "llamacpp:prompt_tokens_total", "trtllm_prompt_tokens_total",
	}
	outputNames = []string{
		"vllm:generation_tokens_total", "vllm:generation_tokens", "sglang:generation_tokens_total",
		"tgi_request_generated_tokens_sum", "llamacpp:tokens_predicted_total", "trtllm_generation_tokens_total",
	}
	preemptionNames = []string{
		"vllm:num_preemptions_total", "vllm:num_preemptions",
		"sglang:num_retracted_requests_total", "sglang:num_retracted_reqs_total",
	}
	requestNames = []string{
		"vllm:request_success_total", "vllm:request_success", "sglang:num_requests_total",
		"tgi_request_success", "tgi_request_success_total", "trtllm_request_success_total",
	}
	runningNames = []string{
		"vllm:num_requests_running", "sglang:num_running_reqs", "tgi_batch_current_size",
		"llamacpp:requests_processing",
	}
	waitingNames = []string{
		"vllm:num_requests_waiting", "sglang:num_queue_reqs", "tgi_queue_size", "llamacpp:requests_deferred",
	}
	kvNames = []string{
		"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage", "llamacpp:kv_cache_usage_ratio",
	}
)

// levels are the figures of Levels apart from its clocks.
var levels = []struct {
	what  string
	names []string
}{
	{"running", runningNames},
	{"waiting", waitingNames},
	{"kv_usage", kvNames},
	{"prompt_tokens", promptNames},
	{"generation_tokens", outputNames},
	{"preemptions", preemptionNames},
	{"requests_finished", requestNames},
	{"prefix_queries", queryNames},
	{"prefix_hits", hitNames},
}

// timers are the engines' duration histograms under one name each.
var timers = []struct {
	what  string
	names []string
}{
	{"ttft", []string{"vllm:time_to_first_token_seconds", "sglang:time_to_first_token_seconds", "trtllm_time_to_first_token_seconds"}},
	{"itl", []string{"vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds", "sglang:inter_token_latency_seconds"}},
	{"tpot", []string{"vllm:request_time_per_output_token_seconds", "tgi_request_mean_time_per_token_duration", "trtllm_time_per_output_token_seconds"}},
	{"e2el", []string{"vllm:e2e_request_latency_seconds", "sglang:e2e_request_latency_seconds", "tgi_request_duration", "trtllm_e2e_request_latency_seconds"}},
	{"queue", []string{"vllm:request_queue_time_seconds", "sglang:queue_time_seconds", "tgi_request_queue_duration", "trtllm_request_queue_time_seconds"}},
	{"prefill", []string{"vllm:request_prefill_time_seconds"}},
	{"decode", []string{"vllm:request_decode_time_seconds"}},
	{"inference", []string{"vllm:request_inference_time_seconds", "tgi_request_inference_duration"}},
}

// pair is two looks at the same server's counters.
type pair struct {
	before, after Counters
	reset         bool
}

// DeltaAll computes what happened between two looks at servers that share a load, the same servers in the same
// order: counts add up, each under the name its server has for it. What one of them does not tell is not known of
// all, and a restart of one voids the figures of all.
func DeltaAll(before, after []Counters) Change {
	var s servers
	for i := range after {
		s = append(s, &pair{before: before[i], after: after[i]})
	}
	d := Change{
		Engine:        s.engine(),
		PrefixQueries: s.diff(queryNames),
		PrefixHits:    s.diff(hitNames),
		PromptTokens:  s.diff(promptNames),
		OutputTokens:  s.diff(outputNames),
		Preemptions:   s.diff(preemptionNames),
		Requests:      s.diff(requestNames),
		Finished:      s.finished(),
		Times:         s.times(),
		Spec:          s.spec(),
		Diffusion:     s.diffusion(),
	}
	if s.reset() {
		d = Change{Engine: s.engine(), Reset: true}
	}
	if d.PrefixHits == nil || d.PrefixQueries == nil {
		d.PrefixHits, d.PrefixQueries = nil, nil // one without the other says nothing
	} else if *d.PrefixQueries > 0 {
		rate := per(*d.PrefixHits, *d.PrefixQueries)
		d.PrefixRate = &rate
	}
	d.RunningBefore, d.RunningAfter = total(before, Counters.Running), total(after, Counters.Running)
	d.WaitingBefore, d.WaitingAfter = total(before, Counters.Waiting), total(after, Counters.Waiting)
	d.Config = agreed(after)
	return d
}

// total adds a gauge up; nil when a server does not tell it.
func total(servers []Counters, gauge func(Counters) (float64, bool)) *float64 {
	sum := 0.0
	for _, c := range servers {
		v, ok := gauge(c)
		if !ok {
			return nil
		}
		sum += v
	}
	return &sum
}

// agreed is the part of their configurations that all servers share.
func agreed(servers []Counters) map[string]string {
	var out map[string]string
	for i, c := range servers {
		if i == 0 && len(c.Config) > 0 {
			out = maps.Clone(c.Config)
		}
		maps.DeleteFunc(out, func(k, v string) bool { return c.Config[k] != v })
	}
	return out
}

// per is a/b, 0 where that is no number a result file could hold.
func per(a, b float64) float64 {
	if r := a / b; plausible(r) {
		return r
	}
	return 0
}

// grown returns how far a value grew. Counters appear with their first event, so one that was not there before
// was 0.
func (p *pair) grown(before, after float64) float64 {
	if after < before {
		p.reset = true
	}
	return after - before
}

// diff returns the growth of the first of the names the server has, nil when it has none.
func (p *pair) diff(names []string) *float64 {
	name, ok := p.after.find(names...)
	if !ok {
		if _, had := p.before.find(names...); had {
			p.reset = true // gone after a restart, until its first event
		}
		return nil
	}
	d := p.grown(p.before.Sums[name], p.after.Sums[name])
	return &d
}

// servers are the pairs of all servers of a run.
type servers []*pair

func (s servers) engine() string {
	var names []string
	for _, p := range s {
		if e := p.after.Engine; e != "" && !slices.Contains(names, e) {
			names = append(names, e)
		}
	}
	return strings.Join(names, ", ")
}

func (s servers) reset() bool { return slices.ContainsFunc(s, func(p *pair) bool { return p.reset }) }

func (s servers) diff(names []string) *float64 {
	sum, all := 0.0, true
	for _, p := range s {
		if d := p.diff(names); d == nil {
			all = false
		} else {
			sum += *d
		}
	}
	if !all || len(s) == 0 {
		return nil
	}
	return &sum
}

func (s servers) finished() map[string]float64 {
	out := map[string]float64{}
	for _, p := range s {
		for reason, n := range p.after.Finished {
			if d := p.grown(p.before.Finished[reason], n); d != 0 {
				out[reason] += d
			}
		}
	}
	return out
}

func (s servers) times() map[string]Mean {
	out := map[string]Mean{}
	for _, t := range timers {
		n, seconds := 0.0, 0.0
		for _, p := range s {
			for _, name := range t.names {
				if count, ok := p.after.Sums[name+"_count"]; ok {
					n += p.grown(p.before.Sums[name+"_count"], count)
					seconds += p.after.Sums[name+"_sum"] - p.before.Sums[name+"_sum"]
					break
				}
			}
		}
		if n > 0 {
			out[t.what] = Mean{N: n, Seconds: per(seconds, n)}
		}
	}
	return out
}

// spec computes vLLM's speculative decoding figures, nil unless tokens were drafted.
func (s servers) spec() *Spec {
	get := func(name string) (sum float64) {
		full := "vllm:spec_decode_num_" + name
		for _, p := range s {
			if d := p.diff([]string{full + "_total", full}); d != nil {
				sum += *d
			}
		}
		return sum
	}
	sp := &Spec{Drafts: get("drafts"), DraftTokens: get("draft_tokens"), Accepted: get("accepted_tokens")}
	if sp.DraftTokens <= 0 {
		return nil
	}
	sp.AcceptanceRate = per(sp.Accepted, sp.DraftTokens) * 100
	if sp.Drafts <= 0 {
		return sp
	}
	sp.AcceptanceLength = 1 + per(sp.Accepted, sp.Drafts)
	accepted := map[int]float64{}
	for _, p := range s {
		for pos, n := range p.after.Accepted {
			accepted[pos] += p.grown(p.before.Accepted[pos], n)
		}
	}
	for _, pos := range slices.Sorted(maps.Keys(accepted)) {
		sp.PerPosition = append(sp.PerPosition, per(accepted[pos], sp.Drafts))
	}
	return sp
}

// diffusion computes the figures of diffusion models, nil unless they took steps.
func (s servers) diffusion() *Diffusion {
	var d Diffusion
	for _, p := range s {
		p.diffused(&d)
	}
	if d.Steps <= 0 || d.Positions <= 0 {
		return nil
	}
	d.Block = per(d.Positions, d.Steps)
	d.Canvases = per(d.Committed, d.Block)
	d.Denoising = d.Steps - d.Canvases
	d.CommittedPerStep = per(d.Committed, d.Steps)
	d.StepsPerCanvas = per(d.Steps, d.Canvases)
	return &d
}

// diffused adds one server's counts.
func (p *pair) diffused(d *Diffusion) {
	for name, after := range p.after.Sums {
		kind, ok := strings.CutPrefix(name, "vllm:diffusion_")
		if !ok || !strings.HasSuffix(kind, "_total") {
			continue
		}
		switch grown := p.grown(p.before.Sums[name], after); {
		case strings.Contains(kind, "steps"):
			d.Steps += grown
		case strings.Contains(kind, "canvas_positions"):
			d.Positions += grown
		case strings.Contains(kind, "committed_tokens"):
			d.Committed += grown
		}
	}
}
