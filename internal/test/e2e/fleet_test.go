package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"spate/internal/cli"
	"spate/internal/result"
	"spate/internal/sim/serve"
)

// This file runs fleets as users do: a broker, workers and a coordinator, each a process of its own. fleet_broken_test.go
// kills, stops and cuts them off.

// steady is a server whose answers take a tenth of a second: requests are in flight when something breaks.
func steady(t *testing.T) *serve.Server {
	t.Helper()
	return sim(t, serve.Config{Truth: true, Timetable: serve.TimetableConfig{TTFT: 20 * time.Millisecond, ITL: 8 * time.Millisecond}})
}

// load are the flags of a small load on a server.
func load(srv *serve.Server, more ...string) []string {
	return append([]string{
		"--base-url", srv.URL(), "--random-input-len", "16", "--random-output-len", "10", "--ui", "none", "--no-store", "--ready-check-timeout-sec", "0",
	}, more...)
}

// TestWorkersSendOneLoad: with 1, 2 and 7 workers the server gets the requests of a run without workers, byte for byte,
// each once; the folder is that of any run, with a worker on each record; every figure's accounting is exact.
func TestWorkersSendOneLoad(t *testing.T) {
	slow(t, "starts many processes")
	for name, flags := range map[string][]string{
		"open":   {"--num-prompts", "42", "--request-rate", "60", "--seed", "3"},
		"closed": {"--num-prompts", "42", "--max-concurrency", "10", "--num-warmups", "5"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := steady(t)
			flags := append(load(srv), append(flags, "--request-id-prefix", "same-")...)
			alone := bodies(t, benchCmd(t, flags...).want(0))
			for _, n := range []int{1, 2, 7} {
				e := benchCmd(t, append(flags, "--workers", strconv.Itoa(n))...).want(0)
				run := e.balanced()
				if run.Tally.OK != 42 || run.State != result.Complete || len(run.Workers) != n {
					t.Errorf("%d workers: %+v, %s, %d of them\n%s", n, run.Tally, run.State, len(run.Workers), e.stderr)
				}
				if got := bodies(t, e); !slices.Equal(got, alone) {
					t.Errorf("%d workers sent another load:\n%v\nwant\n%v", n, got, alone)
				}
				share := map[string]int{}
				for _, r := range e.measured() {
					share[r.Worker]++
				}
				if len(share) != n || share[""] > 0 {
					t.Errorf("%d workers: records of %v", n, share)
				}
				if left, _ := filepath.Glob(filepath.Join(e.dir, ".cache", "spate", "fleet", "*")); len(left) > 0 {
					t.Errorf("left behind: %v", left)
				}
				if _, err := os.Stat(filepath.Join(e.folder, "fleet.json")); err == nil {
					t.Error("a finished run still says where its records are")
				}
			}
		})
	}
}

// bodies are what a run sent and when, as its records have it: names, lengths, and for an open loop the due times.
func bodies(t *testing.T, e ended) []string {
	t.Helper()
	start := e.result().Plan.Start
	var out []string
	for _, r := range e.measured() {
		due := "-"
		if strings.Contains(e.out, "Request rate configured") {
			due = (r.Due - start).String()
		}
		out = append(out, fmt.Sprintf("%d %s %d %d %s", r.ID, r.Name, r.Asked.N, r.AskedOut, due))
	}
	return out
}

// fleet is a broker and workers of its own.
type fleet struct {
	t       *testing.T
	dir     string
	join    string
	addr    string
	broker  *command
	workers []*command
}

// newFleet starts a broker and n workers.
func newFleet(t *testing.T, n int) *fleet {
	t.Helper()
	f := &fleet{t: t, dir: t.TempDir(), addr: "127.0.0.1:0"}
	f.join = filepath.Join(f.dir, "fleet.join")
	f.serve()
	for i := range n {
		f.work(fmt.Sprintf("g%d", i+1), f.join, "")
	}
	f.await(n)
	return f
}

// serve starts the broker, the second time where it was.
func (f *fleet) serve() {
	f.t.Helper()
	f.broker = prepare(f.t, nil, "fleet", "serve", "--listen", f.addr, "--dir", filepath.Join(f.dir, "broker"), "--join-file", f.join)
	f.broker.start()
	await(f.t, "the broker listens", func() bool { return strings.Contains(f.broker.out.String(), "nats://") })
	f.addr = strings.TrimPrefix(strings.TrimSpace(f.broker.out.String()), "nats://")
}

// work starts a worker; limits are words of a shell before it.
func (f *fleet) work(name, join, limits string) *command {
	f.t.Helper()
	w := prepare(f.t, nil, "worker", "--join", join, "--name", name, "--dir", filepath.Join(f.dir, name))
	if limits != "" {
		w.cmd.Args = append([]string{"sh", "-c", limits + `; exec "$0" "$@"`}, w.cmd.Args...)
		w.cmd.Path = "/bin/sh"
	}
	w.start()
	f.workers = append(f.workers, w)
	return w
}

// await waits until n workers are there.
func (f *fleet) await(n int) {
	f.t.Helper()
	await(f.t, "the workers are there", func() bool {
		return strings.Count(prepare(f.t, nil, "fleet", "status", "--fleet", f.join).run().out, " free") >= n
	})
}

