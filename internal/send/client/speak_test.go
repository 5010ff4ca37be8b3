package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fastjson"

	"spate/internal/call"
	"spate/internal/send/protocol"
)

// TestEveryProtocolIsSpoken asks that no protocol goes untested: every name has an endpoint, code and a
// tongue, and no backend exists that the table does not have.
func TestEveryProtocolIsSpoken(t *testing.T) {
	var spoken []string
	for _, g := range tongues() {
		spoken = append(spoken, g.names...)
	}
	for _, p := range protocol.All() {
		if !slices.Contains(spoken, p.Name) {
			t.Errorf("no test speaks %s", p.Name)
		}
		if !strings.HasPrefix(p.Path, "/") || !strings.HasSuffix(p.Path, p.Suffix) || p.Port <= 0 || p.Family == "" || p.About == "" || p.Codec == nil {
			t.Errorf("%+v is not complete", p)
		}
	}
	if p := protocol.Find("nobody"); p.Name != "" || p.Codec != nil {
		t.Errorf("an unknown protocol is %+v", p)
	}
}

// each runs f for every backend of every tongue.
func each(t *testing.T, f func(t *testing.T, g tongue, name string)) {
	t.Helper()
	for _, g := range tongues() {
		for _, name := range g.names {
			t.Run(fmt.Sprintf("%s/%d", name, g.mode), func(t *testing.T) {
				t.Parallel()
				f(t, g, name)
			})
		}
	}
}

func (g *tongue) head() string {
	kind := g.kind
	if kind == "" {
		kind = "text/event-stream"
	}
	return "HTTP/1.1 200 OK\r\nContent-Type: " + kind + "\r\nTransfer-Encoding: chunked\r\n\r\n"
}

func (g *tongue) streams() bool { return g.kind != jsonType }

// TestRequests checks what reaches a server, byte for byte, by both HTTP clients.
func TestRequests(t *testing.T) {
	each(t, func(t *testing.T, g tongue, name string) {
		for _, c := range []struct {
			body protocol.Body
			want string
		}{{bare, g.plain}, {laden, g.full}} {
			for _, std := range []bool{false, true} {
				got := make(chan string, 1)
				l := scripted(t, tcp(t), func(_ int, req *http.Request, body []byte, w io.Writer) bool {
					got <- req.Method + " " + req.URL.Path + " " + req.Header.Get("Content-Type") + " " + req.Header.Get("X-Request-Id") + "\n" + string(body)
					_, _ = io.WriteString(w, g.head()+piece(g.answer)+endBody)
					return true
				})
				b := backend(name)
				cl := newClient(t, Config{Backend: b, Endpoint: protocol.Find(name).Path, BaseURLs: []string{"http://" + l.Addr().String()}, Std: std, Body: c.body})
				if rec := cl.Do(t.Context(), g.mode.request()); rec.Outcome != call.OK {
					t.Fatalf("std %v: %s: %s", std, rec.Fault, rec.Err)
				}
				kind := "application/json"
				if b.Type != "" {
					kind = b.Type
				}
				if d := cmp.Diff("POST "+protocol.Find(name).Path+" "+kind+" r-3\n"+c.want, <-got); d != "" {
					t.Errorf("std %v (-want +got):\n%s", std, d)
				}
			}
		}
	})
}

// meaning is what of a record a protocol decides.
func meaning(r *call.Record) expected {
	e := expected{
		text: r.Text, thoughts: r.Thoughts, tool: r.ToolText, in: r.In, out: r.Out, cached: r.Cached, finish: r.Finish, server: r.Server, inputs: r.Inputs,
	}
	for _, c := range r.Chunks {
		e.tokens, e.kinds = append(e.tokens, c.Tokens), append(e.kinds, c.Kind)
	}
	return e
}

