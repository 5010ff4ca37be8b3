// Package launch starts servers to be measured, watches them and ends them with all they started. A guard,
// which is this program as a second process, is the parent of the server: it ends the whole tree when spate
// is done with it, and when spate dies, however it dies. What a server prints goes to a file and is read
// for what matters (facts.go); a start that fails is sorted by its reason (classify.go). tune, sweeps and
// `spate launch` use it. Read this file first, then guard_linux.go.
package launch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"spate/internal/safe/secret"
)

// Spec is a server to start.
type Spec struct {
	Command []string      // program and arguments; {port} stands for the port
	Env     []string      // NAME=value, besides this process's own
	URL     string        // where it will answer; {port} likewise; http://127.0.0.1:{port} when empty
	Port    int           // 0 picks a free one where {port} is used
	Log     string        // file for what it prints
	Ready   time.Duration // how long it may take to answer; 10 minutes when 0
	Grace   time.Duration // how long it may take to end when asked to; 30 s when 0
	Paths   []string      // what must answer before it is ready; /health and /v1/models when nil
	Guard   []string      // command that runs Guard in a process of its own; none: no guard

	// Cleanup is run when the server has ended, however it ended: it ends what runs elsewhere, such as a container
	// or a pod. {port} stands for the port.
	Cleanup  []string
	GPU      GPUs
	Patience time.Duration // how long port and GPU may take to become free before the start
}

// Server is a server that was started.
type Server struct {
	URL     string
	Command []string // as started, port filled in
	Log     string
	Took    time.Duration // to be ready

	Protection string // what ends all it started, should spate be killed

	Unchecked string // why it was not checked that the GPUs' memory is free; empty: it was

	spec Spec
	gpus map[string]int64 // bytes in use before the start, by GPU

	cleanup []string // with the port filled in
	pid     int      // of the guard, or of the server where there is none
	tell    io.WriteCloser
	group   bool
	secrets []string // that its log may quote
	mark    string   // in the environment of all it starts
	cgroup  string   // it lives in; empty: none
	left    error    // what of it could not be ended, known when exited is closed
	before  int64    // bytes in the log before this start

	exited chan struct{} // closed when the whole tree is gone
	mu     sync.Mutex
	main   int    // pid of the server's first process
	ended  string // how it ended; empty while it runs
	first  chan struct{}
	once   sync.Once
}

// Start starts a server and returns when it answers. A start that fails is a *Failure, and nothing of it is
// left running. A *BusyError says that the GPU is not free, a *LeftError that port or GPU are not after the failure.
func Start(ctx context.Context, spec Spec) (*Server, error) {
	s, err := prepare(spec)
	if err != nil {
		return nil, err
	}
	if err := patiently(ctx, s.spec.Patience, func() error { return portFree(ctx, s.URL) }); err != nil {
		return nil, &Failure{Kind: Port, Line: err.Error(), Command: s.Line(), Log: s.Log}
	}
	if err := s.gpuBefore(ctx); err != nil {
		return nil, err
	}
	began := time.Now()
	if err := s.run(); err != nil {
		return nil, &Failure{Kind: NotFound, Line: err.Error(), Command: s.Line(), Log: s.Log}
	}
	if err := s.ready(ctx); err != nil {
		f := s.failure(err)
		if left := s.Stop(context.WithoutCancel(ctx)); left != nil {
			return nil, &LeftError{f, left}
		}
		return nil, f
	}
	s.Took = time.Since(began)
	return s, nil
}

// prepare fills in the port and the defaults.
func prepare(spec Spec) (*Server, error) {
	if len(spec.Command) == 0 {
		return nil, errors.New("no command to start")
	}
	if spec.Ready == 0 {
		spec.Ready = 10 * time.Minute
	}
	if spec.Grace == 0 {
		spec.Grace = 30 * time.Second
	}
	if spec.Paths == nil {
		spec.Paths = []string{"/health", "/v1/models"}
	}
	if spec.URL == "" {
		spec.URL = "http://127.0.0.1:{port}"
	}
	if spec.Port == 0 && (strings.Contains(spec.URL, "{port}") || slices.ContainsFunc(spec.Command, hasPort)) {
		port, err := FreePort()
		if err != nil {
			return nil, err
		}
		spec.Port = port
		spec.Patience = max(spec.Patience, time.Second) // a process that is just being started may hold it for a moment
	}
	fill := func(text string) string { return strings.ReplaceAll(text, "{port}", strconv.Itoa(spec.Port)) }
	s := &Server{spec: spec, URL: strings.TrimRight(fill(spec.URL), "/"), Log: spec.Log, exited: make(chan struct{}), first: make(chan struct{})}
	for _, word := range spec.Command {
		s.Command = append(s.Command, fill(word))
	}
	for _, word := range spec.Cleanup {
		s.cleanup = append(s.cleanup, fill(word))
	}
	return s, nil
}

