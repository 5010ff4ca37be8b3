package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func counters(t *testing.T, page string) Counters {
	t.Helper()
	c, err := ParseCounters(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func vllmPage(t testing.TB) string {
	t.Helper()
	raw, err := os.ReadFile("testdata/vllm.txt")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestParseCountersVLLM(t *testing.T) {
	c := counters(t, vllmPage(t))
	if c.Engine != "vllm" {
		t.Errorf("engine %q", c.Engine)
	}
	if got := c.Sums["vllm:prefix_cache_queries_total"]; got != 1200 {
		t.Errorf("queries over both engines: %v", got)
	}
	if got := c.Finished; !cmp.Equal(got, map[string]float64{"stop": 7, "length": 12, "abort": 0}) {
		t.Errorf("finished %v", got)
	}
	if got := c.Accepted; !cmp.Equal(got, map[int]float64{0: 90, 1: 50, 2: 20}) {
		t.Errorf("accepted by position %v", got)
	}
	running, ok1 := c.Running()
	waiting, ok2 := c.Waiting()
	usage, ok3 := c.KVUsage()
	if running != 4 || waiting != 2 || usage != 0.25 || !ok1 || !ok2 || !ok3 {
		t.Errorf("gauges %v %v %v", running, waiting, usage)
	}
	if on, known := c.PrefixCaching(); !on || !known {
		t.Error("prefix caching not seen")
	}
	if c.Config["num_gpu_blocks"] != "27000" {
		t.Errorf("config %v", c.Config)
	}
}

// Differences worked out by hand: see testdata/vllm.txt for the later page.
func TestDeltaVLLM(t *testing.T) {
	before := counters(t, `
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0"} 200
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0"} 50
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total 40
# TYPE vllm:request_success_total counter
vllm:request_success_total{finished_reason="stop"} 7
vllm:request_success_total{finished_reason="length"} 2
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{le="+Inf"} 9
vllm:time_to_first_token_seconds_count 9
vllm:time_to_first_token_seconds_sum 0.4
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total 10
# TYPE vllm:spec_decode_num_draft_tokens_total counter
vllm:spec_decode_num_draft_tokens_total 30
# TYPE vllm:spec_decode_num_accepted_tokens_total counter
vllm:spec_decode_num_accepted_tokens_total 10
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter
vllm:spec_decode_num_accepted_tokens_per_pos_total{position="0"} 10
`)
	got := Delta(before, counters(t, vllmPage(t)))
	n := func(x float64) *float64 { return &x }
	want := Change{
		Engine:        "vllm",
		PrefixQueries: n(1000), PrefixHits: n(250), PrefixRate: n(0.25), // new names only, not both
		PromptTokens: n(1200), OutputTokens: n(600), Preemptions: n(4), Requests: n(10),
		Finished: map[string]float64{"length": 10},
		Times:    map[string]Mean{"ttft": {N: 10, Seconds: 0.15}},
		Spec: &Spec{
			Drafts: 100, DraftTokens: 300, Accepted: 150, AcceptanceRate: 50, AcceptanceLength: 2.5,
			PerPosition: []float64{0.8, 0.5, 0.2},
		},
		RunningAfter: n(4), WaitingAfter: n(2),
		Config: map[string]string{"block_size": "16", "enable_prefix_caching": "True", "engine": "0", "num_gpu_blocks": "27000"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestDeltaOtherSpellings(t *testing.T) {
	cases := []struct {
		name, before, after, engine string
		queries, hits, in, out      float64
	}{
		{
			"vLLM 0.10 with gpu_ names only", "vllm:gpu_prefix_cache_queries_total 10\nvllm:gpu_prefix_cache_hits_total 5\n",
			"vllm:gpu_prefix_cache_queries_total 30\nvllm:gpu_prefix_cache_hits_total 10\nvllm:prompt_tokens_total 7\nvllm:generation_tokens_total 8\n",
			"vllm", 20, 5, 7, 8,
		},
		{
			"names without _total", "vllm:prefix_cache_queries 1\n",
			"vllm:prefix_cache_queries 11\nvllm:prefix_cache_hits 4\nvllm:prompt_tokens 10\nvllm:generation_tokens 3\n",
			"vllm", 10, 4, 10, 3,
		},
		{
			"SGLang", "sglang:prompt_tokens_total 100\n",
			"sglang:prompt_tokens_total 300\nsglang:cached_tokens_total{source=\"device\"} 40\nsglang:cached_tokens_total{source=\"host\"} 10\nsglang:generation_tokens_total 9\n",
			"sglang", 200, 50, 200, 9,
		},
		{
			"TGI", "tgi_queue_size 0\n",
			"# TYPE tgi_request_input_length histogram\ntgi_request_input_length_bucket{le=\"+Inf\"} 2\ntgi_request_input_length_sum 120\ntgi_request_input_length_count 2\n# TYPE tgi_request_generated_tokens histogram\ntgi_request_generated_tokens_bucket{le=\"+Inf\"} 2\ntgi_request_generated_tokens_sum 33\ntgi_request_generated_tokens_count 2\n",
			"tgi", math.NaN(), math.NaN(), 120, 33,
		},
		{
			"llama.cpp", "llamacpp:prompt_tokens_total 5\n", "llamacpp:prompt_tokens_total 25\nllamacpp:tokens_predicted_total 12\n",
			"llama.cpp", math.NaN(), math.NaN(), 20, 12,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := Delta(counters(t, c.before), counters(t, c.after))
			if d.Engine != c.engine || d.Reset {
				t.Errorf("engine %q, reset %v", d.Engine, d.Reset)
			}
			check := func(what string, want float64, got *float64) {
				if math.IsNaN(want) != (got == nil) || got != nil && *got != want {
					t.Errorf("%s: %v, want %v", what, got, want)
				}
			}
			check("queries", c.queries, d.PrefixQueries)
			check("hits", c.hits, d.PrefixHits)
			check("prompt tokens", c.in, d.PromptTokens)
			check("output tokens", c.out, d.OutputTokens)
		})
	}
}

func TestDeltaReset(t *testing.T) {
	for name, after := range map[string]string{
		"fell": "vllm:prompt_tokens_total 3\nvllm:num_requests_running 1\n",
		"gone": "vllm:num_requests_running 1\n",
	} {
		d := Delta(counters(t, "vllm:prompt_tokens_total 5\n"), counters(t, after))
		if !d.Reset || d.PromptTokens != nil {
			t.Errorf("%s: reset %v, prompt tokens %v", name, d.Reset, d.PromptTokens)
		}
		if d.RunningAfter == nil || *d.RunningAfter != 1 {
			t.Errorf("%s: gauges must survive", name)
		}
	}
}

// Two servers share a load, one with the names of an older version. Each figure is added up by hand.
func TestDeltaAll(t *testing.T) {
	look := func(pages ...string) (out []Counters) {
		for _, p := range pages {
			out = append(out, counters(t, p))
		}
		return out
	}
	hist := func(count, sum string) string {
		return "# TYPE vllm:time_to_first_token_seconds histogram\nvllm:time_to_first_token_seconds_count " + count + "\nvllm:time_to_first_token_seconds_sum " + sum + "\n"
	}
	const config = "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\""
	before := look(
		"vllm:prefix_cache_queries_total 100\nvllm:prefix_cache_hits_total 10\nvllm:num_requests_running 1\n"+hist("4", "1"),
		"vllm:gpu_prefix_cache_queries_total 50\nvllm:gpu_prefix_cache_hits_total 0\nvllm:num_requests_running 2\n",
	)
	after := look(
		"vllm:prefix_cache_queries_total 160\nvllm:prefix_cache_hits_total 40\nvllm:prompt_tokens_total 60\nvllm:num_requests_running 0\n"+
			"vllm:request_success_total{finished_reason=\"stop\"} 3\n"+config+"7\"} 1\n"+hist("6", "2"),
		"vllm:gpu_prefix_cache_queries_total 90\nvllm:gpu_prefix_cache_hits_total 20\nvllm:num_requests_running 1\n"+
			"vllm:request_success_total{finished_reason=\"stop\"} 1\nvllm:request_success_total{finished_reason=\"length\"} 5\n"+config+"9\"} 1\n"+hist("3", "4"),
	)
	n := func(x float64) *float64 { return &x }
	want := Change{
		Engine:        "vllm",
		PrefixQueries: n(60 + 40), PrefixHits: n(30 + 20), PrefixRate: n(0.5),
		Requests: n(3 + 6), Finished: map[string]float64{"stop": 4, "length": 5}, // the second server tells no prompt tokens
		Times:         map[string]Mean{"ttft": {N: 2 + 3, Seconds: (1.0 + 4.0) / 5}},
		RunningBefore: n(3), RunningAfter: n(1),
		Config: map[string]string{"block_size": "16"},
	}
	if d := cmp.Diff(want, DeltaAll(before, after)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	// The sum still grows although the second server was restarted.
	after[1] = counters(t, "vllm:gpu_prefix_cache_queries_total 45\nvllm:gpu_prefix_cache_hits_total 0\nvllm:num_requests_running 1\n")
	if d := DeltaAll(before, after); !d.Reset || d.PrefixQueries != nil || *d.RunningAfter != 1 {
		t.Errorf("after a restart of one: %+v", d)
	}
	if d := DeltaAll(look("vllm:prompt_tokens_total 1\n", "sglang:prompt_tokens_total 2\n"), look("vllm:prompt_tokens_total 3\n", "sglang:prompt_tokens_total 7\n")); d.Engine != "vllm, sglang" || *d.PromptTokens != 7 {
		t.Errorf("two engines: %q, %v", d.Engine, d.PromptTokens)
	}
}

func TestDeltaSpecNeedsDrafts(t *testing.T) {
	none := counters(t, "vllm:spec_decode_num_draft_tokens_total 5\nvllm:spec_decode_num_drafts_total 1\n")
	if d := Delta(none, none); d.Spec != nil {
		t.Errorf("nothing drafted: %+v", d.Spec)
	}
	d := Delta(counters(t, "vllm:x 1\n"), counters(t, "vllm:spec_decode_num_draft_tokens_total 4\nvllm:spec_decode_num_accepted_tokens_total 1\n"))
	if d.Spec == nil || d.Spec.AcceptanceRate != 25 || d.Spec.AcceptanceLength != 0 {
		t.Errorf("no draft counter: %+v", d.Spec)
	}
}

func TestDeltaDiffusion(t *testing.T) {
	after := counters(t, "vllm:diffusion_num_denoising_steps_total 40\nvllm:diffusion_num_canvas_positions_total 1280\nvllm:diffusion_num_committed_tokens_total 320\n")
	want := &Diffusion{Steps: 40, Positions: 1280, Committed: 320, Block: 32, Canvases: 10, Denoising: 30, StepsPerCanvas: 4, CommittedPerStep: 8}
	if d := Delta(counters(t, "vllm:x 1\n"), after); !cmp.Equal(want, d.Diffusion) {
		t.Errorf("diffusion %+v", d.Diffusion)
	}
}

// client returns an HTTP client that leaves no idle connections behind.
func client(t *testing.T) *http.Client {
	t.Helper()
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func TestScrapeOverSockets(t *testing.T) {
	var tokens atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		_, _ = fmt.Fprintf(w, "# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total %d\n", tokens.Add(100))
	}))
	defer srv.Close()
	do := client(t).Do
	before, err := Scrape(t.Context(), do, srv.URL+"/metrics")
	if err != nil {
		t.Fatal(err)
	}
	after, err := Scrape(t.Context(), do, srv.URL+"/metrics")
	if err != nil {
		t.Fatal(err)
	}
	if d := Delta(before, after); d.PromptTokens == nil || *d.PromptTokens != 100 {
		t.Errorf("delta %+v", d)
	}
	if _, err := Scrape(t.Context(), do, srv.URL+"/nothing"); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("missing page: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Scrape(ctx, do, srv.URL+"/metrics"); err == nil {
		t.Error("canceled scrape succeeded")
	}
}

func TestScrapeOddPages(t *testing.T) {
	cases := []struct{ name, page, want string }{
		{"a web page", "<!doctype html><title>hello</title>", "parsing metrics"},
		{"nothing", "", "the page has none"},
		{"half a line", "vllm:prompt_tokens_total", "parsing metrics"},
	}
	for _, c := range cases {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(c.page)) }))
		if _, err := Scrape(t.Context(), client(t).Do, srv.URL); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
		srv.Close()
	}
}