// heard sends one request to a server that answers with raw and returns the record of each HTTP client.
func heard(t *testing.T, g *tongue, name, raw string, keep bool) map[string]call.Record {
	t.Helper()
	out := map[string]call.Record{}
	for way, std := range map[string]bool{"raw": false, "std": true} {
		l := scripted(t, tcp(t), func(_ int, _ *http.Request, _ []byte, w io.Writer) bool {
			_, _ = io.WriteString(w, raw)
			return keep
		})
		c := newClient(t, Config{Backend: backend(name), Endpoint: "/x", BaseURLs: []string{"http://" + l.Addr().String()}, Std: std, Body: bare})
		out[way] = c.Do(t.Context(), g.mode.request())
	}
	return out
}

// TestAnswers checks what a good answer means, however it is cut up on its way.
func TestAnswers(t *testing.T) {
	each(t, func(t *testing.T, g tongue, name string) {
		for how, raw := range map[string]string{
			"in one piece":          g.head() + piece(g.answer) + endBody,
			"one byte a chunk":      g.head() + bytewise(g.answer) + endBody,
			"CRLF":                  g.head() + piece(strings.ReplaceAll(g.answer, "\n", "\r\n")) + endBody,
			"until the close":       strings.ReplaceAll(g.head(), "Transfer-Encoding: chunked\r\n", "") + g.answer,
			"without the last line": strings.ReplaceAll(g.head(), "Transfer-Encoding: chunked\r\n", "") + strings.TrimRight(g.answer, "\n"),
		} {
			for way, rec := range heard(t, &g, name, raw, strings.HasSuffix(raw, endBody)) {
				if rec.Outcome != call.OK {
					t.Fatalf("%s, %s: %s: %s", how, way, rec.Fault, rec.Err)
				}
				if d := cmp.Diff(g.want, meaning(&rec), cmp.AllowUnexported(expected{})); d != "" {
					t.Errorf("%s, %s (-want +got):\n%s", how, way, d)
				}
				firstTokenLaws(t, &rec, g.want)
			}
		}
	})
}

// firstTokenLaws holds the stamps of a good answer together.
func firstTokenLaws(t *testing.T, r *call.Record, want expected) {
	t.Helper()
	if r.Headers < r.Sent || r.End < r.Headers || r.LastEvent < r.Headers || r.LastEvent > r.End {
		t.Errorf("sent %v, headers %v, last event %v, end %v", r.Sent, r.Headers, r.LastEvent, r.End)
	}
	first, last, text := call.Unset, call.Unset, call.Unset
	for _, c := range r.Chunks {
		if c.Kind == 0 && c.Tokens == 0 {
			continue
		}
		if first == call.Unset {
			first = c.At
		}
		last = c.At
		if c.Kind&call.Visible != 0 && text == call.Unset {
			text = c.At
		}
	}
	if r.FirstToken != first || r.LastToken != last || r.FirstText != text {
		t.Errorf("first token %v, last %v, first text %v; the chunks say %v, %v, %v", r.FirstToken, r.LastToken, r.FirstText, first, last, text)
	}
	if told := sumTokens(r.Chunks); told > 0 && want.out.N != told {
		t.Errorf("the chunks carry %d tokens, the answer %d", told, want.out.N)
	}
}

func sumTokens(chunks []call.Chunk) int {
	n := 0
	for _, c := range chunks {
		n += int(c.Tokens)
	}
	return n
}

// TestSplitAnywhere feeds the answer in two reads, cut at every byte.
func TestSplitAnywhere(t *testing.T) {
	each(t, func(t *testing.T, g tongue, name string) {
		if name != g.names[0] {
			return // the same code
		}
		raw := g.head() + piece(g.answer) + endBody
		parsers := &fastjson.ParserPool{}
		for cut := range len(raw) {
			x := newExchange(backend(name), parsers, g.mode.request())
			x.rec.Sent = 0
			x.feed([]byte(raw[:cut]), 1)
			x.feed([]byte(raw[cut:]), 2)
			rec := x.finish(3)
			if rec.Outcome != call.OK {
				t.Fatalf("cut at %d: %s: %s", cut, rec.Fault, rec.Err)
			}
			if got := meaning(&rec); !reflect.DeepEqual(g.want, got) {
				t.Fatalf("cut at %d (-want +got):\n%s", cut, cmp.Diff(g.want, got, cmp.AllowUnexported(expected{})))
			}
		}
	})
}

