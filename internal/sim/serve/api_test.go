package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fetch returns status and body of one call; an empty body means GET.
func fetch(t testing.TB, c *http.Client, url, body string, header ...string) (int, string) {
	t.Helper()
	method, rd := http.MethodGet, io.Reader(nil)
	if body != "" {
		method, rd = http.MethodPost, strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, rd)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestEndpoints(t *testing.T) {
	s := start(t, Config{Models: []string{"m1", "lora"}, Root: "org/m1", MaxModelLen: 100, Version: "9.9"})
	cases := []struct {
		name, path, body string
		status           int
		want             string // a part of the body
	}{
		{"health", "/health", "", 200, ""},
		{"ping", "/ping", "", 200, ""},
		{"version", "/version", "", 200, `{"version":"9.9"}`},
		{"load", "/load", "", 200, `{"server_load":0}`},
		{"models", "/v1/models", "", 200, `"root":"org/m1","parent":null,"max_model_len":100}`},
		{"second model", "/v1/models", "", 200, `{"id":"lora"`},
		{"tokenize", "/tokenize", `{"prompt":"the cat"}`, 200, `"count":2`},
		{"tokenize strings", "/tokenize", `{"prompt":"the cat","return_token_strs":true}`, 200, `"token_strs":["the"," cat"]`},
		{"tokenize chat", "/tokenize", `{"messages":[{"role":"user","content":"hi"}]}`, 200, `"count":7`},
		{"tokenize chat without question", "/tokenize", `{"messages":[{"role":"user","content":"hi"}],"add_generation_prompt":false}`, 200, `"count":4`},
		{"tokenize nothing", "/tokenize", `{}`, 400, `prompt or messages`},
		{"detokenize", "/detokenize", `{"tokens":[104,105]}`, 200, `{"prompt":"hi"}`},
		{"reset", "/reset_prefix_cache", "{}", 200, `{"success":true}`},
		{"start profile", "/start_profile", "{}", 200, ""},
		{"stop profile", "/stop_profile", "{}", 200, ""},
		{"no such path", "/v1/nothing", "", 404, `{"detail":"Not Found"}`},
		{"wrong method", "/v1/completions", "", 405, `{"detail":"Method Not Allowed"}`},
		{"bad json", "/v1/completions", `{"prompt":`, 400, `"type":"BadRequestError","param":null,"code":400`},
		{
			"unknown model", "/v1/completions", `{"model":"m2","prompt":"x"}`, 404,
			`{"error":{"message":"The model ` + "`m2`" + ` does not exist.","type":"NotFoundError","param":"model","code":404}}`,
		},
		{"lora", "/v1/completions", `{"model":"lora","prompt":"x"}`, 200, `"model":"lora"`},
		{"empty prompt", "/v1/completions", `{"prompt":""}`, 400, `the prompt is empty`},
		{"no prompt", "/v1/completions", `{}`, 400, `prompt must be`},
		{"null in a list", "/v1/completions", `{"prompt":[null]}`, 400, `prompt must be`},
		{"two prompts", "/v1/completions", `{"prompt":["a","b"]}`, 400, `one prompt per request`},
		{"too long", "/v1/completions", `{"prompt":"x","max_tokens":100}`, 400, `maximum context length is 100 tokens`},
		{"no tokens", "/v1/completions", `{"prompt":"x","max_tokens":0}`, 400, `at least 1`},
		{"two choices", "/v1/completions", `{"prompt":"x","n":2}`, 400, `n=2`},
		{"options without stream", "/v1/completions", `{"prompt":"x","stream_options":{}}`, 400, `only allowed when stream`},
		{"no messages", "/v1/chat/completions", `{"messages":[]}`, 400, `at least one message`},
		{"odd content", "/v1/chat/completions", `{"messages":[{"role":"user","content":7}]}`, 400, `content must be`},
		{"ids", "/v1/completions", `{"prompt":[5,6,7,900000],"max_tokens":2}`, 200, `"usage":{"prompt_tokens":4,"total_tokens":6,"completion_tokens":2}`},
		{"negative id", "/v1/completions", `{"prompt":[5,-6]}`, 400, `out of vocabulary`},
		{"list of one", "/v1/completions", `{"prompt":["the cat"]}`, 200, `"usage":{"prompt_tokens":2,"total_tokens":18,"completion_tokens":16}`},
		{"list of ids", "/v1/completions", `{"prompt":[[1,2]],"max_tokens":1}`, 200, `"prompt_tokens":2`},
		{
			"chat to the end of the context", "/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}]}`, 200,
			`"usage":{"prompt_tokens":7,"total_tokens":100,"completion_tokens":93}`,
		},
		{
			"chat parts", "/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image_url"}]}],"max_completion_tokens":3}`, 200,
			`"finish_reason":"length"`,
		},
	}
	c := httpClient(t)
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			status, body := fetch(t, c, s.URL()+tc.path, tc.body)
			if status != tc.status || !strings.Contains(body, tc.want) {
				t.Errorf("%d %s, want %d with %s", status, body, tc.status, tc.want)
			}
			if body != "" && !json.Valid([]byte(body)) {
				t.Errorf("not JSON: %s", body)
			}
		})
	}
}

func TestUsageAgreesWithTokenize(t *testing.T) {
	s := start(t, Config{})
	c := httpClient(t)
	for _, prompt := range []string{"x", "Some prose, with a comma.", "π ≈ 3.14159\n\tend", strings.Repeat("lorem ipsum ", 50)} {
		q, _ := json.Marshal(prompt)
		var tok struct{ Count int }
		_, body := fetch(t, c, s.URL()+"/tokenize", `{"prompt":`+string(q)+`}`)
		if err := json.Unmarshal([]byte(body), &tok); err != nil {
			t.Fatal(err)
		}
		_, body = fetch(t, c, s.URL()+"/v1/completions", `{"max_tokens":7,"prompt":`+string(q)+`}`)
		var got chunk
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		if got.Usage.PromptTokens != tok.Count || got.Usage.CompletionTokens != 7 || countTokens(*got.Choices[0].Text) != 7 {
			t.Errorf("%q: usage %+v, /tokenize %d", prompt, got.Usage, tok.Count)
		}
	}
}

func TestChatStream(t *testing.T) {
	s := start(t, Config{
		Timetable:           TimetableConfig{Reasoning: 2, ToolTokens: 2},
		PromptTokensDetails: true, RequestMetrics: true,
	})
	events := collect(t, httpClient(t), s.URL()+"/v1/chat/completions",
		`{"messages":[{"role":"user","content":"hi"}],"max_completion_tokens":6,"stream":true,"return_token_ids":true,
		"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`)
	cs := parse(t, events)
	if len(cs) != 8 {
		t.Fatalf("%d events: %q", len(cs), events)
	}
	if d := cs[0].Choices[0].Delta; d.Role != "assistant" || d.Content == nil || *d.Content != "" || cs[0].Usage.CompletionTokens != 0 {
		t.Errorf("first event %s", events[0])
	}
	var kinds, text []string
	var ids []int32
	for i, c := range cs[1:7] {
		d := c.Choices[0].Delta
		switch {
		case d.Reasoning != "":
			kinds, text = append(kinds, "reasoning"), append(text, d.Reasoning)
		case d.ToolCalls != nil:
			kinds, text = append(kinds, "tool"+d.ToolCalls[0].Function.Name), append(text, d.ToolCalls[0].Function.Arguments)
		default:
			kinds, text = append(kinds, "text"), append(text, *d.Content)
		}
		ids = append(ids, c.Choices[0].TokenIDs...)
		if c.Usage.CompletionTokens != i+1 {
			t.Errorf("event %d: usage %+v", i+1, c.Usage)
		}
	}
	if d := cmp.Diff([]string{"reasoning", "reasoning", "text", "text", "toollook_up", "tool"}, kinds); d != "" {
		t.Error(d)
	}
	if decode(ids) != strings.Join(text, "") {
		t.Errorf("ids say %q, text %q", decode(ids), text)
	}
	if f := cs[6].Choices[0].FinishReason; f == nil || *f != "tool_calls" {
		t.Errorf("last token %s", events[6])
	}
	last := cs[7]
	if len(last.Choices) != 0 || last.Usage.CompletionTokens != 6 || last.Usage.Details == nil || last.Metrics == nil {
		t.Errorf("usage event %s", events[7])
	}
	if !strings.Contains(events[7], `"reasoning_tokens":2`) || events[8] != "[DONE]" {
		t.Errorf("end %q", events[7:])
	}
}

