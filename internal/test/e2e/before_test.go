package e2e

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"spate/internal/cli"
	"spate/internal/sim/serve"
)

// TestFoundBeforeTheRun has mistakes that can be known before the first request: the error names the cause,
// and no request is sent.
func TestFoundBeforeTheRun(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	page := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "<!doctype html><title>Welcome</title>")
	}
	guarded := func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":{"message":"invalid api key"}}`, http.StatusUnauthorized)
	}
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc // nil: the simulated server
		flags   []string
		says    []string
		not     string
	}{
		{"a result folder that is a file", nil, []string{"--save-result", "--result-dir", filepath.Join(file, "below")}, []string{"--result-dir", "is a file, not a folder"}, ""},
		{"a page", page, nil, []string{"an HTML page, not the JSON of an API", "--base-url"}, "invalid character"},
		{"a page, with a model", page, []string{"--model", "m", "--skip-tokenizer-init"}, []string{"an HTML page, not the JSON of an API"}, ""},
		{"no key", guarded, nil, []string{"401", "OPENAI_API_KEY"}, "--model"},
		{"a wrong key", guarded, []string{"--api-key", "sk-wrong", "--model", "m", "--skip-tokenizer-init"}, []string{"401", "refuses the key"}, "name the model"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var posts atomic.Int64
			var url string
			if c.handler == nil {
				srv := sim(t, serve.Config{})
				t.Cleanup(func() { posts.Add(srv.Stats().Requests) })
				url = srv.URL()
			} else {
				srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodPost {
						posts.Add(1)
					}
					c.handler(w, r)
				}))
				t.Cleanup(srv.Close)
				url = srv.URL
			}
			e := benchCmd(t, append(append([]string{"--base-url", url}, small...), c.flags...)...).want(cli.ExitFailed)
			has(t, "stderr", e.stderr, c.says...)
			if posts.Load() > 0 || c.not != "" && strings.Contains(e.stderr, c.not) || strings.Contains(e.stderr, "sk-wrong") {
				t.Errorf("%d requests were sent\n%s", posts.Load(), e.stderr)
			}
		})
	}
}

// TestHangIsNamed has a server that takes connections and says nothing.
func TestHangIsNamed(t *testing.T) {
	t.Parallel()
	slow(t, "waits until a silent server is given up")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	e := benchCmd(t, append([]string{"--base-url", "http://" + ln.Addr().String()}, small...)...).want(cli.ExitFailed)
	has(t, "stderr", e.stderr, "no answer in 5s")
	if strings.Contains(e.stderr, "context deadline") {
		t.Errorf("the words of the machinery:\n%s", e.stderr)
	}
}

// TestMissingFiles names files that are not there, to every command that reads some.
func TestMissingFiles(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"bench --config /nope.yaml", "bench --sim --dataset-name custom --dataset-path /nope.jsonl", "bench --sim --tokenizer /nope/tokenizer.json",
		"bench --base-url https://127.0.0.1:1 --ca-cert /nope.pem --model m", "bench --sim /nope.json", "report /nope", "explain /nope", "import /nope",
		"compare /nope /nope2", "calibrate /nope", "predict --profile /nope.json", "sweep /nope.yaml", "tune /nope.yaml", "plan --slo p99_ttft<1s --rate 1 --profiles /nope.json",
		"dataset stats /nope.jsonl", "sim --script /nope.json", "record --sort /nope.jsonl",
		"bench --sim --dataset-name hf --dataset-path nobody/nope", "list --store /nope.db", "bench --sim --dataset-name sharegpt --dataset-path /nope.json --dry-run", "explain-diff /nope /nope2",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			e := prepare(t, nil, strings.Fields(line)...).want(cli.ExitUsage)
			has(t, "stderr", e.stderr, "/nope")
		})
	}
}

// TestLaunchFailureIsTold shows the server's last words and the command as it was run.
func TestLaunchFailureIsTold(t *testing.T) {
	t.Parallel()
	e := benchCmd(t, append([]string{"--launch", `sh -c 'echo loading; echo "boom: port {port} is cursed" >&2; exit 3'`}, small...)...).want(cli.ExitFailed)
	has(t, "stderr", e.stderr, "boom: port", "is cursed", "the command was sh -c", "its log is")
	if strings.Contains(e.stderr, "{port}") && !strings.Contains(e.stderr, "starting") {
		t.Errorf("the command is not the one that was run:\n%s", e.stderr)
	}
}
