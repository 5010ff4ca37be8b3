package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"spate/internal/call"
	"spate/internal/cli"
	"spate/internal/judge/verdict"
	"spate/internal/result"
	"spate/internal/sim/serve"
)

var small = []string{"--num-prompts", "6", "--random-input-len", "12", "--random-output-len", "4"}

// TestExitCodes checks what each end of a run tells the shell.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	broken := "status,code=500"
	cases := []struct {
		name   string
		fault  string
		flags  []string
		code   int
		stderr string
	}{
		{name: "done", code: cli.ExitDone},
		{name: "some failed", fault: broken + ",index=0-1", code: cli.ExitDone},
		{name: "all failed", fault: broken, code: cli.ExitFailed, stderr: "no request succeeded"},
		{name: "objective met", flags: []string{"--slo", "p99_ttft<60s,error_rate<1%"}, code: cli.ExitDone},
		{name: "objective not met", flags: []string{"--slo", "p99_ttft<1us"}, code: cli.ExitUnmet, stderr: "objective p99_ttft<1us is not met: p99_ttft"},
		{name: "errors over the objective", fault: broken + ",index=0-2", flags: []string{"--slo", "error_rate<=10%"}, code: cli.ExitUnmet, stderr: "error_rate is 0.5"},
		{name: "throughput objective", flags: []string{"--slo", "request_throughput>1000000"}, code: cli.ExitUnmet, stderr: "request_throughput"},
		{name: "strict and invalid", fault: broken + ",index=0-2", flags: []string{"--strict"}, code: cli.ExitUnmet, stderr: "--strict: "},
		{name: "invalid without strict", fault: broken + ",index=0-2", code: cli.ExitDone},
		{name: "all failed beats an objective", fault: broken, flags: []string{"--slo", "p99_ttft<1us"}, code: cli.ExitFailed},
		{name: "usage", flags: []string{"--slo", "p99_tfft<1s"}, code: cli.ExitUsage, stderr: "p99_tfft"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg := serve.Config{Timetable: serve.TimetableConfig{TTFT: 3 * time.Millisecond, ITL: time.Millisecond}, Script: &serve.Script{}}
			if c.fault != "" {
				rule, err := serve.ParseFault(c.fault)
				if err != nil {
					t.Fatal(err)
				}
				cfg.Script.Rules = append(cfg.Script.Rules, rule)
			}
			e := benchCmd(t, append(append([]string{"--base-url", sim(t, cfg).URL()}, small...), c.flags...)...).want(c.code)
			has(t, "stderr", e.stderr, c.stderr)
			if c.code != cli.ExitUsage {
				blockOf(t, e.out) // there is one, whatever the code
				e.balanced()
			}
		})
	}
}

