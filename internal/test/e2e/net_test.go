package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spate/internal/call"
	"spate/internal/cli"
	"spate/internal/sim/serve"
)

// seen is one request to a completions endpoint as it came over the wire.
type seen struct {
	proto  string
	path   string
	header http.Header
	body   string
}

// wiretap is a server that keeps what it is sent, by x-request-id, and answers as the timetable does.
type wiretap struct {
	*httptest.Server
	mu  sync.Mutex
	got map[string]seen
}

// tap starts one. before, if set, may answer instead by returning true.
func tap(t *testing.T, cfg serve.Config, before func(http.ResponseWriter, *http.Request) bool) *wiretap {
	t.Helper()
	cfg.Timetable.TTFT = time.Millisecond
	inner := sim(t, cfg).Handler()
	w := &wiretap{got: map[string]seen{}}
	w.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client is gone
		}
		if strings.HasSuffix(r.URL.Path, "completions") {
			w.mu.Lock()
			w.got[r.Header.Get("x-request-id")] = seen{r.Proto, r.URL.Path, r.Header.Clone(), string(body)}
			w.mu.Unlock()
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if before == nil || !before(rw, r) {
			inner.ServeHTTP(rw, r)
		}
	}))
	w.Config.Protocols = new(http.Protocols)
	w.Config.Protocols.SetHTTP1(true)
	w.Config.Protocols.SetUnencryptedHTTP2(true)
	w.Start()
	t.Cleanup(w.Close)
	return w
}

// requests are those kept so far.
func (w *wiretap) requests() map[string]seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]seen{}
	for id, s := range w.got {
		out[id] = s
	}
	return out
}

// TestTransports reaches the server in every way there is.
func TestTransports(t *testing.T) {
	t.Parallel()
	fast := serve.TimetableConfig{TTFT: time.Millisecond, ITL: time.Millisecond}
	t.Run("unix socket", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "s")
		srv := sim(t, serve.Config{Addr: "unix:" + path, Timetable: fast})
		for _, client := range []string{"raw", "std"} {
			e := benchCmd(t, append([]string{"--unix-socket", path, "--http-client", client}, small...)...).want(cli.ExitDone)
			if run := e.balanced(); run.Tally.OK != 6 {
				t.Errorf("tally %+v", run.Tally)
			}
		}
		if srv.Stats().Requests != 12 {
			t.Errorf("%d requests came through the socket", srv.Stats().Requests)
		}
	})
	t.Run("tls", func(t *testing.T) {
		t.Parallel()
		srv := sim(t, serve.Config{TLS: true, Timetable: fast})
		ca := filepath.Join(t.TempDir(), "ca.pem")
		if err := srv.WriteCA(ca); err != nil {
			t.Fatal(err)
		}
		for _, trust := range [][]string{{"--ca-cert", ca}, {"--insecure"}, {"--insecure", "--http-client", "std"}, {"--ca-cert", ca, "--connect", "in-band"}} {
			e := benchCmd(t, append(append([]string{"--base-url", srv.URL()}, trust...), small...)...).want(cli.ExitDone)
			if run := e.balanced(); run.Tally.OK != 6 || run.Summary.Connections.TLS.N == 0 {
				t.Errorf("%v: tally %+v, TLS times %d", trust, run.Tally, run.Summary.Connections.TLS.N)
			}
		}
		e := benchCmd(t, append([]string{"--base-url", srv.URL()}, small...)...).want(cli.ExitFailed)
		has(t, "stderr", e.stderr, "certificate")
	})
	t.Run("http/2", func(t *testing.T) {
		t.Parallel()
		w := tap(t, serve.Config{}, nil)
		e := benchCmd(t, append([]string{"--base-url", w.URL, "--http-version", "2"}, small...)...).want(cli.ExitDone)
		if run := e.balanced(); run.Tally.OK != 6 {
			t.Errorf("tally %+v", run.Tally)
		}
		for id, s := range w.requests() {
			if s.proto != "HTTP/2.0" {
				t.Errorf("%s came by %s", id, s.proto)
			}
		}
	})
	t.Run("in-band", func(t *testing.T) {
		t.Parallel()
		srv := sim(t, serve.Config{Timetable: fast})
		e := benchCmd(t, append([]string{"--base-url", srv.URL(), "--connect", "in-band"}, small...)...).want(cli.ExitDone)
		run := e.balanced()
		for _, r := range e.measured() {
			if !r.Reused && (!r.InBand || r.FirstByte-r.Sent < r.Dial) {
				t.Errorf("request %d: in-band %v, dialed in %v, first byte after %v", r.ID, r.InBand, r.Dial, r.FirstByte-r.Sent)
			}
		}
		if run.Summary.Connections.InBand == 0 {
			t.Error("no connection was opened in band")
		}
	})
	t.Run("ahead", func(t *testing.T) {
		t.Parallel()
		srv := sim(t, serve.Config{Timetable: fast})
		e := benchCmd(t, append([]string{"--base-url", srv.URL()}, small...)...).want(cli.ExitDone)
		if run := e.balanced(); run.Summary.Connections.InBand != 0 {
			t.Errorf("%d connections were opened within a latency", run.Summary.Connections.InBand)
		}
	})
}

