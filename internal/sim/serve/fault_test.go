package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"
)

// seen is all a client could see of one call.
type seen struct {
	status int
	header http.Header
	raw    []byte // body
	chunks []int  // sizes of the HTTP chunks it came in
	err    error  // of the call or of reading the body
}

// call makes one call on a connection of its own and reads whatever comes.
func call(t *testing.T, s *Server, body string) seen {
	t.Helper()
	var tee *teeConn
	tr := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		var d net.Dialer
		nc, err := d.DialContext(ctx, network, addr)
		tee = &teeConn{Conn: nc}
		return tee, err
	}}
	defer tr.CloseIdleConnections()
	c := &http.Client{Transport: tr, Timeout: 30 * time.Second}
	resp, err := post(t, c, s.URL()+"/v1/completions", body)
	if err != nil {
		return seen{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	out := seen{status: resp.StatusCode, header: resp.Header}
	out.raw, out.err = io.ReadAll(resp.Body)
	out.chunks = tee.chunks()
	return out
}

// teeConn keeps what was read.
type teeConn struct {
	net.Conn
	mu  sync.Mutex
	all []byte
}

func (c *teeConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	c.all = append(c.all, b[:n]...)
	c.mu.Unlock()
	return n, err
}

// chunks returns the sizes of the chunks of a chunked response, as far as they can be read.
func (c *teeConn) chunks() (sizes []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, b, _ := bytes.Cut(c.all, []byte("\r\n\r\n"))
	for {
		line, rest, ok := bytes.Cut(b, []byte("\r\n"))
		n, err := strconv.ParseInt(string(line), 16, 32)
		if !ok || err != nil || n == 0 || len(rest) < int(n)+2 {
			return sizes
		}
		sizes = append(sizes, int(n))
		b = rest[n+2:]
	}
}

// within reports whether no chunk has more than n bytes.
func (o seen) within(n int) bool {
	for _, c := range o.chunks {
		if c > n {
			return false
		}
	}
	return len(o.chunks) >= len(o.raw)/n
}

func (o seen) count(part string) int { return bytes.Count(o.raw, []byte(part)) }

const ask8 = `{"prompt":"a b","max_tokens":8,"stream":true,"stream_options":{"include_usage":true}}`

func TestFaults(t *testing.T) {
	const events, done, finish = `"text":`, "data: [DONE]", `"finish_reason":"length"`
	cases := []struct {
		fault  string
		status string // what the truth says
		tokens int    // what the truth says was written
		check  func(o seen) error
	}{
		{"refuse", "", 0, func(o seen) error { return want(o.err != nil && o.status == 0) }},
		{"reset", "reset", 0, func(o seen) error { return want(o.status == 0 && isReset(o.err)) }},
		{"status", "status", 0, func(o seen) error {
			return want(o.status == 500 && o.count(`{"error":{"message":"Internal Server Error"`) == 1)
		}},
		{"status,code=429,retry_after=7", "status", 0, func(o seen) error {
			return want(o.status == 429 && o.header.Get("Retry-After") == "7" && o.count("RateLimitError") == 1)
		}},
		{"status,code=503,text=gone fishing", "status", 0, func(o seen) error {
			return want(o.status == 503 && string(o.raw) == "gone fishing")
		}},
		{"stall,at=headers,for=60ms", "ok", 8, func(o seen) error { return want(o.err == nil && o.count(events) == 8) }},
		{"stall,at=3,for=60ms", "ok", 8, func(o seen) error { return want(o.err == nil && o.count(events) == 8) }},
		{"cut,at=3", "cut", 3, func(o seen) error {
			return want(errors.Is(o.err, io.ErrUnexpectedEOF) && o.count(events) == 3 && o.count(done) == 0)
		}},
		{"cut,at=3,bytes=40", "cut", 4, func(o seen) error {
			return want(errors.Is(o.err, io.ErrUnexpectedEOF) && o.count("data: ") == 4 && o.count("\n\n") == 3)
		}},
		{"cut,at=0,reset=true", "cut", 0, func(o seen) error { return want(isReset(o.err) && o.count(events) == 0) }},
		{"error,at=2", "error", 2, func(o seen) error {
			return want(o.err == nil && o.count(events) == 2 && o.count(`data: {"error":{"message":"`) == 1 && o.count(done) == 1 && o.count(finish) == 0)
		}},
		{"garbage,at=2", "ok", 8, func(o seen) error {
			return want(o.err == nil && o.count(events) == 8 && o.count("garbage\x7f\n\n") == 1)
		}},
		{"garbage,at=2,where=http", "garbage", 2, func(o seen) error { return want(o.err != nil && o.count(events) == 2) }},
		{"garbage,where=headers", "garbage", 0, func(o seen) error {
			return want(o.status == 0 && strings.Contains(o.err.Error(), "malformed HTTP"))
		}},
		{"utf8,at=1", "ok", 8, func(o seen) error { return want(o.err == nil && o.count(events) == 8 && !utf8.Valid(o.raw)) }},
		{"empty", "empty", 0, func(o seen) error { return want(o.err == nil && string(o.raw) == "data: [DONE]\n\n") }},
		{"no_finish", "ok", 8, func(o seen) error {
			return want(o.err == nil && o.count(events) == 8 && o.count(finish) == 0 && o.count(done) == 1)
		}},
		{"no_done", "ok", 8, func(o seen) error {
			return want(o.err == nil && o.count(events) == 8 && o.count(finish) == 1 && o.count(done) == 0)
		}},
		{"ping", "ok", 8, func(o seen) error { return want(o.err == nil && o.count(": ping\n\n") == 8 && o.count(events) == 8) }},
		{"ping,every=3", "ok", 8, func(o seen) error { return want(o.err == nil && o.count(": ping\n\n") == 3) }},
		{"crlf", "ok", 8, func(o seen) error {
			return want(o.err == nil && o.count("\r\n\r\n") == 10 && o.count("\n") == o.count("\r\n"))
		}},
		{"split,bytes=1", "ok", 8, func(o seen) error {
			return want(o.err == nil && o.count(events) == 8 && o.count(done) == 1 && o.within(1))
		}},
		{"split,bytes=50,for=1ms", "ok", 8, func(o seen) error { return want(o.err == nil && o.count(events) == 8 && o.within(50)) }},
		{"drip,bytes=200,for=1ms", "ok", 8, func(o seen) error { return want(o.err == nil && o.count(events) == 8 && o.within(200)) }},
		{"batch,every=4", "ok", 8, func(o seen) error {
			return want(o.err == nil && o.count(events) == 8 && o.count(done) == 1 && len(o.chunks) == 2)
		}},
		{"flood", "ok", 8, func(o seen) error { return want(o.err == nil && o.count(events) == 8 && o.count(done) == 1) }},
	}
	for _, c := range cases {
		t.Run(c.fault, func(t *testing.T) {
			rule, err := ParseFault(c.fault)
			if err != nil {
				t.Fatal(err)
			}
			s := start(t, Config{
				Timetable: TimetableConfig{TTFT: 2 * time.Millisecond, ITL: 2 * time.Millisecond},
				Script:    &Script{Rules: []Rule{rule}},
			})
			o := call(t, s, ask8)
			if err := c.check(o); err != nil {
				t.Errorf("status %d, chunks %v, %v, body %q", o.status, o.chunks, o.err, o.raw)
			}
			if err := s.Stop(); err != nil {
				t.Fatal(err)
			}
			all := s.Truth().All()
			if c.status == "" {
				if len(all) != 0 || s.Stats().Refused == 0 {
					t.Errorf("truth %v, stats %+v", all, s.Stats())
				}
				return
			}
			if len(all) != 1 || all[0].Status != c.status || all[0].Tokens != c.tokens || all[0].ID != "sim-0" {
				t.Errorf("truth %+v", all)
			}
			if st := s.Stats(); st.Active != 0 || st.Requests != 1 {
				t.Errorf("stats %+v", st)
			}
		})
	}
}

func want(ok bool) error {
	if !ok {
		return errors.New("not as expected")
	}
	return nil
}

func isReset(err error) bool { return errors.Is(err, syscall.ECONNRESET) }

func TestStallForever(t *testing.T) {
	for _, fault := range []string{"stall,at=headers", "stall,at=2"} {
		rule, err := ParseFault(fault)
		if err != nil {
			t.Fatal(err)
		}
		s := start(t, Config{Script: &Script{Rules: []Rule{rule}}})
		nc, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		sendRaw(t, nc, ask8)
		await(t, "the request has come", func() bool { return s.Stats().Requests == 1 })
		var b []byte
		if fault == "stall,at=2" { // what comes before the stall has all the time it needs
			b = readUntil(t, nc, []byte(`"text":`), 2)
		}
		if err := nc.SetDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(nc)
		var ne net.Error
		if !errors.As(err, &ne) || !ne.Timeout() {
			t.Errorf("%s: ended with %v", fault, err)
		}
		b = append(b, rest...)
		if n := bytes.Count(b, []byte(`"text":`)); (fault == "stall,at=2" && n != 2) || (fault != "stall,at=2" && len(b) != 0) {
			t.Errorf("%s: %d events in %q", fault, n, b)
		}
		_ = nc.Close()
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
		if tr := s.Truth().All(); len(tr) != 1 || tr[0].Status != "abort" {
			t.Errorf("%s: truth %+v", fault, tr)
		}
	}
}

// sendRaw writes one completion call to a bare connection.
func sendRaw(t testing.TB, nc net.Conn, body string) net.Conn {
	t.Helper()
	if _, err := fmt.Fprintf(nc, "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s", len(body), body); err != nil {
		t.Fatal(err)
	}
	return nc
}

// await waits for a condition, however slow the machine is.
func await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never came about: %s", what)
		}
	}
}