// TestFaults checks that nothing that went wrong counts as a success, and that it is told for what it is.
func TestFaults(t *testing.T) {
	each(t, func(t *testing.T, g tongue, name string) {
		first := g.answer
		if g.streams() {
			first = g.noEnd
			if first == "" { // no end mark exists: half an answer
				first = g.answer[:strings.Index(g.answer, "\n\n")+2]
			}
		} else {
			first = first[:len(first)-1]
		}
		cases := []struct {
			name, raw string
			keep      bool
			fault     call.Fault
			says      string
		}{
			{"cut in a chunk", g.head() + "fff\r\n" + first, false, call.FaultCut, "closed in the middle"},
			{"cut between chunks", g.head() + piece(first), false, call.FaultCut, "closed in the middle"},
			{"status", "HTTP/1.1 500 Oops\r\nContent-Length: 11\r\n\r\nengine dead", true, call.FaultStatus, "HTTP 500 Internal Server Error: engine dead"},
			{"rate limit", "HTTP/1.1 429 Slow\r\nRetry-After: 2\r\nContent-Length: 0\r\n\r\n", true, call.FaultShed, "HTTP 429"},
			{"busy", "HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n", true, call.FaultShed, "HTTP 503"},
			{"overloaded", "HTTP/1.1 529 Overloaded\r\nContent-Length: 0\r\n\r\n", true, call.FaultShed, "HTTP 529:"},
			{"down", "HTTP/1.1 503 Down\r\nContent-Length: 0\r\n\r\n", true, call.FaultStatus, "HTTP 503"},
		}
		add := func(what, body string, fault call.Fault, says string) {
			cases = append(cases, struct {
				name, raw string
				keep      bool
				fault     call.Fault
				says      string
			}{what, g.head() + piece(body) + endBody, true, fault, says})
		}
		switch {
		case g.kind == jsonType:
			add("error object", g.fault, call.FaultEvent, g.says)
			add("garbage", "<html>oops</html>", call.FaultJSON, "oops")
		case g.kind == ndjson:
			add("error in the stream", g.noEnd+g.fault, call.FaultEvent, g.says)
			add("garbage", g.noEnd+"oops\n", call.FaultJSON, "oops")
		default:
			add("error in the stream", first+g.fault+g.answer, call.FaultEvent, g.says)
			add("garbage", first+"data: oops\n\n", call.FaultJSON, "oops")
		}
		if g.noEnd != "" {
			add("no end", g.noEnd, call.FaultCut, "without a finish reason")
		}
		if g.cutEnd != "" {
			add("a finish reason but no end", g.cutEnd, call.FaultCut, "without "+backend(name).EndMark)
		}
		if g.empty != "" {
			add("empty", g.empty, call.FaultEmpty, "carried no")
		} else if g.streams() {
			add("empty", ": nothing\n\n", call.FaultEmpty, "carried no")
		}
		for _, c := range cases {
			for way, rec := range heard(t, &g, name, c.raw, c.keep) {
				if rec.Outcome != call.Failed || rec.Fault != c.fault || !strings.Contains(rec.Err, c.says) {
					t.Errorf("%s, %s: %s/%s %q, want %s %q", c.name, way, rec.Outcome, rec.Fault, rec.Err, c.fault, c.says)
				}
			}
		}
	})
}

// TestStalls checks that a server that stops in the middle costs a request its timeout and no more.
func TestStalls(t *testing.T) {
	each(t, func(t *testing.T, g tongue, name string) {
		over := make(chan struct{})
		l := scripted(t, tcp(t), func(_ int, _ *http.Request, _ []byte, w io.Writer) bool {
			_, _ = io.WriteString(w, g.head()+piece(g.answer[:len(g.answer)/2]))
			<-over
			return false
		})
		defer close(over)
		c := newClient(t, Config{
			Backend: backend(name), Endpoint: "/x", BaseURLs: []string{"http://" + l.Addr().String()}, Body: bare, Timeout: 50 * time.Millisecond,
		})
		if rec := c.Do(t.Context(), g.mode.request()); rec.Outcome != call.Failed || rec.Fault != call.FaultTimeout {
			t.Errorf("%s/%s: %s", rec.Outcome, rec.Fault, rec.Err)
		}
	})
}