// TestSecretsStaySecret sends every kind of secret, has the server quote them back in errors, and
// looks for them in everything that was written.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	const envKey, flagKey, headKey, cookie, bodyKey = "sk-env-3141592653", "sk-flag-2718281828", "tok-head-1618033988", "sess-cookie-57721566", "body-key-69314718"
	const password = "pass-in-url-14142135"
	secrets := []string{envKey, flagKey, headKey, cookie, bodyKey, password}
	w := tap(t, serve.Config{}, func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "completions") || strings.HasSuffix(r.Header.Get("x-request-id"), "1") {
			return false
		}
		rw.WriteHeader(http.StatusUnauthorized)
		user, pass, _ := r.BasicAuth()
		_, _ = fmt.Fprintf(rw, `{"error":"bad key %s / %s / %s / %s %s"}`, r.Header.Get("Authorization"), r.Header.Get("X-Api-Key"), r.Header.Get("Cookie"), user, pass)
		return true
	})
	cases := map[string]struct {
		env   []string
		flags []string
		want  map[string]string // headers on the wire
	}{
		"environment": {[]string{"OPENAI_API_KEY=" + envKey}, nil, map[string]string{"Authorization": "Bearer " + envKey}},
		"flag":        {nil, []string{"--api-key", flagKey}, map[string]string{"Authorization": "Bearer " + flagKey}},
		"flag over environment": {
			[]string{"OPENAI_API_KEY=" + envKey},
			[]string{"--api-key=" + flagKey},
			map[string]string{"Authorization": "Bearer " + flagKey},
		},
		"headers": {
			[]string{"OPENAI_API_KEY=" + envKey},
			[]string{"--header", "X-Api-Key=" + headKey, "Cookie=" + cookie, "X-Plain=visible"},
			map[string]string{"X-Api-Key": headKey, "Cookie": cookie, "X-Plain": "visible", "Authorization": "Bearer " + envKey},
		},
		"header over key": {
			[]string{"OPENAI_API_KEY=" + envKey},
			[]string{"--header", "Authorization=Bearer " + headKey},
			map[string]string{"Authorization": "Bearer " + headKey},
		},
		"body": {nil, []string{"--extra-body", `{"api_key":"` + bodyKey + `"}`}, nil},
	}
	for name, c := range cases {
		for _, client := range []string{"raw", "std"} {
			t.Run(name+"/"+client, func(t *testing.T) {
				t.Parallel()
				prefix := "s-" + strings.ReplaceAll(name, " ", "") + client + "-"
				b := benchCmd(t, append([]string{
					"--base-url", w.URL, "--http-client", client, "--request-id-prefix", prefix, "--num-prompts", "3",
					"--random-input-len", "12", "--random-output-len", "3", "--save-result", "--save-detailed", "--result-filename", "r.json", "--ready-check-timeout-sec", "0",
				}, c.flags...)...)
				b.cmd.Env = append(b.cmd.Env, append(c.env, "SAVE_TO_PYTORCH_BENCHMARK_FORMAT=1")...)
				e := b.want(cli.ExitDone)
				if e.balanced().Tally.Failed != 2 {
					t.Error("the server quoted nothing back")
				}
				noSecrets(t, e, secrets)
				s, ok := w.requests()[prefix+"0"]
				if !ok {
					t.Fatal("the request never came")
				}
				for h, v := range c.want {
					if s.header.Get(h) != v {
						t.Errorf("header %s is %q", h, s.header.Get(h))
					}
				}
			})
		}
	}
	t.Run("url", func(t *testing.T) {
		t.Parallel()
		b := benchCmd(t, append([]string{"--base-url", strings.Replace(w.URL, "http://", "http://me:"+password+"@", 1), "--request-id-prefix", "url-"}, small...)...)
		e := b.run()
		noSecrets(t, e, secrets)
	})
	t.Run("nobody there", func(t *testing.T) {
		t.Parallel()
		b := benchCmd(t, append([]string{"--base-url", "http://me:" + password + "@" + deafPort(t), "--api-key", flagKey}, small...)...)
		noSecrets(t, b.want(cli.ExitFailed), secrets)
	})
}

