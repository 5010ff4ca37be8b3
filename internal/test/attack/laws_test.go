package attack

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"spate/internal/call"
	"spate/internal/call/recorder"
	"spate/internal/result"
	"spate/internal/safe/escape"
)

// The bounds of the laws. A process that goes over one of them has broken it; none is near what a healthy one takes.
const (
	maxWait   = 2 * time.Minute // to end by itself
	maxMemory = 512 << 10       // KiB resident at most
	maxSpace  = 8 << 20         // KiB of addresses: keeps the machine alive when maxMemory is broken
)

// planted is the key that every process has in its environment and that nothing may show.
const planted = "sk-attack-7f3a9c1e5b8d2046a1c3"

// long says whether this is the long form.
func long() bool { return os.Getenv("SPATE_ATTACK") == "long" }

// seed is where all choices of this run come from.
func seed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("SPATE_ATTACK_SEED")
	if text == "" {
		return 1
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("SPATE_ATTACK_SEED is %q: want a number", text)
	}
	return n
}

// draws are the choices of one case: the same for the same seed, whatever runs beside it.
func draws(t *testing.T, i int) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(seed(t), uint64(i)))
}

// size is how many cases there are, by form.
func size(short, whole int) int {
	if long() {
		return whole
	}
	return short
}

// atOnce runs n cases, as many at a time as keep a small machine busy; SPATE_ATTACK_CASE=n runs the n-th alone.
func atOnce(n int, each func(i int)) {
	const workers = 4
	if only, err := strconv.Atoi(os.Getenv("SPATE_ATTACK_CASE")); err == nil {
		each(only)
		return
	}
	var wg sync.WaitGroup
	var next atomic.Int64
	for range workers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				each(i)
			}
		})
	}
	wg.Wait()
}

var build struct {
	once      sync.Once
	dir, path string
	err       error
}

// program builds spate as it is shipped, once.
func program(t *testing.T) string {
	t.Helper()
	build.once.Do(func() {
		if build.dir, build.err = os.MkdirTemp("", "spate-attack-"); build.err != nil {
			return
		}
		build.path = filepath.Join(build.dir, "spate")
		if out, err := exec.Command("go", "build", "-ldflags", "-s -w", "-o", build.path, "spate/cmd/spate").CombinedOutput(); err != nil {
			build.err = fmt.Errorf("build spate: %w\n%s", err, out)
		}
	})
	if build.err != nil {
		t.Fatal(build.err)
	}
	return build.path
}

func TestMain(m *testing.M) {
	code := m.Run()
	if build.dir != "" {
		_ = os.RemoveAll(build.dir)
	}
	os.Exit(code)
}

// process is one spate that is attacked.
type process struct {
	cmd         *exec.Cmd
	out, stderr bytes.Buffer
	dir         string // its home and working folder
}

// launch starts spate in dir; limits are further words of ulimit.
func launch(t *testing.T, dir, limits string, args ...string) (*process, error) {
	t.Helper()
	script := fmt.Sprintf("ulimit -c 0; ulimit -v %d; %s exec \"$0\" \"$@\"", maxSpace, limits)
	p := &process{cmd: exec.Command("/bin/sh", append([]string{"-c", script, program(t)}, args...)...), dir: dir}
	p.cmd.Dir = dir
	p.cmd.Env = []string{
		"HOME=" + dir, "TMPDIR=" + dir, "PATH=" + os.Getenv("PATH"), "SPATE_STORE=" + filepath.Join(dir, "store"),
		"OPENAI_API_KEY=" + planted, "ANTHROPIC_API_KEY=" + planted, "HF_TOKEN=" + planted,
	}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.stderr
	return p, p.cmd.Start()
}

// wait takes the process's end and holds the laws of every process: it ends by itself, does not panic, stays below a
// bound of memory, says why when it fails, and shows neither secrets nor foreign control characters.
func (p *process) wait() (code int, err error) {
	timer := time.AfterFunc(maxWait, func() { _ = p.cmd.Process.Signal(syscall.SIGQUIT) })
	killer := time.AfterFunc(maxWait+10*time.Second, func() { _ = p.cmd.Process.Kill() })
	err = p.cmd.Wait()
	hung := !timer.Stop()
	killer.Stop()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	code = p.cmd.ProcessState.ExitCode()
	if hung {
		return code, fmt.Errorf("did not end within %v:\n%s", maxWait, tail(p.stderr.String()))
	}
	return code, errors.Join(p.crashed(code), p.silent())
}