// bench prepares a run of the fleet.
func (f *fleet) bench(srv *serve.Server, flags ...string) *command {
	f.t.Helper()
	return benchCmd(f.t, append(load(srv, flags...), "--fleet", f.join, "--workers", strconv.Itoa(len(f.workers)))...)
}

// clocksAgree: all processes read the clock of this one host, so that the true offset is 0, and what status says of it is
// wrong by at most half the round trip.
func (f *fleet) clocksAgree() {
	f.t.Helper()
	var said struct {
		Workers []struct {
			Worker string
			Load   *float64
			Clock  *struct {
				Offset    int64 `json:"offset_ns"`
				RoundTrip int64 `json:"round_trip_ns"`
				Exchanges int
			}
		}
	}
	e := prepare(f.t, nil, "fleet", "status", "--json", "--fleet", f.join).want(0)
	if err := json.Unmarshal([]byte(e.out), &said); err != nil || len(said.Workers) != len(f.workers) {
		f.t.Fatalf("%v, %d workers:\n%s", err, len(said.Workers), e.out)
	}
	for _, w := range said.Workers {
		c := w.Clock
		if c == nil || c.Exchanges < 20 || c.RoundTrip <= 0 || max(c.Offset, -c.Offset) > c.RoundTrip/2+1 {
			f.t.Errorf("clock of %s: %+v", w.Worker, c)
		}
		if _, err := os.Stat("/proc/loadavg"); err == nil && (w.Load == nil || *w.Load < 0) {
			f.t.Errorf("worker %s does not tell the load of its host", w.Worker)
		}
	}
}

// TestAFleetOfItsOwn: workers that joined serve several runs; status and drain say what they do.
func TestAFleetOfItsOwn(t *testing.T) {
	slow(t, "starts many processes")
	t.Parallel()
	srv := steady(t)
	f := newFleet(t, 3)
	for range 2 {
		run := f.bench(srv, "--num-prompts", "30", "--request-rate", "50").want(0).balanced()
		if run.Tally.OK != 30 || len(run.Workers) != 3 {
			t.Errorf("%+v, %d workers", run.Tally, len(run.Workers))
		}
		for _, w := range run.Workers {
			if w.Clock == nil || w.Clock.Samples < 20 || w.Clock.Uncertainty <= 0 || w.State != result.WorkerFinished {
				t.Errorf("worker %s: %s, clock %+v", w.Name, w.State, w.Clock)
			}
		}
	}
	e := benchCmd(t, append(load(srv, "--num-prompts", "3"), "--fleet", f.join, "--workers", "9")...).want(1)
	has(t, "standard error", e.stderr, "--workers 9: 3 are there and free (g1, g2, g3)", "spate worker --join")
	e = prepare(t, nil, "fleet", "status", "--fleet", f.join).want(0)
	has(t, "status", e.out, "g1 ", "g2 ", "g3 ", " free", "0.1.0", "load", "clock offset", "round trip", " ms")
	f.clocksAgree()
	e = prepare(t, nil, "fleet", "drain", "g2", "--fleet", f.join).want(0)
	has(t, "drain", e.out, "g2 ends")
	if e := f.workers[1].wait(); e.code != 0 {
		t.Errorf("a drained worker ended with %d: %s", e.code, e.stderr)
	}
	e = prepare(t, nil, "fleet", "status", "--fleet", f.join).want(0)
	if strings.Contains(e.out, "g2") {
		t.Errorf("a worker that ended is there:\n%s", e.out)
	}
	for _, args := range [][]string{
		{"fleet", "status"},
		{"fleet", "status", "more", "--fleet", f.join},
		{"fleet", "status", "--fleet", "http://x:1"},
		{"fleet", "collect"},
		{"worker"},
		{"worker", "--join", f.join, "--name", "a.b"},
	} {
		prepare(t, nil, args...).want(2)
	}
}

// TestKeysStayOutOfTheStream: the server's key comes to workers of this host, and to nothing that is kept.
func TestKeysStayOutOfTheStream(t *testing.T) {
	slow(t, "starts many processes")
	t.Parallel()
	const key = "sk-verysecret0123456789"
	srv := sim(t, serve.Config{APIKey: key, Timetable: serve.TimetableConfig{TTFT: time.Millisecond, ITL: time.Millisecond}})
	f := newFleet(t, 2)
	c := f.bench(srv, "--num-prompts", "8", "--api-key", key)
	if run := c.want(0).balanced(); run.Tally.OK != 8 {
		t.Errorf("%+v", run.Tally)
	}
	err := filepath.WalkDir(f.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), key) {
			t.Errorf("%s holds the key", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestBrokerAddressIsRead: an address that is none is a mistake on the command line.
func TestBrokerAddressIsRead(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{"0.0.0.0:99999", "4222", "127.0.0.1:x"} {
		e := prepare(t, nil, "fleet", "serve", "--listen", listen).want(cli.ExitUsage)
		has(t, "standard error", e.stderr, "--listen: listen address \""+listen+"\"")
	}
}
