package launch

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A cgroup of version 2 is the one thing that holds everything a server starts, whatever it does to its parents, session
// and environment, and that the kernel ends as a whole.

// newCgroup makes a cgroup below this process's own; empty where that cannot be, or where the kernel does not end it as a
// whole (before Linux 5.14). mounts and own are files of /proc.
func newCgroup(mounts, own string) string {
	root, at := cgroupMount(mounts)
	path, ok := ownCgroup(own)
	if at == "" || !ok {
		return ""
	}
	if inside, err := filepath.Rel(root, path); err == nil && filepath.IsLocal(inside) {
		path = inside // a container sees a part of the tree
	}
	dir := filepath.Join(at, path, fmt.Sprintf("spate-%d-%d", os.Getpid(), time.Now().UnixNano()))
	if os.Mkdir(dir, 0o700) != nil {
		return ""
	}
	if _, err := os.Stat(filepath.Join(dir, "cgroup.kill")); err != nil {
		_ = os.Remove(dir) // of no use
		return ""
	}
	return dir
}

// cgroupMount is where the tree of cgroups of version 2 is mounted, and which part of it. Beside version 1 it is not at
// /sys/fs/cgroup itself.
func cgroupMount(mounts string) (root, at string) {
	data, err := os.ReadFile(mounts)
	if err != nil {
		return "", ""
	}
	for line := range strings.Lines(string(data)) {
		place, kind, ok := strings.Cut(line, " - ")
		fields := strings.Fields(place)
		if ok && len(fields) >= 5 && strings.HasPrefix(kind, "cgroup2 ") {
			return fields[3], fields[4]
		}
	}
	return "", ""
}

// ownCgroup is this process's place in that tree.
func ownCgroup(own string) (path string, ok bool) {
	data, err := os.ReadFile(own)
	if err != nil {
		return "", false
	}
	for line := range strings.Lines(string(data)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return path, true
		}
	}
	return "", false
}

// endCgroup ends every process of a cgroup.
func endCgroup(dir string) {
	if dir != "" {
		_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0) // others do what it does not
	}
}

// within are the processes of a cgroup and of those below it.
func within(dir string) (pids []int) {
	for _, d := range cgroups(dir) {
		data, err := os.ReadFile(filepath.Join(d, "cgroup.procs"))
		if err != nil {
			continue // it is gone
		}
		for word := range strings.FieldsSeq(string(data)) {
			if pid, err := strconv.Atoi(word); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// removeCgroup removes a cgroup and those that the server made below it.
func removeCgroup(dir string) {
	all := cgroups(dir)
	slices.Reverse(all)
	for _, d := range all {
		_ = os.Remove(d) // another of the three may have done it
	}
}

// cgroups are a cgroup and those below it, each before its children.
func cgroups(dir string) (all []string) {
	if dir == "" {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			all = append(all, path)
		}
		return nil // what is gone needs no look
	})
	return all
}