// deafPort is a port that refuses connections for as long as the test lasts: it is bound and not
// listened on, so that nobody else gets it. Only a server that is told to may listen there.
func deafPort(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	if err == nil {
		err = syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	if err != nil {
		t.Fatal(err)
	}
	addr, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", addr.(*syscall.SockaddrInet4).Port)
}

// TestNothingListens checks that a missing server is told with both ways on, and that no embedded one
// takes its place.
func TestNothingListens(t *testing.T) {
	t.Parallel()
	addr := deafPort(t)
	for _, flags := range [][]string{nil, {"--model", "m"}} {
		e := benchCmd(t, append(append([]string{"--base-url", "http://" + addr}, small...), flags...)...).want(cli.ExitFailed)
		has(t, "stderr", e.stderr, "nothing answers at http://"+addr, "--base-url", "spate demo", "--sim")
		if strings.Contains(e.out, "Serving Benchmark Result") {
			t.Error("a block without a server")
		}
		if _, err := os.Stat(e.folder); err == nil {
			t.Error("a run folder without a run")
		}
	}
}

// TestSimOfNothing checks that a simulated server that there is not is a mistake on the command line.
func TestSimOfNothing(t *testing.T) {
	t.Parallel()
	for _, more := range [][]string{nil, {"--dry-run"}} {
		benchCmd(t, append(append([]string{"--sim", "Qwen3-8B@H1000"}, small...), more...)...).want(cli.ExitUsage)
	}
}

// TestServerWithoutTLS checks that a server that does answer is not called silent.
func TestServerWithoutTLS(t *testing.T) {
	t.Parallel()
	addr := strings.TrimPrefix(sim(t, serve.Config{}).URL(), "http://")
	e := benchCmd(t, append([]string{"--base-url", "https://" + addr}, small...)...).want(cli.ExitFailed)
	has(t, "stderr", e.stderr, "speaks HTTP without TLS: use --base-url http://"+addr)
}

// TestReadinessWait starts the server after the command.
func TestReadinessWait(t *testing.T) {
	t.Parallel()
	if _, err := program(); err != nil {
		t.Fatal(err)
	}
	addr := deafPort(t)
	c := benchCmd(t, append([]string{"--base-url", "http://" + addr, "--ready-check-timeout-sec", "60"}, small...)...)
	c.start()
	time.Sleep(700 * time.Millisecond) // usually the command has met nobody by now; it need not have
	sim(t, serve.Config{Addr: addr, Timetable: serve.TimetableConfig{TTFT: time.Millisecond}})
	e := c.wait()
	if e.code != cli.ExitDone {
		t.Fatalf("exit code %d\n%s", e.code, e.stderr)
	}
	has(t, "stdout", e.out, "Waiting for endpoint to become up in 60 seconds", "Initial test run completed.")
	if run := e.balanced(); run.Tally.Due != 6 {
		t.Errorf("the readiness request is counted: %+v", run.Tally)
	}
}

// untilSent waits until the server has n requests.
func untilSent(t *testing.T, srv *serve.Server, n int64) {
	t.Helper()
	await(t, fmt.Sprintf("the server has %d requests", n), func() bool { return srv.Stats().Requests >= n })
}

// TestInterruptDrains sends one interrupt: sending ends, requests in flight finish, all is written.
func TestInterruptDrains(t *testing.T) {
	t.Parallel()
	for name, load := range map[string][]string{
		"closed loop":     {"--max-concurrency", "4"},
		"rate with a cap": {"--request-rate", "200", "--max-concurrency", "4"},
		"rate":            {"--request-rate", "40"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := sim(t, serve.Config{Truth: true, Timetable: serve.TimetableConfig{TTFT: 100 * time.Millisecond, ITL: 10 * time.Millisecond}})
			c := benchCmd(t, append([]string{"--base-url", srv.URL(), "--num-prompts", "500", "--random-input-len", "12", "--random-output-len", "20"}, load...)...)
			c.start()
			untilSent(t, srv, 9)
			c.signal(syscall.SIGINT)
			e := c.wait()
			if e.code != cli.ExitInterrupted {
				t.Fatalf("exit code %d\n%s", e.code, e.stderr)
			}
			has(t, "stderr", e.stderr, "interrupt again")
			run := e.balanced()
			blockOf(t, e.out)
			if run.State != result.Interrupted || run.Tally.OK < 9 || run.Tally.Failed+run.Tally.Canceled > 0 {
				t.Errorf("state %s, tally %+v", run.State, run.Tally)
			}
			idle(t, srv)
			if got := len(srv.Truth().All()); got != run.Tally.OK {
				t.Errorf("server finished %d requests, %d are reported", got, run.Tally.OK)
			}
			for _, truth := range srv.Truth().All() {
				if truth.Status != "ok" {
					t.Errorf("%s was %s: a first interrupt must let it finish", truth.ID, truth.Status)
				}
			}
			if name == "rate with a cap" && run.Tally.Dropped == 0 {
				t.Errorf("requests that waited for a slot are not told: %+v", run.Tally)
			}
			stopIsNoFailure(t, run, fmt.Sprintf("the run was stopped: %d of 500 requests were not sent; none of these counts as failed", 500-run.Tally.OK))
		})
	}
}