// noSecrets looks into every file below the command's folders and into its output.
func noSecrets(t *testing.T, e ended, secrets []string) {
	t.Helper()
	look := func(where, text string) {
		for _, s := range secrets {
			if i := strings.Index(text, s); i >= 0 {
				t.Errorf("%s tells %q: ...%s", where, s, text[max(0, i-120):min(len(text), i+60)])
			}
		}
	}
	look("standard output", e.out)
	look("standard error", e.stderr)
	for _, root := range []string{e.folder, e.dir} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return nil //nolint:nilerr // a run that never began has no folder
			}
			data, err := os.ReadFile(path)
			look(path, string(data))
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestKeyIsAskedFor runs against a server that wants a key, with and without it.
func TestKeyIsAskedFor(t *testing.T) {
	t.Parallel()
	srv := sim(t, serve.Config{APIKey: "sk-right-one", Timetable: serve.TimetableConfig{TTFT: time.Millisecond}})
	with := benchCmd(t, append([]string{"--base-url", srv.URL()}, small...)...)
	with.cmd.Env = append(with.cmd.Env, "OPENAI_API_KEY=sk-right-one")
	if run := with.want(cli.ExitDone).balanced(); run.Tally.OK != 6 {
		t.Errorf("tally %+v", run.Tally)
	}
	without := benchCmd(t, append([]string{"--base-url", srv.URL()}, small...)...).want(cli.ExitFailed)
	has(t, "stderr", without.stderr, "401")
	named := benchCmd(t, append([]string{"--base-url", srv.URL(), "--model", "spate-sim"}, small...)...).want(cli.ExitFailed)
	has(t, "stderr", named.stderr, "401", "key") // before the run: none of its requests could be answered
}

// TestModelDiscovery checks whose name goes where when the user gives none.
func TestModelDiscovery(t *testing.T) {
	t.Parallel()
	w := tap(t, serve.Config{Models: []string{"served", "adapter"}, Root: "org/loaded-from"}, nil)
	e := benchCmd(t, append([]string{"--base-url", w.URL, "--request-id-prefix", "a-", "--save-result", "--result-filename", "r.json"}, small...)...).want(cli.ExitDone)
	var saved struct {
		Model     string `json:"model_id"`
		Tokenizer string `json:"tokenizer_id"`
	}
	data, err := os.ReadFile(filepath.Join(e.dir, "r.json"))
	if err == nil {
		err = json.Unmarshal(data, &saved)
	}
	if err != nil || saved.Model != "org/loaded-from" || saved.Tokenizer != "org/loaded-from" {
		t.Errorf("saved %+v (%v)", saved, err)
	}
	benchCmd(t, append([]string{"--base-url", w.URL, "--request-id-prefix", "b-", "--model", "org/x", "--served-model-name", "adapter"}, small...)...).want(cli.ExitDone)
	for id, s := range w.requests() {
		want := map[byte]string{'a': "served", 'b': "adapter"}[id[0]]
		if got := bodyOf(t, s)["model"]; got != want {
			t.Errorf("%s asks for model %v, want %s", id, got, want)
		}
	}
}

