package launch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"spate/internal/safe/secret"
)

// guarded says whether this platform has guards.
const guarded = true

// noFollow refuses a link in the place of a file, and does not wait for the other end of a pipe.
const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// alone puts a command into a process group of its own, so that a Ctrl-C meant for spate is not for it.
func alone(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// endGroup asks a process group to end, or ends it.
func endGroup(pid int, force bool) {
	sig := syscall.SIGTERM
	if force {
		sig = syscall.SIGKILL
	}
	_ = syscall.Kill(-pid, sig) // it may be gone
}

// Guard is the life of a guard process: it starts the command, becomes the parent of whatever of its tree
// loses its own, and ends the whole tree when told to or when the pipe on descriptor 3 ends. It tells on
// descriptor 4 what becomes of the command, and cleans up at the end. It returns the exit code.
func Guard(args []string) int {
	if len(args) > 0 && args[0] == watchFlag {
		return watch(args[1:])
	}
	mark, cgroup, watched, args := protections(args)
	cleanup, command := guardWords(args)
	runtime.LockOSThread() // the signal at a parent's death is the thread's
	hears, tells := os.NewFile(3, "hears"), os.NewFile(4, "tells")
	if hears == nil || tells == nil || len(command) == 0 {
		return 2
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		_, _ = fmt.Fprintf(tells, "error become the parent of orphans: %v\n", err)
		return 1
	}
	syscall.CloseOnExec(3)
	syscall.CloseOnExec(4)
	p, inside, err := begin(command, mark, cgroup)
	if err != nil {
		_, _ = fmt.Fprintf(tells, "error %v\n", err)
		return 1
	}
	where := ""
	if cgroup != "" && !inside {
		where = outside
	}
	_, _ = fmt.Fprintf(tells, "pid %d %s\n", p.Pid, where)
	g := &guard{cgroup: cgroup}
	go g.obey(hears)
	if watched {
		syscall.CloseOnExec(5)
		go func() {
			_, _ = os.NewFile(5, "watcher").Read(make([]byte, 1)) // its end: the watcher was killed
			g.alone.Store(true)
			g.orphaned()
		}()
	}
	code := reap(p.Pid, tells, &g.alone)
	endMarked("", cgroup, 0) // nobody else may be left to remove it
	g.mu.Lock()
	g.over = true // what cleans up is not to be ended
	g.mu.Unlock()
	cleanUp(cleanup, nil, os.Stdout)
	if log, err := os.Readlink("/proc/self/fd/1"); err == nil {
		mask(log, secret.Values(slices.Concat(cleanup, command), os.Environ()))
	}
	return code
}

// begin starts the command, in the cgroup where the kernel lets it: a server is not refused for want of one.
func begin(command []string, mark, cgroup string) (p *os.Process, inside bool, err error) {
	attr := &os.ProcAttr{Files: []*os.File{nil, os.Stdout, os.Stderr}, Env: slices.Concat(os.Environ(), []string{mark})}
	plain := syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if dir, err := os.Open(cgroup); cgroup != "" && err == nil {
		defer func() { _ = dir.Close() }() // only a place
		sys := plain
		sys.UseCgroupFD, sys.CgroupFD = true, int(dir.Fd())
		attr.Sys = &sys
		if p, err := os.StartProcess(command[0], command, attr); err == nil { //nolint:gosec // the user's own command
			return p, true, nil
		}
	}
	attr.Sys = &plain
	p, err = os.StartProcess(command[0], command, attr) //nolint:gosec // the user's own command
	return p, false, err
}

// guard ends the tree below this process.
type guard struct {
	mu     sync.Mutex
	over   bool // nothing of the tree is left
	cgroup string
	alone  atomic.Bool // the watcher was killed
}

// orphanGrace is how long a server may take to end after spate was killed: long enough for a client of a
// container or of another machine to hand the request on.
const orphanGrace = 3 * time.Second

// obey ends the tree when told to; the end of the pipe is an order too.
func (g *guard) obey(hears io.Reader) {
	var word [1]byte
	for {
		n, err := hears.Read(word[:])
		switch {
		case n == 1 && word[0] == 't':
			g.signal(syscall.SIGTERM)
		case n == 1:
			g.kill()
		case err != nil:
			g.orphaned()
			return
		}
	}
}

// orphaned ends all when nobody is left to ask for it.
func (g *guard) orphaned() {
	g.signal(syscall.SIGTERM) // once: to many a second one means that it is urgent
	for end := time.Now().Add(orphanGrace); g.signal(0) && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	g.kill()
}

// kill ends all; what forks while it is killed is killed the next time. What cannot be killed for killFor is left: a
// process that waits for a broken disk or driver does not end at all, and spate says so.
func (g *guard) kill() {
	for end := time.Now().Add(killFor); !g.done(); {
		g.signal(syscall.SIGKILL)
		endCgroup(g.cgroup)
		g.chase()
		if time.Now().After(end) {
			os.Exit(1) //nolint:forbidigo // the guard is a process of its own, and what it waits for will not end
		}
	}
}

// chase kills this process's children for a moment. It holds the lock: what cleans up starts after it and is not killed.
func (g *guard) chase() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.over {
		chase(os.Getpid())
	}
}

// done reports whether nothing of the tree is left. What forks all the time may be missing from a list of processes:
// only a guard without any child is.
func (g *guard) done() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.over
}

// signal sends a signal to every process below this one, and reports whether there was any. Signal 0 only asks.
func (g *guard) signal(sig syscall.Signal) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over {
		return false
	}
	tree := below(os.Getpid())
	for _, pid := range tree {
		_ = syscall.Kill(pid, sig) // it may be gone
	}
	return len(tree) > 0
}

// reap waits until nothing of the tree is left.
func reap(first int, tells io.Writer, alone *atomic.Bool) int {
	code := 0
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return code
		case pid == first && (status.Exited() || status.Signaled()):
			how := fmt.Sprintf("exit status %d", status.ExitStatus())
			if code = status.ExitStatus(); status.Signaled() {
				how, code = "signal: "+status.Signal().String(), 128+int(status.Signal())
			}
			if alone.Load() {
				how = "its guard was killed: " + how
			}
			_, _ = fmt.Fprintf(tells, "ended %s\n", how)
		}
	}
}

// below are the processes that descend from one, zombies left out, the youngest generation last.
func below(root int) []int {
	children := map[int][]int{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		if pid, parent, state := readStat(string(data)); pid > 0 && state != "Z" && state != "X" {
			children[parent] = append(children[parent], pid)
		}
	}
	var out []int
	for todo := []int{root}; len(todo) > 0; todo = todo[1:] {
		next := children[todo[0]]
		slices.Sort(next)
		out, todo = append(out, next...), append(todo, next...)
	}
	return out
}

// readStat reads the first fields of /proc/PID/stat; the name between them may hold anything.
func readStat(line string) (pid, parent int, state string) {
	end := strings.LastIndexByte(line, ')')
	head, _, ok := strings.Cut(line, " ")
	if end < 0 || !ok {
		return 0, 0, ""
	}
	rest := strings.Fields(line[end+1:])
	if len(rest) < 2 {
		return 0, 0, ""
	}
	pid, err := strconv.Atoi(head)
	parent, err2 := strconv.Atoi(rest[1])
	if err != nil || err2 != nil {
		return 0, 0, ""
	}
	return pid, parent, rest[0]
}