// stopIsNoFailure holds that what a stop left undone is told, and counted as failed nowhere.
func stopIsNoFailure(t *testing.T, run *result.Run, told string) {
	t.Helper()
	if run.Summary.ErrorAdjusted.Failures > 0 || run.Summary.Failed > 0 {
		t.Errorf("%d requests count as failed, %d as not delivered", run.Summary.Failed, run.Summary.ErrorAdjusted.Failures)
	}
	for _, f := range run.Verdict.Findings {
		if slices.Contains([]string{"failures", "dropped_work", "cut_off"}, f.Name) && f.Level != verdict.OK && run.Tally.OK > 0 {
			t.Errorf("%s: %s", f.Name, f.Sentence)
		}
	}
	if run.Undone() != told || !slices.Contains(run.Notes, told) {
		t.Errorf("undone %q, notes %q, want %q", run.Undone(), run.Notes, told)
	}
	both := prepare(t, nil, "report", run.Dir, run.Dir).want(cli.ExitDone)
	has(t, "report of two", both.out, "were not sent")
	if strings.Contains(both.out, "did not succeed") {
		t.Errorf("the table calls what was not sent failed:\n%s", both.out)
	}
}

// TestSecondInterruptCancels sends two: requests in flight are given up and all is still written.
func TestSecondInterruptCancels(t *testing.T) {
	t.Parallel()
	srv := sim(t, serve.Config{Timetable: serve.TimetableConfig{TTFT: 10 * time.Millisecond, ITL: 100 * time.Millisecond}})
	c := benchCmd(t, "--base-url", srv.URL(), "--num-prompts", "500", "--max-concurrency", "4", "--random-input-len", "12", "--random-output-len", "6000") // ten minutes an answer: none may come to its end
	c.start()
	untilSent(t, srv, 4)
	// Half a second after the last request's first token: the others may have more by then.
	before := srv.Stats().Tokens
	await(t, "tokens come", func() bool { return srv.Stats().Tokens >= before+24 })
	c.signal(syscall.SIGINT)
	await(t, "the first interrupt is taken", func() bool { return strings.Contains(c.err.String(), "interrupt again") })
	c.signal(syscall.SIGTERM)
	e := c.wait()
	if e.code != cli.ExitInterrupted {
		t.Fatalf("exit code %d\n%s", e.code, e.stderr)
	}
	run := e.balanced()
	_, figures := blockOf(t, e.out)
	if run.State != result.Interrupted || run.Tally.Canceled != 4 || run.Tally.OK != 0 || figures["Successful requests:"] != "0" {
		t.Errorf("state %s, tally %+v", run.State, run.Tally)
	}
	if said := strings.Count(e.out, "before any of its 4 requests was answered"); said != 1 || strings.Contains(e.out, "Failed requests during") || strings.Contains(e.out, "most frequent") {
		t.Errorf("that nothing was answered is said %d times, or a stop is told as failures:\n%s", said, e.out)
	}
	stopIsNoFailure(t, run, "the run was stopped: 496 of 500 requests were not sent, 4 in flight were cut off by the stop; none of these counts as failed")
	for _, r := range e.measured() {
		if r.Fault != call.FaultStopped || len(r.Chunks) == 0 {
			t.Errorf("request %d: %s with %d chunks kept", r.ID, r.Fault, len(r.Chunks))
		}
	}
}

// TestInterruptLaunch interrupts a launched server that is ready, and one that never will be.
func TestInterruptLaunch(t *testing.T) {
	t.Parallel()
	spate, err := program()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		command []string
		until   string
		code    int
	}{
		"ready":    {[]string{spate, "sim", "--port", "{port}"}, "ready at", cli.ExitDone},
		"starting": {[]string{"sleep", "600"}, "starting", cli.ExitFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := prepare(t, nil, append([]string{"launch", "--gpu-memory-used-ok", "any", "--log", filepath.Join(t.TempDir(), "log"), "--"}, c.command...)...)
			cmd.start()
			await(t, c.until, func() bool { return strings.Contains(cmd.err.String(), c.until) })
			cmd.signal(syscall.SIGINT)
			e := cmd.wait()
			if e.code != c.code {
				t.Errorf("exit code %d, want %d\n%s", e.code, c.code, e.stderr)
			}
			has(t, "stderr", e.stderr, "interrupted: ending the server")
			if strings.Contains(e.stderr, "requests in flight") || strings.Contains(e.stderr, "crash") {
				t.Errorf("there are no requests, and nothing crashed:\n%s", e.stderr)
			}
		})
	}
}