// crashed reports a panic, too much memory, or a failure without a word.
func (p *process) crashed(code int) error {
	said := p.stderr.String()
	for _, trouble := range []string{"panic:", "fatal error:", "goroutine 1 ["} {
		if strings.Contains(said, trouble) {
			return fmt.Errorf("%s\n%s", trouble, tail(said))
		}
	}
	if used := p.cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss; used > maxMemory {
		return fmt.Errorf("took %d KiB of memory, more than %d", used, maxMemory)
	}
	if code > 0 && strings.TrimSpace(said) == "" {
		return fmt.Errorf("exit code %d without a word", code)
	}
	return nil
}

// silent holds that nothing is shown that must not be.
func (p *process) silent() error {
	for name, text := range map[string]string{"standard output": p.out.String(), "standard error": p.stderr.String()} {
		if before, after, shown := strings.Cut(text, planted); shown {
			return fmt.Errorf("the key is on %s: %q KEY %q", name, tail(before), after[:min(len(after), 60)])
		}
		if !utf8.ValidString(text) || escape.Terminal(text) != text {
			return fmt.Errorf("%s has control characters: %q", name, around(text))
		}
	}
	return filepath.WalkDir(p.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if strings.Contains(path, planted) {
			return fmt.Errorf("the key is the name of a file: %s", path)
		}
		data, err := os.ReadFile(path)
		if err == nil && bytes.Contains(data, []byte(planted)) {
			err = fmt.Errorf("the key is in %s", d.Name())
		}
		return err
	})
}

// around is the part of a text where its first foreign character is.
func around(text string) string {
	safe := escape.Terminal(text)
	i := 0
	for i < len(text) && i < len(safe) && text[i] == safe[i] {
		i++
	}
	return text[max(0, i-60):min(len(text), i+20)]
}

func tail(s string) string { return s[max(0, len(s)-2000):] }

// spate runs one command and holds the laws of every process.
func spate(t *testing.T, dir string, args ...string) (code int, err error) {
	t.Helper()
	p, err := launch(t, dir, "", args...)
	if err != nil {
		return 0, err
	}
	return p.wait()
}

// accounts holds the laws of a run that could write its end: every due request has one fate, the records on disk amount
// to what the result says, and they are no fewer than the requests the server has seen.
func accounts(folder string, seen int) error {
	run, err := result.Open(folder)
	if err != nil {
		return err
	}
	recs, damage, err := recorder.Read(filepath.Join(folder, result.RecordsFile))
	if err != nil || damage.Any() {
		return fmt.Errorf("read records: %w, %v", err, damage)
	}
	if !run.Tally.Balanced() {
		return fmt.Errorf("%+v: due requests without a fate", run.Tally)
	}
	var disk call.Tally
	fates := map[int]int{}
	for i := range recs {
		if r := &recs[i]; r.Phase == call.Measure {
			disk.Add(r)
			if !r.Retried {
				fates[r.ID]++
			}
		}
	}
	disk.Due = len(fates)
	if disk != run.Tally {
		return fmt.Errorf("records on disk amount to %+v, the result says %+v", disk, run.Tally)
	}
	for id, n := range fates {
		if n != 1 {
			return fmt.Errorf("request %d has %d fates", id, n)
		}
	}
	if disk.Attempts < seen {
		return fmt.Errorf("the server has seen %d requests, %d are on disk", seen, disk.Attempts)
	}
	return nil
}

// renders holds that what reads run folders can read this one.
func renders(t *testing.T, dir, folder string) error {
	t.Helper()
	p, err := launch(t, dir, "", "report", folder)
	if err != nil {
		return err
	}
	code, err := p.wait()
	if err == nil && (code != 0 || p.out.Len() == 0) {
		err = fmt.Errorf("exit code %d, %d bytes\n%s", code, p.out.Len(), tail(p.stderr.String()))
	}
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}
