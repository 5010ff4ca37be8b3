package probe

import (
	"math"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHistogramBars(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "delay") >> rapid.IntRange(0, 62).Draw(t, "shift"))
		edge := edgeOf(barOf(d))
		if edge < d || float64(edge) > float64(d)*17/16+1 {
			t.Fatalf("%d ns falls into a bar ending at %d", d, edge)
		}
		if edge < math.MaxInt64 && barOf(edge+1) != barOf(d)+1 {
			t.Fatalf("bar %d ends at %d but the next delay is in bar %d", barOf(d), edge, barOf(edge+1))
		}
	})
}

func TestHistogramSummary(t *testing.T) {
	var h histogram
	if got := h.summary(); got != (Lag{}) {
		t.Errorf("empty: %+v", got)
	}
	for i := range 1000 {
		h.add(time.Duration(i+1) * time.Microsecond)
	}
	got := h.summary()
	near := func(d time.Duration, us float64) bool {
		return float64(d) >= us*1e3 && float64(d) <= us*1e3*1.07
	}
	if got.N != 1000 || !near(got.P50, 500) || !near(got.P99, 990) || got.Max != time.Millisecond {
		t.Errorf("summary %+v", got)
	}
	h.add(-5)
	if h.bars[0] != 1 {
		t.Error("a negative delay must count as none")
	}
}

func TestBucketLag(t *testing.T) {
	buckets := []float64{math.Inf(-1), 0, 1e-6, 1e-3, math.Inf(1)}
	before := &metrics.Float64Histogram{Counts: []uint64{0, 5, 0, 0}, Buckets: buckets}
	after := &metrics.Float64Histogram{Counts: []uint64{1, 65, 38, 1}, Buckets: buckets}
	want := Lag{N: 100, P50: time.Microsecond, P99: time.Millisecond, Max: time.Millisecond}
	if got := bucketLag(before, after); got != want {
		t.Errorf("lag %+v, want %+v", got, want)
	}
	if got := bucketLag(after, after); got != (Lag{}) {
		t.Errorf("nothing in between: %+v", got)
	}
	if got := bucketLag(nil, nil); got != (Lag{}) {
		t.Errorf("no histogram: %+v", got)
	}
}

func TestTicks(t *testing.T) {
	//                     user nice sys idle iowait irq softirq steal guest
	before := parseTicks("cpu  100 0 50 800 50 0 0 0 30 0\ncpu0 1 2 3 4\n")
	after := parseTicks("cpu  200 10 80 1500 70 5 5 30 60 0\n")
	if before != (ticks{busy: 150, steal: 0, total: 1000}) {
		t.Errorf("parsed %+v", before)
	}
	// 900 ticks passed, 30 stolen; 150 busy, of which this process had 0.5 s = 50 ticks.
	steal, other := after.since(before, 500*time.Millisecond)
	if math.Abs(steal-30.0/900) > 1e-12 || math.Abs(other-100.0/900) > 1e-12 {
		t.Errorf("steal %v, other %v", steal, other)
	}
	if s, o := before.since(after, 0); s != 0 || o != 0 {
		t.Error("counters that fell must give nothing")
	}
	for _, bad := range []string{"", "cpu", "cpu a b c d e", "intr 1 2 3 4 5"} {
		if parseTicks(bad) != (ticks{}) {
			t.Errorf("%q parsed", bad)
		}
	}
}

func TestSelfFill(t *testing.T) {
	first := vitals{usage: usage{user: time.Second, sys: time.Second, willing: 10, forced: 1}, stolen: time.Second, runtime: runtimeCounts{gcs: 3}}
	now := vitals{usage: usage{user: 3 * time.Second, sys: 2 * time.Second, willing: 25, forced: 4}, stolen: 3 * time.Second, runtime: runtimeCounts{gcs: 8}}
	s := Self{Wall: 6 * time.Second}
	s.fill(first, now, 4)
	if s.CPUUser != 2*time.Second || s.CPUSys != time.Second || s.CPUCores != 0.5 || s.CPUShare != 0.125 {
		t.Errorf("CPU %+v", s)
	}
	if s.SwitchesWilling != 15 || s.SwitchesForced != 3 || s.Throttled != 2*time.Second || s.GCs != 5 {
		t.Errorf("counts %+v", s)
	}
}

func TestClockWatch(t *testing.T) {
	var c clockWatch
	for _, drift := range []time.Duration{0, 100, 150, -900, -850} {
		c.see(drift)
	}
	if c.step != 1050 || c.drift != -850 {
		t.Errorf("step %v, drift %v, want 1050ns and -850ns", c.step, c.drift)
	}
	start := time.Now()
	alike := clockWatch{start: start}
	alike.look(start.Add(time.Second))
	if alike.drift != 0 {
		t.Errorf("drift %v of clocks that moved alike", alike.drift)
	}
}