// TestInterruptStartOfRun: one interrupt is enough while a run's server is being started.
func TestInterruptStartOfRun(t *testing.T) {
	t.Parallel()
	c := benchCmd(t, append([]string{"--launch", "sleep 600", "--launch-gpu-memory-used-ok", "any", "--launch-log", filepath.Join(t.TempDir(), "log")}, small...)...)
	c.start()
	await(t, "starting", func() bool { return strings.Contains(c.err.String(), "starting sleep") })
	c.signal(syscall.SIGINT)
	e := c.wait()
	if e.code != cli.ExitInterrupted {
		t.Errorf("exit code %d, want %d\n%s", e.code, cli.ExitInterrupted, e.stderr)
	}
	has(t, "stderr", e.stderr, "the server was ended before it was ready; its log is ")
}

// TestInterruptWhileWaiting interrupts a command that still waits for its server.
func TestInterruptWhileWaiting(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	c := benchCmd(t, append([]string{"--base-url", "http://" + ln.Addr().String(), "--ready-check-timeout-sec", "60"}, small...)...)
	c.start()
	for range 2 { // who calls takes signals by then; a server that hangs up is one that is not there yet
		nc, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_ = nc.Close()
	}
	c.signal(syscall.SIGINT)
	if e := c.wait(); e.code != cli.ExitInterrupted {
		t.Errorf("exit code %d\n%s", e.code, e.stderr)
	}
}

// TestKilled kills runs at random moments. Whatever was answered some time before, spate report must
// give.
func TestKilled(t *testing.T) {
	t.Parallel()
	slow(t, "kills fifteen runs")
	var finished atomic.Int64
	t.Run("rounds", func(t *testing.T) {
		for round := range 15 {
			t.Run(strconv.Itoa(round), func(t *testing.T) {
				t.Parallel()
				finished.Add(int64(killOnce(t, time.Duration(120+round*45)*time.Millisecond)))
			})
		}
	})
	if finished.Load() == 0 {
		t.Error("no run got as far as finishing a request: the test proves nothing")
	}
}

// killOnce kills a run some time after its first request, while it goes on, and returns how many
// answers must have been on disk by then. A slot sends its next request only when the record of the
// last one is handed to the log, so of what the server got, one record a slot may be missing; the log
// must come to hold the others without being told that the run ends.
func killOnce(t *testing.T, after time.Duration) (finished int) {
	const slots = 16
	srv := sim(t, serve.Config{Truth: true, Timetable: serve.TimetableConfig{TTFT: 20 * time.Millisecond, ITL: 2 * time.Millisecond, TTFTSpread: 60 * time.Millisecond}})
	c := benchCmd(t, "--base-url", srv.URL(), "--model", "spate-sim", "--skip-tokenizer-init", "--num-prompts", "100000", "--max-concurrency", strconv.Itoa(slots),
		"--random-input-len", "12", "--random-output-len", "10", "--disable-tqdm")
	c.start()
	untilSent(t, srv, 1)
	time.Sleep(after)
	finished = max(0, int(srv.Stats().Requests)-slots)
	await(t, "what was answered is on disk", func() bool { return finished == 0 || len(recovered(t, c.folder)) >= finished })
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.cmd.Wait() // killed, as asked
	idle(t, srv)
	have := map[string]bool{}
	for _, r := range recovered(t, c.folder) {
		have[r.Name] = true
		if truth := srv.Truth().Find(r.Name); truth == nil || truth.Status != "ok" || r.Outcome != call.OK || r.Out.N != truth.Tokens {
			t.Errorf("%s is kept as %s with %d tokens; the server has %+v", r.Name, r.Outcome, r.Out.N, truth)
		}
	}
	if len(have) < finished {
		t.Errorf("%d answers were on disk before the kill, and only %d are kept", finished, len(have))
	}
	again := prepare(t, nil, "report", c.folder).want(cli.ExitDone)
	_, figures := blockOf(t, again.out)
	if number(t, figures, "Successful requests:") != float64(len(have)) {
		t.Errorf("%d records, block says %s", len(have), figures["Successful requests:"])
	}
	has(t, "report", again.out, "(recovered)", "there is no result.json: the run was killed")
	return finished
}