// LeftError is a start that failed and left its port or its GPU busy: what comes next would fail for that alone.
type LeftError struct {
	Failure *Failure
	Left    error
}

// Error says both.
func (e *LeftError) Error() string { return e.Left.Error() + "; before that, " + e.Failure.Error() }

// Unwrap gives what is left busy: the failure alone is not what happened.
func (e *LeftError) Unwrap() error { return e.Left }

// Line is the command as it may be shown and kept: secrets in it are references.
func (s *Server) Line() string { return Words(secret.Refer(s.Command)) }

// expanded are the command and the environment with ${NAME} filled in from the environment. A shell does that itself.
func (s *Server) expanded() (words, env []string, err error) {
	fill := func(list []string) []string {
		out := make([]string, len(list))
		for i, w := range list {
			var missing error
			out[i], missing = secret.Expand(w, os.LookupEnv)
			err = errors.Join(err, missing)
		}
		return out
	}
	env = fill(s.spec.Env)
	if !isShell(s.cleanup) {
		s.cleanup = fill(s.cleanup)
	}
	if words = slices.Clone(s.Command); !isShell(words) {
		words = fill(words)
	}
	return words, env, err
}

// isShell reports whether a command is a line for a shell.
func isShell(command []string) bool {
	return len(command) > 2 && slices.Contains([]string{"sh", "bash", "dash", "zsh"}, filepath.Base(command[0])) && strings.HasPrefix(command[1], "-")
}

func hasPort(word string) bool { return strings.Contains(word, "{port}") }