// readUntil reads until part has come n times.
func readUntil(t *testing.T, nc net.Conn, part []byte, n int) (got []byte) {
	t.Helper()
	if err := nc.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	for bytes.Count(got, part) < n {
		k, err := nc.Read(buf)
		got = append(got, buf[:k]...)
		if err != nil {
			t.Fatalf("%v after %q", err, got)
		}
	}
	return got
}

// refuses reports whether nobody listens there.
func refuses(t *testing.T, addr string) bool {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err == nil {
		_ = nc.Close()
		return false
	}
	if !errors.Is(err, syscall.ECONNREFUSED) && !isReset(err) { // a listener resets who waits when it closes
		t.Fatal(err)
	}
	return !isReset(err)
}

func TestOutageForGood(t *testing.T) {
	s := start(t, Config{Script: script(t, "outages: [{at: 1ms}]")})
	await(t, "connections are refused", func() bool { return refuses(t, s.Addr()) })
}

// TestOutage begins the outage by hand, when a stream is known to be under way.
func TestOutage(t *testing.T) {
	s := start(t, Config{Timetable: TimetableConfig{ITL: time.Minute}})
	nc, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nc.Close() }()
	sendRaw(t, nc, `{"prompt":"a","max_tokens":100,"stream":true}`)
	readUntil(t, nc, []byte(`"text":`), 1)
	s.wg.Go(func() { s.outage(t.Context(), Outage{For: 50 * time.Millisecond, Kill: true}) })
	if b, err := io.ReadAll(nc); !isReset(err) {
		t.Errorf("the stream ended with %v after %q", err, b)
	}
	await(t, "the server is back", func() bool { return !refuses(t, s.Addr()) })
	if o := call(t, s, `{"prompt":"a","max_tokens":1,"stream":true}`); o.err != nil || o.status != 200 {
		t.Errorf("after the outage: %+v", o)
	}
}