// TestFullDisk bounds the size of files the command may write: the run goes on, the block comes, and
// what could not be kept is told.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name  string
		limit int // blocks of 512 bytes as POSIX has it, or of 1024 as some shells do
		code  int
	}{
		{"no room for all records", 160, cli.ExitDone},
		{"no room for the result", 24, cli.ExitFailed},
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			srv := sim(t, serve.Config{Timetable: serve.TimetableConfig{TTFT: time.Millisecond, ITL: time.Millisecond}})
			c := benchCmd(t, "--base-url", srv.URL(), "--num-prompts", "400", "--max-concurrency", "20", "--random-input-len", "12", "--random-output-len", "40", "--disable-tqdm")
			c.cmd.Args = append([]string{"sh", "-c", fmt.Sprintf(`ulimit -f %d; exec "$0" "$@"`, k.limit), c.cmd.Path}, c.cmd.Args[1:]...)
			c.cmd.Path = sh
			e := c.want(k.code)
			_, figures := blockOf(t, e.out)
			if figures["Successful requests:"] != "400" || figures["Failed requests:"] != "0" {
				t.Errorf("block says %v", figures)
			}
			told := regexp.MustCompile(`lacks (\d+) of 400 records`).FindStringSubmatch(strings.Join(strings.Fields(e.out+e.stderr), " "))
			if told == nil {
				t.Fatalf("nobody says that records are missing:\n%.3000s\n%s", e.out, e.stderr)
			}
			kept := len(recovered(t, c.folder))
			if told[1] != strconv.Itoa(400-kept) || kept == 0 {
				t.Errorf("%d records kept, and %s of 400 are said to be missing", kept, told[1])
			}
			has(t, "the verdict", strings.Join(strings.Fields(e.out), " "), "INVALID record_log", told[1]+" records are not on disk")
			if k.code == cli.ExitFailed {
				has(t, "stderr", e.stderr, result.ResultFile, "file too large")
			}
			again := prepare(t, nil, "report", c.folder).want(cli.ExitDone)
			blockOf(t, again.out)
		})
	}
}

// TestSigtermDrainsForTheGrace has answers of ten minutes: after the grace period they are given up without
// a second signal, and all is written.
func TestSigtermDrainsForTheGrace(t *testing.T) {
	t.Parallel()
	srv := sim(t, serve.Config{Timetable: serve.TimetableConfig{TTFT: 10 * time.Millisecond, ITL: 100 * time.Millisecond}})
	c := benchCmd(t, "--base-url", srv.URL(), "--num-prompts", "500", "--max-concurrency", "4", "--random-input-len", "12", "--random-output-len", "6000", "--grace-period", "1s")
	c.start()
	untilSent(t, srv, 4)
	before := srv.Stats().Tokens
	await(t, "tokens come", func() bool { return srv.Stats().Tokens >= before+24 })
	c.signal(syscall.SIGTERM)
	e := c.wait()
	if e.code != cli.ExitInterrupted {
		t.Fatalf("exit code %d\n%s", e.code, e.stderr)
	}
	run := e.balanced()
	if run.State != result.Interrupted || run.Tally.Canceled != 4 || run.Tally.Due != 4 {
		t.Errorf("state %s, tally %+v", run.State, run.Tally)
	}
	for _, r := range e.measured() {
		if r.Fault != call.FaultStopped || len(r.Chunks) == 0 {
			t.Errorf("request %d: %s with %d chunks kept", r.ID, r.Fault, len(r.Chunks))
		}
	}
}

// TestInterruptInPreparation interrupts while the server leaves a question unanswered: there is nothing to
// write, so that one signal is enough.
func TestInterruptInPreparation(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	c := benchCmd(t, append([]string{"--base-url", "http://" + ln.Addr().String()}, small...)...)
	c.start()
	nc, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nc.Close() }()
	c.signal(syscall.SIGTERM)
	if e := c.wait(); e.code != cli.ExitInterrupted || strings.Contains(e.stderr, "nothing answers") {
		t.Errorf("exit code %d\n%s", e.code, e.stderr)
	}
	if _, err := os.Stat(c.folder); err == nil {
		t.Error("a run folder without a run")
	}
}
