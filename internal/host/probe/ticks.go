package probe

import (
	"strconv"
	"strings"
	"time"
)

// ticks is the first line of /proc/stat: how the machine spent its cores' time since it started.
type ticks struct {
	busy, steal, total uint64
}

// tick is the unit of /proc/stat, fixed by the kernel's interface whatever its own timer does.
const tick = 10 * time.Millisecond

// parseTicks reads the summary line of /proc/stat:
// cpu user nice system idle iowait irq softirq steal guest guest_nice.
func parseTicks(text string) (t ticks) {
	first, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(first)
	if len(fields) < 5 || fields[0] != "cpu" {
		return ticks{}
	}
	for i, f := range fields[1:min(len(fields), 9)] { // guest time is part of user time already
		v, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			return ticks{}
		}
		t.total += v
		switch i {
		case 3, 4: // idle, waiting for disks
		case 7:
			t.steal += v
		default:
			t.busy += v
		}
	}
	return t
}

// since returns the shares of the machine's time between two readings that its hypervisor took and that
// processes other than this one, which used own, had.
func (t ticks) since(before ticks, own time.Duration) (steal, other float64) {
	if t.total <= before.total || t.busy < before.busy || t.steal < before.steal {
		return 0, 0
	}
	total := float64(t.total - before.total)
	others := float64(t.busy-before.busy) - own.Seconds()/tick.Seconds()
	return float64(t.steal-before.steal) / total, max(0, others/total)
}
