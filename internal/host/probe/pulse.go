package probe

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Pulse looks at this machine and process again and again; each look tells what happened since the one before.
// It is not safe for several goroutines.
type Pulse struct {
	at   time.Time
	last vitals
}

// shortPulse is the time over which use of the cores can be told: the kernel counts it in steps of 10 ms.
const shortPulse = 50 * time.Millisecond

// NewPulse makes the first look.
func NewPulse() *Pulse { return &Pulse{at: time.Now(), last: pulseVitals()} }

// pulseVitals leaves out the runtime's histograms, which cost more than all the rest.
func pulseVitals() vitals { return vitals{usage: readUsage(), machine: readTicks()} }

// Look returns cpu, the used share of the machine; cpu_own, the cores this process used; load, its run queue over
// the last minute; memory_own, what the process holds in bytes; and goroutines.
func (p *Pulse) Look() map[string]float64 {
	now, v := time.Now(), pulseVitals()
	out := map[string]float64{"goroutines": float64(runtime.NumGoroutine())}
	if wall := now.Sub(p.at); wall >= shortPulse {
		used := v.usage.user + v.usage.sys - p.last.usage.user - p.last.usage.sys
		out["cpu_own"] = used.Seconds() / wall.Seconds()
		if v.machine.total > p.last.machine.total && v.machine.busy >= p.last.machine.busy {
			out["cpu"] = float64(v.machine.busy-p.last.machine.busy) / float64(v.machine.total-p.last.machine.total)
		}
		p.at, p.last = now, v
	}
	if rss := residentBytes(); rss > 0 {
		out["memory_own"] = float64(rss)
	}
	if load, ok := LoadAverage(); ok {
		out["load"] = load
	}
	return out
}

// LoadAverage is the machine's over the last minute, where it tells.
func LoadAverage() (float64, bool) {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, false
	}
	first, _, _ := strings.Cut(string(raw), " ")
	v, err := strconv.ParseFloat(first, 64)
	return v, err == nil
}