// TestNoListOfModels measures a server that does not say which models it has.
func TestNoListOfModels(t *testing.T) {
	t.Parallel()
	w := tap(t, serve.Config{}, func(rw http.ResponseWriter, r *http.Request) bool {
		if !slices.Contains([]string{"/v1/models", "/get_model_info", "/model_info"}, r.URL.Path) {
			return false
		}
		http.NotFound(rw, r)
		return true
	})
	e := benchCmd(t, append([]string{"--base-url", w.URL, "--model", "spate-sim"}, small...)...).want(cli.ExitDone)
	if run := e.balanced(); run.Tally.OK != 6 {
		t.Errorf("tally %+v", run.Tally)
	}
	e = benchCmd(t, append([]string{"--base-url", w.URL}, small...)...).want(cli.ExitFailed)
	has(t, "stderr", e.stderr, "404", "--model")
	if strings.Contains(e.stderr, "nothing answers") {
		t.Errorf("a server that answers is said not to:\n%s", e.stderr)
	}
}

func bodyOf(t *testing.T, s seen) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(s.body), &v); err != nil {
		t.Fatalf("body %.200q: %v", s.body, err)
	}
	return v
}

// TestSeedReproduces compares bodies on the wire: the same seed sends the same bytes in the same
// order, another seed others.
func TestSeedReproduces(t *testing.T) {
	t.Parallel()
	w := tap(t, serve.Config{}, nil)
	gpt2 := tokenizerFile(t, "gpt2")
	datasets := map[string][]string{
		"random":   {"--random-input-len", "40", "--random-output-len", "6", "--random-range-ratio", "0.5"},
		"local":    {"--random-input-len", "40", "--random-output-len", "6", "--random-range-ratio", "0.5", "--tokenizer", gpt2},
		"sharegpt": {"--dataset-name", "sharegpt", "--dataset-path", abs(t, shareGPT)},
		"sonnet":   {"--dataset-name", "sonnet", "--dataset-path", abs(t, verses), "--sonnet-input-len", "60", "--sonnet-prefix-len", "20"},
		"custom":   {"--dataset-name", "custom", "--dataset-path", abs(t, rows)},
	}
	for name, flags := range datasets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bodies := func(prefix, seed string) (out []string) {
				benchCmd(t, append([]string{"--base-url", w.URL, "--num-prompts", "7", "--request-id-prefix", prefix, "--seed", seed, "--max-concurrency", "3"}, flags...)...).want(cli.ExitDone)
				all := w.requests()
				for i := range 7 {
					s, ok := all[fmt.Sprint(prefix, i)]
					if !ok {
						t.Fatalf("request %d never came", i)
					}
					out = append(out, s.body)
				}
				return out
			}
			first, again, other := bodies(name+"-a-", "5"), bodies(name+"-b-", "5"), bodies(name+"-c-", "6")
			if d := cmp.Diff(first, again); d != "" {
				t.Errorf("the same seed sent other bodies:\n%s", d)
			}
			if slices.Equal(first, other) {
				t.Error("another seed sent the same bodies")
			}
		})
	}
}

