package serve

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	raiseFiles()
	if config := os.Getenv(childEnv); config != "" {
		os.Exit(runChild(config))
	}
	goleak.VerifyTestMain(m)
}

// start runs a server for one test and stops it, which must succeed, at its end.
func start(t testing.TB, cfg Config) *Server {
	t.Helper()
	cfg.Truth = true
	s, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("Stop: %v", err)
		}
	})
	return s
}

// httpClient returns a client of its own, whose connections end with the test.
func httpClient(t testing.TB) *http.Client {
	tr := &http.Transport{MaxIdleConnsPerHost: 4096}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func post(t testing.TB, c *http.Client, url, body string, header ...string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return c.Do(req)
}

// sse reads a whole stream and returns the data of its events.
func sse(r io.Reader) ([]string, error) {
	var out []string
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		if data, ok := strings.CutPrefix(sc.Text(), "data: "); ok {
			out = append(out, data)
		}
	}
	return out, sc.Err()
}

// chunk is a streamed message of either endpoint.
type chunk struct {
	ID      string
	Object  string
	Choices []struct {
		Text  *string
		Delta *struct {
			Role      string
			Content   *string
			Reasoning string
			ToolCalls []struct {
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		FinishReason *string `json:"finish_reason"`
		TokenIDs     []int32 `json:"token_ids"`
	}
	Usage *struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		TotalTokens      int `json:"total_tokens"`
		Details          *struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
	Metrics map[string]float64
	Stamp   int64 `json:"spate_ns"`
	Error   *struct{ Message string }
}

func parse(t testing.TB, events []string) []chunk {
	t.Helper()
	var out []chunk
	for _, e := range events {
		if e == "[DONE]" {
			continue
		}
		var c chunk
		dec := json.NewDecoder(strings.NewReader(e))
		if err := dec.Decode(&c); err != nil {
			t.Fatalf("event %q: %v", e, err)
		}
		out = append(out, c)
	}
	return out
}

func collect(t testing.TB, c *http.Client, url, body string, header ...string) []string {
	t.Helper()
	resp, err := post(t, c, url, body, header...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != 200 {
		b, _ := io.ReadAll(resp.Body)
		t.Fatalf("status %d: %s", resp.StatusCode, b)
	}
	events, err := sse(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func TestCompletionStream(t *testing.T) {
	s := start(t, Config{Timetable: TimetableConfig{TTFT: 20 * time.Millisecond, ITL: 2 * time.Millisecond}, Stamp: true})
	events := collect(t, httpClient(t), s.URL()+"/v1/completions",
		`{"model":"spate-sim","prompt":"hello there","max_tokens":10,"stream":true,"stream_options":{"include_usage":true}}`,
		"x-request-id", "r0")
	if len(events) != 12 || events[11] != "[DONE]" {
		t.Fatalf("%d events: %q", len(events), events)
	}
	cs := parse(t, events)
	var text strings.Builder
	for i, c := range cs[:10] {
		if len(c.Choices) != 1 || c.Usage != nil || c.ID != "cmpl-r0" {
			t.Fatalf("event %d: %s", i, events[i])
		}
		text.WriteString(*c.Choices[0].Text)
		if last := c.Choices[0].FinishReason != nil; last != (i == 9) {
			t.Errorf("event %d: finish reason %v", i, last)
		}
	}
	u := cs[10].Usage
	if u == nil || u.CompletionTokens != 10 || u.PromptTokens != countTokens("hello there") || countTokens(text.String()) != 10 {
		t.Errorf("usage %+v, text %q", u, text.String())
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	truth := s.Truth().Find("r0")
	if truth == nil || truth.Tokens != 10 || truth.Status != "ok" || len(truth.Events) != 12 {
		t.Fatalf("truth %+v", truth)
	}
	for i, c := range cs {
		e := truth.Events[i]
		if c.Stamp != e.At || e.At < e.Due {
			t.Errorf("event %d: stamp %d, truth %+v", i, c.Stamp, e)
		}
	}
	if d := truth.Events[9].Due - truth.Arrived; d != int64(38*time.Millisecond) {
		t.Errorf("last token due %v after arrival", time.Duration(d))
	}
}
