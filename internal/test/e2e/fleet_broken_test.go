package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"spate/internal/call"
	"spate/internal/fleet/link"
	"spate/internal/fleet/worker"
	"spate/internal/result"
	"spate/internal/sim/serve"
)

// Everything here holds to the request: due = finished + failed + lost, whatever was killed, stopped or cut off.

// got waits until a server has seen so many requests.
func got(t *testing.T, srv *serve.Server, n int64) {
	t.Helper()
	await(t, fmt.Sprintf("the server has %d requests", n), func() bool { return srv.Stats().Requests >= n })
}

// account checks a run of n due requests: all have one fate, only the named workers lost some, and every other request
// came well.
func account(t *testing.T, e ended, n int, lossy ...string) (lost int) {
	t.Helper()
	run := e.balanced()
	if run.Tally.Due != n || run.State != result.Complete {
		t.Errorf("%+v of %d, %s\n%s", run.Tally, n, run.State, e.stderr)
	}
	for _, r := range e.measured() {
		switch {
		case r.Fault == call.FaultLost:
			lost++
			if !strings.Contains(" "+strings.Join(lossy, " ")+" ", " "+r.Worker+" ") {
				t.Errorf("request %d was lost by worker %q", r.ID, r.Worker)
			}
		case r.Outcome != call.OK && !strings.Contains(" "+strings.Join(lossy, " ")+" ", " "+r.Worker+" "):
			t.Errorf("request %d of worker %q: %s, %s %s", r.ID, r.Worker, r.Outcome, r.Fault, r.Err)
		}
	}
	if (lost > 0) != (len(lossy) > 0) {
		t.Errorf("%d requests were lost by workers %v\n%s", lost, lossy, e.stderr)
	}
	for _, w := range run.Workers {
		if want := strings.Contains(" "+strings.Join(lossy, " ")+" ", " "+w.Name+" "); want != (w.State == result.WorkerLost) {
			t.Errorf("worker %s is %s", w.Name, w.State)
		}
	}
	return lost
}

// TestWorkersAreKilled: one of three, and two of four, by kill -9.
func TestWorkersAreKilled(t *testing.T) {
	slow(t, "a lost worker is waited for")
	for _, kill := range []int{1, 2} {
		t.Run(strconv.Itoa(kill), func(t *testing.T) {
			t.Parallel()
			srv := steady(t)
			f := newFleet(t, kill+2)
			c := f.bench(srv, "--num-prompts", "180", "--request-rate", "30", "--burstiness", "inf")
			c.start()
			got(t, srv, 50)
			var names []string
			for i := range kill {
				f.workers[i].signal(syscall.SIGKILL)
				names = append(names, fmt.Sprintf("g%d", i+1))
			}
			e := c.wait()
			lost := account(t, e, 180, names...)
			if most := 180 * kill / (kill + 2); lost > most {
				t.Errorf("%d of the %d requests of the killed workers were lost", lost, most)
			}
			has(t, "standard error", e.stderr, "worker g1 is lost")
		})
	}
}

// TestAWorkerOfThisHostIsKilled: its end is seen at once, so that the run ends on time.
func TestAWorkerOfThisHostIsKilled(t *testing.T) {
	slow(t, "a run of seconds")
	t.Parallel()
	srv := steady(t)
	c := benchCmd(t, load(srv, "--num-prompts", "120", "--request-rate", "30", "--burstiness", "inf", "--workers", "2")...)
	c.start()
	got(t, srv, 30)
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", c.cmd.Process.Pid, c.cmd.Process.Pid))
	if err != nil {
		t.Skip("this system does not tell the children of a process")
	}
	pids := strings.Fields(string(children))
	if len(pids) == 0 { // started by another thread
		all, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", c.cmd.Process.Pid))
		for _, path := range all {
			more, _ := os.ReadFile(path)
			pids = append(pids, strings.Fields(string(more))...)
		}
	}
	victim := ""
	for _, p := range pids {
		if line, _ := os.ReadFile("/proc/" + p + "/cmdline"); strings.Contains(string(line), "\x00w2\x00") {
			pid, err := strconv.Atoi(p)
			if err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			victim = "w2"
		}
	}
	if victim == "" {
		t.Fatalf("no worker w2 among %v", pids)
	}
	e := c.wait()
	account(t, e, 120, victim)
	has(t, "standard error", e.stderr, "its process has ended")
}