// tokenizerFile unpacks a small tokenizer and returns its folder.
func tokenizerFile(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open("../../token/tokenizer/testdata/" + name + ".tokenizer.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestTokenizers goes through every way to count tokens.
func TestTokenizers(t *testing.T) {
	t.Parallel()
	deaf := func(rw http.ResponseWriter, r *http.Request) bool { // a server without /tokenize
		if strings.Contains(r.URL.Path, "tokenize") {
			http.NotFound(rw, r)
			return true
		}
		return false
	}
	gpt2 := tokenizerFile(t, "gpt2")
	cases := []struct {
		name  string
		deaf  bool
		flags []string
		check func(*testing.T, ended, map[string]seen)
	}{
		{"file", true, []string{"--tokenizer", gpt2}, func(t *testing.T, e ended, _ map[string]seen) {
			for _, r := range e.measured() {
				// Random tokens need not survive decoding and encoding: vLLM keeps what came out.
				if r.Asked.From != call.FromTokenizer || r.Asked.N < 26 || r.Asked.N > 34 {
					t.Errorf("request %d asked for %+v", r.ID, r.Asked)
				}
			}
		}},
		{"ids", true, []string{"--tokenizer", gpt2, "--prompt-token-ids"}, func(t *testing.T, e ended, got map[string]seen) {
			for id, s := range got {
				if ids, ok := bodyOf(t, s)["prompt"].([]any); !ok || len(ids) != 30 {
					t.Errorf("%s: prompt %.80v", id, bodyOf(t, s)["prompt"])
				}
			}
			for _, r := range e.measured() {
				if r.In != (call.Count{N: 30, From: call.FromServer}) {
					t.Errorf("request %d: the server counts %+v", r.ID, r.In)
				}
			}
		}},
		{"server", false, []string{"--tokenizer", "server"}, func(t *testing.T, e ended, _ map[string]seen) {
			for _, r := range e.measured() {
				if r.In != (call.Count{N: 30, From: call.FromServer}) {
					t.Errorf("request %d: the server counts %+v", r.ID, r.In)
				}
			}
		}},
		{"none", true, nil, func(t *testing.T, e ended, _ map[string]seen) {
			labels, _ := blockOf(t, e.out)
			if d := cmp.Diff(headLabels("P99"), labels); d != "" {
				t.Errorf("block (-HEAD +got):\n%s", d)
			}
			has(t, "notes", strings.Join(strings.Fields(e.out), " "), "no tokenizer for spate-sim is on this machine")
			for _, r := range e.measured() {
				if r.In.From != call.FromServer || r.In.N < 15 || r.In.N > 60 {
					t.Errorf("request %d: %+v for about 30", r.ID, r.In)
				}
			}
		}},
		{"skipped", true, []string{"--skip-tokenizer-init", "--percentile-metrics", "ttft,e2el"}, func(t *testing.T, e ended, _ map[string]seen) {
			labels, _ := blockOf(t, e.out)
			want := []string{
				"Successful requests:", "Failed requests:", "Benchmark duration (s):", "Total input tokens:", "Request throughput (req/s):",
				"Peak concurrent requests:", "End-to-end Latency", "Mean E2EL (ms):", "Median E2EL (ms):", "P99 E2EL (ms):",
			}
			if d := cmp.Diff(want, labels); d != "" {
				t.Errorf("block (-vLLM +got):\n%s", d)
			}
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			before := deaf
			if !c.deaf {
				before = nil
			}
			w := tap(t, serve.Config{}, before)
			e := benchCmd(t, append([]string{"--base-url", w.URL, "--num-prompts", "6", "--random-input-len", "30", "--random-output-len", "4"}, c.flags...)...).want(cli.ExitDone)
			e.balanced()
			c.check(t, e, w.requests())
		})
	}
	t.Run("named and missing", func(t *testing.T) {
		t.Parallel()
		e := benchCmd(t, append([]string{"--base-url", quick(t).URL(), "--tokenizer", "org/not-here"}, small...)...).want(cli.ExitUsage)
		has(t, "stderr", e.stderr, "--tokenizer", "org/not-here")
	})
	t.Run("server without", func(t *testing.T) {
		t.Parallel()
		e := benchCmd(t, append([]string{"--base-url", tap(t, serve.Config{}, deaf).URL, "--tokenizer", "server"}, small...)...).want(cli.ExitFailed)
		has(t, "stderr", e.stderr, "--tokenizer server")
	})
}
