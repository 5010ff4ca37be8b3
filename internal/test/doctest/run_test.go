//go:build unix

package doctest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"spate/internal/sim/serve"
)

// patience is how long one command may take on a slow machine.
const patience = 5 * time.Minute

// home is what all documents share: the program, stand-ins for servers, and files that commands take.
type home struct{ bin, files, server string }

// TestCommandsOfDocuments runs them all. Those of one document run one after the other in one folder, as a reader
// would type them.
func TestCommandsOfDocuments(t *testing.T) {
	if testing.Short() {
		t.Skip("short: runs every command of every document")
	}
	h := newHome(t)
	var all []command
	t.Run("documents", func(t *testing.T) {
		for _, doc := range documents(t) {
			list := commands(t, doc)
			all = append(all, list...)
			if len(list) == 0 {
				continue
			}
			t.Run(doc, func(t *testing.T) {
				t.Parallel()
				(&reader{home: h, dir: h.folder(t)}).follow(t, list)
			})
		}
	})
	if len(all) < 80 {
		t.Errorf("found only %d commands: the pattern is wrong", len(all))
	}
	everyRowIsUsed(t, all)
}

// everyRowIsUsed keeps the table true: a row for commands that no document has goes.
func everyRowIsUsed(t *testing.T, all []command) {
	t.Helper()
	used := func(match, in string) bool {
		return slices.ContainsFunc(all, func(c command) bool {
			return regexp.MustCompile(match).MatchString(c.text) && regexp.MustCompile(in).MatchString(c.text)
		})
	}
	for _, w := range ways {
		if !used(w.match, "") || w.why == "" {
			t.Errorf("no command is like %s, or there is no reason", w.match)
		}
	}
	for _, e := range slices.Concat(edits, settings) {
		if !used(e.match, e.in) || e.why == "" {
			t.Errorf("no command has %s (%s), or there is no reason", e.match, e.in)
		}
	}
}

// reader types the commands of one document.
type reader struct {
	*home
	dir     string
	exports string   // of the lines before
	served  string   // address of the server started last
	port    int      // free, for the command at hand
	servers []*typed // started and not yet ended
}

// typed is a command that was started.
type typed struct {
	c     command
	cmd   *exec.Cmd
	began time.Time
	done  chan struct{}
	err   error
	out   *os.File
}

func (r *reader) follow(t *testing.T, list []command) {
	for _, c := range list {
		if strings.HasPrefix(c.text, "export ") {
			r.exports += c.text + "\n"
			continue
		}
		w := wayOf(c.text)
		switch w.how {
		case elsewhere:
		case parsed:
			text, _, _ := strings.Cut(c.text, " #") // what follows is no argument
			text = strings.TrimSuffix(strings.TrimSpace(text), "&")
			before, after, found := strings.Cut(text, " -- ")
			if found {
				after = " -- " + after
			}
			r.end(t, r.start(t, c, before+" --help"+after), w.codes)
		case server:
			s := r.start(t, c, "exec "+r.edited(t, c.text)) // the shell must not stand between it and an interrupt
			r.ready(t, s)
			r.servers = append(r.servers, s)
		case whole:
			r.end(t, r.start(t, c, r.edited(t, c.text)), w.codes)
		}
	}
	for _, s := range r.servers {
		if strings.HasPrefix(s.c.text, "spate worker ") { // a line of the document has drained it
			r.end(t, s, nil)
			continue
		}
		if err := syscall.Kill(-s.cmd.Process.Pid, syscall.SIGINT); err != nil {
			t.Errorf("%s:%d: interrupt: %v", s.c.doc, s.c.line, err)
		}
		r.end(t, s, []int{130})
	}
}

func wayOf(text string) way {
	for _, w := range ways {
		if regexp.MustCompile(w.match).MatchString(text) {
			return w
		}
	}
	return way{}
}

// edited is the command as it can run here.
func (r *reader) edited(t *testing.T, text string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.port = l.Addr().(*net.TCPAddr).Port
	_ = l.Close() // only asked for its port
	was := text
	for _, e := range edits {
		if regexp.MustCompile(e.in).MatchString(was) {
			text = regexp.MustCompile(e.match).ReplaceAllString(text, e.with)
		}
	}
	for _, e := range settings {
		if regexp.MustCompile(e.match).MatchString(was) {
			text += e.with
		}
	}
	_, own, _ := strings.Cut(r.server, "127.0.0.1:")
	return strings.NewReplacer("SERVER", r.server, "OWNPORT", own, "FREEPORT", fmt.Sprint(r.port), "SERVED", r.served).Replace(text)
}

// start starts a command in a shell, in a process group of its own.
func (r *reader) start(t *testing.T, c command, text string) *typed {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	s := &typed{c: c, began: time.Now(), cmd: exec.Command("sh", "-c", r.exports+text), done: make(chan struct{}), out: out}
	env := r.environ(r.dir)
	if strings.Contains(c.text, "--launch ") { // starts its own server
		env = slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, "SPATE_BASE_URL=") })
	}
	s.cmd.Dir, s.cmd.Env, s.cmd.Stdout, s.cmd.Stderr = r.dir, env, out, out
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		s.err = s.cmd.Wait()
		close(s.done)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) // usually gone already
		<-s.done
		_ = out.Close()
	})
	return s
}