// TestTheCoordinatorIsKilled: its workers stop within 10 s, and collecting gives every request that the server saw.
func TestTheCoordinatorIsKilled(t *testing.T) {
	slow(t, "a silent coordinator is waited for")
	t.Parallel()
	srv := steady(t)
	f := newFleet(t, 2)
	c := f.bench(srv, "--num-prompts", "1000", "--request-rate", "30", "--burstiness", "inf")
	c.start()
	got(t, srv, 60)
	c.signal(syscall.SIGKILL)
	_ = c.cmd.Wait() // killed
	f.await(2)       // they have delivered what they had
	idle(t, srv)
	e := prepare(t, nil, "fleet", "collect", c.folder, "--fleet", f.join).want(0)
	e.folder = c.folder
	collected(t, srv, e)
	if runs := prepare(t, nil, "fleet", "status", "--fleet", f.join).want(0).out; strings.Contains(runs, "is kept") {
		t.Errorf("a collected run is still kept:\n%s", runs)
	}
}

// TestTheCoordinatorOfLocalWorkersIsKilled, and its broker with it: what both had on disk makes the run.
func TestTheCoordinatorOfLocalWorkersIsKilled(t *testing.T) {
	slow(t, "a run of seconds")
	t.Parallel()
	srv := steady(t)
	c := benchCmd(t, load(srv, "--num-prompts", "1000", "--request-rate", "30", "--burstiness", "inf", "--workers", "2")...)
	c.start()
	got(t, srv, 60)
	c.signal(syscall.SIGKILL)
	_ = c.cmd.Wait() // killed
	still := func() bool {
		n := srv.Stats().Requests
		time.Sleep(500 * time.Millisecond)
		return srv.Stats().Requests == n && srv.Stats().Active == 0
	}
	await(t, "its workers have ended", still)
	e := prepare(t, nil, "fleet", "collect", c.folder).want(0)
	e.folder = c.folder
	collected(t, srv, e)
	if left, _ := filepath.Glob(filepath.Join(c.cmd.Dir, ".cache", "spate", "fleet", "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// collected checks the folder of a run that was finished in its coordinator's place: every request the server saw has a
// record, each one fate.
func collected(t *testing.T, srv *serve.Server, e ended) {
	t.Helper()
	run := e.result()
	var sent, cut int64 // cut: given up while it was being sent, so that nobody knows whether the server has it
	fates := map[int]int{}
	for _, r := range recovered(t, e.folder) {
		switch {
		case r.Sent != call.Unset:
			sent++
		case r.Outcome == call.Canceled:
			cut++
		}
		fates[r.ID]++
	}
	if had := srv.Stats().Requests; had < sent || had > sent+cut {
		t.Errorf("the server had %d requests, %d records were sent and %d cut off before", had, sent, cut)
	}
	for id, n := range fates {
		if n != 1 {
			t.Errorf("request %d has %d fates", id, n)
		}
	}
	if !run.Tally.Balanced() || run.Tally.OK < 50 || run.Tally.Due != len(fates) || len(run.Workers) != 2 {
		t.Errorf("%+v, %d fates, %d workers", run.Tally, len(fates), len(run.Workers))
	}
}

// TestTheBrokerIsKilled and started again after 2 s: nothing is lost.
func TestTheBrokerIsKilled(t *testing.T) {
	slow(t, "a run of seconds")
	t.Parallel()
	srv := steady(t)
	f := newFleet(t, 2)
	c := f.bench(srv, "--num-prompts", "240", "--request-rate", "30", "--burstiness", "inf")
	c.start()
	got(t, srv, 60)
	f.broker.signal(syscall.SIGKILL)
	_ = f.broker.cmd.Wait() // killed
	time.Sleep(2 * time.Second)
	f.serve()
	account(t, c.wait(), 240)
}

// cutter is a network between a worker and the broker that can be cut: nothing passes, and nobody is told.
type cutter struct {
	l   net.Listener
	cut atomic.Bool
	wg  sync.WaitGroup
}

func newCutter(t *testing.T, to string) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{l: l}
	c.wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			c.wg.Go(func() { c.pass(in, out) })
			c.wg.Go(func() { c.pass(out, in) })
		}
	})
	t.Cleanup(func() { _ = l.Close() })
	return c
}

