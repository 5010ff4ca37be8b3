package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestGenerateStream: SGLang's endpoint repeats the text so far in every event.
func TestGenerateStream(t *testing.T) {
	s := start(t, Config{})
	c := httpClient(t)
	events := collect(t, c, s.URL()+"/generate", `{"text":"the cat","sampling_params":{"max_new_tokens":5,"ignore_eos":true},"stream":true}`)
	if len(events) != 6 || events[5] != "[DONE]" {
		t.Fatalf("%d events, want 5 and [DONE]: %v", len(events), events)
	}
	before := ""
	for i, e := range events[:5] {
		var m struct {
			Text string  `json:"text"`
			IDs  []int32 `json:"output_ids"`
			Meta struct {
				Finish     *struct{ Type string } `json:"finish_reason"`
				Prompt     int                    `json:"prompt_tokens"`
				Completion int                    `json:"completion_tokens"`
				Cached     *int                   `json:"cached_tokens"`
				E2E        *float64               `json:"e2e_latency"`
			} `json:"meta_info"`
		}
		if err := json.Unmarshal([]byte(e), &m); err != nil {
			t.Fatalf("%s: %v", e, err)
		}
		if !strings.HasPrefix(m.Text, before) || len(m.Text) <= len(before) {
			t.Errorf("event %d: %q does not extend %q", i, m.Text, before)
		}
		before = m.Text
		if m.Meta.Completion != i+1 || len(m.IDs) != i+1 || m.Meta.Prompt != 2 || m.Meta.Cached == nil {
			t.Errorf("event %d: %s", i, e)
		}
		if last := i == 4; (m.Meta.Finish != nil) != last || (m.Meta.E2E != nil) != last {
			t.Errorf("event %d: finish in %s", i, e)
		}
		if i == 4 && (m.Meta.Finish.Type != "length" || decode(m.IDs) != m.Text) {
			t.Errorf("ids %v are not %q", m.IDs, m.Text)
		}
	}
}

func TestGenerateWhole(t *testing.T) {
	s := start(t, Config{Timetable: TimetableConfig{OutputLen: 3}})
	c := httpClient(t)
	for _, tc := range []struct {
		name, body string
		status     int
		want       []string
	}{
		{"text", `{"text":"a b","sampling_params":{"max_new_tokens":9}}`, 200, []string{`"completion_tokens":3`, `"type":"stop"`}},
		{"ids", `{"input_ids":[1,2,3],"sampling_params":{"max_new_tokens":2,"ignore_eos":true}}`, 200, []string{`"prompt_tokens":3`, `"type":"length","length":2`}},
		{"default length", `{"text":"x","sampling_params":{"ignore_eos":true}}`, 200, []string{`"completion_tokens":128`}},
		{"nothing", `{}`, 400, []string{"Either text, input_ids"}},
		{"no tokens", `{"text":"x","sampling_params":{"max_new_tokens":0}}`, 400, []string{"max_new_tokens is 0"}},
		{"two choices", `{"text":"x","sampling_params":{"n":2}}`, 400, []string{"one choice"}},
		{"not JSON", `x`, 400, []string{"JSON"}},
	} {
		status, body := fetch(t, c, s.URL()+"/generate", tc.body)
		if status != tc.status {
			t.Errorf("%s: status %d: %s", tc.name, status, body)
		}
		for _, w := range tc.want {
			if !strings.Contains(body, w) {
				t.Errorf("%s: %s lacks %s", tc.name, body, w)
			}
		}
	}
}

