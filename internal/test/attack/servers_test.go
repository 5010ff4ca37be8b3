package attack

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A hostile server is put together from a head, a body, an end and a list of models. Each of them is harmless or a way to
// misbehave; the long form draws combinations, and has every part several times.

// part is one way to misbehave: text, and text that is sent again until the client is gone.
type part struct {
	name string
	text string
	ever string
}

const (
	okLine = "HTTP/1.1 200 OK\r\n"
	sse    = "Content-Type: text/event-stream\r\n"
	final  = "data: [DONE]\n\n"
)

func event(text string) string {
	return fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"text\":%q,\"delta\":{\"content\":%q},\"finish_reason\":null}]}\n\n", text, text)
}

func usage(counts string) string {
	return event("a") + event("b") + "data: {\"choices\":[],\"usage\":" + counts + "}\n\n" + final
}

// heads end without the blank line. One that has Transfer-Encoding gets its body in chunks.
var heads = []part{
	{name: "stream", text: okLine + sse + "Transfer-Encoding: chunked\r\n"},
	{name: "stream to the close", text: okLine + sse + "Connection: close\r\n"},
	{name: "HTTP/1.0", text: "HTTP/1.0 200 OK\r\n" + sse},
	{name: "HTTP/9.9", text: "HTTP/9.9 200 OK\r\n" + sse},
	{name: "no HTTP", text: "hello\x00\xff\r\n"},
	{name: "continue before", text: strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 3) + okLine + sse + "Transfer-Encoding: chunked\r\n"},
	{name: "endless early hints", ever: "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"},
	{name: "endless headers", text: okLine, ever: "X-Filler: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n"},
	{name: "endless header line", text: okLine + "X-Filler: ", ever: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
	{name: "endless status line", text: "HTTP/1.1 200 ", ever: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
	{name: "plain text", text: okLine + "Content-Type: text/plain\r\nTransfer-Encoding: chunked\r\n"},
	{name: "HTML", text: okLine + "Content-Type: text/html; charset=\x1b[31m\r\nTransfer-Encoding: chunked\r\n"},
	{name: "JSON", text: okLine + "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"},
	{name: "no content type", text: okLine + "Transfer-Encoding: chunked\r\n"},
	{name: "gzip that is none", text: okLine + sse + "Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n"},
	{name: "length and chunks", text: okLine + sse + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"},
	{name: "two lengths", text: okLine + sse + "Content-Length: 5\r\nContent-Length: 7\r\n"},
	{name: "negative length", text: okLine + sse + "Content-Length: -1\r\n"},
	{name: "length of exabytes", text: okLine + sse + "Content-Length: 9223372036854775807\r\n"},
	{name: "length beyond numbers", text: okLine + sse + "Content-Length: 99999999999999999999999999\r\n"},
	{name: "no content", text: "HTTP/1.1 204 No Content\r\n"},
	{name: "not modified", text: "HTTP/1.1 304 Not Modified\r\n"},
	{name: "switching protocols", text: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n"},
	{name: "wait for weeks", text: "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 999999\r\nContent-Length: 0\r\n"},
	{name: "wait beyond numbers", text: "HTTP/1.1 503 Busy\r\nRetry-After: 99999999999999999999999\r\nContent-Length: 0\r\n"},
	{name: "wait for less than nothing", text: "HTTP/1.1 503 Busy\r\nRetry-After: -5\r\nContent-Length: 0\r\n"},
	{name: "wait until a date", text: "HTTP/1.1 503 Busy\r\nRetry-After: Fri, 31 Dec 9999 23:59:59 GMT\r\nContent-Length: 0\r\n"},
	{name: "reason with escapes", text: "HTTP/1.1 500 \x1b]0;owned\x07\x1b[2J\r\nTransfer-Encoding: chunked\r\n"},
	{name: "redirect elsewhere", text: "HTTP/1.1 307 Temporary Redirect\r\nLocation: ELSEWHERE/v1/completions\r\nContent-Length: 0\r\n"},
	{name: "redirect to itself", text: "HTTP/1.1 308 Permanent Redirect\r\nLocation: /v1/completions\r\nContent-Length: 0\r\n"},
	{name: "redirect to a file", text: "HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n"},
	{name: "asks for a password", text: "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"\x1b[1m\"\r\nTransfer-Encoding: chunked\r\n"},
	{name: "status 99999", text: "HTTP/1.1 99999 What\r\nTransfer-Encoding: chunked\r\n"},
	{name: "folded headers", text: okLine + "X-A: a\r\n b\r\n\tc\r\n" + sse + "Transfer-Encoding: chunked\r\n"},
	{name: "header without a name", text: okLine + ": a\r\n" + sse + "Transfer-Encoding: chunked\r\n"},
	{name: "the key as a header", text: okLine + sse + "X-Request-Id: ECHO\r\nTransfer-Encoding: chunked\r\n"},
}

// bodies are events, or what stands in their place.
var bodies = []part{
	{name: "an answer", text: event("a") + event("b") + usage(`{"prompt_tokens":8,"completion_tokens":2}`)},
	{name: "nothing"},
	{name: "no end mark", text: event("a")},
	{name: "counts of billions", text: usage(`{"prompt_tokens":2147483647,"completion_tokens":2147483647}`)},
	{name: "counts beyond numbers", text: usage(`{"prompt_tokens":99999999999999999999999,"completion_tokens":1e308}`)},
	{name: "negative counts", text: usage(`{"prompt_tokens":-8,"completion_tokens":-9223372036854775808}`)},
	{name: "fractions", text: usage(`{"prompt_tokens":0.5,"completion_tokens":2.25}`)},
	{name: "not a number", text: usage(`{"prompt_tokens":NaN,"completion_tokens":Infinity}`)},
	{name: "counts as words", text: usage(`{"prompt_tokens":"8","completion_tokens":[2]}`)},
	{name: "counts as lists", text: usage(`[8,2]`)},
	{name: "end mark twice", text: event("a") + final + final},
	{name: "text after the end mark", text: event("a") + final + event("b")},
	{name: "a second answer", text: event("a") + final + "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"},
	{name: "not UTF-8", text: "data: {\"choices\":[{\"index\":0,\"text\":\"\xff\xfe\xc3\x28\"}]}\n\n" + final},
	{name: "half a surrogate", text: "data: {\"choices\":[{\"index\":0,\"text\":\"\\ud800\"}]}\n\n" + final},
	{name: "escapes", text: event("\x1b[2J\x1b]0;owned\x07\u202e") + final},
	{name: "deep JSON", text: "data: " + strings.Repeat(`{"choices":[`, 100_000) + "\n\n" + final},
	{name: "deep brackets", text: "data: " + strings.Repeat("[", 500_000) + "\n\n"},
	{name: "one giant line", text: event(strings.Repeat("a", 600_000)) + final},
	{name: "many choices", text: "data: {\"choices\":[" + strings.Repeat(`{"index":2147483647,"text":"a"},`, 5000) + `{"index":-1,"text":"a"}]}` + "\n\n" + final},
	{name: "HTML page", text: "<html><body><script>alert(1)</script>\x1b[31mGateway</body></html>"},
	{name: "error event", text: event("a") + "data: {\"error\":{\"message\":\"\x1b[2J gone ECHO\",\"code\":500}}\n\n"},
	{name: "error as a list", text: "data: {\"error\":[[[[1]]]]}\n\n"},
	{name: "error in JSON", text: `{"error":{"message":"ECHO is not a key; <script>","type":"\u001b[31m","code":{}}}`},
	{name: "zero bytes", text: strings.Repeat("\x00", 4096)},
	{name: "wrong types", text: "data: {\"choices\":{\"index\":\"x\"},\"usage\":7,\"id\":[]}\n\ndata: 7\n\ndata: null\n\ndata: \"x\"\n\n" + final},
	{name: "named events", text: "event: \x1b[31m\nid: \x00\nretry: 99999999999999999999\ndata: {}\n\n" + final},
	{name: "duplicate keys", text: "data: {\"choices\":[],\"choices\":[{\"index\":0,\"text\":\"a\"}],\"usage\":null,\"usage\":{\"completion_tokens\":-1}}\n\n" + final},
	{name: "endless text", ever: event("aaaa")},
	{name: "endless events without text", ever: "data: {\"choices\":[]}\n\n"},
	{name: "endless data lines", ever: "data:\n"},
	{name: "endless comments", ever: ": ping\n\n"},
	{name: "endless line", text: "data: ", ever: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
	{name: "endless blank lines", ever: "\n"},
	{name: "endless after the end mark", text: event("a") + final, ever: event("b")},
}

// ends are what happens to the connection, and to the framing of the body.
var ends = []string{
	"keep", "close", "reset", "half close", "hang", "cut", "cut by reset", "drip",
	"chunk of exabytes", "chunk without a number", "endless chunk extension", "endless trailers", "no last chunk", "unasked answers",
}

// models are what the server calls its model, as JSON.
var models = []part{
	{name: "plain", text: `{"object":"list","data":[{"id":"m","object":"model"}]}`},
	{name: "path", text: `{"object":"list","data":[{"id":"/dev/zero","root":"../../../../etc/passwd"}]}`},
	{name: "escapes", text: `{"object":"list","data":[{"id":"m\u001b[31m\u001b]0;owned\u0007\u202e\n=1+1"}]}`},
	{name: "long", text: `{"object":"list","data":[{"id":"` + strings.Repeat("m", 5000) + `"}]}`},
	{name: "markup", text: `{"object":"list","data":[{"id":"<script>alert(1)</script>|![x](http://x)","max_model_len":-5}]}`},
	{name: "the key", text: `{"object":"list","data":[{"id":"ECHO"}]}`},
	{name: "numbers", text: `{"object":"list","data":[{"id":7,"max_model_len":1e400}]}`},
	{name: "none", text: `{"object":"list","data":[]}`},
	{name: "HTML", text: "<html>\x1b[31m</html>"},
	{name: "deep", text: strings.Repeat(`{"data":[`, 100_000)},
	{name: "many", text: `{"object":"list","data":[` + strings.Repeat(`{"id":"m"},`, 20_000) + `{"id":"n"}]}`},
	{name: "endless", text: `{"data":[`, ever: `{"id":"m"},`},
}

// server is one hostile server.
type server struct {
	head, body, model part
	end               string
	cut               int  // bytes of the answer, for the ends that cut
	beside            bool // /tokenize is answered likewise
	elsewhere         string
	listener          net.Listener
	seen              atomic.Int64 // requests of the load
	open              sync.Map     // connections
	wg                sync.WaitGroup
}

func (s *server) name() string {
	return strings.Join([]string{"head " + s.head.name, "body " + s.body.name, "end " + s.end, "model " + s.model.name}, ", ")
}

func (s *server) start() (err error) {
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	s.wg.Go(func() {
		for {
			conn, err := s.listener.Accept()
			if err != nil {
				return
			}
			s.open.Store(conn, true)
			s.wg.Go(func() { s.serve(conn.(*net.TCPConn)) })
		}
	})
	return nil
}

// stop ends the server and all of its connections.
func (s *server) stop() {
	_ = s.listener.Close()
	s.open.Range(func(conn, _ any) bool { return conn.(net.Conn).Close() != nil || true })
	s.wg.Wait()
}

func (s *server) serve(conn *net.TCPConn) {
	defer s.open.Delete(conn)
	defer func() { _ = conn.Close() }()
	in := bufio.NewReader(conn)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		echo := strings.NewReplacer("ECHO", strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")+r.Header.Get("X-Api-Key"), "ELSEWHERE", s.elsewhere)
		switch {
		case r.Method == http.MethodPost && s.beside && strings.HasSuffix(r.URL.Path, "tokenize"):
			_ = s.answer(conn, echo)
			return
		case r.Method == http.MethodPost && !strings.HasSuffix(r.URL.Path, "tokenize"):
			s.seen.Add(1)
			if !s.answer(conn, echo) {
				return
			}
		case strings.HasSuffix(r.URL.Path, "/models"):
			_, _ = io.WriteString(conn, okLine+"Content-Type: application/json\r\nConnection: close\r\n\r\n"+echo.Replace(s.model.text))
			forever(conn, s.model.ever)
			return
		default:
			_, _ = io.WriteString(conn, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
		}
	}
}

// forever writes a text again and again until the client is gone.
func forever(w io.Writer, text string) {
	if text == "" {
		return
	}
	many := strings.Repeat(text, 1+32<<10/len(text))
	for {
		if _, err := io.WriteString(w, many); err != nil {
			return
		}
	}
}

// answer misbehaves, and reports whether the connection is kept.
func (s *server) answer(conn *net.TCPConn, echo *strings.Replacer) bool {
	if s.head.ever != "" {
		_, _ = io.WriteString(conn, s.head.text)
		forever(conn, s.head.ever)
		return false
	}
	chunked := strings.Contains(s.head.text, "Transfer-Encoding")
	frame := func(text string) string {
		if !chunked || text == "" {
			return text
		}
		return fmt.Sprintf("%x\r\n%s\r\n", len(text), text)
	}
	head, body := echo.Replace(s.head.text)+"\r\n", frame(echo.Replace(s.body.text))
	if s.body.ever != "" {
		_, _ = io.WriteString(conn, head+body)
		forever(conn, frame(s.body.ever))
		return false
	}
	last := ""
	if chunked {
		last = "0\r\n\r\n"
	}
	return s.finish(conn, head, body, last)
}

// finish sends an answer that has an end, in the way that the server ends answers.
func (s *server) finish(conn *net.TCPConn, head, body, last string) bool {
	whole := head + body + last
	send := func(text string) { _, _ = io.WriteString(conn, text) }
	switch s.end {
	case "keep":
		send(whole)
		return true
	case "reset":
		send(whole)
		_ = conn.SetLinger(0)
	case "half close":
		send(head + body)
		_ = conn.CloseWrite()
		_, _ = io.Copy(io.Discard, conn)
	case "hang":
		send(head + body)
		_, _ = io.Copy(io.Discard, conn) // until the client is gone
	case "cut", "cut by reset":
		send(whole[:s.cut%len(whole)])
		if s.end == "cut by reset" {
			_ = conn.SetLinger(0)
		}
	case "drip":
		for i := range len(whole) {
			if _, err := conn.Write([]byte{whole[i]}); err != nil {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	case "chunk of exabytes":
		send(head + body + "7fffffffffffffff\r\naaaa")
	case "chunk without a number":
		send(head + body + "zz\r\naaaa\r\n")
	case "endless chunk extension":
		send(head + body + "1;x=")
		forever(conn, "aaaaaaaaaaaaaaaa")
	case "endless trailers":
		send(head + body + "0\r\n")
		forever(conn, "X-Trailer: a\r\n")
	case "no last chunk":
		send(head + body)
	case "unasked answers":
		send(whole + strings.Repeat(whole, 3))
		return true
	default: // close
		send(whole)
	}
	return false
}

// combination is the i-th hostile server: the first ones have each part once beside harmless others, so that every part
// is there; the rest are drawn.
func combination(r *rand.Rand, i int) *server {
	s := &server{head: heads[0], body: bodies[0], end: ends[0], model: models[0], cut: r.IntN(400), beside: i%4 == 0}
	switch n := len(heads) - 1 + len(bodies) - 1 + len(ends) - 1 + len(models) - 1; {
	case i < len(heads)-1:
		s.head = heads[i+1]
	case i < len(heads)+len(bodies)-2:
		s.body = bodies[i-len(heads)+2]
	case i < len(heads)+len(bodies)+len(ends)-3:
		s.end = ends[i-len(heads)-len(bodies)+3]
	case i < n:
		s.model = models[i-len(heads)-len(bodies)-len(ends)+4]
	default:
		s.head, s.body, s.end, s.model = heads[r.IntN(len(heads))], bodies[r.IntN(len(bodies))], ends[r.IntN(len(ends))], models[r.IntN(len(models))]
	}
	return s
}

// TestHostileServers measures servers that misbehave in every way that is listed above. The short form has some of them,
// others for each seed.
func TestHostileServers(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("short: attacks the real program; make attack is the long form")
	}
	program(t)
	var trap atomic.Int64
	elsewhere, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = elsewhere.Close() })
	go func() {
		for conn, err := elsewhere.Accept(); err == nil; conn, err = elsewhere.Accept() {
			trap.Add(1)
			_ = conn.Close()
		}
	}()
	const all = 240
	cases := draws(t, -1).Perm(all)[:size(18, all)]
	slices.Sort(cases) // the long form has case i at place i
	atOnce(len(cases), func(k int) {
		i := cases[k]
		s := combination(draws(t, i), i)
		s.elsewhere = "http://" + elsewhere.Addr().String()
		if err := s.attack(t, i); err != nil {
			t.Errorf("server %d (seed %d; %s): %v", i, seed(t), s.name(), err)
		}
	})
	if n := trap.Load(); n != 0 {
		t.Errorf("%d connections went to a host that only a redirect named", n)
	}
	t.Logf("servers: %d", len(cases))
}

// attack runs spate against the server.
func (s *server) attack(t *testing.T, i int) error {
	t.Helper()
	if err := s.start(); err != nil {
		return err
	}
	defer s.stop()
	dir := t.TempDir()
	folder := filepath.Join(dir, "run")
	args := []string{
		"bench", "--base-url", "http://" + s.listener.Addr().String(), "--output-dir", folder, "--details", "--save-result", "--result-dir", dir,
		"--num-prompts", "4", "--random-input-len", "8", "--random-output-len", "4", "--ready-check-timeout-sec", "0", "--abort-on-error", "off",
		"--request-timeout", "2s", "--max-response-bytes", "1048576", "--grace-period", "1s",
		"--backend", []string{"openai", "openai-chat", "anthropic"}[i%3], "--http-client", []string{"raw", "std"}[i/3%2], "--retries", fmt.Sprint(i % 2),
	}
	if s.model.name == "plain" {
		args = append(args, "--model", "m", "--skip-tokenizer-init")
	}
	if _, err := spate(t, dir, args...); err != nil {
		return err
	}
	if _, err := os.Stat(folder); err != nil {
		if s.seen.Load() > 0 {
			return fmt.Errorf("%d requests were sent and there is no folder", s.seen.Load())
		}
		return nil // it could not begin, and said why
	}
	if err := accounts(folder, int(s.seen.Load())); err != nil {
		return err
	}
	return renders(t, dir, folder)
}
