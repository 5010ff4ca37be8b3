package e2e

// This file has what the tests share: the program built once, commands as processes, and what they leave behind.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"spate/internal/call"
	"spate/internal/call/recorder"
	"spate/internal/result"
	"spate/internal/sim/serve"
)

// program builds the command as it is shipped, once: without the race detector, under which
// internal/bench runs the same pipeline.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "spate-e2e-")
	if err != nil {
		return "", err
	}
	programDir.Store(dir)
	path := filepath.Join(dir, "spate")
	if out, err := exec.Command("go", "build", "-o", path, "spate/cmd/spate").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build spate: %w\n%s", err, out)
	}
	return path, nil
})

var programDir atomic.Value // string

func removeProgram() error {
	dir, ok := programDir.Load().(string)
	if !ok {
		return nil
	}
	return os.RemoveAll(dir)
}

// slow leaves out of make test-short what takes more than about a second of a quiet machine, and says why it does.
func slow(t *testing.T, why string) {
	t.Helper()
	if testing.Short() {
		t.Skip("short: " + why)
	}
}

// sim starts a server in this process; the command under test is another one.
func sim(t *testing.T, cfg serve.Config) *serve.Server {
	t.Helper()
	if _, err := program(); err != nil { // before the server's clock starts
		t.Fatal(err)
	}
	srv, err := serve.Start(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Stop(); err != nil {
			t.Errorf("stop the server: %v", err)
		}
	})
	return srv
}

// quick is a server that answers almost at once.
func quick(t *testing.T) *serve.Server {
	t.Helper()
	return sim(t, serve.Config{Truth: true, Timetable: serve.TimetableConfig{TTFT: time.Millisecond, ITL: time.Millisecond}})
}

// command is one run of spate as a process.
type command struct {
	t        *testing.T
	cmd      *exec.Cmd
	out, err said
	folder   string // the run folder it was told to write, if any
}

// said is what a running command has written on standard error so far.
type said struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(b)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// ended is what a command left behind.
type ended struct {
	t           *testing.T
	code        int
	out, stderr string
	folder      string
	dir         string
}

// prepare makes a command with its own home and working folder; env are further NAME=VALUE.
func prepare(t *testing.T, env []string, args ...string) *command {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c := &command{t: t, cmd: exec.Command(path, args...)}
	c.cmd.Dir = dir
	c.cmd.Env = append([]string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir, "SPATE_STORE=" + t.TempDir()}, env...)
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.err
	return c
}

// benchCmd prepares `spate bench` with a run folder of its own, and all findings below the block.
func benchCmd(t *testing.T, args ...string) *command {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "run")
	c := prepare(t, nil, append([]string{"bench", "serve", "--output-dir", folder, "--details"}, args...)...)
	c.folder = folder
	return c
}

func (c *command) start() {
	c.t.Helper()
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = c.cmd.Process.Kill() }) // usually gone already
}

func (c *command) signal(sig syscall.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(sig); err != nil {
		c.t.Errorf("send %v: %v", sig, err)
	}
}

// wait takes the end of a started command. A command that hangs is killed with its stacks shown.
func (c *command) wait() ended {
	c.t.Helper()
	timer := time.AfterFunc(3*time.Minute, func() { _ = c.cmd.Process.Signal(syscall.SIGQUIT) })
	err := c.cmd.Wait()
	hung := !timer.Stop()
	e := ended{t: c.t, out: c.out.String(), stderr: c.err.String(), folder: c.folder, dir: c.cmd.Dir}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		e.code = exit.ExitCode()
	case err != nil:
		c.t.Fatal(err)
	}
	if hung {
		c.t.Fatalf("spate %s hung:\n%s", strings.Join(c.cmd.Args[1:], " "), e.stderr)
	}
	for _, trouble := range []string{"panic:", "fatal error:"} {
		if strings.Contains(e.stderr, trouble) {
			c.t.Fatalf("%s in spate:\n%s", trouble, e.stderr)
		}
	}
	return e
}

func (c *command) run() ended {
	c.t.Helper()
	c.start()
	return c.wait()
}

// want runs a command and checks its exit code.
func (c *command) want(code int) ended {
	c.t.Helper()
	e := c.run()
	if e.code != code {
		c.t.Fatalf("spate %s: exit code %d, want %d\nstdout:\n%s\nstderr:\n%s", strings.Join(c.cmd.Args[1:], " "), e.code, code, e.out, e.stderr)
	}
	return e
}

// result opens the run folder.
func (e ended) result() *result.Run {
	e.t.Helper()
	run, err := result.Open(e.folder)
	if err != nil {
		e.t.Fatal(err)
	}
	return run
}

// records are those on disk, in the order requests ended.
func (e ended) records() []call.Record {
	e.t.Helper()
	recs, damage, err := recorder.Read(filepath.Join(e.folder, result.RecordsFile))
	if err != nil || damage.Any() {
		e.t.Fatalf("read records: %v, %v", err, damage)
	}
	return recs
}

// measured are the records that count, by request and attempt.
func (e ended) measured() []call.Record {
	e.t.Helper()
	recs := slices.DeleteFunc(e.records(), func(r call.Record) bool { return r.Phase != call.Measure })
	slices.SortFunc(recs, func(a, b call.Record) int {
		if a.ID != b.ID {
			return a.ID - b.ID
		}
		return a.Attempt - b.Attempt
	})
	return recs
}

// balanced checks that every due request has exactly one fate and every attempt a record on disk.
func (e ended) balanced() *result.Run {
	e.t.Helper()
	run := e.result()
	if !run.Tally.Balanced() {
		e.t.Errorf("%+v: due requests without a fate", run.Tally)
	}
	var disk call.Tally
	fates := map[int]int{}
	for _, r := range e.measured() {
		disk.Add(&r)
		if !r.Retried {
			fates[r.ID]++
		}
	}
	disk.Due = len(fates)
	if disk != run.Tally {
		e.t.Errorf("records on disk amount to %+v, the result says %+v", disk, run.Tally)
	}
	for id, n := range fates {
		if n != 1 {
			e.t.Errorf("request %d has %d fates", id, n)
		}
	}
	if run.Records.Missing != 0 || run.Records.Written != run.Records.Accepted {
		e.t.Errorf("record log: %+v", run.Records)
	}
	return run
}

// recovered are the records a killed run left; its last line may be cut off.
func recovered(t *testing.T, folder string) []call.Record {
	t.Helper()
	recs, damage, err := recorder.Read(filepath.Join(folder, result.RecordsFile))
	if err != nil || damage.Bad > 0 {
		t.Fatalf("read records: %v, %v", err, damage)
	}
	return recs
}

// await waits for a condition, however slow the machine is.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never came about: %s", what)
		}
	}
}

// idle waits until the server has nothing under way: the end of an answer may be seen a moment before
// the server has noted it.
func idle(t *testing.T, srv *serve.Server) {
	t.Helper()
	await(t, "the server is idle", func() bool { return srv.Stats().Active == 0 })
}

func has(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s lacks %q:\n%.1500s", what, p, text)
		}
	}
}
