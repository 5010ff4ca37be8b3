//go:build linux

package sweep

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The test program is also the server that is started, and the spate that dies while one runs.
func TestMain(m *testing.M) {
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
	r, err := Start(context.Background(), launch(os.Getenv("SWEEP_TEST_MANNER")), os.Getenv("SWEEP_TEST_LOG"))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(r.URL())
	time.Sleep(time.Hour)
}

// launch starts this program as a server.
func launch(manner string) *Launch {
	return &Launch{
		Command: []string{"SWEEP_TEST_ROLE=server SWEEP_TEST_PORT={port} SWEEP_TEST_MANNER=" + manner + " exec '" + os.Args[0] + "'"},
		Env:     map[string]string{"EXTRA": "x"}, Ready: 30 * time.Second, Grace: 100 * time.Millisecond,
	}
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

func TestServersStartAndStop(t *testing.T) {
	for _, manner := range []string{"good", "stubborn", "child"} {
		t.Run(manner, func(t *testing.T) {
			t.Parallel()
			log := filepath.Join(t.TempDir(), "servers", "x.log")
			r, err := Start(context.Background(), launch(manner), log)
			if err != nil {
				t.Fatal(err)
			}
			body, err := get(context.Background(), r.URL()+"/v1/models")
			if err != nil || string(body) != `{"data":[{"id":"1x"}]}` {
				t.Errorf("the server answers %s, %v", body, err)
			}
			if err := r.Stop(); err != nil {
				t.Error(err)
			}
			gone(t, r.URL())
			if text, err := os.ReadFile(r.Log()); err != nil || !strings.Contains(string(text), "server says hello") {
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
		{"dies", func(l *Launch) { *l = *launch("dies") }, "ended before it was ready (exit status 3)"},
		{"its last words", func(l *Launch) { *l = *launch("dies") }, "ValueError: out of memory"},
		{"never ready", func(l *Launch) { l.Ready = 300 * time.Millisecond }, "the server is not ready: not within 300ms"},
		{"no such program", func(l *Launch) { l.Command = []string{"/nowhere/vllm", "serve"} }, "start /nowhere/vllm"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := launch("modelless")
			c.change(l)
			r, err := Start(context.Background(), l, filepath.Join(t.TempDir(), "x.log"))
			if err == nil || r != nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want ...%s...", err, c.want)
			}
		})
	}
	t.Run("taken", func(t *testing.T) {
		t.Parallel()
		first, err := Start(context.Background(), launch("good"), filepath.Join(t.TempDir(), "x.log"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := first.Stop(); err != nil {
				t.Error(err)
			}
		}()
		l := launch("good")
		l.URL = first.URL()
		if _, err := Start(context.Background(), l, filepath.Join(t.TempDir(), "y.log")); err == nil || !strings.Contains(err.Error(), "answers at "+first.URL()+" already") {
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
		{[]string{"vllm", "serve", "a b"}, "http://x:1/", "vllm serve a b | http://x:1"},
		{[]string{`vllm serve "m"`}, "", `/bin/sh -c exec vllm serve "m" | http://127.0.0.1:8000`},
		{[]string{"A=1 vllm serve m"}, "", "/bin/sh -c A=1 vllm serve m | http://127.0.0.1:8000"},
		{[]string{"cd x && vllm serve m"}, "", "/bin/sh -c cd x && vllm serve m | http://127.0.0.1:8000"},
		{[]string{"serve {port}"}, "", "serve PORT | http://127.0.0.1:PORT"},
		{[]string{"serve", "{port}"}, "http://h:{port}", "serve PORT | http://h:PORT"},
	}
	for _, c := range cases {
		t.Run(strings.Join(c.command, " "), func(t *testing.T) {
			l := &Launch{Command: c.command, URL: c.url}
			words, url, _, err := l.resolve()
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(words, " ") + " | " + url
			if strings.Contains(c.want, "PORT") {
				port := url[strings.LastIndexByte(url, ':')+1:]
				if n, err := strconv.Atoi(port); err != nil || n < 1 {
					t.Fatalf("port %q", port)
				}
				got = strings.ReplaceAll(got, port, "PORT")
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