// run starts the guard with the server below it.
func (s *Server) run() error {
	if err := os.MkdirAll(filepath.Dir(s.Log), 0o700); err != nil {
		return fmt.Errorf("make folder for the server's log: %w", err)
	}
	out, err := openLog(s.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY)
	if err != nil {
		return fmt.Errorf("open the server's log: %w", err)
	}
	defer func() { _ = out.Close() }() // the child has its own descriptor
	if info, err := out.Stat(); err == nil {
		s.before = info.Size()
	}
	words, env, err := s.expanded()
	if err != nil {
		return err
	}
	if words[0], err = exec.LookPath(words[0]); err != nil {
		return err
	}
	s.spec.Env, s.secrets = env, secret.Values(slices.Concat(s.cleanup, words), append(os.Environ(), env...))
	if len(s.spec.Guard) > 0 && guarded {
		return s.runGuarded(words, out)
	}
	cmd := exec.Command(words[0], words[1:]...) //nolint:gosec // the user's own command
	cmd.Stdout, cmd.Stderr, cmd.Env = out, out, append(os.Environ(), s.spec.Env...)
	alone(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	s.pid, s.main, s.group = cmd.Process.Pid, cmd.Process.Pid, true
	s.Protection = byGroup
	go func() {
		s.over(endOf(cmd.Wait()))
		s.cleanUp()
		mask(s.Log, s.secrets)
		close(s.exited)
	}()
	return nil
}

// cleanUp is what a guard would do at the end. What is said goes to the log, not among the words of this program.
func (s *Server) cleanUp() {
	log, err := openLog(s.Log, os.O_APPEND|os.O_WRONLY)
	if err != nil { // it was taken away: clean up all the same
		cleanUp(s.cleanup, s.spec.Env, io.Discard)
		return
	}
	cleanUp(s.cleanup, s.spec.Env, log)
	_ = log.Close() // whatever was said is there
}

// runGuarded starts the server under a guard. The guard hears from us by a pipe, whose end tells it that we
// are gone, and tells by another what becomes of the server.
func (s *Server) runGuarded(words []string, out *os.File) error {
	hears, tell, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	news, tells, err := os.Pipe()
	if err != nil {
		return errors.Join(fmt.Errorf("make a pipe: %w", err), hears.Close(), tell.Close())
	}
	args := slices.Concat(s.spec.Guard[1:], s.protect(), guardArgs(s.cleanup), words)
	cmd := exec.Command(s.spec.Guard[0], args...) //nolint:gosec // this program itself
	cmd.Stdout, cmd.Stderr, cmd.Env = out, out, append(os.Environ(), s.spec.Env...)
	cmd.ExtraFiles = []*os.File{hears, tells}
	alone(cmd)
	err = cmd.Start()
	err = errors.Join(err, hears.Close(), tells.Close())
	if err != nil {
		return errors.Join(err, tell.Close(), news.Close())
	}
	s.pid, s.tell = cmd.Process.Pid, tell
	lines := bufio.NewScanner(news)
	if !lines.Scan() || !s.begun(lines.Text()) {
		_ = cmd.Wait() // it told why, or died
		return errors.Join(errors.New(strings.TrimPrefix(lines.Text(), "error ")), tell.Close(), news.Close())
	}
	go func() {
		for lines.Scan() {
			if how, ok := strings.CutPrefix(lines.Text(), "ended "); ok {
				s.over(how)
			}
		}
		_ = news.Close() // only read from
		err := cmd.Wait()
		if s.how() == "" { // the guard itself was killed: what it guarded is ours to end
			s.over("its guard ended: " + endOf(err))
			endGroup(s.main, true)
		}
		s.left = s.remains()
		mask(s.Log, s.secrets)
		close(s.exited)
	}()
	return nil
}

// The protections, in words.
const (
	byGroup  = "its process group alone: what leaves it is not ended"
	byMark   = "two guard processes, which end all it started, and a mark in its environment"
	byCgroup = "a cgroup of its own and two guard processes, which end all it started"

	outside = "outside" // a guard's word that the kernel did not let the server into its cgroup
)

// begun reads the guard's first line.
func (s *Server) begun(line string) bool {
	words := strings.Fields(line)
	if len(words) < 2 || words[0] != "pid" {
		return false
	}
	if len(words) > 2 && words[2] == outside {
		s.Protection = byMark
	}
	var err error
	s.main, err = strconv.Atoi(words[1])
	return err == nil
}

// over notes how the server's first process ended.
func (s *Server) over(how string) {
	s.mu.Lock()
	s.ended = how
	s.mu.Unlock()
	s.once.Do(func() { close(s.first) })
}

func (s *Server) how() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// Ended is closed when the server's first process has ended, of itself or by Stop.
func (s *Server) Ended() <-chan struct{} { return s.first }

// PID is the server's first process.
func (s *Server) PID() int { return s.main }

// Died is the failure of a server that ended by itself; nil while it runs.
func (s *Server) Died() *Failure {
	if how := s.how(); how != "" {
		f := s.failure(errors.New(how))
		if f.Kind == Crash || f.Kind == Memory {
			f.UnderLoad = s.Took > 0
		}
		return f
	}
	return nil
}

// Stop ends the server and all it started: by asking, then by force. It returns when nothing of it runs and
// its port and the memory of its GPUs are free; the error says what is not.
func (s *Server) Stop(ctx context.Context) error {
	s.signal('t')
	select {
	case <-s.exited:
	case <-time.After(s.spec.Grace):
		s.signal('k')
		<-s.exited
	case <-ctx.Done():
		s.signal('k')
		<-s.exited
	}
	if s.tell != nil {
		_ = s.tell.Close() // the guard is gone
	}
	if s.group {
		endGroup(s.main, true) // what it started may outlive it
	}
	if err := errors.Join(s.left, released(ctx, s.URL)); err != nil {
		return err
	}
	return s.gpuAfter(ctx)
}

// signal asks the server to end, or ends it.
func (s *Server) signal(what byte) {
	if s.group {
		endGroup(s.main, what == 'k')
		return
	}
	_, _ = s.tell.Write([]byte{what}) // a guard that is gone has ended the server
}

// failure sorts what went wrong by what the server printed.
func (s *Server) failure(err error) *Failure {
	text, readErr := os.ReadFile(s.Log)
	if readErr != nil {
		text = nil
	}
	f := Classify(string(text[min(s.before, int64(len(text))):])) // an earlier start's words say nothing of this one
	if f.Kind == Unknown {
		f.Kind = Crash
		if errors.Is(err, errNotReady) {
			f.Kind = Timeout
		}
	}
	if f.Line == "" {
		f.Line = err.Error()
	}
	f.How, f.Command, f.Log = err.Error(), s.Line(), s.Log
	f.Line = secret.Scrub(f.Line, s.secrets)
	return &f
}

// endOf is how a process ended, in words.
func endOf(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// Line is the command as a shell takes it, without its secrets.
func (s *Spec) Line() string { return Words(secret.Refer(s.Command)) }

// Words is a command as a shell takes it. References such as ${NAME} are left for it to fill in.
func Words(command []string) string {
	out := make([]string, len(command))
	for i, w := range command {
		name, value, ok := strings.Cut(w, "=")
		switch {
		case secret.Reference(w):
			out[i] = `"` + w + `"`
		case ok && secret.Reference(value) && !special(name):
			out[i] = name + `="` + value + `"`
		case w == "" || special(w):
			out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		default:
			out[i] = w
		}
	}
	return strings.Join(out, " ")
}

func special(word string) bool { return strings.ContainsAny(word, " \t\n\"'\\$`|&;<>()*?[]#~{}!") }