func TestSGLangInfo(t *testing.T) {
	s := start(t, Config{Models: []string{"m"}, Root: "org/m", Info: map[string]any{"tp_size": 4}, Timetable: TimetableConfig{TTFT: time.Hour, PrefixCache: true}})
	c := httpClient(t)
	for path, want := range map[string]string{
		"/get_server_info": `"tp_size":4`, "/server_info": `"model_path":"org/m"`, "/get_model_info": `"is_generation":true`,
		"/flush_cache": "Cache flushed", "/health_generate": "",
	} {
		status, body := fetch(t, c, s.URL()+path, "")
		if status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	resp, err := post(t, c, s.URL()+"/generate", `{"text":"x","stream":true}`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // the server drops the stream anyway
	await(t, "the request runs", func() bool { return s.State().Running == 1 })
	if status, _ := fetch(t, c, s.URL()+"/flush_cache", ""); status != 400 {
		t.Errorf("flushing while a request runs: %d, want 400", status)
	}
}

func TestLogprobs(t *testing.T) {
	s := start(t, Config{})
	c := httpClient(t)
	type top struct {
		Token   string
		Logprob float64
		Bytes   []int
		Top     []struct{ Token string } `json:"top_logprobs"`
	}
	var got struct {
		Choices []struct {
			Text     string
			Message  struct{ Content string }
			Logprobs struct {
				Offset  []int                `json:"text_offset"`
				Tokens  []string             `json:"tokens"`
				Token   []float64            `json:"token_logprobs"`
				Top     []map[string]float64 `json:"top_logprobs"`
				Content []top
			}
		}
	}
	_, body := fetch(t, c, s.URL()+"/v1/completions", `{"prompt":"x","max_tokens":4,"logprobs":3}`)
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	lp := got.Choices[0].Logprobs
	if strings.Join(lp.Tokens, "") != got.Choices[0].Text || len(lp.Token) != 4 || len(lp.Top) != 4 || len(lp.Top[0]) != 3 {
		t.Errorf("completions: %s", body)
	}
	for i, off := range lp.Offset {
		if !strings.HasPrefix(got.Choices[0].Text[off:], lp.Tokens[i]) {
			t.Errorf("token %d is not at offset %d", i, off)
		}
	}
	_, body = fetch(t, c, s.URL()+"/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"max_tokens":3,"logprobs":true,"top_logprobs":2}`)
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	content := got.Choices[0].Logprobs.Content
	text := ""
	for _, k := range content {
		text += k.Token
		if len(k.Top) != 2 || len(k.Bytes) != len(k.Token) || k.Top[0].Token != k.Token {
			t.Errorf("chat: %+v", k)
		}
	}
	if text != got.Choices[0].Message.Content {
		t.Errorf("chat: logprobs spell %q, content is %q", text, got.Choices[0].Message.Content)
	}
	events := collect(t, c, s.URL()+"/v1/completions", `{"prompt":"x","max_tokens":3,"logprobs":1,"stream":true}`)
	if !strings.Contains(events[1], `"logprobs":{"text_offset":[`) {
		t.Errorf("stream: %s", events[1])
	}
	for _, bad := range []string{`{"prompt":"x","logprobs":99}`, `{"prompt":"x","logprobs":"y"}`} {
		if status, _ := fetch(t, c, s.URL()+"/v1/completions", bad); status != 400 {
			t.Errorf("%s: %d", bad, status)
		}
	}
}

func TestAdapters(t *testing.T) {
	s := start(t, Config{Models: []string{"base"}, Adapters: []string{"lora-a", "lora-b"}})
	c := httpClient(t)
	if status, body := fetch(t, c, s.URL()+"/v1/completions", `{"model":"lora-b","prompt":"x","max_tokens":1}`); status != 200 || !strings.Contains(body, `"model":"lora-b"`) {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := fetch(t, c, s.URL()+"/v1/completions", `{"model":"lora-c","prompt":"x"}`); status != 404 {
		t.Errorf("unknown adapter: %d", status)
	}
	_, body := fetch(t, c, s.URL()+"/v1/models", "")
	if strings.Count(body, `"parent":"base"`) != 2 {
		t.Errorf("models: %s", body)
	}
}

// frail is an engine that answers nothing and can be harmed.
type frail struct {
	*Timetable
	outs []Stream
	dead *Failure
}

func (f *frail) Submit(_ int64, _ *Request, out Stream) { f.outs = append(f.outs, out) }
func (f *frail) Dead() *Failure                         { return f.dead }
func (f *frail) Harm(now int64, h Harm) error {
	if h.Kind == "revive" {
		f.dead = nil
		return nil
	}
	f.dead = &Failure{Message: "EngineCore encountered an issue"}
	for _, o := range f.outs {
		o.Emit(Output{Due: now, Finish: FinishError, Err: f.dead})
	}
	f.outs = nil
	return nil
}

// TestEngineDeath: streams end with an error event, whole answers with a status, health says 503.
func TestEngineDeath(t *testing.T) {
	e := &frail{Timetable: NewTimetable(TimetableConfig{})}
	s := start(t, Config{Engine: e})
	c := httpClient(t)
	type result struct {
		status int
		body   string
	}
	results := make(chan result, 2)
	for _, stream := range []bool{true, false} {
		go func() {
			status, body := fetch(t, c, s.URL()+"/v1/completions", fmt.Sprintf(`{"prompt":"x","stream":%v}`, stream))
			results <- result{status, body}
		}()
	}
	await(t, "the engine has both requests", func() bool {
		n := 0
		s.pacer.ask(func(Engine) { n = len(e.outs) })
		return n == 2
	})
	if status, body := fetch(t, c, s.URL()+"/sim/engine", `{"action":"die"}`); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	for range 2 {
		r := <-results
		if !strings.Contains(r.body, "EngineCore encountered an issue") {
			t.Errorf("%d %s", r.status, r.body)
		}
		if streamed := strings.HasSuffix(r.body, "data: [DONE]\n\n"); streamed != (r.status == 200) || (!streamed && r.status != 500) {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	if status, _ := fetch(t, c, s.URL()+"/health", ""); status != http.StatusServiceUnavailable {
		t.Errorf("health %d", status)
	}
	if status, _ := fetch(t, c, s.URL()+"/v1/completions", `{"prompt":"x"}`); status != 500 {
		t.Errorf("new request %d", status)
	}
	waitIdle(t, s)
	if got := len(s.Truth().All()); got != 2 || s.Truth().All()[0].Status != "error" {
		t.Errorf("%d truths, %+v", got, s.Truth().All()[0])
	}
	if status, _ := fetch(t, c, s.URL()+"/sim/engine", `{"action":"revive"}`); status != 200 {
		t.Errorf("revive %d", status)
	}
	if status, _ := fetch(t, c, s.URL()+"/health", ""); status != 200 {
		t.Errorf("health after revival %d", status)
	}
}

func TestFaultsAtRunTime(t *testing.T) {
	s := start(t, Config{})
	c := httpClient(t)
	ask := func() int {
		status, _ := fetch(t, c, s.URL()+"/v1/completions", `{"prompt":"x","max_tokens":1}`)
		return status
	}
	for _, step := range []struct {
		body   string
		status int
		then   int
	}{
		{`{"faults":["status,code=429"]}`, 200, 429},
		{" ", 200, 200},
		{"rules:\n- fault: {kind: status, code: 503}\n", 200, 503},
		{`{"faults":["statsu"]}`, 400, 503},
		{`{"fault":{"kind":"status","code":418}}`, 200, 418},
	} {
		if status, body := fetch(t, c, s.URL()+"/sim/faults", step.body); status != step.status {
			t.Errorf("%q: %d %s", step.body, status, body)
		}
		if got := ask(); got != step.then {
			t.Errorf("after %q: %d, want %d", step.body, got, step.then)
		}
	}
	for body, want := range map[string]string{
		`{"action":"dye"}`: "did you mean", `{"action":"die"}`: "no engine to disturb", `{"action":"stall","for":"x"}`: "not a time", `x`: "JSON",
	} {
		if status, got := fetch(t, c, s.URL()+"/sim/engine", body); status != 400 || !strings.Contains(got, want) {
			t.Errorf("%s: %d %s", body, status, got)
		}
	}
}

func TestMetricNames(t *testing.T) {
	for _, tc := range []struct {
		name       string
		names      MetricNames
		has, hasNo []string
	}{
		{"today", MetricNames{}, []string{"vllm:kv_cache_usage_perc", "vllm:inter_token_latency_seconds_bucket", "vllm:num_requests_waiting_by_reason"}, []string{"vllm:gpu_cache_usage_perc", "swapped"}},
		{"0.10", MetricNames{V10: true, TPOT: "vllm:time_per_output_token_seconds"}, []string{"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "vllm:gpu_prefix_cache_hits_total", "vllm:time_per_output_token_seconds_bucket"}, []string{"vllm:inter_token_latency_seconds"}},
		{"first engine", MetricNames{V0: true, TPOT: "vllm:time_per_output_token_seconds"}, []string{"vllm:gpu_cache_usage_perc", "vllm:num_requests_swapped", "vllm:cpu_cache_usage_perc"}, []string{"vllm:kv_cache_usage_perc"}},
	} {
		s := start(t, Config{Names: tc.names})
		_, body := fetch(t, httpClient(t), s.URL()+"/metrics", "")
		for _, w := range append(tc.has, "spate:sim_lag_p99_seconds", "spate:sim_lagging", "vllm:cache_config_info", "vllm:num_preemptions_total") {
			if !strings.Contains(body, "\n"+w) && !strings.HasPrefix(body, w) {
				t.Errorf("%s lacks %s", tc.name, w)
			}
		}
		for _, w := range tc.hasNo {
			if strings.Contains(body, w) {
				t.Errorf("%s has %s", tc.name, w)
			}
		}
	}
}

func FuzzDecodeNative(f *testing.F) {
	for _, s := range []string{
		`{"text":"a b","sampling_params":{"max_new_tokens":9}}`, `{"input_ids":[1,2]}`, `{"input_ids":[[1]],"stream":true}`, `{"text":null}`, `[]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := decodeNative(body, true)
		if err == nil && (c.promptTokens != len(c.ids) || c.promptTokens < 1 || c.maxTokens < 1) {
			t.Errorf("%s: %+v", body, c)
		}
	})
}
