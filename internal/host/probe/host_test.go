package probe

import (
	"runtime"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

func TestReadLinux(t *testing.T) {
	cases := []struct {
		name string
		root fstest.MapFS
		want Host
	}{
		{"bare machine", fstest.MapFS{
			"proc/sys/kernel/osrelease": file("6.8.0-45-generic\n"),
			"proc/loadavg":              file("0.50 1.25 2.00 3/1000 4242\n"),
			"proc/meminfo":              file("MemTotal:       16384 kB\nMemFree: 1 kB\n"),
			"proc/cpuinfo":              file("processor\t: 0\nmodel name\t: Fast CPU @ 3.00GHz\nflags\t\t: fpu sse\nprocessor\t: 1\nmodel name\t: other\n"),
			"sys/devices/system/clocksource/clocksource0/current_clocksource": file("tsc\n"),
		}, Host{Kernel: "6.8.0-45-generic", CPU: "Fast CPU @ 3.00GHz", Memory: 16 << 20, Clocksource: "tsc", Load: [3]float64{0.5, 1.25, 2}}},
		{"container with limits on a virtual machine", fstest.MapFS{
			".dockerenv":                              file(""),
			"proc/cpuinfo":                            file("processor: 0\nmodel name: V\nflags: fpu hypervisor sse\n"),
			"proc/meminfo":                            file("MemTotal: 16384 kB\n"),
			"proc/self/cgroup":                        file("0::/work.slice/job\n"),
			"sys/fs/cgroup/work.slice/job/cpu.max":    file("250000 100000\n"),
			"sys/fs/cgroup/work.slice/cpu.max":        file("150000 100000\n"),
			"sys/fs/cgroup/cpu.max":                   file("max 100000\n"),
			"sys/fs/cgroup/work.slice/job/memory.max": file("1048576\n"),
			"sys/fs/cgroup/work.slice/memory.max":     file("max\n"),
		}, Host{CPU: "V", Hypervisor: true, Container: "docker", Memory: 16 << 20, CPULimit: 1.5, MemoryLimit: 1 << 20}},
		{"old control groups", fstest.MapFS{
			"proc/self/cgroup":                           file("5:memory:/box\n4:cpu,cpuacct:/box\n"),
			"proc/meminfo":                               file("MemTotal: 4096 kB\n"),
			"sys/fs/cgroup/cpu/box/cpu.cfs_quota_us":     file("50000\n"),
			"sys/fs/cgroup/cpu/box/cpu.cfs_period_us":    file("100000\n"),
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us":         file("-1\n"),
			"sys/fs/cgroup/cpu/cpu.cfs_period_us":        file("100000\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712\n"),
			"run/.containerenv":                          file(""),
		}, Host{Memory: 4 << 20, CPULimit: 0.5, Container: "podman"}},
		{"nothing readable", fstest.MapFS{}, Host{}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var got Host
			got.readLinux(c.root)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestThrottled(t *testing.T) {
	cases := []struct {
		name string
		root fstest.MapFS
		want uint64
	}{
		{"unified", fstest.MapFS{"sys/fs/cgroup/cpu.stat": file("usage_usec 9\nnr_throttled 2\nthrottled_usec 1500\n")}, 1500},
		{"old", fstest.MapFS{"sys/fs/cgroup/cpu/cpu.stat": file("nr_throttled 2\nthrottled_time 2000000\n")}, 2000},
		{"none", fstest.MapFS{}, 0},
	}
	for _, c := range cases {
		if got := readGroups(c.root).throttled(c.root); got != c.want {
			t.Errorf("%s: %d us, want %d", c.name, got, c.want)
		}
	}
}

func TestReadHostHere(t *testing.T) {
	h := ReadHost("1.2.3")
	if h.Name != "" {
		t.Error("the machine's name must be left out unless asked for")
	}
	if h.WithName().Name == "" {
		t.Error("no name when asked for")
	}
	if h.OS != runtime.GOOS || h.Cores < 1 || h.Go != runtime.Version() || h.SpateVersion != "1.2.3" {
		t.Errorf("host %+v", h)
	}
	if runtime.GOOS == "linux" && (h.Kernel == "" || h.Memory == 0 || h.NoFile == 0 || h.NoFileHard < h.NoFile) {
		t.Errorf("host %+v lacks what Linux tells", h)
	}
	if c := h.CPUs(); c <= 0 || c > float64(h.Cores) {
		t.Errorf("%v usable cores of %d", c, h.Cores)
	}
}

func TestRaiseNoFile(t *testing.T) {
	soft, _ := noFile()
	if got, err := RaiseNoFile(1); err != nil || got < 1 || got < soft {
		t.Errorf("asking for less than there is: %d, %v", got, err)
	}
	got, err := RaiseNoFile(1 << 62)
	if now, _ := noFile(); runtime.GOOS == "linux" && (err == nil || got != now) {
		t.Errorf("asking for more than any kernel gives: %d, %v, limit %d", got, err, now)
	}
}

// Whatever a kernel writes there, the answer is a limit or none.
func FuzzLimits(f *testing.F) {
	f.Add("0::/a/b\n", "100000 100000\n", "cpu 1 2 3 4 5 6 7 8 9 10\n")
	f.Add("4:cpu:/x\n", "max 100000", "cpu 1 2 3")
	f.Add("0::/../..", "-1 0", "cpu0 1\n")
	f.Fuzz(func(t *testing.T, groups, limit, stat string) {
		root := fstest.MapFS{
			"proc/self/cgroup":      file(groups),
			"sys/fs/cgroup/cpu.max": file(limit),
			"proc/cpuinfo":          file(groups + stat),
			"proc/meminfo":          file(stat + limit),
			"proc/loadavg":          file(limit),
		}
		var h Host
		h.readLinux(root)
		if h.CPULimit < 0 {
			t.Errorf("limit of %v cores", h.CPULimit)
		}
		ticks := parseTicks(stat)
		if steal, other := ticks.since(parseTicks(limit), 0); steal < 0 || other < 0 || steal > 1 {
			t.Errorf("shares %v and %v", steal, other)
		}
	})
}