func TestProbabilityAndMatch(t *testing.T) {
	sc := script(t, `
rules:
  - {probability: 0.3, fault: {kind: reset}}
  - {index: ["5-7", 20], ttft: 9ms}
  - {every: 10, ttft: 3ms, itl: [1ms, 2]}
  - {id: "vip-*", output: 3}
  - {prompt: needle, chunks: 2}
  - {endpoint: chat, fault: {kind: crlf}}
  - {index: 2, fault: {kind: refuse}}
`)
	hit := 0
	for i := range 10000 {
		f := sc.judge(1, subject{index: i, prompt: func() string { return "" }})
		if f.reset {
			hit++
		}
		if again := sc.judge(1, subject{index: i, prompt: func() string { return "" }}); again.reset != f.reset {
			t.Fatal("the same request had two fates")
		}
		if f.style.crlf {
			t.Fatal("a chat rule hit a completion")
		}
	}
	if hit < 2800 || hit > 3200 {
		t.Errorf("probability 0.3 hit %d of 10000", hit)
	}
	f := sc.judge(1, subject{index: 20, id: "vip-1", chat: true, prompt: func() string { return "a needle" }})
	tm := f.timing
	if *tm.TTFT != 3*time.Millisecond || len(tm.ITL) != 2 || tm.ITL[1] != 2*time.Millisecond || tm.Output != 3 || tm.Chunks[0] != 2 || !f.style.crlf {
		t.Errorf("timing %+v, style %+v", tm, f.style)
	}
	if !sc.refuse(1, 2) || sc.refuse(1, 3) {
		t.Error("refuse struck the wrong connection")
	}
}

