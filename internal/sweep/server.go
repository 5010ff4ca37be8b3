package sweep

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Running is a server that was started for a group of points.
type Running interface {
	URL() string
	Log() string // file with what it prints
	Stop() error
}

// Starter starts a server and returns when it is ready; log is the file for what it prints.
type Starter func(ctx context.Context, l *Launch, log string) (Running, error)

// process is a server that is a process of its own, with whatever it starts itself.
type process struct {
	url, log string
	grace    time.Duration
	pid      int
	exited   chan struct{} // closed after err is set
	err      error
}

func (p *process) URL() string { return p.url }
func (p *process) Log() string { return p.log }

// askEvery is the time between two questions whether a server is ready.
const askEvery = 200 * time.Millisecond

// portTries is how often a free port is looked for: another process may take it before the server does.
const portTries = 3

// Start starts a server as a process group of its own and waits until /health and /v1/models answer.
// The group ends with Stop, and its first process when spate dies.
func Start(ctx context.Context, l *Launch, log string) (Running, error) {
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
		return nil, fmt.Errorf("make folder for server logs: %w", err)
	}
	for try := 1; ; try++ {
		command, url, port, err := l.resolve()
		if err != nil {
			return nil, err
		}
		p := &process{url: url, log: log, grace: l.Grace, exited: make(chan struct{})}
		if err = p.start(ctx, l, command); err == nil {
			return p, nil
		}
		if try == portTries || port == "" || !errors.Is(err, errEnded) || !taken(port) {
			return nil, err
		}
	}
}

// start starts the process and waits until it is ready.
func (p *process) start(ctx context.Context, l *Launch, command []string) error {
	if answers(ctx, p.url+"/health") {
		return fmt.Errorf("something answers at %s already: end it, or give the server another port", p.url)
	}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open server log: %w", err)
	}
	cmd := exec.Command(command[0], command[1:]...) //nolint:gosec // the user's own command
	cmd.Stdout, cmd.Stderr, cmd.Env = out, out, l.environ()
	ownGroup(cmd)
	err = errors.Join(p.run(cmd), out.Close()) // the child has its own descriptor
	if err != nil {
		return fmt.Errorf("start %s: %w", command[0], err)
	}
	if err := p.ready(ctx, l.Ready); err != nil {
		return errors.Join(err, p.Stop())
	}
	return nil
}

// taken reports whether a port cannot be listened on now.
func taken(port string) bool {
	ln, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		return true
	}
	_ = ln.Close() // it was only tried
	return false
}

// run starts the command on a thread that lives as long as it: the signal a child gets at its
// parent's death is sent at the death of the thread that started it.
func (p *process) run(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			p.pid = cmd.Process.Pid
		}
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.exited)
	}()
	return <-started
}

// ready waits for the server's first answers.
func (p *process) ready(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("not within %v", within))
	defer cancel()
	for !answers(ctx, p.url+"/health") || !listsModels(ctx, p.url+"/v1/models") {
		select {
		case <-p.exited:
			return fmt.Errorf("%w (%s)%s", errEnded, endOf(p.err), p.lastLines())
		case <-ctx.Done():
			return fmt.Errorf("the server is not ready: %w%s", context.Cause(ctx), p.lastLines())
		case <-time.After(askEvery):
		}
	}
	return nil
}

var errEnded = errors.New("the server ended before it was ready")

func endOf(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// lastLines quotes the end of the server's log.
func (p *process) lastLines() string {
	const lines = 5
	data, err := os.ReadFile(p.log)
	if err != nil || len(bytes.TrimSpace(data)) == 0 {
		return ""
	}
	all := strings.Split(strings.TrimSpace(string(data)), "\n")
	return "; the end of " + p.log + ":\n  " + strings.Join(all[max(0, len(all)-lines):], "\n  ")
}

// Stop ends the server and all it started: first by asking, then by force.
func (p *process) Stop() error {
	_ = endGroup(p.pid, false) // it may be gone
	select {
	case <-p.exited:
	case <-time.After(p.grace):
	}
	if err := endGroup(p.pid, true); err != nil {
		return fmt.Errorf("end the server: %w", err)
	}
	<-p.exited
	return nil
}

// resolve is the command to start and where the server will answer; port is set if it was chosen here.
func (l *Launch) resolve() (command []string, url, port string, err error) {
	command = slices.Clone(l.Command)
	url = strings.TrimRight(or(l.URL, defaultURL), "/")
	if slices.ContainsFunc(command, func(w string) bool { return strings.Contains(w, "{port}") }) {
		if port, err = freePort(); err != nil {
			return nil, "", "", err
		}
		if l.URL == "" {
			url = "http://127.0.0.1:" + port
		}
	}
	for i := range command {
		command[i] = strings.ReplaceAll(command[i], "{port}", port)
	}
	url = strings.ReplaceAll(url, "{port}", port)
	if len(command) > 1 {
		return command, url, port, nil
	}
	return shell(command[0]), url, port, nil
}

// shell is how a line is run. A plain one needs no shell, and what needs one is put in the shell's
// place where that is possible, so that the process that is watched is the server itself.
func shell(line string) []string {
	if !strings.ContainsAny(line, "|&;<>()$`\\\"'*?[]#~%={}!\n") {
		return strings.Fields(line)
	}
	if !strings.ContainsAny(line, "|&;\n") && !strings.Contains(strings.Fields(line)[0], "=") {
		line = "exec " + line
	}
	return []string{"/bin/sh", "-c", line}
}

// environ is this process's environment with the launch's own; vLLM's prefix cache can only be reset
// in its development mode.
func (l *Launch) environ() []string {
	env := append(os.Environ(), "VLLM_SERVER_DEV_MODE=1")
	for _, k := range slices.Sorted(maps.Keys(l.Env)) {
		env = append(env, k+"="+l.Env[k])
	}
	return env
}

// freePort is a port nothing listens on now.
func freePort() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	return strconv.Itoa(port), ln.Close()
}

// get asks once, and returns the answer of a server that says yes.
func get(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", url, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", url, err)
	}
	defer func() { _ = resp.Body.Close() }() // only read from
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", url, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered HTTP %d", url, resp.StatusCode)
	}
	return body, nil
}

func answers(ctx context.Context, url string) bool {
	_, err := get(ctx, url)
	return err == nil
}

// listsModels reports whether the server names a model; one that wants a key for its list is taken
// at its word.
func listsModels(ctx context.Context, url string) bool {
	body, err := get(ctx, url)
	if err != nil {
		return strings.Contains(err.Error(), "HTTP 401")
	}
	var list struct {
		Data []json.RawMessage `json:"data"`
	}
	return json.Unmarshal(body, &list) == nil && len(list.Data) > 0
}