func TestChatWhole(t *testing.T) {
	s := start(t, Config{Timetable: TimetableConfig{Reasoning: 2, ToolTokens: 1}, ReasoningField: "reasoning_content", Stamp: true, RequestMetrics: true})
	before := Mono()
	_, body := fetch(t, httpClient(t), s.URL()+"/v1/chat/completions",
		`{"messages":[{"role":"user","content":"hi"}],"max_tokens":5,"return_token_ids":true}`)
	var got struct {
		Choices []struct {
			Message struct {
				Content   string
				Reasoning string `json:"reasoning_content"`
				ToolCalls []struct {
					Function struct{ Arguments string }
				} `json:"tool_calls"`
			}
			TokenIDs []int32 `json:"token_ids"`
		}
		Stamp   int64 `json:"spate_ns"`
		Metrics map[string]float64
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	m := got.Choices[0].Message
	all := m.Reasoning + m.Content + m.ToolCalls[0].Function.Arguments
	if countTokens(m.Reasoning) != 2 || countTokens(m.Content) != 2 || decode(got.Choices[0].TokenIDs) != all {
		t.Errorf("%s", body)
	}
	if got.Stamp < before || got.Stamp > Mono() || len(got.Metrics) != 5 {
		t.Errorf("stamp %d, metrics %v", got.Stamp, got.Metrics)
	}
}

func TestPrefixCacheShortensTTFT(t *testing.T) {
	s := start(t, Config{
		PromptTokensDetails: true,
		Timetable:           TimetableConfig{PrefixCache: true, BlockSize: 16, Prefill: 100 * time.Millisecond},
	})
	c := httpClient(t)
	ask := func(id string) int {
		prompt := strings.Repeat(" word", 1000)
		_, body := fetch(t, c, s.URL()+"/v1/completions", `{"max_tokens":1,"prompt":"`+prompt+`"}`, "x-request-id", id)
		var got chunk
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		return got.Usage.Details.Cached
	}
	cached := []int{ask("cold"), ask("warm")}
	if _, body := fetch(t, c, s.URL()+"/reset_prefix_cache", "{}"); body != `{"success":true}` {
		t.Fatal(body)
	}
	cached = append(cached, ask("again"))
	if d := cmp.Diff([]int{0, 992, 0}, cached); d != "" {
		t.Error(d)
	}
	_, page := fetch(t, c, s.URL()+"/metrics", "")
	for _, want := range []string{
		`vllm:prefix_cache_queries_total{engine="0",model_name="spate-sim"} 3000`,
		`vllm:prefix_cache_hits_total{engine="0",model_name="spate-sim"} 992`,
		`enable_prefix_caching="True"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in\n%s", want, page)
		}
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]time.Duration{"cold": 100 * time.Millisecond, "warm": 800 * time.Microsecond} {
		tr := s.Truth().Find(id)
		if got := time.Duration(tr.Events[0].Due - tr.Arrived); got != want {
			t.Errorf("%s: first token due after %v, want %v", id, got, want)
		}
	}
}

func TestMetricsPage(t *testing.T) {
	s := start(t, Config{})
	c := httpClient(t)
	collect(t, c, s.URL()+"/v1/completions", `{"prompt":"a b","max_tokens":4,"stream":true}`)
	collect(t, c, s.URL()+"/v1/completions", `{"prompt":"a b","max_tokens":6,"stream":true}`)
	_, page := fetch(t, c, s.URL()+"/metrics", "")
	l := `{engine="0",model_name="spate-sim"`
	for _, want := range []string{
		"vllm:num_requests_running" + l + "} 0",
		"vllm:prompt_tokens_total" + l + "} 4",
		"vllm:generation_tokens_total" + l + "} 10",
		"vllm:request_success_total" + l + `,finished_reason="length"} 2`,
		"vllm:time_to_first_token_seconds_count" + l + "} 2",
		"vllm:inter_token_latency_seconds_count" + l + "} 8",
		"vllm:request_generation_tokens_bucket" + l + `,le="5"} 1`,
		"vllm:request_generation_tokens_bucket" + l + `,le="+Inf"} 2`,
		"vllm:request_generation_tokens_sum" + l + "} 10",
	} {
		if !strings.Contains(page, want+"\n") {
			t.Errorf("no %s in\n%s", want, page)
		}
	}
}

func TestAPIKey(t *testing.T) {
	s := start(t, Config{APIKey: "secret"})
	c := httpClient(t)
	for _, tc := range []struct {
		path, key string
		want      int
	}{
		{"/v1/models", "", 401},
		{"/v1/models", "Bearer wrong", 401},
		{"/v1/models", "Bearer secret", 200},
		{"/health", "", 200},
		{"/metrics", "", 200},
	} {
		if got, body := fetch(t, c, s.URL()+tc.path, "", "Authorization", tc.key); got != tc.want {
			t.Errorf("%s with %q: %d %s", tc.path, tc.key, got, body)
		}
	}
}

const streamBody = `{"prompt":"a b","max_tokens":20,"stream":true,"stream_options":{"include_usage":true}}`

func TestTLS(t *testing.T) {
	s := start(t, Config{TLS: true, Timetable: TimetableConfig{ITL: time.Millisecond}})
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := s.WriteCA(ca); err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		t.Fatal("no certificate in the CA file")
	}
	c := httpClient(t)
	c.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: pool}
	for range 2 {
		if n := len(collect(t, c, s.URL()+"/v1/completions", streamBody)); n != 22 {
			t.Errorf("%d events", n)
		}
	}
	if _, err := httpClient(t).Get(s.URL() + "/health"); err == nil {
		t.Error("a client without the CA was not stopped")
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	s := start(t, Config{Addr: "unix:" + path})
	c := httpClient(t)
	c.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
	if n := len(collect(t, c, s.URL()+"/v1/completions", streamBody)); n != 22 {
		t.Errorf("%d events", n)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
}

func TestHandlerOverHTTP2(t *testing.T) {
	s := start(t, Config{Timetable: TimetableConfig{ITL: time.Millisecond}, Script: script(t, `
rules:
  - {id: cut, fault: {kind: cut, at: 5}}
  - {id: busy, fault: {kind: status, code: 429, retry_after: 3}}
`)})
	h2 := httptest.NewUnstartedServer(s.Handler())
	h2.EnableHTTP2 = true
	h2.StartTLS()
	defer h2.Close()
	c := h2.Client()
	resp, err := post(t, c, h2.URL+"/v1/completions", streamBody, "x-request-id", "good")
	if err != nil {
		t.Fatal(err)
	}
	events, err := sse(resp.Body)
	_ = resp.Body.Close()
	if err != nil || resp.ProtoMajor != 2 || len(events) != 22 {
		t.Errorf("%s: %d events, %v", resp.Proto, len(events), err)
	}
	if resp, err = post(t, c, h2.URL+"/v1/completions", streamBody, "x-request-id", "cut"); err != nil {
		t.Fatal(err)
	}
	events, err = sse(resp.Body)
	_ = resp.Body.Close()
	if err == nil || len(events) != 5 {
		t.Errorf("cut: %d events, %v", len(events), err)
	}
	if resp, err = post(t, c, h2.URL+"/v1/completions", streamBody, "x-request-id", "busy"); err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "3" {
		t.Errorf("busy: %d %v", resp.StatusCode, resp.Header)
	}
	if status, body := fetch(t, c, h2.URL+"/version", ""); status != 200 || !strings.Contains(body, "version") {
		t.Errorf("version: %d %s", status, body)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if tr := s.Truth().Find("good"); tr == nil || tr.Status != "ok" || tr.Tokens != 20 {
		t.Errorf("truth %+v", tr)
	}
}

func script(t testing.TB, text string) *Script {
	t.Helper()
	sc, err := ParseScript([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return sc
}