// TestMoreForms covers what servers of some versions do differently.
func TestMoreForms(t *testing.T) {
	sse := func(messages ...string) string {
		s := ""
		for _, m := range messages {
			s += "data: " + m + "\n\n"
		}
		return s
	}
	cases := []struct {
		name, backend, kind, answer string
		want                        expected
	}{
		{
			"SGLang that sends only what is new", "sglang", "", sse(
				`{"text":"Hello","meta_info":{"finish_reason":null,"prompt_tokens":7,"completion_tokens":1}}`,
				`{"text":" my","meta_info":{"finish_reason":null,"prompt_tokens":7,"completion_tokens":2}}`,
				`{"text":" friend","meta_info":{"finish_reason":{"type":"stop"},"prompt_tokens":7,"completion_tokens":4}}`) + doneEvent,
			expected{text: "Hello my friend", tokens: []int32{1, 1, 2}, kinds: visible(3), in: server(7), out: server(4), finish: "stop"},
		},
		{
			"SGLang that mends a character", "sglang", "", sse(
				"{\"text\":\"a\ufffd\",\"meta_info\":{\"finish_reason\":null,\"prompt_tokens\":7,\"completion_tokens\":2}}",
				`{"text":"aé","meta_info":{"finish_reason":"stop","prompt_tokens":7,"completion_tokens":3}}`) + doneEvent,
			expected{text: "aé", tokens: []int32{2, 1}, kinds: visible(2), in: server(7), out: server(3), finish: "stop"},
		},
		{
			"TGI without details", "tgi", "", sse(`{"token":{"text":"a","special":false},"generated_text":null}`, `{"token":{"text":"b","special":false},"generated_text":"ab","details":null}`),
			expected{text: "ab", tokens: []int32{1, 1}, kinds: visible(2), in: asked, out: server(2), finish: "end"},
		},
		{
			"llama.cpp of old", "llama.cpp-native", "", sse(`{"content":"a","stop":false}`, `{"content":"","stop":true,"stopped_limit":true,"tokens_predicted":1,"tokens_evaluated":6}`),
			expected{text: "a", tokens: []int32{0}, kinds: visible(1), in: server(6), out: server(1), finish: "length"},
		},
		{
			"llama.cpp at an end", "llama.cpp-native", "", sse(`{"content":"a","tokens":[1],"stop":false}`, `{"content":"","stop":true,"stop_type":"eos","tokens_predicted":1,"tokens_evaluated":6}`),
			expected{text: "a", tokens: []int32{1}, kinds: visible(1), in: server(6), out: server(1), finish: "eos"},
		},
		{
			"Ollama thinks and calls", "ollama-chat", ndjson, `{"message":{"role":"assistant","content":"","thinking":"hm"},"done":false}` + "\n" +
				`{"message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{"x":1}}},{}]},"done":false}` + "\n" + `{"message":{"role":"assistant","content":""},"done":true,"eval_count":2}` + "\n",
			expected{thoughts: "hm", tool: `{"name":"f","arguments":{"x":1}}`, tokens: []int32{0, 0}, kinds: []call.Kind{call.Reasoning, call.Tool}, in: asked, out: server(2), finish: "stop", server: &call.ServerTimes{}},
		},
		{
			"Anthropic not streamed", "anthropic", jsonType, `{"type":"message","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"yes"},{"type":"tool_use","name":"f","input":{"x":1}}],"stop_reason":"end_turn","usage":{"input_tokens":4,"output_tokens":6}}`,
			expected{text: "yes", thoughts: "hm", tool: `f{"x":1}`, tokens: []int32{6}, kinds: []call.Kind{call.Visible | call.Reasoning | call.Tool}, in: server(4), out: server(6), finish: "end_turn"},
		},
		{
			"responses not streamed", "openai-responses", jsonType, `{"object":"response","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"error":null,"output":[{"type":"reasoning","content":[{"type":"reasoning_text","text":"hm"}]},{"type":"message","content":[{"type":"output_text","text":"yes"}]},{"type":"function_call","arguments":"{}"}],"usage":{"input_tokens":4,"output_tokens":6}}`,
			expected{text: "yes", thoughts: "hm", tool: "{}", tokens: []int32{6}, kinds: []call.Kind{call.Visible | call.Reasoning | call.Tool}, in: server(4), out: server(6), finish: "length"},
		},
		{
			"MII with choices", "deepspeed-mii", jsonType, `{"choices":[{"text":"a","finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":1}}`,
			expected{text: "a", tokens: []int32{1}, kinds: visible(1), in: server(7), out: server(1), finish: "stop"},
		},
		{
			"OpenAI's own transcription", "openai-audio", "", sse(`{"type":"transcript.text.delta","delta":"to"}`, `{"type":"transcript.text.done","text":"to","usage":{"type":"tokens","input_tokens":9,"output_tokens":1}}`),
			expected{text: "to", tokens: []int32{0}, kinds: visible(1), in: server(9), out: server(1), finish: "stop"},
		},
		{"transcription not streamed", "openai-audio", jsonType, `{"text":"to be"}`, expected{text: "to be", tokens: []int32{0}, kinds: visible(1), in: asked, finish: "stop"}},
		{
			"token ids on a stream of old", "vllm", "", sse(`{"choices":[{"text":"a","token_ids":[1,2]}]}`, `{"choices":[{"text":"b","token_ids":[3],"finish_reason":"stop"}]}`) + doneEvent,
			expected{text: "ab", tokens: []int32{2, 1}, kinds: visible(2), in: asked, out: server(3), finish: "stop"},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g := tongue{kind: c.kind}
			if c.backend == "openai-audio" {
				g.mode = aSound
			}
			for way, rec := range heard(t, &g, c.backend, g.head()+piece(c.answer)+endBody, true) {
				if rec.Outcome != call.OK {
					t.Fatalf("%s: %s: %s", way, rec.Fault, rec.Err)
				}
				if d := cmp.Diff(c.want, meaning(&rec), cmp.AllowUnexported(expected{})); d != "" {
					t.Errorf("%s (-want +got):\n%s", way, d)
				}
			}
		})
	}
}

