package probe

import (
	"math"
	"runtime/metrics"
	"sync"
	"time"
)

// Self is what spate's own process did and suffered while it measured. What hurts a benchmark client most is not
// using CPU but being late to look: StampLag is how long a ready socket waits before its arrival is stamped.
type Self struct {
	Wall     time.Duration `json:"wall_ns"`
	CPUUser  time.Duration `json:"cpu_user_ns"`
	CPUSys   time.Duration `json:"cpu_sys_ns"`
	CPUCores float64       `json:"cpu_cores"` // used on average
	CPUShare float64       `json:"cpu_share"` // of those the process can have, 0 to 1

	StampLag  Lag    `json:"stamp_lag"`
	StampPath string `json:"stamp_path"` // what the lag was measured on: "poller" as for sockets, or "timer"
	SchedLag  Lag    `json:"sched_lag"`  // goroutines that could run, until they ran
	GCs       uint64 `json:"gcs"`
	GCPause   Lag    `json:"gc_pause"`

	Steal     float64       `json:"steal_share"` // of the machine, taken by its hypervisor
	Other     float64       `json:"other_share"` // of the machine, used by other processes
	Throttled time.Duration `json:"throttled_ns"`

	Gap time.Duration `json:"gap_ns"` // the longest time in which the process did nothing at all

	ClockStep  time.Duration `json:"clock_step_ns"`  // largest move of the wall clock against the monotonic one between looks
	ClockDrift time.Duration `json:"clock_drift_ns"` // of the wall clock over the whole watch

	RSSPeak  uint64 `json:"rss_peak_bytes"`
	HeapPeak uint64 `json:"heap_peak_bytes"`

	SwitchesWilling int64 `json:"switches_voluntary"`
	SwitchesForced  int64 `json:"switches_involuntary"` // another thread got the core
}

// Watch observes the process until stopped. It costs about a thousandth of a core.
type Watch struct {
	start time.Time
	first vitals
	cpus  float64
	lags  lagSource
	done  chan struct{}
	once  sync.Once

	stop  chan struct{}
	beats sync.WaitGroup

	mu    sync.Mutex
	gap   time.Duration
	lag   histogram
	clock clockWatch
	rss   uint64
	heap  uint64
}

// vitals are counters of process and machine that only grow.
type vitals struct {
	usage   usage
	machine ticks
	stolen  time.Duration // by the control group's quota
	runtime runtimeCounts
}

// usage is what the operating system charges the process with.
type usage struct {
	user, sys       time.Duration
	willing, forced int64
	maxRSS          uint64
}

// lookEvery is how many lag samples pass between looks at clock and memory: about a second.
const lookEvery = 10

// lagSource measures, again and again, how long the program takes to notice something that happened at a known
// time. wait blocks for the next sample and returns false once closed.
type lagSource interface {
	wait() (time.Duration, bool)
	path() string
	close()
}

// StartSelf begins to watch this process.
func StartSelf() *Watch {
	w := &Watch{
		start: time.Now(),
		first: readVitals(),
		cpus:  ReadHost("").CPUs(),
		lags:  newLagSource(),
		done:  make(chan struct{}),
		stop:  make(chan struct{}),
	}
	w.clock.start = w.start
	w.look()
	go w.run()
	w.beats.Go(w.beat)
	return w
}

// beatEvery is the time between two beats: how exactly a gap is known.
const beatEvery = 20 * time.Millisecond

// beat looks for times in which the process did nothing: stopped by a signal, frozen with its container, or without a
// processor. Whatever it was to stamp or send in that time, it did late.
func (w *Watch) beat() {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-tick.C:
			now := time.Now()
			w.mu.Lock()
			w.gap = max(w.gap, now.Sub(last)-beatEvery)
			w.mu.Unlock()
			last = now
		case <-w.stop:
			return
		}
	}
}

func (w *Watch) run() {
	defer close(w.done)
	for n := 1; ; n++ {
		lag, ok := w.lags.wait()
		if !ok {
			return
		}
		w.mu.Lock()
		w.lag.add(lag)
		w.mu.Unlock()
		if n%lookEvery == 0 {
			w.look()
		}
	}
}

// look samples what has no counter of its own.
func (w *Watch) look() {
	rss, heap, now := residentBytes(), heapBytes(), time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rss, w.heap = max(w.rss, rss), max(w.heap, heap)
	w.clock.look(now)
}

// Stop ends the watch and returns all it saw.
func (w *Watch) Stop() Self {
	w.once.Do(func() {
		w.lags.close()
		close(w.stop)
	})
	<-w.done
	w.beats.Wait()
	return w.Snapshot()
}

