package probe

import (
	"bufio"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
)

// Host is the machine and the process's place on it, as far as they bear on a measurement. It leaves out the
// machine's name unless asked, since results get published.
type Host struct {
	Name         string     `json:"name,omitempty"`
	OS           string     `json:"os"`
	Arch         string     `json:"arch"`
	Kernel       string     `json:"kernel,omitempty"`
	CPU          string     `json:"cpu,omitempty"`
	Cores        int        `json:"cores"`               // this process may use
	CPULimit     float64    `json:"cpu_limit,omitempty"` // cores its control group may use, 0 without a limit
	Memory       uint64     `json:"memory_bytes"`        // of the machine
	MemoryLimit  uint64     `json:"memory_limit_bytes,omitempty"`
	Container    string     `json:"container,omitempty"`  // docker, kubernetes ... where it shows
	Hypervisor   bool       `json:"hypervisor,omitempty"` // a virtual machine
	Clocksource  string     `json:"clocksource,omitempty"`
	Load         [3]float64 `json:"load_average"` // over 1, 5 and 15 minutes, now
	NoFile       uint64     `json:"nofile_soft"`  // open files allowed
	NoFileHard   uint64     `json:"nofile_hard"`
	Go           string     `json:"go"`
	GOMAXPROCS   int        `json:"gomaxprocs"`
	SpateVersion string     `json:"spate_version"`
}

// ReadHost looks at the machine now.
func ReadHost(spateVersion string) Host {
	h := Host{
		OS:           runtime.GOOS,
		Arch:         runtime.GOARCH,
		Cores:        runtime.NumCPU(),
		Go:           runtime.Version(),
		GOMAXPROCS:   runtime.GOMAXPROCS(0),
		SpateVersion: spateVersion,
	}
	h.NoFile, h.NoFileHard = noFile()
	h.readSystem()
	return h
}

// WithName adds the machine's name.
func (h Host) WithName() Host {
	if name, err := os.Hostname(); err == nil {
		h.Name = name
	}
	return h
}

// CPUs is how many cores the process can really have: its control group's limit where that is lower.
func (h Host) CPUs() float64 {
	if h.CPULimit > 0 && h.CPULimit < float64(h.Cores) {
		return h.CPULimit
	}
	return float64(h.Cores)
}

// readLinux fills in what Linux tells under /proc and /sys. The file system is a parameter so that other
// machines can be tested.
func (h *Host) readLinux(root fs.FS) {
	h.Kernel = line(root, "proc/sys/kernel/osrelease")
	h.Clocksource = line(root, "sys/devices/system/clocksource/clocksource0/current_clocksource")
	h.Container = container(root)
	h.CPU, h.Hypervisor = cpuinfo(root)
	h.Memory = meminfo(root)
	for i, f := range strings.Fields(line(root, "proc/loadavg")) {
		if i < len(h.Load) {
			h.Load[i], _ = strconv.ParseFloat(f, 64)
		}
	}
	groups := readGroups(root)
	h.CPULimit = groups.cpuLimit(root)
	if limit := groups.memoryLimit(root); limit < h.Memory {
		h.MemoryLimit = limit
	}
}

// line returns a file's first line, empty when there is none.
func line(root fs.FS, name string) string {
	raw, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(raw), "\n")
	return strings.TrimSpace(first)
}

// eachPair calls f with the key and value of each "key: value" line until it returns false.
func eachPair(root fs.FS, name string, f func(key, value string) bool) {
	file, err := root.Open(name)
	if err != nil {
		return
	}
	defer file.Close() //nolint:errcheck // read only
	scan := bufio.NewScanner(file)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		key, value, ok := strings.Cut(scan.Text(), ":")
		if ok && !f(strings.TrimSpace(key), strings.TrimSpace(value)) {
			return
		}
	}
}

func cpuinfo(root fs.FS) (model string, hypervisor bool) {
	eachPair(root, "proc/cpuinfo", func(key, value string) bool {
		switch key {
		case "model name", "Model", "Hardware": // the last two on ARM boards
			if model == "" {
				model = value
			}
		case "flags":
			hypervisor = strings.Contains(" "+value+" ", " hypervisor ")
		case "processor":
			return value == "0" || model == ""
		}
		return true
	})
	return model, hypervisor
}