// end waits for a command and looks at its exit code.
func (r *reader) end(t *testing.T, s *typed, codes []int) {
	t.Helper()
	select {
	case <-s.done:
	case <-time.After(patience):
		t.Errorf("%s:%d: still running after %v: %s\n%s", s.c.doc, s.c.line, patience, s.cmd.Args[2], s.said())
		return
	}
	t.Logf("%s:%d: %v: %s", s.c.doc, s.c.line, time.Since(s.began).Round(100*time.Millisecond), s.cmd.Args[2])
	code := 0
	if exit := (*exec.ExitError)(nil); errors.As(s.err, &exit) {
		code = exit.ExitCode()
	} else if s.err != nil {
		t.Errorf("%s:%d: %v", s.c.doc, s.c.line, s.err)
	}
	if code == 1 && strings.Contains(s.said(), "nothing could be measured: the last run is INVALID") {
		t.Logf("%s:%d: this machine is too busy to measure on, and spate says so", s.c.doc, s.c.line)
		return
	}
	if code != 0 && !slices.Contains(codes, code) {
		t.Errorf("%s:%d: exit code %d: %s\nrun as: %s\n%s", s.c.doc, s.c.line, code, s.c.text, s.cmd.Args[2], s.said())
	}
}

func (s *typed) said() string {
	text, _ := os.ReadFile(s.out.Name()) // for a message
	return string(text[max(0, len(text)-1500):])
}

// ready waits until a server can be used: it listens, or says that it is ready.
func (r *reader) ready(t *testing.T, s *typed) {
	t.Helper()
	address := fmt.Sprintf("127.0.0.1:%d", r.port)
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		select {
		case <-s.done:
			t.Errorf("%s:%d: ended: %s\n%s", s.c.doc, s.c.line, s.cmd.Args[2], s.said())
			return
		default:
		}
		if said := s.said(); strings.Contains(said, "ready at ") || strings.Contains(said, "waits for work at ") {
			return
		}
		if c, err := net.Dial("tcp", address); err == nil {
			_ = c.Close() // only knocked
			r.served = address
			return
		}
		if time.Now().After(end) {
			t.Errorf("%s:%d: never ready: %s\n%s", s.c.doc, s.c.line, s.cmd.Args[2], s.said())
			return
		}
	}
}

// newHome builds the program, starts the server and makes the files.
func newHome(t *testing.T) *home {
	t.Helper()
	h := &home{bin: t.TempDir(), files: t.TempDir()}
	if out, err := exec.Command("go", "build", "-o", filepath.Join(h.bin, "spate"), "spate/cmd/spate").CombinedOutput(); err != nil {
		t.Fatalf("build spate: %v\n%s", err, out)
	}
	srv, err := serve.Start(context.Background(), serve.Config{
		Models: []string{"spate-sim", "NAME", "Qwen/Qwen3-8B"}, Timetable: serve.TimetableConfig{TTFT: 5 * time.Millisecond, ITL: 200 * time.Microsecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Stop() }) // nothing depends on how it ends
	h.server = srv.URL()
	for name, text := range standIns {
		if err := os.WriteFile(filepath.Join(h.bin, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(abs(t, root), "examples"), filepath.Join(h.files, "examples")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-e", abs(t, "testdata/prepare.sh"), abs(t, root))
	cmd.Dir, cmd.Env = h.files, h.environ(h.files)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("prepare: %v\n%s", err, out)
	}
	return h
}

func abs(t *testing.T, path string) string {
	t.Helper()
	full, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return full
}

// environ is the environment of a command: the program and the stand-ins first on the path, and what to send where for
// commands that do not say it.
func (h *home) environ(dir string) []string {
	return []string{
		"PATH=" + h.bin + ":" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir, "SPATE_STORE=" + filepath.Join(dir, "store"),
		"SPATE_BASE_URL=" + h.server, "SPATE_NUM_PROMPTS=20", "HF_TOKEN=x", "VLLM_KEY=x",
	}
}

// folder is a copy of the files, for one document.
func (h *home) folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("cp", "-a", h.files+"/.", dir).CombinedOutput(); err != nil {
		t.Fatalf("copy the files: %v\n%s", err, out)
	}
	return dir
}

// TestDemoIsAsShown holds what README shows of the demo against what the demo prints: the lines of the block, and the
// titles and rows below it. Figures and what limited the run differ from machine to machine.
func TestDemoIsAsShown(t *testing.T) {
	if testing.Short() {
		t.Skip("short: runs the demo for a dozen seconds")
	}
	h := newHome(t)
	raw, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, shown, ok := strings.Cut(string(raw), "<!-- demo output -->\n```text\n")
	shown, _, closed := strings.Cut(shown, "```\n<!-- end of demo output -->")
	if !ok || !closed {
		t.Fatal("README.md does not show the demo")
	}
	cmd := exec.Command(filepath.Join(h.bin, "spate"), "demo", "--num-prompts", "50", "--request-rate", "100")
	cmd.Dir, cmd.Env = h.files, h.environ(h.files)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	_, printed, _ := strings.Cut(string(out), "============ Serving")
	if want, got := labels(shown), labels("============ Serving"+printed); !slices.Equal(want, got) {
		t.Errorf("README.md shows\n%s\nthe demo prints\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
}

// labels are the lines of an output up to their figures, without what depends on the machine.
func labels(text string) []string {
	figures := regexp.MustCompile(` {3,}.*$|:? +\d.*$`)
	block, below, _ := strings.Cut(text, strings.Repeat("=", 50)+"\n")
	var all []string
	for line := range strings.SplitSeq(block, "\n") {
		all = append(all, figures.ReplaceAllString(line, ""))
	}
	for _, title := range []string{"\nspate: ", "\nLatency (ms) ", "\n  TTFT ", "\n  TPOT ", "\n  ITL ", "\n  E2EL ", "\n  +/-: ", "\n  within --goodput ", "\nFiles\n", "\n  all findings and 1 note: spate report "} {
		if strings.Contains(below, title) {
			all = append(all, title)
		}
	}
	return all
}