// Gaps are 50 to 150 ms, 100 on average, and hit every phase of a 10 ms cycle alike.
func TestWeylHasNoPeriod(t *testing.T) {
	var w weyl
	var at time.Duration
	var phases [10]int
	const n = 5000
	for range n {
		gap := w.next()
		if gap < 50*time.Millisecond || gap > 150*time.Millisecond {
			t.Fatalf("gap %v", gap)
		}
		at += gap
		phases[at%(10*time.Millisecond)/time.Millisecond]++
	}
	if mean := at / n; mean < 99500*time.Microsecond || mean > 100500*time.Microsecond {
		t.Errorf("mean gap %v", mean)
	}
	if lo, hi := slices.Min(phases[:]), slices.Max(phases[:]); lo < n/10*8/10 || hi > n/10*12/10 {
		t.Errorf("phases %v", phases)
	}
}

// With a clock that only moves when all wait, timers are never late.
func TestTimerLags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newTimerLags()
		start := time.Now()
		for range 100 {
			if lag, ok := src.wait(); !ok || lag != 0 {
				t.Fatalf("lag %v, %v", lag, ok)
			}
		}
		if e := time.Since(start); e < 9500*time.Millisecond || e > 10500*time.Millisecond {
			t.Errorf("100 samples took %v", e)
		}
		time.Sleep(1500 * time.Millisecond) // a stall: what was missed counts
		if lag, ok := src.wait(); !ok || lag < 1350*time.Millisecond {
			t.Errorf("lag %v after a stall", lag)
		}
		src.close()
		for range 100 { // catching up may come first, since both are ready
			if _, ok := src.wait(); !ok {
				return
			}
		}
		t.Error("closed source still samples")
	})
}

// The real source, on whatever system this is: instants missed during a stall count with their full lag.
func TestLagSourceCountsStalls(t *testing.T) {
	src := newLagSource()
	defer src.close()
	if _, ok := src.wait(); !ok {
		t.Fatal("no sample")
	}
	const stall = 750 * time.Millisecond
	time.Sleep(stall)
	late := 0
	for {
		lag, ok := src.wait()
		if !ok {
			t.Fatal("no sample")
		}
		if late == 0 && lag < stall-151*time.Millisecond {
			t.Fatalf("first lag after a stall of %v is %v", stall, lag)
		}
		if lag < 50*time.Millisecond { // less than the least gap: of the stall nothing is left
			break
		}
		if late++; late > 500 {
			t.Fatal("never catches up")
		}
	}
	if late < 4 {
		t.Errorf("a stall of %v made only %d samples late", stall, late)
	}
	if want := "poller"; runtime.GOOS == "linux" && src.path() != want {
		t.Errorf("path %q, want %q", src.path(), want)
	}
}

// Goroutines that hog every core must show as stamp lag, since that is what they do to sockets.
func TestStampLagSeesHogs(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	w := StartSelf()
	var hogs sync.WaitGroup
	const burn = 700 * time.Millisecond // of CPU, not of time: the machine may be busy
	start := readUsage()
	for range 3 {
		hogs.Go(func() {
			for now := start; now.user+now.sys < start.user+start.sys+burn; now = readUsage() {
				for x := 1; x < 1_000_000; x++ {
					runtime.KeepAlive(x)
				}
			}
		})
	}
	hogs.Wait()
	middle := w.Snapshot()
	s := w.Stop()
	if s.StampLag.N < 4 || s.StampLag.Max < 2*time.Millisecond {
		t.Errorf("stamp lag %+v beside hogs", s.StampLag)
	}
	if s.CPUUser+s.CPUSys < burn || s.CPUShare <= 0 || s.CPUShare > 1.1 {
		t.Errorf("CPU %+v", s)
	}
	if s.Wall < burn/2 || s.RSSPeak == 0 || s.HeapPeak == 0 || s.SchedLag.N == 0 {
		t.Errorf("self %+v", s)
	}
	if middle.StampLag.N > s.StampLag.N || middle.Wall > s.Wall {
		t.Errorf("snapshot %+v is beyond the end %+v", middle, s)
	}
}

func TestGCIsSeen(t *testing.T) {
	w := StartSelf()
	for range 3 {
		runtime.GC()
	}
	if s := w.Stop(); s.GCs < 3 || s.GCPause.N < 3 || s.GCPause.Max <= 0 || s.GCPause.P99 > s.GCPause.Max {
		t.Errorf("collections %d, pauses %+v", s.GCs, s.GCPause)
	}
}

// TestGapIsSeen holds this process's beats up by taking the lock they need: whatever the reason, the time between two
// beats is a gap.
func TestGapIsSeen(t *testing.T) {
	w := StartSelf()
	defer w.Stop()
	const held = 150 * time.Millisecond
	w.mu.Lock()
	time.Sleep(held)
	w.mu.Unlock()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(beatEvery) {
		if w.Snapshot().Gap >= held-2*beatEvery {
			return
		}
	}
	t.Errorf("a stop of %v is a gap of %v", held, w.Snapshot().Gap)
}