// TestRefusals covers the ways protocols have to say no in the middle of an answer.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct{ backend, message, says string }{
		"SGLang aborts":          {"sglang", `{"text":"a","meta_info":{"finish_reason":{"type":"abort","message":"too long"},"completion_tokens":1}}`, "aborted: too long"},
		"responses fail":         {"openai-responses", `{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"no room"}}}`, "no room"},
		"responses cancelled":    {"openai-responses", `{"type":"response.completed","response":{"status":"cancelled"}}`, "status cancelled"},
		"responses, OpenAI form": {"openai-responses", `{"error":{"message":"no room"}}`, "no room"},
		"Anthropic, bare":        {"anthropic", `{"type":"error"}`, "error"},
		"Anthropic, OpenAI form": {"anthropic", `{"error":{"message":"no room","type":"x"}}`, "x: no room"},
	} {
		for way, rec := range heard(t, &tongue{}, c.backend, okHead+piece("data: "+c.message+"\n\n"+doneEvent)+endBody, true) {
			if rec.Fault != call.FaultEvent || !strings.Contains(rec.Err, c.says) {
				t.Errorf("%s, %s: %s %q, want %q", name, way, rec.Fault, rec.Err, c.says)
			}
		}
	}
}

// TestBytesInsteadOfJSON covers vLLM's answers of bytes, whose counts come in a header.
func TestBytesInsteadOfJSON(t *testing.T) {
	raw := "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nmetadata: {\"usage\":{\"prompt_tokens\":8}}\r\nContent-Length: 4\r\n\r\n\x00\xff\x01\x02"
	g := tongue{mode: aBatch}
	for way, rec := range heard(t, &g, "openai-embeddings", raw, true) {
		if rec.Outcome != call.OK || rec.In != server(8) || rec.Inputs != 3 {
			t.Errorf("%s: %s %q, in %v, %d inputs", way, rec.Outcome, rec.Err, rec.In, rec.Inputs)
		}
	}
}

