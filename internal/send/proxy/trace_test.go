package proxy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fastjson"
	"pgregory.net/rapid"

	"spate/internal/load/trace"
	"spate/internal/send/http1"
	"spate/internal/token/tokenizer"
)

// shared is how many ids two lists begin with in common.
func shared(a, b []uint64) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// TestBlocksPartWherePromptsDo: two prompts have as many ids in common as whole blocks, and all of them only
// when they are the same; of other prompts none, and under another salt none at all.
func TestBlocksPartWherePromptsDo(t *testing.T) {
	s := salt("pepper")
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 5).Draw(t, "size")
		token := rapid.Int32Range(0, 2)
		head := rapid.SliceOfN(token, 0, 30).Draw(t, "head")
		a := append(slices.Clone(head), rapid.SliceOfN(token, 0, 12).Draw(t, "a")...)
		b := append(slices.Clone(head), rapid.SliceOfN(token, 0, 12).Draw(t, "b")...)
		same := 0
		for same < len(a) && same < len(b) && a[same] == b[same] {
			same++
		}
		want := same / size
		if slices.Equal(a, b) {
			want = (len(a) + size - 1) / size
		}
		x, y := s.ofTokens(a, size).fit(len(a), size), s.ofTokens(b, size).fit(len(b), size)
		if got := shared(x, y); got != want {
			t.Fatalf("%v and %v share %d blocks of %d, not %d", a, b, got, size, want)
		}
		if n := len(x); n != (len(a)+size-1)/size {
			t.Fatalf("%d ids for %d tokens", n, len(a))
		}
		for i, id := range x {
			if id >= 1<<idBits || slices.Contains(salt("salt").ofTokens(a, size).ids, id) || slices.Contains(x[:i], id) {
				t.Fatalf("id %d of %v", id, x)
			}
		}
	})
}

// TestFit: a prompt always gets as many ids as its tokens ask for, those in front are of its text, and prompts
// that differ only beyond them still differ.
func TestFit(t *testing.T) {
	s := salt("pepper")
	text := "abcdefghijklmnopqrstuvwxyz"
	for n := range 40 {
		ids := s.ofText(text, 2).fit(n, 2)
		if len(ids) != (n+1)/2 {
			t.Fatalf("%d ids for %d tokens", len(ids), n)
		}
		if own := shared(ids, s.ofText(text, 2).ids); own < min(len(ids), 4)-1 {
			t.Errorf("only %d of %d ids are the text's", own, len(ids))
		}
		other := s.ofText(text+"!", 2).fit(n, 2)
		if n > 0 && slices.Equal(ids, other) {
			t.Errorf("two prompts have the same ids for %d tokens", n)
		}
	}
	if got := s.ofText("äöüß日本語!", 1).ids; len(got) != 2 {
		t.Errorf("eight characters are %d blocks of four", len(got))
	}
}