func TestScrapeStalledServer(t *testing.T) {
	stop := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		<-stop
	}))
	defer srv.Close()
	defer close(stop)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Scrape(ctx, client(t).Do, srv.URL); err == nil {
		t.Error("a server that never ends its answer gave counters")
	}
}

// Whatever the page, differences with itself are zero and can be written as JSON.
func FuzzParseCounters(f *testing.F) {
	f.Add(vllmPage(f))
	f.Add("a 1\n")
	f.Add("vllm:request_success_total{finished_reason=\"stop\"} NaN\n")
	f.Add("# TYPE h histogram\nh_bucket{le=\"+Inf\"} 3\nh_sum +Inf\nh_count 3\n")
	f.Add("vllm:prefix_cache_queries_total 5e-324\nvllm:prefix_cache_hits_total 1e99\n")
	f.Add("# TYPE vllm:time_to_first_token_seconds histogram\nvllm:time_to_first_token_seconds_sum +Inf\nvllm:time_to_first_token_seconds_count 3\n")
	f.Add("vllm:spec_decode_num_accepted_tokens_per_pos_total{position=\"x\"} 1e300\n")
	f.Fuzz(func(t *testing.T, page string) {
		c, err := ParseCounters(strings.NewReader(page))
		if err != nil {
			return
		}
		for name, v := range c.Sums {
			if math.IsNaN(v) {
				t.Fatalf("%s is NaN", name)
			}
		}
		d := Delta(c, c)
		if d.Reset || d.Spec != nil || d.PromptTokens != nil && *d.PromptTokens != 0 {
			t.Fatalf("difference with itself: %+v", d)
		}
		zero := Delta(Counters{}, c)
		if _, err := json.Marshal([]Change{d, zero}); err != nil {
			t.Fatal(err)
		}
	})
}