// TestAudioLength checks that a record knows how much speech its request carried.
func TestAudioLength(t *testing.T) {
	rec := call.NewRecord(aSound.request())
	if rec.Audio != 2500*time.Millisecond {
		t.Errorf("%v of audio, want 2.5s", rec.Audio)
	}
	if _, err := backend("openai-audio").Encode(nil, &bare, &call.Request{}); err == nil || !strings.Contains(err.Error(), "needs requests with audio") {
		t.Errorf("a request without audio: %v", err)
	}
}

// TestAnthropicHeaders checks the version header, which the user's own replaces.
func TestAnthropicHeaders(t *testing.T) {
	for want, own := range map[string]http.Header{"2023-06-01": {}, "2099-01-01": {"Anthropic-Version": {"2099-01-01"}}} {
		for _, std := range []bool{false, true} {
			got := make(chan []string, 1)
			l := scripted(t, tcp(t), func(_ int, req *http.Request, _ []byte, w io.Writer) bool {
				got <- req.Header.Values("anthropic-version")
				_, _ = io.WriteString(w, "HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n")
				return true
			})
			c := newClient(t, Config{Backend: backend("anthropic"), Header: own, BaseURLs: []string{"http://" + l.Addr().String()}, Std: std})
			c.Do(t.Context(), aText.request())
			if d := cmp.Diff([]string{want}, <-got); d != "" {
				t.Errorf("std %v (-want +got):\n%s", std, d)
			}
		}
	}
}

// TestExtraBody checks that structured output and tools reach the server as they were given.
func TestExtraBody(t *testing.T) {
	for name, extra := range map[string]string{
		"openai-chat":      `{"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}},"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"auto"}`,
		"openai-responses": `{"text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"}}},"tools":[{"type":"function","name":"f"}],"reasoning":{"effort":"low"}}`,
		"anthropic":        `{"tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"any"},"thinking":{"type":"enabled","budget_tokens":1024}}`,
		"vllm":             `{"guided_json":{"type":"object"},"max_tokens":9}`,
		"ollama-chat":      `{"format":{"type":"object"},"think":true}`,
		"sglang":           `{"sampling_params":{"json_schema":"{}"}}`,
	} {
		body := bare
		body.Extra = json.RawMessage(extra)
		raw, err := backend(name).Encode(nil, &body, aText.request())
		if err != nil {
			t.Fatal(err)
		}
		var sent, given map[string]any
		if err := errors.Join(json.Unmarshal(raw, &sent), json.Unmarshal([]byte(extra), &given)); err != nil {
			t.Fatal(err)
		}
		for k, v := range given {
			if d := cmp.Diff(v, sent[k]); d != "" {
				t.Errorf("%s: %s (-given +sent):\n%s", name, k, d)
			}
		}
	}
}

// TestTokenizeForms checks llama.cpp's words for tokenizing, and that an answer in another form is none.
func TestTokenizeForms(t *testing.T) {
	var bodies []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		bodies = append(bodies, string(raw))
		switch {
		case r.URL.Path == "/detokenize":
			_, _ = io.WriteString(w, `{"content":"hi"}`)
		case strings.Contains(string(raw), `"content"`):
			_, _ = io.WriteString(w, `{"tokens":[5,6]}`)
		default:
			_, _ = io.WriteString(w, `{"tokens":[]}`) // as llama.cpp answers what it does not understand
		}
	}))
	t.Cleanup(srv.Close)
	for name, want := range map[string]int{"llama.cpp": 2, "llama.cpp-native": 2, "vllm": 0} {
		c, err := NewControl(Config{Backend: backend(name), BaseURLs: []string{srv.URL}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		ids, err := c.Tokenize(t.Context(), "m", "hi", false)
		if len(ids) != want || (err == nil) != (want > 0) {
			t.Errorf("%s: %v, %v", name, ids, err)
		}
		if text, err := c.Detokenize(t.Context(), "m", []int32{5}); err != nil || text != "hi" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	if !slices.Contains(bodies, `{"add_special":false,"content":"hi"}`) {
		t.Errorf("asked %q", bodies)
	}
}
