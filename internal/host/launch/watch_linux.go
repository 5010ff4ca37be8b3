package launch

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Three processes know of a launched server: spate, a watcher and the guard, each the parent of the next. Any one of
// them ends the server's whole tree when the others are killed: the guard hears the ends of pipes; the watcher adopts
// what a killed guard leaves; spate finds by a mark in the environment what both leave. Where a cgroup can be made the
// server lives in one, and the kernel ends all of it at once.
const (
	watchFlag   = "--watch"   // be the watcher
	watchedFlag = "--watched" // be the guard under a watcher
	markFlag    = "--mark"
	cgroupFlag  = "--cgroup"
	markName    = "SPATE_LAUNCH"
)

// killFor is how long processes that were killed may take to end.
const killFor = 20 * time.Second

// protections reads how a guard is to protect.
func protections(args []string) (mark, cgroup string, watched bool, rest []string) {
	for len(args) > 1 {
		switch args[0] {
		case watchedFlag:
			watched, args = true, args[1:]
		case markFlag:
			mark, args = args[1], args[2:]
		case cgroupFlag:
			cgroup, args = args[1], args[2:]
		default:
			return mark, cgroup, watched, args
		}
	}
	return mark, cgroup, watched, args
}

// protect makes what a new server is protected with: arguments for its guard, and what it is in words.
func (s *Server) protect() []string {
	s.mark = fmt.Sprintf("%s=%d-%d", markName, os.Getpid(), time.Now().UnixNano())
	args := []string{watchFlag, markFlag, s.mark}
	s.Protection = byMark
	if s.cgroup = newCgroup("/proc/self/mountinfo", "/proc/self/cgroup"); s.cgroup != "" {
		s.Protection = byCgroup
		args = append(args, cgroupFlag, s.cgroup)
	}
	return args
}

// watch is the life of the watcher: it starts the guard, and ends what a guard leaves, however that ended.
func watch(args []string) int {
	mark, cgroup, _, _ := protections(args)
	hears, tells := os.NewFile(3, "hears"), os.NewFile(4, "tells")
	at := slices.Index(os.Args, watchFlag)
	if hears == nil || tells == nil || at < 0 {
		return 2
	}
	here, there, err := os.Pipe()
	if err == nil {
		err = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	}
	if err != nil {
		_, _ = fmt.Fprintf(tells, "error become the parent of orphans: %v\n", err)
		return 1
	}
	argv := slices.Clone(os.Args)
	argv[at] = watchedFlag
	p, err := os.StartProcess("/proc/self/exe", argv, &os.ProcAttr{ //nolint:gosec // this very program, with its own arguments
		Files: []*os.File{nil, os.Stdout, os.Stderr, hears, tells, here}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		_, _ = fmt.Fprintf(tells, "error %v\n", err)
		return 1
	}
	_ = errors.Join(hears.Close(), tells.Close(), here.Close()) // they are the guard's now
	code := waitFor(p.Pid)
	endMarked(mark, cgroup, os.Getpid())
	_ = there.Close() // held open until here: its end tells the guard that this process was killed
	return code
}

// waitFor reaps until one process has ended.
func waitFor(pid int) int {
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 1
		case got == pid && status.Exited():
			return status.ExitStatus()
		case got == pid && status.Signaled():
			return 128 + int(status.Signal())
		}
	}
}

// endMarked ends what bears a mark, lies in a cgroup or descends from a process, and removes the cgroup. It returns
// the processes that did not end.
func endMarked(mark, cgroup string, root int) []int {
	end := time.Now().Add(killFor)
	for empty := 0; ; {
		endCgroup(cgroup)
		left := append(marked(mark), within(cgroup)...)
		if root > 0 {
			chase(root)
			left = append(left, below(root)...)
		}
		slices.Sort(left)
		left = slices.Compact(left)
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone
		}
		if empty++; len(left) > 0 || root > 0 && !childless() {
			empty = 0
		}
		if empty == surely || time.Now().After(end) {
			removeCgroup(cgroup)
			return left
		}
	}
}

// surely is how often in a row no process must be found: one that forks and ends all the time is missed now and then.
const surely = 3

// childless reaps, and reports whether this process has no child any more. As the parent of orphans it then has no
// descendant either.
func childless() bool {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.ECHILD):
			return true
		case pid <= 0 && !errors.Is(err, syscall.EINTR):
			return false
		}
	}
}

// chase kills the children of a process again and again for a moment, which takes microseconds each time: one that
// forks and ends at once is never there any more when all of /proc has been read.
func chase(root int) {
	for end := time.Now().Add(20 * time.Millisecond); time.Now().Before(end); {
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", root))
		if err != nil || len(files) == 0 {
			return
		}
		for range 50 {
			some := false
			for _, name := range files {
				data, err := os.ReadFile(name)
				if err != nil {
					continue // the thread has ended
				}
				for word := range strings.FieldsSeq(string(data)) {
					if pid, err := strconv.Atoi(word); err == nil {
						_ = syscall.Kill(pid, syscall.SIGKILL)
						some = true
					}
				}
			}
			if !some {
				return
			}
		}
	}
}

// marked are the processes with a mark in their environment, zombies left out.
func marked(mark string) []int {
	if mark == "" {
		return nil
	}
	list, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil
	}
	var out []int
	for _, name := range list {
		data, err := os.ReadFile(name)
		if err != nil || !slices.ContainsFunc(bytes.Split(data, []byte{0}), func(v []byte) bool { return string(v) == mark }) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil && pid != os.Getpid() {
			out = append(out, pid)
		}
	}
	return out
}

// remains says what of a server could not be ended.
func (s *Server) remains() error {
	if s.mark == "" {
		return nil
	}
	var names []string
	for _, pid := range endMarked(s.mark, s.cgroup, 0) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)) // it may be gone by now
		names = append(names, fmt.Sprintf("%d (%s)", pid, strings.TrimSpace(string(line))))
	}
	if names == nil {
		return nil
	}
	return fmt.Errorf("of what the server started, this could not be ended: process %s", strings.Join(names, ", "))
}