func meminfo(root fs.FS) (bytes uint64) {
	eachPair(root, "proc/meminfo", func(key, value string) bool {
		if key == "MemTotal" {
			kb, err := strconv.ParseUint(strings.TrimSuffix(value, " kB"), 10, 64)
			if err == nil {
				bytes = kb << 10
			}
		}
		return bytes == 0
	})
	return bytes
}

func container(root fs.FS) string {
	if exists(root, ".dockerenv") {
		return "docker"
	}
	if exists(root, "run/.containerenv") {
		return "podman"
	}
	if exists(root, "var/run/secrets/kubernetes.io") {
		return "kubernetes"
	}
	return ""
}

func exists(root fs.FS, name string) bool {
	_, err := fs.Stat(root, name)
	return err == nil
}

// groups are the process's control groups: the path of the unified hierarchy, and of the old per-resource ones.
type groups struct {
	unified string
	cpu     string
	memory  string
}

func readGroups(root fs.FS) groups {
	g := groups{unified: "/", cpu: "/", memory: "/"}
	raw, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return g
	}
	for l := range strings.Lines(string(raw)) {
		parts := strings.SplitN(strings.TrimSpace(l), ":", 3)
		if len(parts) != 3 {
			continue
		}
		if parts[1] == "" {
			g.unified = parts[2]
		}
		for c := range strings.SplitSeq(parts[1], ",") {
			switch c {
			case "cpu":
				g.cpu = parts[2]
			case "memory":
				g.memory = parts[2]
			}
		}
	}
	return g
}

// upward calls f with the folder of a group and of each group above it. A limit anywhere on the way up holds.
func upward(base, group string, f func(dir string)) {
	for g := path.Clean("/" + group); ; g = path.Dir(g) {
		f(path.Join(base, g))
		if g == "/" {
			return
		}
	}
}

// cpuLimit returns the cores the process may use, 0 without a limit.
func (g groups) cpuLimit(root fs.FS) float64 {
	limit := 0.0
	lower := func(quota, period string) {
		q, err1 := strconv.ParseFloat(quota, 64)
		p, err2 := strconv.ParseFloat(period, 64)
		if err1 != nil || err2 != nil || q <= 0 || p <= 0 {
			return // "max", or -1: no limit here
		}
		if limit == 0 || q/p < limit {
			limit = q / p
		}
	}
	upward("sys/fs/cgroup", g.unified, func(dir string) {
		if quota, period, ok := strings.Cut(line(root, path.Join(dir, "cpu.max")), " "); ok {
			lower(quota, period)
		}
	})
	upward("sys/fs/cgroup/cpu", g.cpu, func(dir string) {
		lower(line(root, path.Join(dir, "cpu.cfs_quota_us")), line(root, path.Join(dir, "cpu.cfs_period_us")))
	})
	return limit
}

// memoryLimit returns the bytes the process may use, all there are without a limit.
func (g groups) memoryLimit(root fs.FS) uint64 {
	limit := ^uint64(0)
	lower := func(text string) {
		if v, err := strconv.ParseUint(text, 10, 64); err == nil {
			limit = min(limit, v)
		}
	}
	upward("sys/fs/cgroup", g.unified, func(dir string) { lower(line(root, path.Join(dir, "memory.max"))) })
	upward("sys/fs/cgroup/memory", g.memory, func(dir string) { lower(line(root, path.Join(dir, "memory.limit_in_bytes"))) })
	return limit
}

// throttled returns how long the control group has been kept off its cores so far, in microseconds.
func (g groups) throttled(root fs.FS) (us uint64) {
	read := func(name string, perUS uint64) {
		raw, err := fs.ReadFile(root, name)
		if err != nil {
			return
		}
		for l := range strings.Lines(string(raw)) {
			key, value, _ := strings.Cut(strings.TrimSpace(l), " ")
			if key == "throttled_usec" || key == "throttled_time" { // the latter in nanoseconds
				if v, err := strconv.ParseUint(value, 10, 64); err == nil {
					us = max(us, v/perUS)
				}
			}
		}
	}
	read(path.Join("sys/fs/cgroup", g.unified, "cpu.stat"), 1)
	read(path.Join("sys/fs/cgroup/cpu", g.cpu, "cpu.stat"), 1000)
	return us
}