// TestNothingReadable sends words, keys and names in every place a request has and looks for them in the file.
func TestNothingReadable(t *testing.T) {
	url := scripted(t, func(_ *http.Request, _ []byte, c net.Conn) bool {
		_, _ = io.WriteString(c, sseHead+textChunk("xylophone answer")+usageChunk(9, 3)+lastChunk)
		return true
	})
	body := `{"model":"m","user":"Zacharias","messages":[{"role":"user","content":[{"type":"text","text":"xylophone question"},{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}}]}],` +
		`"tools":[{"type":"function","function":{"name":"xylophone_tool"}}],"metadata":{"note":"xylophone"},"stream":true}`
	secrets := []string{"xylophone", "question", "answer", "Zacharias", "sk-123", "hunter2", "QUJD", "pepper", "Bearer", "fieldvalue"}
	run := func(keep bool) string {
		p := recording(t, url, func(cfg *Config) { cfg.KeepText = keep })
		get(t, p.URL()+"/v1/chat/completions?api_key=hunter2", body, "Authorization", "Bearer sk-123", "X-Api-Key", "sk-123", "Cookie", "fieldvalue", "X-Session-Id", "Zacharias")
		lines(t, p, 1)
		raw, err := os.ReadFile(p.cfg.Path)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	text := run(false)
	for _, s := range secrets {
		if strings.Contains(text, s) {
			t.Errorf("%q stands in %s", s, text)
		}
	}
	for _, s := range []string{`"session":"`, `"model":"m"`, `"path":"/v1/chat/completions"`, `"stream":true`, `"input_length":9,"output_length":3`} {
		if !strings.Contains(text, s) {
			t.Errorf("no %s in %s", s, text)
		}
	}
	kept := run(true)
	if !strings.Contains(kept, "xylophone question") || !strings.Contains(kept, `"answer":"xylophone answer"`) {
		t.Errorf("text that was to be kept is not in %s", kept)
	}
	for _, s := range []string{"sk-123", "hunter2", "Zacharias", "fieldvalue"} {
		if strings.Contains(kept, s) {
			t.Errorf("%q stands in %s", s, kept)
		}
	}
}

// TestReplay records a conversation and reads it back as `spate bench` does: times, lengths, and as much of
// each prompt shared with earlier ones as was.
func TestReplay(t *testing.T) {
	url := scripted(t, func(_ *http.Request, body []byte, c net.Conn) bool {
		n := (len(readPromptOf(body)) + 3) / 4
		_, _ = io.WriteString(c, sseHead+textChunk("a")+usageChunk(n, 7)+lastChunk)
		return true
	})
	p := recording(t, url, nil)
	system := strings.Repeat("be kind. ", 16) // 144 characters: 9 blocks of 4 tokens
	prompts := []string{system + strings.Repeat("a", 32), system + strings.Repeat("b", 33), strings.Repeat("c", 16), system + strings.Repeat("a", 32)}
	for _, text := range prompts {
		get(t, p.URL()+"/v1/completions", fmt.Sprintf(`{"prompt":%q,"stream":true}`, text))
	}
	recorded := lines(t, p, 4)
	f, err := os.Open(p.cfg.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	format := trace.Mooncake()
	format.Chunk = 4
	rows, err := trace.Read(f, format, 0)
	if err != nil {
		t.Fatal(err)
	}
	times, err := trace.Replay(rows, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range rows {
		want := time.Duration((recorded[i].Timestamp - recorded[0].Timestamp) * 1e6)
		if d := times[i] - want; d < -time.Microsecond || d > time.Microsecond {
			t.Errorf("request %d is due at %v, came at %v", i, times[i], want)
		}
		if i > 0 && times[i] <= times[i-1] || r.Out != 7 || r.In != (len(prompts[i])+3)/4 {
			t.Errorf("row %d: %+v at %v", i, r, times[i])
		}
	}
	ideal := trace.IdealHits(rows, 4)
	if want := (trace.Ideal{Requests: 4, Tokens: 44 + 45 + 4 + 44, Hit: 36 + 44, Blocks: 11 + 3 + 1}); ideal != want {
		t.Errorf("%+v, want %+v", ideal, want)
	}
}

func readPromptOf(body []byte) string { return readAsk(&fastjson.Parser{}, "/", body).text }

// TestAsks reads the requests of every protocol.
func TestAsks(t *testing.T) {
	cases := []struct {
		name, path, body string
		want             ask
	}{
		{"completions", "/v1/completions", `{"model":"m","prompt":"a b","max_tokens":5,"user":"u"}`, ask{prompt: true, model: "m", text: "a b", most: 5, session: "u"}},
		{"token ids", "/v1/completions", `{"prompt":[1,2,3],"stream":true}`, ask{prompt: true, ids: []int32{1, 2, 3}, stream: true}},
		{"several prompts", "/v1/completions", `{"prompt":["a","b"]}`, ask{prompt: true, text: "ab"}},
		{"chat", "/v1/chat/completions", `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"q"}],"max_completion_tokens":4}`, ask{prompt: true, text: "system\ns\nuser\nq\n", most: 4}},
		{"responses", "/v1/responses", `{"instructions":"i","input":[{"role":"user","content":[{"type":"input_text","text":"q"}]}],"max_output_tokens":3}`, ask{prompt: true, text: "system\ni\nuser\nq\n", most: 3}},
		{"anthropic", "/v1/messages", `{"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":"q"}]}`, ask{prompt: true, text: "system\ns\nuser\nq\n"}},
		{"sglang", "/generate", `{"text":"q","sampling_params":{"max_new_tokens":9}}`, ask{prompt: true, text: "q", most: 9}},
		{"tgi", "/generate_stream", `{"inputs":"q","parameters":{"max_new_tokens":9}}`, ask{prompt: true, text: "q", most: 9, stream: true}},
		{"llama.cpp", "/completion", `{"prompt":"q","n_predict":9}`, ask{prompt: true, text: "q", most: 9}},
		{"ollama", "/api/chat", `{"messages":[{"role":"user","content":"q"}],"options":{"num_predict":9}}`, ask{prompt: true, text: "user\nq\n", most: 9}},
		{"rerank", "/v1/rerank", `{"query":"q","documents":["a","b"]}`, ask{prompt: true, text: "qab"}},
		{"tokenize", "/tokenize", `{"prompt":"q"}`, ask{}},
		{"no prompt", "/v1/load_lora_adapter", `{"lora_name":"x"}`, ask{}},
		{"no JSON", "/v1/completions", `prompt=x`, ask{}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := readAsk(&fastjson.Parser{}, c.path, []byte(c.body))
			got.chat, got.tools = nil, nil
			if d := cmp.Diff(c.want, got, cmp.AllowUnexported(ask{})); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestReplies reads the answers of every protocol.
func TestReplies(t *testing.T) {
	sse := func(msgs ...string) string { return "data: " + strings.Join(msgs, "\n\ndata: ") + "\n\n" }
	cases := []struct {
		name, form, body string
		want             reply
	}{
		{"completions", "text/event-stream", sse(`{"choices":[{"text":"a"}]}`, `{"choices":[{"text":"b"}]}`, `{"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":2}}`, "[DONE]"), reply{in: 4, out: 2, text: []byte("ab")}},
		{"chat", "text/event-stream", sse(`{"choices":[{"delta":{"role":"assistant","content":""}}]}`, `{"choices":[{"delta":{"reasoning_content":"a"}}]}`, `{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"b"}}]}}]}`), reply{text: []byte("ab")}},
		{"counting along", "text/event-stream", sse(`{"choices":[{"text":"a"}],"usage":{"prompt_tokens":4,"completion_tokens":1}}`, `{"choices":[{"text":"b"}],"usage":{"prompt_tokens":4,"completion_tokens":2}}`), reply{in: 4, out: 2, text: []byte("ab")}},
		{"whole", "application/json", `{"choices":[{"message":{"content":"ab"}}],"usage":{"prompt_tokens":4,"completion_tokens":2}}`, reply{in: 4, out: 2, text: []byte("ab")}},
		{"indented", "application/json", "{\n  \"choices\": [{\"text\": \"ab\"}]\n}\n", reply{text: []byte("ab")}},
		{"anthropic", "text/event-stream", "event: message_start\n" + sse(`{"type":"message_start","message":{"usage":{"input_tokens":3,"cache_read_input_tokens":4,"output_tokens":1}}}`) + sse(`{"type":"content_block_delta","delta":{"type":"text_delta","text":"ab"}}`, `{"type":"message_delta","delta":{},"usage":{"output_tokens":2}}`), reply{in: 7, out: 2, cached: 4, counted: true, text: []byte("ab")}},
		{"responses", "text/event-stream", sse(`{"type":"response.output_text.delta","delta":"ab"}`, `{"type":"response.completed","response":{"usage":{"input_tokens":4,"output_tokens":2,"input_tokens_details":{"cached_tokens":1}}}}`), reply{in: 4, out: 2, cached: 1, counted: true, text: []byte("ab")}},
		{"sglang", "text/event-stream", sse(`{"text":"a","meta_info":{"prompt_tokens":4,"completion_tokens":1}}`, `{"text":"ab","meta_info":{"prompt_tokens":4,"completion_tokens":2,"cached_tokens":3}}`), reply{in: 4, out: 2, cached: 3, counted: true, text: []byte("ab")}},
		{"tgi", "text/event-stream", sse(`{"token":{"text":"a"}}`, `{"token":{"text":"b"},"generated_text":"ab","details":{"generated_tokens":2}}`), reply{out: 2, text: []byte("ab")}},
		{"llama.cpp", "text/event-stream", sse(`{"content":"a","stop":false,"tokens_predicted":1,"tokens_evaluated":4}`, `{"content":"b","stop":true,"tokens_predicted":2,"tokens_evaluated":4,"timings":{"cache_n":1}}`), reply{in: 4, out: 2, cached: 1, counted: true, text: []byte("ab")}},
		{"ollama", "application/x-ndjson", `{"response":"a","done":false}` + "\n" + `{"response":"b","done":true,"prompt_eval_count":4,"eval_count":2}` + "\n", reply{in: 4, out: 2, text: []byte("ab")}},
		{"an error", "application/json", `{"error":{"message":"no"}}`, reply{}},
		{"nothing", "", "", reply{}},
		{"cut in an event", "text/event-stream", sse(`{"choices":[{"text":"a"}]}`) + `data: {"choi`, reply{text: []byte("a")}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			x := &exchange{form: c.form, end: time.Second}
			for i := range c.body {
				x.take([]byte{c.body[i]}, time.Duration(i+1))
			}
			got := readReply(&fastjson.Parser{}, x)
			if (got.first > 0) != (len(c.want.text) > 0) || got.first > time.Duration(len(c.body)) {
				t.Errorf("the first text at %d of %d", got.first, len(c.body))
			}
			got.first = 0
			if d := cmp.Diff(c.want, got, cmp.AllowUnexported(reply{})); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestTokenizer counts what the server does not, and cuts prompts by tokens.
func TestTokenizer(t *testing.T) {
	tok, err := tokenizer.Parse([]byte(`{"version":"1.0","added_tokens":[],"normalizer":null,"pre_tokenizer":{"type":"WhitespaceSplit"},"post_processor":null,"decoder":null,` +
		`"model":{"type":"WordPiece","unk_token":"u","continuing_subword_prefix":"##","max_input_chars_per_word":100,"vocab":{"u":0,"one":1,"two":2,"three":3,"four":4,"five":5}}}`))
	if err != nil {
		t.Fatal(err)
	}
	url := scripted(t, func(_ *http.Request, _ []byte, c net.Conn) bool {
		_, _ = io.WriteString(c, sseHead+textChunk("two three")+lastChunk)
		return true
	})
	p := recording(t, url, func(c *Config) { c.Tokenizer, c.Block = tok, 2 })
	get(t, p.URL()+"/v1/completions", `{"prompt":"one two three four five"}`)
	get(t, p.URL()+"/v1/completions", `{"prompt":"one two three five"}`)
	get(t, p.URL()+"/v1/completions", `{"prompt":[1,2,3,4,5]}`)
	got := lines(t, p, 3)
	if got[0].Input != 5 || got[0].InFrom != ByTokenizer || got[0].Output != 2 || got[0].OutFrom != ByTokenizer {
		t.Errorf("%+v", got[0])
	}
	if n := shared(got[0].Blocks, got[1].Blocks); n != 1 || len(got[0].Blocks) != 3 {
		t.Errorf("%v and %v share %d", got[0].Blocks, got[1].Blocks, n)
	}
	if !slices.Equal(got[0].Blocks, got[2].Blocks) {
		t.Errorf("the same prompt as text and as ids: %v, %v", got[0].Blocks, got[2].Blocks)
	}
}

// TestOthers counts requests without a prompt and keeps them out of a trace that is to be sent again.
func TestOthers(t *testing.T) {
	url := scripted(t, func(_ *http.Request, _ []byte, c net.Conn) bool {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
		return true
	})
	p := recording(t, url, nil)
	exchanged(t, p.URL(), "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"+post("/v1/completions", `{"prompt":"x"}`))
	await(t, "both are counted", func() bool { s := p.Stats(); return s.Others == 1 && s.Requests == 1 })
	lines(t, p, 1)
}

func TestSort(t *testing.T) {
	cases := []struct {
		name, file, want string
		dropped          int
		fails            bool
	}{
		{"in order", "{\"timestamp\":1}\n{\"timestamp\":2}\n", "{\"timestamp\":1}\n{\"timestamp\":2}\n", 0, false},
		{"as they ended", "{\"timestamp\":2,\"a\":1}\n{\"timestamp\":1}\n{\"timestamp\":2,\"a\":2}\n", "{\"timestamp\":1}\n{\"timestamp\":2,\"a\":1}\n{\"timestamp\":2,\"a\":2}\n", 0, false},
		{"torn", "{\"timestamp\":1}\n{\"timest", "{\"timestamp\":1}\n", 1, false},
		{"only torn", "{\"timest", "", 1, false},
		{"empty", "", "", 0, false},
		{"torn by a full disk", "{\"timestamp\":1}\n{\"times\n{\"timestamp\":0}\n", "{\"timestamp\":0}\n{\"timestamp\":1}\n", 1, false},
		{"no trace", "hello\nyou\n", "hello\nyou\n", 0, true},
		{"no time", "{\"a\":1}\n{\"timestamp\":2}\n", "{\"a\":1}\n{\"timestamp\":2}\n", 0, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "t.jsonl")
			if err := os.WriteFile(path, []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
			if dropped, err := Sort(path); (err != nil) != c.fails || dropped != c.dropped {
				t.Fatal(dropped, err)
			}
			got, err := os.ReadFile(path)
			if err != nil || string(got) != c.want {
				t.Errorf("%q, want %q (%v)", got, c.want, err)
			}
		})
	}
}

func TestMistakes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.jsonl")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name string
		cfg  Config
		want string
	}{
		{"no scheme", Config{Upstream: "localhost:8000", Block: 1}, "want http://host:port"},
		{"no block", Config{Upstream: "http://x", Block: 0}, "at least 1"},
		{"no address", Config{Upstream: "http://x", Block: 1, Listen: "nowhere:x"}, "listen on nowhere:x"},
		{"file exists", Config{Upstream: "http://x", Block: 1, Listen: "127.0.0.1:0", Path: path}, "--overwrite"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Start(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
		})
	}
}

// FuzzHead takes heads apart; what is rewritten is a head again, with the same fields.
func FuzzHead(f *testing.F) {
	f.Add([]byte("POST /v1/completions?a=b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"))
	f.Add([]byte("HTTP/1.1 200 OK\nTransfer-Encoding: gzip, chunked\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		end := http1.HeadEnd(data, 0)
		if end < 0 {
			return
		}
		h, err := http1.ParseHead(string(data[:end]))
		if err != nil {
			return
		}
		if _, err := h.Status(); err == nil {
			_, _ = h.ResponseBody()
		}
		if _, _, err := h.Request(); err != nil {
			return
		}
		_, _ = h.RequestBody()
		raw := rewritten(&h, "there", "/a")
		back, err := http1.ParseHead(string(raw))
		if err != nil || http1.HeadEnd(raw, 0) != len(raw) || len(back.Fields) != len(h.Fields) {
			t.Fatalf("%q became %q: %v", data[:end], raw, err)
		}
	})
}

// FuzzDescribe reads bodies of any kind.
func FuzzDescribe(f *testing.F) {
	f.Add([]byte(`{"messages":[{"role":"user","content":[{"text":"x"}]}],"tools":[1],"user":"u"}`), []byte("data: {\"choices\":[{\"text\":\"a\"}]}\n\n"), "text/event-stream")
	f.Add([]byte(`{"prompt":[[1,2],[3]]}`), []byte("{\"response\":\"a\"}\n{\"done\":true}"), "")
	f.Fuzz(func(t *testing.T, asked, answer []byte, form string) {
		p := &Proxy{cfg: Config{Block: 3}, salt: salt("x"), words: &words{}}
		line, ok := p.describe(&exchange{asked: asked, answer: answer, form: form, fate: fateOK})
		if ok && len(line.Blocks) != (line.Input+2)/3 {
			t.Fatalf("%+v", line)
		}
	})
}
