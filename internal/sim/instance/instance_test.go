package instance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"spate/internal/forecast/profile"
	"spate/internal/sim"
	"spate/internal/sim/catalog"
	"spate/internal/sim/cluster"
	"spate/internal/sim/engineconf"
	"spate/internal/sim/latency"
	"spate/internal/sim/serve"
	"spate/internal/sim/wall"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func settings(change ...func(*engineconf.Settings)) engineconf.Settings {
	s := engineconf.Settings{Watermark: -1}
	for _, f := range change {
		f(&s)
	}
	return s
}

// run builds and starts an instance for one test.
func run(t *testing.T, o Options) (*Instance, *serve.Server) {
	t.Helper()
	in, err := Build(o)
	if err != nil {
		t.Fatal(err)
	}
	srv, err := serve.Start(t.Context(), in.Serve)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Stop(); err != nil {
			t.Error(err)
		}
	})
	return in, srv
}

// await waits for a condition, however slow the machine is.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never came about: %s", what)
		}
	}
}

// curl asks one URL; an empty body means GET.
func curl(t *testing.T, url, body string) (int, string) {
	t.Helper()
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end below
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// metric reads one value off a metrics page.
func metric(t *testing.T, page, name string) float64 {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + `(?:\{[^}]*\})? (\S+)$`).FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("no %s", name)
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestEveryEndpoint uses the server as a user of vLLM would.
func TestEveryEndpoint(t *testing.T) {
	in, srv := run(t, Options{Scale: 50, Settings: settings(func(s *engineconf.Settings) {
		s.Model, s.GPU, s.Served, s.Version = "Qwen/Qwen3-8B", "H100", []string{"qwen"}, "0.15.1"
	}), Answers: wall.Answers{Reasoning: 2}})
	url := srv.URL()
	prompt := strings.Repeat("lorem ipsum dolor sit amet ", 40)
	for _, c := range []struct {
		path, body string
		want       []string
	}{
		{"/health", "", nil},
		{"/version", "", []string{`"0.15.1"`}},
		{"/v1/models", "", []string{`"id":"qwen"`, `"root":"Qwen/Qwen3-8B"`, `"max_model_len":40960`}},
		{"/v1/completions", fmt.Sprintf(`{"model":"qwen","prompt":%q,"max_tokens":7,"ignore_eos":true}`, prompt), []string{`"completion_tokens":7`, `"finish_reason":"length"`}},
		{"/v1/completions", fmt.Sprintf(`{"model":"qwen","prompt":%q,"max_tokens":3,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`, prompt), []string{`"completion_tokens":1`, `"completion_tokens":3`, "data: [DONE]"}},
		{"/v1/chat/completions", `{"model":"qwen","messages":[{"role":"user","content":"hello there"}],"max_tokens":6,"stream":true,"logprobs":true,"top_logprobs":2}`, []string{`"role":"assistant"`, `"reasoning":"`, `"top_logprobs":[`, "data: [DONE]"}},
		{"/v1/chat/completions", `{"model":"qwen","messages":[{"role":"user","content":"hello there"}],"max_tokens":6}`, []string{`"message":{"role":"assistant"`, `"reasoning_tokens":2`}},
		{"/tokenize", `{"model":"qwen","prompt":"the cat"}`, []string{`"count":2`, `"max_model_len":40960`}},
		{"/detokenize", `{"model":"qwen","tokens":[104,105]}`, []string{`"prompt":"hi"`}},
		{"/reset_prefix_cache", " ", []string{`"success":true`}},
		{"/generate", `{"text":"the cat","sampling_params":{"max_new_tokens":4}}`, []string{`"completion_tokens":4`}},
		{"/get_server_info", "", []string{`"max_num_seqs":1024`, `"device":"H100-SXM"`, `"tp_size":1`}},
		{"/flush_cache", "", []string{"Cache flushed"}},
		{"/load", "", []string{`"server_load":0`}},
		{"/sim/stats", "", []string{`"lag":{`}},
	} {
		status, body := curl(t, url+c.path, c.body)
		if status != 200 {
			t.Errorf("%s: %d %s", c.path, status, body)
		}
		// The end of an answer may be seen a moment before the server has counted it.
		await(t, "the answer is counted", func() bool { return srv.Stats().Active == 0 })
		for _, w := range c.want {
			if !strings.Contains(body, w) {
				t.Errorf("%s: %.300s lacks %s", c.path, body, w)
			}
		}
	}
	_, page := curl(t, url+"/metrics", "")
	if got := metric(t, page, "vllm:prefix_cache_hits_total"); got < 100 {
		t.Errorf("%v tokens found in the prefix cache, the prompt was sent twice", got)
	}
	for name, want := range map[string]float64{
		"vllm:num_requests_running": 0, "vllm:kv_cache_usage_perc": 0, "vllm:num_preemptions_total": 0,
		"vllm:generation_tokens_total": 7 + 3 + 6 + 6 + 4, "vllm:time_to_first_token_seconds_count": 5,
	} {
		if got := metric(t, page, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if metric(t, page, "vllm:iteration_tokens_total_count") < 26 {
		t.Error("steps are not counted")
	}
	if !strings.Contains(page, fmt.Sprintf(`block_size="16",enable_prefix_caching="True",num_gpu_blocks="%d"`, in.Conf.Sim.Blocks-1)) {
		t.Errorf("cache_config_info does not tell %d blocks", in.Conf.Sim.Blocks)
	}
	if status, body := curl(t, url+"/v1/completions", `{"model":"qwen","prompt":"x","max_tokens":50000}`); status != 400 || !strings.Contains(body, "maximum context length is 40960 tokens") {
		t.Errorf("%d %s", status, body)
	}
}

// TestRequestMetrics: a request's own timings add up.
func TestRequestMetrics(t *testing.T) {
	in, err := Build(Options{Scale: 10})
	if err != nil {
		t.Fatal(err)
	}
	in.Serve.RequestMetrics = true
	srv, err := serve.Start(t.Context(), in.Serve)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := srv.Stop(); err != nil {
			t.Error(err)
		}
	}()
	_, body := curl(t, srv.URL()+"/v1/completions", `{"prompt":"the cat sat","max_tokens":20}`)
	var got struct {
		Metrics struct {
			TTFT  float64 `json:"time_to_first_token_ms"`
			Gen   float64 `json:"generation_time_ms"`
			Queue float64 `json:"queue_time_ms"`
			ITL   float64 `json:"mean_itl_ms"`
		}
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	m := got.Metrics
	if m.TTFT <= 0 || m.Gen <= 0 || m.Queue < 0 || m.ITL < 0.9*m.Gen/19 || m.ITL > 1.1*m.Gen/19 {
		t.Errorf("%+v", m)
	}
}

func TestStartAndLog(t *testing.T) {
	in, srv := run(t, Options{Profile: "Qwen2-7B-Instruct@A100-80GB-SXM", Scale: 4, Details: true, Settings: settings(func(s *engineconf.Settings) { s.Version = "0.10.1.1" })})
	var b syncBuffer
	if err := in.Started(&b, 42); err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^\(APIServer pid=42\) INFO \d\d-\d\d \d\d:\d\d:\d\d GPU KV cache size: [\d,]+ tokens$`).MatchString(b.String()) {
		t.Errorf("start lines:\n%s", b.String())
	}
	if !strings.Contains(in.Title, "not calibrated") || !strings.Contains(in.Title, "A100-80GB-SXM") {
		t.Error(in.Title)
	}
	in.every = 100 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { in.Watch(ctx, srv, &b, 42) })
	wg.Go(func() { // runs for as long as somebody waits for the lines
		leave(ctx, t, srv, `{"prompt":"the cat sat on the mat","max_tokens":30000,"ignore_eos":true}`)
	})
	line := regexp.MustCompile(`(?m)^\(APIServer pid=42\) INFO \S+ \S+ \[loggers.py:123\] Engine 000: Avg prompt throughput: \d+\.\d tokens/s, Avg generation throughput: \d+\.\d tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: \d+\.\d%, Prefix cache hit rate: 0.0%$`)
	detail := regexp.MustCompile(`Iteration\(\d+\): 0 context requests, 0 context tokens, 1 generation requests, 1 generation tokens, iteration elapsed time: \d+\.\d\d ms`)
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if text := b.String(); line.MatchString(text) && detail.MatchString(text) {
			break
		}
	}
	cancel()
	wg.Wait()
	if text := b.String(); !line.MatchString(text) || !detail.MatchString(text) {
		t.Errorf("log:\n%.20000s", text)
	}
}

// syncBuffer is a buffer two goroutines may use.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestBuildRefuses(t *testing.T) {
	base := measured()
	pd := measured()
	pd.Cluster.Disagg = &cluster.Disagg{Prefill: pd.Cluster.Engines}
	unknown := measured()
	unknown.Facts = engineconf.Settings{}
	for _, c := range []struct {
		name  string
		o     Options
		want  string
		start bool
	}{
		{"profile", Options{Profile: "nonsense"}, "no profile", false},
		{"model of a profile", Options{Profile: "Qwen3-9B@H100"}, "not in the catalog", false},
		{"no GPU", Options{Settings: settings(func(s *engineconf.Settings) { s.Model = "Qwen3-8B" })}, "no GPU", false},
		{"start", Options{Settings: settings(func(s *engineconf.Settings) { s.Model, s.GPU, s.TP = "Qwen3-8B", "H100", 3 })}, "divisible", true},
		{"other model", Options{Base: base, Settings: settings(func(s *engineconf.Settings) { s.Model = "Qwen3-32B" })}, "another --model", false},
		{"other parallelism", Options{Base: base, Settings: settings(func(s *engineconf.Settings) { s.TP = 8 })}, "spate predict", false},
		{"loss of nothing", Options{Split: Split{Loss: 0.1}}, "no KV moves", false},
		{"loss above one", Options{Split: Split{Prefill: 1, Loss: 1.5}}, "0 to 1", false},
		{"negative", Options{Split: Split{Prefill: -1}}, "negative", false},
		{"on loss", Options{Split: Split{Prefill: 1, OnLoss: "cry"}}, "recompute or fail", false},
		{"link", Options{Split: Split{Prefill: 1, Link: "rdma-401"}}, `did you mean "rdma-400"`, false},
		{"split sglang", Options{Split: Split{Prefill: 1}, Settings: settings(func(s *engineconf.Settings) { s.Model, s.GPU, s.Engine = "Qwen3-8B", "H100", "sglang" })}, "simulated for vLLM", false},
		{"split replicas", Options{Split: Split{Prefill: 1}, Settings: settings(func(s *engineconf.Settings) { s.Model, s.GPU, s.DP = "Qwen3-8B", "H100", 2 })}, "leave --data-parallel-size out", false},
		{"split unknown", Options{Base: unknown, Split: Split{Prefill: 1}}, "not known", false},
		{"other link", Options{Base: pd, Split: Split{Prefill: 2, Link: "tcp"}}, "measured link", false},
		{"other link alone", Options{Base: pd, Split: Split{Link: "tcp"}}, "measured link", false},
	} {
		_, err := Build(c.o)
		var start *catalog.StartError
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.As(err, &start) != c.start {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func measured() *Base {
	c := sim.Config{Policy: sim.V1, MaxSeqs: 256, MaxTokens: 2048, MaxModelLen: 4096, BlockSize: 16, Blocks: 10000, PrefixCaching: true}
	return &Base{
		Name: "mine", Calibrated: true, Facts: engineconf.Settings{Model: "Qwen3-8B", GPU: "A100-80GB", Version: "0.10.1", Watermark: -1},
		Cluster: cluster.Config{Engines: []cluster.Engine{{Sim: c, Model: &latency.Reference{StepNS: 1e6, DecodeNS: 1e4, PrefillNS: 1e4}}}},
	}
}

// TestMeasured: a calibrated profile keeps its step times and takes scheduler flags.
func TestMeasured(t *testing.T) {
	off := false
	in, err := Build(Options{Base: measured(), Settings: settings(func(s *engineconf.Settings) { s.MaxSeqs, s.Prefix, s.Served = 8, &off, []string{"x"} })})
	if err != nil {
		t.Fatal(err)
	}
	if c := in.Conf.Sim; c.MaxSeqs != 8 || c.PrefixCaching || c.Blocks != 10000 {
		t.Errorf("%+v", c)
	}
	if !strings.HasPrefix(in.Title, "profile mine, calibrated: vllm 0.10.1") || in.Serve.Models[0] != "x" {
		t.Errorf("%s, %v", in.Title, in.Serve.Models)
	}
	unknown := measured()
	unknown.Facts = engineconf.Settings{}
	in, err = Build(Options{Base: unknown})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(in.Title, "unknown GPU") || in.Conf.Budget.Tokens != 160000 || in.Serve.Models[0] != "mine" {
		t.Errorf("%s, %+v", in.Title, in.Conf.Budget)
	}
}

// TestEveryPairBuilds: each profile that is offered by name starts.
func TestEveryPairBuilds(t *testing.T) {
	for _, p := range engineconf.CommonProfiles() {
		in, err := Build(Options{Profile: p.Name()})
		if err != nil {
			t.Errorf("%s: %v", p.Name(), err)
			continue
		}
		if in.Conf.TP != p.TP || in.Conf.Budget.Concurrency < 2 {
			t.Errorf("%s: TP %d, concurrency %.1f", p.Name(), in.Conf.TP, in.Conf.Budget.Concurrency)
		}
	}
}

// TestHarmOverHTTP: the engine dies by order, and of memory under load.
func TestHarmOverHTTP(t *testing.T) {
	_, srv := run(t, Options{Scale: 20})
	if status, body := curl(t, srv.URL()+"/sim/engine", `{"action":"die"}`); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	if status, _ := curl(t, srv.URL()+"/health", ""); status != 503 {
		t.Errorf("health %d", status)
	}
	if status, _ := curl(t, srv.URL()+"/sim/engine", `{"action":"revive"}`); status != 200 {
		t.Errorf("revive %d", status)
	}
	if status, body := curl(t, srv.URL()+"/v1/completions", `{"prompt":"x","max_tokens":2}`); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	_, tight := run(t, Options{Scale: 20, Settings: settings(func(s *engineconf.Settings) {
		s.Model, s.GPU, s.Util, s.Version, s.MaxModelLen = "gpt-oss-20b", "H100", 0.99, "0.11.0", 16384
	})})
	if status, _ := curl(t, tight.URL()+"/v1/completions", `{"prompt":"x","max_tokens":2}`); status != 200 {
		t.Errorf("a small request: %d", status)
	}
	long := strings.Repeat("word ", 9000)
	if status, body := curl(t, tight.URL()+"/v1/completions", `{"prompt":"`+long+`","max_tokens":2}`); status != 500 || !strings.Contains(body, "out of memory") {
		t.Errorf("a full step: %d %.200s", status, body)
	}
}

// TestPeriodicLines: the old engine tells its cache on a line of its own, speculation has one too.
func TestPeriodicLines(t *testing.T) {
	state := glance{engines: []sim.State{{Running: 3}}}
	later := glance{engines: []sim.State{{Running: 2}}, all: serve.EngineState{Drafts: 10, Drafted: 30, Accepted: 15}}
	for _, c := range []struct {
		name   string
		change func(*engineconf.Settings)
		want   []string
	}{
		{"v0", func(s *engineconf.Settings) { on := true; s.Version, s.Prefix = "0.6.2", &on }, []string{"Swapped: 0 reqs", "Prefix cache hit rate: GPU"}},
		{"speculation", func(s *engineconf.Settings) { s.Spec = `{"num_speculative_tokens":3}` }, []string{"Running: 2 reqs", "Mean acceptance length: 2.50"}},
		{"plain", func(*engineconf.Settings) {}, []string{"Running: 2 reqs"}},
	} {
		in, err := Build(Options{Profile: profile.Default, Settings: settings(c.change)})
		if err != nil {
			t.Fatal(err)
		}
		lines := in.periodic(state, later, 10*time.Second)
		if len(lines) != len(c.want) {
			t.Fatalf("%s: %q", c.name, lines)
		}
		for i, w := range c.want {
			if !strings.Contains(lines[i], w) {
				t.Errorf("%s: %s lacks %s", c.name, lines[i], w)
			}
		}
	}
}

// TestFromProfile: a profile file becomes a server that runs at its step times.
func TestFromProfile(t *testing.T) {
	p, err := profile.Decode([]byte(`{"schema":1,"name":"mine","calibrated":true,"engine":{"engine":"vllm","version":"0.10.1","model":"Qwen3-8B","gpu":"A100-80GB","tensor_parallel":1},
		"scheduler":{"policy":"vllm-v1","max_num_seqs":64,"max_num_batched_tokens":2048,"max_model_len":8192,"block_size":16,"num_gpu_blocks":9000},
		"cost":{"step":{"step_ns":5e6,"decode_seq_ns":1e4,"prefill_token_ns":1e4},"front":{},"num_gpu_blocks":8000}}`))
	if err != nil {
		t.Fatal(err)
	}
	in, srv := run(t, Options{Profile: "mine", Base: FromProfile(p, 1)})
	if in.Conf.Sim.Blocks != 8000 || in.Conf.Budget.Tokens != 128000 || !strings.Contains(in.Title, "calibrated: vllm 0.10.1, Qwen/Qwen3-8B on 1 x A100-80GB-SXM") {
		t.Errorf("%s, %+v", in.Title, in.Conf.Budget)
	}
	begin := time.Now()
	if status, body := curl(t, srv.URL()+"/v1/completions", `{"model":"Qwen3-8B","prompt":"x","max_tokens":21}`); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	if took := time.Since(begin); took < 105*time.Millisecond {
		t.Errorf("21 steps of 5 ms took %v", took)
	}
}