// pass hands bytes on, and holds them while the network is cut.
func (c *cutter) pass(from, to net.Conn) {
	defer func() { _ = to.Close() }()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		for c.cut.Load() {
			time.Sleep(20 * time.Millisecond)
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// join is a join file that leads through the network.
func (c *cutter) join(t *testing.T, f *fleet) string {
	t.Helper()
	data, err := os.ReadFile(f.join)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(f.dir, "cut.join")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(data), f.addr, c.l.Addr().String())), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestANetworkIsCut for 5 s, which costs nothing, and for 30 s: the worker stops after 10 s, its records of those 10 s come
// when the network is back, and what it did not send is lost.
func TestANetworkIsCut(t *testing.T) {
	slow(t, "the cut lasts")
	for _, c := range []struct {
		cut, run int
		lossy    []string
	}{{5, 12, nil}, {30, 42, []string{"cut"}}} {
		t.Run(fmt.Sprintf("%ds", c.cut), func(t *testing.T) {
			t.Parallel()
			srv := steady(t)
			f := newFleet(t, 1)
			wires := newCutter(t, f.addr)
			f.work("cut", wires.join(t, f), "")
			f.await(2)
			n := 10 * c.run
			b := f.bench(srv, "--num-prompts", strconv.Itoa(n), "--request-rate", "10", "--burstiness", "inf")
			b.start()
			got(t, srv, 15)
			before := srv.Stats().Requests
			wires.cut.Store(true)
			time.Sleep(time.Duration(c.cut) * time.Second)
			wires.cut.Store(false)
			e := b.wait()
			account(t, e, n, c.lossy...)
			delivered := int64(0)
			for _, r := range e.measured() {
				if r.Worker == "cut" && r.Outcome == call.OK {
					delivered++
				}
			}
			if delivered < before/2+10 { // 5 a second are its own, for at least 5 s
				t.Errorf("%d requests of the worker that was cut off came well, of %d before the cut", delivered, before/2)
			}
		})
	}
}

// TestAWorkerIsStopped for longer than it may be silent: when it goes on it stops sending, and delivers what it has.
func TestAWorkerIsStopped(t *testing.T) {
	slow(t, "the stop lasts")
	t.Parallel()
	srv := steady(t)
	f := newFleet(t, 2)
	c := f.bench(srv, "--num-prompts", "260", "--request-rate", "10", "--burstiness", "inf")
	c.start()
	got(t, srv, 20)
	f.workers[0].signal(syscall.SIGSTOP)
	time.Sleep(13 * time.Second)
	f.workers[0].signal(syscall.SIGCONT)
	account(t, c.wait(), 260, "g1")
}

// TestAWorkersDiskIsFull: its records come all the same.
func TestAWorkersDiskIsFull(t *testing.T) {
	slow(t, "a run of seconds")
	t.Parallel()
	srv := steady(t)
	f := newFleet(t, 1)
	f.work("full", f.join, "ulimit -f 64")
	f.await(2)
	account(t, f.bench(srv, "--num-prompts", "400", "--request-rate", "80", "--burstiness", "inf").run(), 400)
}

// TestAnotherVersionIsRefused by name, before anything is sent.
func TestAnotherVersionIsRefused(t *testing.T) {
	slow(t, "starts processes")
	t.Parallel()
	srv := steady(t)
	f := newFleet(t, 0)
	j, err := link.ReadJoin(f.join, "")
	if err != nil {
		t.Fatal(err)
	}
	l, err := link.Dial(link.Options{Join: j})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = worker.Serve(ctx, worker.Options{
			Link: l, Name: "old", Host: "h", Version: "0.0.9", Dir: t.TempDir(), Getenv: os.Getenv, Note: func(string, ...any) {},
		})
	})
	defer func() { cancel(); wg.Wait(); l.Close() }()
	e := benchCmd(t, append(load(srv, "--num-prompts", "5"), "--fleet", f.join, "--workers", "1")...).want(1)
	has(t, "standard error", e.stderr, "worker old is spate 0.0.9 and this is spate 0.1.0", "same release")
	if n := srv.Stats().Requests; n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}
