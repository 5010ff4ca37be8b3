//go:build linux

package sweep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"spate/internal/host/launch"
	"spate/internal/trial"
)

// The test program is also the server that is started, its guard, and the spate that dies while one runs.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "guard" {
		os.Exit(launch.Guard(os.Args[2:]))
	}
	switch os.Getenv("SWEEP_TEST_ROLE") {
	case "":
		os.Exit(m.Run())
	case "server":
		actServer(os.Getenv("SWEEP_TEST_PORT"), os.Getenv("SWEEP_TEST_MANNER"))
	case "parent":
		actParent()
	}
}

// actServer answers on a port until it is told to end, or does not even listen to that.
func actServer(port, manner string) {
	fmt.Println("server says hello")
	switch manner {
	case "dies":
		fmt.Println("ValueError: out of memory")
		os.Exit(3)
	case "child": // the one that listens is a process it started
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), "SWEEP_TEST_MANNER=stubborn")
		if err := child.Start(); err != nil {
			os.Exit(4)
		}
		_ = child.Wait()
		os.Exit(0)
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/health", func(http.ResponseWriter, *http.Request) {})
	if manner != "modelless" {
		mux.HandleFunc("/v1/models", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"data":[{"id":%q}]}`, os.Getenv("VLLM_SERVER_DEV_MODE")+os.Getenv("EXTRA"))
		})
	}
	srv := &http.Server{Addr: "127.0.0.1:" + port, Handler: mux, ReadHeaderTimeout: time.Minute}
	_ = srv.ListenAndServe()
	os.Exit(5)
}

// actParent starts a server and waits to be killed.
func actParent() {
	r, err := begin(serving(os.Getenv("SWEEP_TEST_MANNER")), os.Getenv("SWEEP_TEST_LOG"))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(r.URL)
	time.Sleep(time.Hour)
}

// serving starts this program as a server.
func serving(manner string) *Launch {
	return &Launch{
		Command: []string{"SWEEP_TEST_ROLE=server SWEEP_TEST_PORT={port} SWEEP_TEST_MANNER=" + manner + " exec '" + os.Args[0] + "'"},
		Env:     map[string]string{"EXTRA": "x"}, Ready: 30 * time.Second, Grace: 100 * time.Millisecond,
	}
}

// begin starts a server as the command line does, on whatever GPUs there are.
func begin(l *Launch, log string) (*launch.Server, error) {
	spec := l.Spec(log)
	spec.Guard, spec.GPU.Skip = []string{os.Args[0], "guard"}, "the tests' servers use none"
	srv, err := (&trial.Server{Spec: spec}).Start(context.Background())
	if start, ok := errors.AsType[*trial.StartError](err); ok {
		return nil, explain(start, spec.Command[0])
	}
	return srv, err
}

// gone waits until nothing listens at a URL.
func gone(t *testing.T, url string) {
	t.Helper()
	addr := strings.TrimPrefix(url, "http://")
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			return
		}
		_ = c.Close()
	}
	t.Errorf("something still listens at %s", url)
}

// get is what a server answers. The connection is not kept: it would hold the port.
func get(t *testing.T, url string) string {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // only read from
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestServersStartAndStop(t *testing.T) {
	for _, manner := range []string{"good", "stubborn", "child"} {
		t.Run(manner, func(t *testing.T) {
			t.Parallel()
			log := filepath.Join(t.TempDir(), "servers", "x.log")
			r, err := begin(serving(manner), log)
			if err != nil {
				t.Fatal(err)
			}
			if body := get(t, r.URL+"/v1/models"); body != `{"data":[{"id":"1x"}]}` {
				t.Errorf("the server answers %s", body)
			}
			if err := r.Stop(context.Background()); err != nil {
				t.Error(err)
			}
			gone(t, r.URL)
			if text, err := os.ReadFile(r.Log); err != nil || !strings.Contains(string(text), "server says hello") {
				t.Errorf("the log holds %q, %v", text, err)
			}
		})
	}
}

func TestServersThatDoNotStart(t *testing.T) {
	cases := []struct {
		name   string
		change func(*Launch)
		want   string
	}{
		{"dies", func(l *Launch) { *l = *serving("dies") }, "ended before it was ready (exit status 3)"},
		{"its last words", func(l *Launch) { *l = *serving("dies") }, "server says hello\n  ValueError: out of memory"},
		{"what they mean", func(l *Launch) { *l = *serving("dies") }, "(exit status 3), memory: ValueError: out of memory; the end of "},
		{"never ready", func(l *Launch) { l.Ready = 300 * time.Millisecond }, "the server is not ready: not within 300ms"},
		{"no such program", func(l *Launch) { l.Command = []string{"/nowhere/vllm", "serve", "--port", "{port}"} }, "start /nowhere/vllm"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := serving("modelless")
			c.change(l)
			r, err := begin(l, filepath.Join(t.TempDir(), "x.log"))
			if err == nil || r != nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want ...%s...", err, c.want)
			}
		})
	}
	t.Run("taken", func(t *testing.T) {
		t.Parallel()
		first, err := begin(serving("good"), filepath.Join(t.TempDir(), "x.log"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := first.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		l := serving("good")
		l.URL = first.URL
		if _, err := begin(l, filepath.Join(t.TempDir(), "y.log")); err == nil || !strings.Contains(err.Error(), "answers at "+first.URL+" already") {
			t.Errorf("got %v", err)
		}
	})
}

func TestServersEndWithSpate(t *testing.T) {
	t.Parallel()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), "SWEEP_TEST_ROLE=parent", "SWEEP_TEST_MANNER=stubborn", "SWEEP_TEST_LOG="+filepath.Join(t.TempDir(), "x.log"))
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 200)
	n, err := out.Read(line)
	url := strings.TrimSpace(string(line[:n]))
	if err != nil || !strings.HasPrefix(url, "http://") {
		t.Fatalf("the parent says %q, %v", url, err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // killed
	gone(t, url)
}

func TestCommandsAreRunAsTheyAreWritten(t *testing.T) {
	cases := []struct {
		command []string
		url     string
		want    string
	}{
		{[]string{"vllm serve m --port 8000"}, "", "vllm serve m --port 8000 | http://127.0.0.1:8000"},
		{[]string{"vllm", "serve", "a b"}, "http://x:1/", "vllm serve a b | http://x:1/"},
		{[]string{`vllm serve "m"`}, "", `/bin/sh -c exec vllm serve "m" | http://127.0.0.1:8000`},
		{[]string{"A=1 vllm serve m"}, "", "/bin/sh -c A=1 vllm serve m | http://127.0.0.1:8000"},
		{[]string{"cd x && vllm serve m"}, "", "/bin/sh -c cd x && vllm serve m | http://127.0.0.1:8000"},
		{[]string{"serve {port}"}, "", "serve {port} | "},
		{[]string{"serve", "{port}"}, "http://h:{port}", "serve {port} | http://h:{port}"},
	}
	for _, c := range cases {
		t.Run(strings.Join(c.command, " "), func(t *testing.T) {
			l := &Launch{Command: c.command, URL: c.url}
			spec := l.Spec("x.log")
			if got := strings.Join(spec.Command, " ") + " | " + spec.URL; got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestWhatTheSuiteSaysOfAServer(t *testing.T) {
	l := &Launch{Command: []string{"docker run --name s{port} x"}, Stop: []string{"docker rm -f s{port}"}, Env: map[string]string{"B": "2", "A": "1"}}
	spec := l.Spec("x.log")
	if got, want := strings.Join(spec.Cleanup, " "), "docker rm -f s{port}"; got != want {
		t.Errorf("cleans up with %q, want %q", got, want)
	}
	if got, want := strings.Join(spec.Env, " "), "VLLM_SERVER_DEV_MODE=1 A=1 B=2"; got != want {
		t.Errorf("environment %q, want %q", got, want)
	}
	if spec.Ready != 1 || spec.Grace != 1 || spec.Log != "x.log" { // 0 would be a default there
		t.Errorf("ready %v, grace %v, log %s", spec.Ready, spec.Grace, spec.Log)
	}
}

// TestAnEarlierFailureIsNotTakenForThisOne: sittings of a sweep share a log.
func TestAnEarlierFailureIsNotTakenForThisOne(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "x.log")
	if err := os.WriteFile(log, []byte("torch.OutOfMemoryError: CUDA out of memory\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := begin(&Launch{Command: []string{"echo '{port} unrecognized arguments: -x'; exit 2"}, Ready: 30 * time.Second}, log)
	if err == nil || !strings.Contains(err.Error(), "(exit status 2), bad-flag: ") {
		t.Errorf("got %v", err)
	}
}
