package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestManyStreams holds thousands of streams at once and checks every one of them against the truth.
func TestManyStreams(t *testing.T) {
	const streams, tokens = 2000, 12
	s := start(t, Config{Timetable: TimetableConfig{
		TTFT: 300 * time.Millisecond, ITL: 20 * time.Millisecond, TTFTSpread: 200 * time.Millisecond,
	}})
	body := fmt.Sprintf(`{"prompt":"a b","max_tokens":%d,"stream":true,"spate_ns":true}`, tokens)
	got := make([][]string, streams)
	var wg sync.WaitGroup
	for i := range streams {
		wg.Go(func() {
			var err error
			if got[i], err = askRaw(s.Addr(), fmt.Sprint("r", i), body); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if n := len(s.Truth().All()); n != streams {
		t.Fatalf("truth of %d requests", n)
	}
	for _, tr := range s.Truth().All() {
		var i int
		if _, err := fmt.Sscanf(tr.ID, "r%d", &i); err != nil {
			t.Fatal(err)
		}
		if len(got[i]) != tokens+1 || tr.Tokens != tokens || len(tr.Events) != tokens+1 || tr.Status != "ok" {
			t.Fatalf("request %d: %d events, truth %+v", i, len(got[i]), tr)
		}
		for k, e := range got[i][:tokens] {
			if !strings.HasSuffix(e, fmt.Sprintf(`,"spate_ns":%d}`, tr.Events[k].At)) {
				t.Fatalf("request %d: event %d is %s, truth %+v", i, k, e, tr.Events[k])
			}
		}
		checkTimes(t, tr, 20*ms)
	}
	st := s.Stats()
	if st.Lateness.N != streams*tokens || st.Tokens != streams*tokens || st.Active != 0 {
		t.Errorf("stats %+v", st)
	}
	if l := st.Lateness; l.P50 > l.P99 || l.P99 > l.Max || l.Lagging != (l.P99 > time.Millisecond) || l.Over1ms > l.N {
		t.Errorf("lateness %+v", l)
	}
	t.Logf("lateness %+v", st.Lateness)
}

// askRaw makes one streamed call on a bare connection, far cheaper than net/http's client.
func askRaw(addr, id, body string) ([]string, error) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = nc.Close() }()
	if _, err := fmt.Fprintf(nc, "POST /v1/completions HTTP/1.1\r\nhost: x\r\nx-request-id: %s\r\ncontent-length: %d\r\n\r\n%s", id, len(body), body); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if err != nil {
		return nil, err
	}
	return sse(resp.Body)
}

// checkTimes holds one request's truth against the laws of a timetable.
func checkTimes(t *testing.T, tr *Truth, itl int64) {
	t.Helper()
	last := tr.Arrived
	for k, e := range tr.Events {
		if e.At < e.Due || e.At < last {
			t.Fatalf("request %d: event %d was written at %d, due %d, the one before at %d", tr.Index, k, e.At, e.Due, last)
		}
		if e.Kind == EventToken && k > 0 && e.Due-tr.Events[k-1].Due != itl {
			t.Fatalf("request %d: event %d due %d after %d", tr.Index, k, e.Due, tr.Events[k-1].Due)
		}
		last = e.At
	}
}

// TestStuckClient checks that a client that does not read delays nobody, and gets everything later.
func TestStuckClient(t *testing.T) {
	s := start(t, Config{Timetable: TimetableConfig{ITL: 20 * time.Microsecond}})
	nc, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nc.Close() }()
	sendRaw(t, nc, `{"prompt":"a","max_tokens":60000,"stream":true}`)
	await(t, "the socket is full", func() bool { return s.Stats().Jams > 0 })
	if n := len(collect(t, httpClient(t), s.URL()+"/v1/completions", streamBody)); n != 22 {
		t.Errorf("another client got %d events", n)
	}
	resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if err != nil {
		t.Fatal(err)
	}
	events, err := sse(resp.Body)
	if err != nil || len(events) != 60001 || events[60000] != "[DONE]" {
		t.Fatalf("%d events, %v", len(events), err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	tr := s.Truth().Find("sim-0")
	if tr.Status != "ok" || tr.Tokens != 60000 || len(tr.Events) != 60001 {
		t.Errorf("truth: %s, %d tokens, %d events", tr.Status, tr.Tokens, len(tr.Events))
	}
	checkTimes(t, tr, int64(20*time.Microsecond))
}

// TestStuckClientLeaves checks that a client that leaves while its socket is full is let go.
func TestStuckClientLeaves(t *testing.T) {
	s := start(t, Config{Timetable: TimetableConfig{ITL: 20 * time.Microsecond}})
	for range 5 {
		nc, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		jams := s.Stats().Jams
		sendRaw(t, nc, `{"prompt":"a","max_tokens":100000,"stream":true}`)
		await(t, "the socket is full", func() bool { return s.Stats().Jams > jams })
		_ = nc.Close()
	}
	waitIdle(t, s)
	for _, tr := range s.Truth().All() {
		if tr.Status != "abort" || tr.Tokens >= 100000 {
			t.Errorf("%s: %s after %d tokens", tr.ID, tr.Status, tr.Tokens)
		}
	}
}

func waitIdle(t *testing.T, s *Server) {
	t.Helper()
	await(t, "no request is active", func() bool { return s.Stats().Active == 0 })
}

func TestClientLeaves(t *testing.T) {
	s := start(t, Config{Timetable: TimetableConfig{TTFT: time.Millisecond, ITL: time.Minute, MaxRunning: 3}})
	c := httpClient(t)
	for _, body := range []string{
		`{"prompt":"a","max_tokens":1000,"stream":true}`,
		`{"prompt":"a","max_tokens":1000}`,
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 6 { // more than may run: some leave the queue
			wg.Go(func() {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL()+"/v1/completions", strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				resp, err := c.Do(req)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
				if err == nil {
					t.Error("the answer came to an end")
				}
			})
		}
		await(t, "all have come and three run", func() bool { st := s.State(); return st.Running == 3 && st.Waiting == 3 })
		cancel()
		wg.Wait()
		waitIdle(t, s)
	}
	_, page := fetch(t, c, s.URL()+"/metrics", "")
	for _, want := range []string{
		`vllm:num_requests_running{engine="0",model_name="spate-sim"} 0`,
		`vllm:num_requests_waiting{engine="0",model_name="spate-sim"} 0`,
		`finished_reason="abort"} 12`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s", want)
		}
	}
}

func TestKeepAlive(t *testing.T) {
	s := start(t, Config{})
	nc, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nc.Close() }()
	br := bufio.NewReader(nc)
	for i := range 20 {
		body := streamBody
		if i%2 == 1 {
			body = `{"prompt":"a b","max_tokens":2}`
		}
		sendRaw(t, nc, body)
		resp, err := http.ReadResponse(br, nil)
		if err != nil || resp.StatusCode != 200 || resp.Close {
			t.Fatalf("request %d: %+v, %v", i, resp, err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPipeline(t *testing.T) {
	s := start(t, Config{Timetable: TimetableConfig{TTFT: 5 * time.Millisecond}})
	nc, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nc.Close() }()
	for range 3 {
		sendRaw(t, nc, ask8)
	}
	br := bufio.NewReader(nc)
	for i := range 3 {
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		if events, err := sse(resp.Body); err != nil || len(events) != 10 {
			t.Errorf("answer %d: %d events, %v", i, len(events), err)
		}
	}
}

func TestOldAndOddHTTP(t *testing.T) {
	s := start(t, Config{})
	for name, c := range map[string]struct{ send, want string }{
		"http/1.0 stream is not chunked": {
			"POST /v1/completions HTTP/1.0\r\ncontent-length: 45\r\n\r\n" + `{"prompt":"a b","max_tokens":2,"stream":true}`,
			"\r\nconnection: close\r\n\r\ndata: {",
		},
		"close is honoured":   {"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", "connection: close\r\n\r\n"},
		"100-continue":        {"POST /tokenize HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\nconnection: close\r\ncontent-length: 14\r\n\r\n" + `{"prompt":"a"}`, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK"},
		"chunked body":        {"POST /tokenize HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\ne\r\n" + `{"prompt":"a"}` + "\r\n0\r\n\r\n", `"count":1`},
		"not http":            {"hello\r\n\r\n", "HTTP/1.1 400 Bad Request"},
		"body over the limit": {"POST /tokenize HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999\r\n\r\n", "HTTP/1.1 413"},
	} {
		t.Run(name, func(t *testing.T) {
			nc, err := net.Dial("tcp", s.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = nc.Close() }()
			if _, err := io.WriteString(nc, c.send); err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(nc)
			if err != nil && len(b) == 0 {
				t.Fatal(err)
			}
			if !bytes.Contains(b, []byte(c.want)) {
				t.Errorf("%q", b)
			}
		})
	}
}

func TestStopWaitsThenCuts(t *testing.T) {
	for _, c := range []struct {
		grace, ttft time.Duration
		status      string
	}{{30 * time.Second, 20 * time.Millisecond, "ok"}, {0, time.Hour, "abort"}} {
		s := start(t, Config{Timetable: TimetableConfig{TTFT: c.ttft, ITL: 10 * time.Millisecond}, Grace: c.grace})
		nc, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		sendRaw(t, nc, ask8)
		await(t, "the request is active", func() bool { return s.Stats().Active == 1 })
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(nc) // a cut connection may end in a reset
		_ = nc.Close()
		tr := s.Truth().All()
		if len(tr) != 1 || tr[0].Status != c.status || bytes.Contains(b, []byte("[DONE]")) != (c.status == "ok") {
			t.Errorf("grace %v: %+v, %q", c.grace, tr, b)
		}
		if !refuses(t, s.Addr()) {
			t.Error("still listening")
		}
	}
}

func TestStopByContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s, err := Start(ctx, Config{})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	<-s.dying
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := Start(t.Context(), Config{Addr: "no such host:1"}); err == nil {
		t.Error("listened nowhere")
	}
}

func TestTruthFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "truth.jsonl")
	s := start(t, Config{TruthFile: path, Timetable: TimetableConfig{ITL: time.Millisecond}})
	c := httpClient(t)
	for i := range 3 {
		collect(t, c, s.URL()+"/v1/chat/completions",
			`{"messages":[{"role":"user","content":"x"}],"max_tokens":4,"stream":true}`, "x-request-id", fmt.Sprint("q\"", i))
	}
	waitIdle(t, s)
	_, live := fetch(t, c, s.URL()+"/sim/truth", "")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(b) != live {
		t.Error("/sim/truth and the file differ")
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines", len(lines))
	}
	for i, l := range lines {
		var got struct {
			Index   int
			ID      string
			Status  string
			Arrived int64 `json:"arrived_ns"`
			Tokens  int   `json:"completion_tokens"`
			Events  [][4]int64
		}
		if err := json.Unmarshal([]byte(l), &got); err != nil {
			t.Fatal(err)
		}
		tr := s.Truth().Find(got.ID)
		if got.Index != i || got.Status != "ok" || got.Tokens != 4 || len(got.Events) != 6 || tr == nil || tr.Arrived != got.Arrived {
			t.Errorf("line %d: %s", i, l)
			continue
		}
		for k, e := range got.Events {
			if w := tr.Events[k]; e != [4]int64{w.At, w.Due, int64(w.Tokens), int64(w.Kind)} {
				t.Errorf("line %d event %d: %v, truth %+v", i, k, e, w)
			}
		}
	}
	s.Truth().Reset()
	if len(s.Truth().All()) != 0 {
		t.Error("Reset left something")
	}
}

func TestFloodIsWhole(t *testing.T) {
	rule, err := ParseFault("flood")
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, Config{Script: &Script{Rules: []Rule{rule}}})
	c := httpClient(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			events := collect(t, c, s.URL()+"/v1/completions", `{"prompt":"a","max_tokens":5000,"stream":true}`)
			if len(events) != 5001 {
				t.Errorf("%d events", len(events))
			}
		})
	}
	wg.Wait()
}