func TestScriptErrors(t *testing.T) {
	for text, want := range map[string]string{
		"rules: [{fault: {kind: stal}}]":                 `did you mean "stall"`,
		"rules: [{fault: {kind: status, code: 200}}]":    "not an error status",
		"rules: [{faults: [{kind: cut, at: headers}]}]":  "only stall strikes before the headers",
		"rules: [{fault: {kind: cut, at: x}}]":           "an event's number or headers",
		"rules: [{probability: 2}]":                      "within 0 and 1",
		"rules: [{index: 7-3}]":                          "range such as 3-7",
		"rules: [{ttft: soon}]":                          "not a time",
		"rules: [{ttft: forever}]":                       "use the fault stall",
		"rules: [{itl: [forever]}]":                      "use the fault stall",
		"rules: [{chunks: 0}]":                           "not a number of tokens",
		"rules: [{finish: stop}]":                        "finish needs output",
		"rules: [{output: 3, finish: eos}]":              "stop or length",
		"rules: [{id: '['}]":                             "not a pattern",
		"rules: [{endpoint: x}]":                         "chat or completions",
		"rules: [{id: a, fault: {kind: refuse}}]":        "stands alone",
		"rules: [{fault: {kind: garbage, where: here}}]": "event, http or headers",
		"rules: [{fault: {kind: drip, for: forever}}]":   "only stall lasts forever",
		"rule: []":                 "not found",
		"outages: [{at: forever}]": "time to start at",
		`{"index": 1, "ttft": "5ms"}` + "\n" + `{"nope": 1}`:  "script line 2",
		`{"outage": {"at": 5}}` + "\n\n" + `{"index": "x-y"}`: "script line 3",
	} {
		if _, err := ParseScript([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"cutt":          `did you mean "cut"`,
		"cut,at":        "key=value",
		"cut,att=3":     `did you mean "at"`,
		"cut,at=x":      "not a valid value",
		"cut,p=1.5":     "within 0 and 1",
		"cut,index=a":   "range such as",
		"cut,bytes=-1":  "negative",
		"status,code=1": "not an error status",
	} {
		if _, err := ParseFault(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func FuzzScript(f *testing.F) {
	for _, s := range []string{
		"rules: [{index: 3, ttft: 5ms, itl: [1, 2ms], fault: {kind: cut, at: 2}}]",
		`{"index": "1-3", "faults": [{"kind": "stall", "for": "forever"}]}` + "\n" + `{"outage": {"at": "1s"}}`,
		"outages: [{at: 1s, for: 2s, kill: true}]", "rules: [{fault: {kind: status}}]", "", "{", "- a", "rules: [{index: [0-9, 3]}]",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		sc, err := ParseScript([]byte(text))
		if err != nil {
			return
		}
		for i := range 3 {
			fate := sc.judge(0, subject{index: i, prompt: func() string { return text }})
			if tm := fate.timing; tm != nil {
				e := NewTimetable(TimetableConfig{})
				tp := &tape{}
				e.Submit(0, &Request{Index: i, MaxTokens: min(max(tm.Output, 1), 50), Timing: tm}, tp)
				for n := 0; e.Next() != Never; n++ {
					if n > 1000 {
						t.Fatal("a timetable without end")
					}
					e.Advance(e.Next())
				}
			}
			sc.refuse(0, i)
		}
	})
}

func FuzzDecodeCall(f *testing.F) {
	for _, s := range []string{
		`{"prompt":"a b","max_tokens":3,"stream":true,"stream_options":{"include_usage":true}}`,
		`{"prompt":[1,2,3]}`, `{"prompt":[[1]]}`, `{"prompt":["x"]}`, `{"prompt":[null]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"max_completion_tokens":1}`, `[]`, `{"prompt":7}`,
	} {
		f.Add(s, false)
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, body string, chat bool) {
		c, err := decodeCall([]byte(body), chat, true)
		if err != nil {
			var api *apiError
			if !errors.As(err, &api) {
				t.Errorf("%v is not an API error", err)
			}
			return
		}
		if c.promptTokens < 1 || c.promptTokens != len(c.ids) || c.maxTokens < 0 {
			t.Errorf("%+v", c)
		}
		if c.text != "" && countTokens(c.text) != c.promptTokens {
			t.Errorf("%q: %d tokens", c.text, c.promptTokens)
		}
	})
}