// Snapshot returns what was seen so far; any goroutine may call it.
func (w *Watch) Snapshot() Self {
	w.look()
	now := readVitals()
	s := Self{Wall: time.Since(w.start), StampPath: w.lags.path()}
	s.fill(w.first, now, w.cpus)

	w.mu.Lock()
	defer w.mu.Unlock()
	s.StampLag = w.lag.summary()
	s.Gap = w.gap
	s.ClockStep, s.ClockDrift = w.clock.step, w.clock.drift
	s.RSSPeak, s.HeapPeak = w.rss, w.heap
	if s.RSSPeak == 0 {
		s.RSSPeak = now.usage.maxRSS
	}
	return s
}

// fill computes the figures that are differences of counters.
func (s *Self) fill(first, now vitals, cpus float64) {
	s.CPUUser = now.usage.user - first.usage.user
	s.CPUSys = now.usage.sys - first.usage.sys
	if s.Wall > 0 {
		s.CPUCores = (s.CPUUser + s.CPUSys).Seconds() / s.Wall.Seconds()
		s.CPUShare = s.CPUCores / cpus
	}
	s.SwitchesWilling = now.usage.willing - first.usage.willing
	s.SwitchesForced = now.usage.forced - first.usage.forced
	s.Throttled = now.stolen - first.stolen
	s.Steal, s.Other = now.machine.since(first.machine, s.CPUUser+s.CPUSys)
	s.GCs = now.runtime.gcs - first.runtime.gcs
	s.GCPause = bucketLag(first.runtime.pauses, now.runtime.pauses)
	s.SchedLag = bucketLag(first.runtime.sched, now.runtime.sched)
}

func readVitals() vitals {
	return vitals{usage: readUsage(), machine: readTicks(), stolen: readThrottled(), runtime: readRuntime()}
}

// clockWatch compares the wall clock with the monotonic one. A step between two looks is an adjusted clock;
// stamps are monotonic and do not suffer, but a log correlated by wall time does.
type clockWatch struct {
	start time.Time
	drift time.Duration
	step  time.Duration
}

func (c *clockWatch) look(now time.Time) {
	c.see(now.Round(0).Sub(c.start.Round(0)) - now.Sub(c.start)) // Round strips the monotonic reading
}

func (c *clockWatch) see(drift time.Duration) {
	c.step = max(c.step, (drift - c.drift).Abs())
	c.drift = drift
}

// runtimeCounts are the Go runtime's own counters.
type runtimeCounts struct {
	gcs           uint64
	pauses, sched *metrics.Float64Histogram
}

func readRuntime() runtimeCounts {
	s := []metrics.Sample{
		{Name: "/gc/cycles/total:gc-cycles"},
		{Name: "/sched/pauses/total/gc:seconds"},
		{Name: "/sched/latencies:seconds"},
	}
	metrics.Read(s)
	var c runtimeCounts
	if s[0].Value.Kind() == metrics.KindUint64 {
		c.gcs = s[0].Value.Uint64()
	}
	if s[1].Value.Kind() == metrics.KindFloat64Histogram {
		c.pauses = s[1].Value.Float64Histogram()
	}
	if s[2].Value.Kind() == metrics.KindFloat64Histogram {
		c.sched = s[2].Value.Float64Histogram()
	}
	return c
}

func heapBytes() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return s[0].Value.Uint64()
}

// weyl spreads sampling times evenly without a period: a probe that ticked regularly could march in step
// with a server that does, and see the same moment of its cycle each time.
type weyl uint64

// next returns a gap between 50 and 150 ms, 100 ms on average: more wake-ups would cost an idle client more
// than its own work.
func (w *weyl) next() time.Duration {
	*w += 0x9e3779b97f4a7c15 // the golden ratio's share of 2^64
	share := float64(*w>>11) / (1 << 53)
	return 50*time.Millisecond + time.Duration(math.Round(100e6*share))
}

// timerLags is the lag source of systems without a better one: how late the runtime's timers fire.
type timerLags struct {
	gap  weyl
	next time.Time
	stop chan struct{}
}

func newTimerLags() *timerLags {
	return &timerLags{next: time.Now(), stop: make(chan struct{})}
}

func (t *timerLags) path() string { return "timer" }
func (t *timerLags) close()       { close(t.stop) }

func (t *timerLags) wait() (time.Duration, bool) {
	t.next = t.next.Add(t.gap.next())
	timer := time.NewTimer(time.Until(t.next))
	defer timer.Stop()
	select {
	case <-timer.C:
		return time.Since(t.next), true
	case <-t.stop:
		return 0, false
	}
}