func TestLateness(t *testing.T) {
	var h lateHist
	for i := range int64(1000) {
		h.add(i * 1000)
	}
	h.add(-5)
	h.add(int64(time.Second))
	l := h.summary()
	near := func(got, want time.Duration) bool { return got >= want && float64(got) <= float64(want)*1.04 }
	if l.N != 1002 || !near(l.P50, 499*time.Microsecond) || !near(l.P99, 989*time.Microsecond) || l.Max != time.Second || l.Over1ms != 1 || l.Lagging {
		t.Errorf("%+v", l)
	}
	for d := int64(0); d < 1<<40; d = d*9/8 + 1 {
		if b := lateBucket(d); lateTop(b) < d || (b > 0 && lateTop(b-1) >= d) {
			t.Fatalf("%d is in bucket %d, up to %d", d, b, lateTop(b))
		}
	}
	if e := (&lateHist{}).summary(); e != (Lateness{}) {
		t.Errorf("nothing counted: %+v", e)
	}
}

func TestMonoIsTheSystemClock(t *testing.T) {
	for range 100 {
		before := osMono()
		now := Mono()
		after := osMono()
		if now < before-int64(50*time.Microsecond) || now > after+int64(50*time.Microsecond) {
			t.Fatalf("Mono %d is not within %d and %d", now, before, after)
		}
	}
}
