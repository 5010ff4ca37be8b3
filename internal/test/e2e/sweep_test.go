package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"spate/internal/cli"
	"spate/internal/result"
	"spate/internal/result/harvest"
	"spate/internal/search/capacity"
)

// gate is a server that can be told to leave a request without an answer, so that a client can be
// killed in the middle of a known run.
type gate struct {
	*httptest.Server
	mu   sync.Mutex
	left int // requests to answer before one is held; negative: no limit
	held chan struct{}
}

func newGate(t *testing.T) *gate {
	t.Helper()
	g := &gate{left: -1, held: make(chan struct{}, 100)}
	g.Server = httptest.NewServer(http.HandlerFunc(g.answer))
	t.Cleanup(g.Close)
	return g
}

// holdAfter lets so many requests pass and holds the next.
func (g *gate) holdAfter(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left = n
}

func (g *gate) pass() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.left == 0 {
		return false
	}
	g.left--
	return true
}

func (g *gate) answer(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/v1/models":
		_, _ = fmt.Fprint(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
		return
	case "/v1/completions":
	default:
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body) // or the server would not notice that the client is gone
	if !g.pass() {
		g.held <- struct{}{}
		<-r.Context().Done()
		return
	}
	time.Sleep(100 * time.Millisecond) // a TTFT beside which a late send on a busy machine is small
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprint(w, `data: {"choices":[{"text":"a"}]}`+"\n\n"+`data: {"choices":[{"text":"b","finish_reason":"length"}]}`+"\n\n"+
		`data: {"choices":[],"usage":{"prompt_tokens":8,"completion_tokens":2}}`+"\n\ndata: [DONE]\n\n")
}

// killHeld starts a command and kills it with -9 while its next request is held.
func (g *gate) killHeld(t *testing.T, passes int, args ...string) {
	t.Helper()
	g.holdAfter(passes)
	c := prepare(t, nil, args...)
	c.start()
	await(t, "a request is held", func() bool { return len(g.held) > 0 })
	<-g.held
	c.signal(syscall.SIGKILL)
	if e := c.wait(); e.code != -1 {
		t.Fatalf("the command ended by itself with %d:\n%s\n%s", e.code, e.out, e.stderr)
	}
	g.holdAfter(-1)
}

// counted are the first cells of a sweep's table, which do not depend on time: settings, runs. Verdicts do.
func counted(t *testing.T, out string, cells int) []string {
	t.Helper()
	var rows []string
	for line := range strings.SplitSeq(out, "\n") {
		parts := strings.Split(line, " | ")
		if strings.HasPrefix(line, "| ") && len(parts) > cells && len(parts) < 16 {
			rows = append(rows, strings.Join(parts[:cells], " | "))
		}
	}
	if len(rows) == 0 {
		t.Fatalf("no table in:\n%s", out)
	}
	return rows
}

// TestSweepKilledTwiceGoesOn kills a sweep with -9 twice, each time in the middle of a run, and holds
// that it ends in the same table as one that was left alone, with every run made once.
func TestSweepKilledTwiceGoesOn(t *testing.T) {
	t.Parallel()
	slow(t, "runs a sweep three times")
	g := newGate(t)
	folder := filepath.Join(t.TempDir(), "sweep")
	args := func(dir string) []string {
		return []string{
			"sweep", "--base-url", g.URL, "--num-prompts", "3,4", "--isl", "8", "--osl", "2", "--max-concurrency", "1", "--repeat", "2",
			"--output-dir", dir, "--no-store", "--no-observe",
		}
	}
	g.killHeld(t, 4, args(folder)...)                           // in the second run, after one request
	g.killHeld(t, 5, "sweep", "--resume", folder, "--no-store") // in the third, after one
	e := prepare(t, nil, "sweep", "--resume", folder, "--no-store").want(cli.ExitDone)
	has(t, "stderr", e.stderr, "2 of 4 measurements to make", "all 4 measurements are in")
	if n := strings.Count(e.out, "(earlier)"); n != 2 {
		t.Errorf("%d runs were found, want 2:\n%s", n, e.out)
	}
	whole := prepare(t, nil, args(filepath.Join(t.TempDir(), "whole"))...).want(cli.ExitDone)
	if got, want := counted(t, e.out, 2), counted(t, whole.out, 2); !slices.Equal(got, want) {
		t.Errorf("the table differs:\n%s\nfrom one without interruption:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	set, err := harvest.Find([]string{filepath.Join(folder, "runs")}, nil)
	if err != nil || len(set.Entries) != 4 {
		t.Fatalf("%d results, %v", len(set.Entries), err)
	}
	for i := range set.Entries {
		run := set.Entries[i].Run
		if run.State != result.Complete || run.Summary.Completed != run.Plan.Requests || !run.Tally.Balanced() {
			t.Errorf("%s: %s, %d of %d, %+v", run.ID, run.State, run.Summary.Completed, run.Plan.Requests, run.Tally)
		}
	}
	aside, err := os.ReadDir(filepath.Join(folder, ".interrupted"))
	if err != nil || len(aside) != 2 {
		t.Errorf("set aside: %v, %v", aside, err)
	}
}

// TestSweepKilledTakesItsServerAlong kills a sweep with -9 while a server it launched answers: the server ends, too, and
// the sweep goes on with a new one.
func TestSweepKilledTakesItsServerAlong(t *testing.T) {
	t.Parallel()
	slow(t, "starts servers and kills the sweep")
	if runtime.GOOS != "linux" {
		t.Skip("only there servers have a guard")
	}
	self, err := program()
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "sweep")
	c := prepare(t, nil, "sweep", "--launch", self+" sim --port {port} --ttft 1ms --itl 1ms", "--num-prompts", "1,2", "--isl", "8", "--osl", "2",
		"--cooldown", "1h", "--output-dir", folder, "--no-store", "--no-observe")
	c.start()
	await(t, "a run is done", func() bool { return journalled(folder) > 0 })
	_, rest, ok := strings.Cut(c.err.String(), "the server is ready at http://")
	addr, _, _ := strings.Cut(rest, "\n")
	if conn, err := net.Dial("tcp", addr); !ok || err != nil {
		t.Errorf("the server does not run at %q: %v", addr, err)
	} else if err := conn.Close(); err != nil {
		t.Error(err)
	}
	c.signal(syscall.SIGKILL)
	if e := c.wait(); e.code != -1 {
		t.Fatalf("the sweep ended by itself: %s", e.stderr)
	}
	await(t, "the server has ended", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close() // it was only tried
		}
		return err != nil
	})
	e := prepare(t, nil, "sweep", "--resume", folder, "--cooldown", "0", "--no-store").want(cli.ExitDone)
	has(t, "stderr", e.stderr, "1 of 2 measurements to make", "all 2 measurements are in")
	has(t, "stdout", e.out, "(earlier)")
}

// journalled counts the runs a folder's journal calls done.
func journalled(folder string) int {
	data, err := os.ReadFile(filepath.Join(folder, "journal.jsonl"))
	if err != nil {
		return 0
	}
	return strings.Count(string(data), `"event":"done"`)
}

// tableLines are the tables of an output, every figure included.
func tableLines(out string) []string {
	return slices.DeleteFunc(strings.Split(out, "\n"), func(l string) bool {
		return !strings.HasPrefix(l, "|") && !strings.HasPrefix(l, "predicted: ") && !strings.HasPrefix(l, "- ")
	})
}

// TestPredictedSweepKilledTwiceIsExactlyTheSame kills a sweep in virtual time twice, between its runs,
// and holds that every figure of its tables is that of a sweep that was left alone.
func TestPredictedSweepKilledTwiceIsExactlyTheSame(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "sweep")
	args := []string{"sweep", "--predict", "000-test2", "--num-prompts", "5,10", "--isl", "64,128", "--osl", "8", "--repeat", "2", "--order", "random", "--name", "n", "--no-store"}
	for done, sitting := range [][]string{append(args, "--output-dir", folder), {"sweep", "--resume", folder, "--no-store"}} {
		c := prepare(t, nil, append(slices.Clone(sitting), "--cooldown", "1h")...)
		c.start()
		await(t, "a run is done", func() bool { return journalled(folder) > done })
		c.signal(syscall.SIGKILL)
		if e := c.wait(); e.code != -1 {
			t.Fatalf("the sweep ended by itself: %s", e.stderr)
		}
	}
	e := prepare(t, nil, "sweep", "--resume", folder, "--cooldown", "0", "--no-store").want(cli.ExitDone)
	has(t, "stderr", e.stderr, "6 of 8 measurements to make")
	whole := prepare(t, nil, append(args, "--output-dir", filepath.Join(t.TempDir(), "whole"))...).want(cli.ExitDone)
	got, want := tableLines(e.out), tableLines(whole.out)
	if !slices.Equal(got, want) || len(got) < 10 {
		t.Errorf("the tables differ:\n%s\nfrom those without interruption:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestSearchKilledGoesOn kills a search for capacity in the middle of its second probe.
func TestSearchKilledGoesOn(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	folder := filepath.Join(t.TempDir(), "search")
	g.killHeld(t, 7, "capacity", "--slo", "p99_ttft<60s", "--base-url", g.URL, "--start", "500", "--max", "1000", "--num-prompts", "5", "--repeat", "1",
		"--isl", "8", "--osl", "2", "--cooldown", "0", "--output-dir", folder, "--no-store", "--no-observe")
	e := prepare(t, nil, "capacity", "--resume", folder, "--json", "--no-store").want(cli.ExitDone)
	var a capacity.Answer
	if err := json.Unmarshal([]byte(e.out), &a); err != nil {
		t.Fatalf("%v in:\n%s", err, e.out)
	}
	// On a busy machine a probe is INVALID and made again; none is lost or counted twice.
	if a.Verdict != capacity.AtLeast || a.Load != 1000 || a.Probes < 2 || journalled(folder) != a.Probes {
		t.Errorf("answer %+v, %d probes in the journal", a, journalled(folder))
	}
	has(t, "stderr", e.stderr, "(earlier)")
}

// TestCapacityOfAnEmbeddedServer searches on a real engine over real sockets. What it finds depends on
// how busy the machine is; that every probe is kept and that the answer follows from them does not.
func TestCapacityOfAnEmbeddedServer(t *testing.T) {
	t.Parallel()
	slow(t, "searches for a capacity")
	folder := filepath.Join(t.TempDir(), "search")
	c := prepare(t, nil, "capacity", "--slo", "p90_ttft<150ms,errors<1%", "--sim", "--sim-ttft", "20ms", "--sim-itl", "5ms", "--sim-max-running", "2",
		"--isl", "8", "--osl", "4", "--start", "80", "--max", "320", "--num-prompts", "40", "--tolerance", "0.5", "--repeat", "1", "--max-probes", "3", "--cooldown", "0",
		"--output-dir", folder, "--json", "--no-store", "--no-observe")
	e := c.run()
	if e.code != cli.ExitDone && e.code != cli.ExitUnmet {
		t.Fatalf("exit code %d: %s", e.code, e.stderr)
	}
	var a capacity.Answer
	if err := json.Unmarshal([]byte(e.out), &a); err != nil {
		t.Fatalf("%v in:\n%s", err, e.out)
	}
	if (e.code == cli.ExitDone) != (a.Load > 0) || a.Probes == 0 || a.Probes > 3 || a.Load >= a.Above {
		t.Errorf("exit code %d with %+v", e.code, a)
	}
	probes := 0
	for _, l := range a.Levels {
		for _, o := range slices.Concat(l.Probes, l.Left) { // on a busy machine some are INVALID
			probes++
			run, err := result.Open(o.Run)
			if err != nil || run.Plan.RequestRate == nil || *run.Plan.RequestRate != l.Load {
				t.Errorf("probe at %g: %v, %+v", l.Load, err, run)
			}
		}
	}
	if probes != a.Probes || journalled(folder) != probes {
		t.Errorf("%d probes, %d told, %d in the journal", a.Probes, probes, journalled(folder))
	}
}

// TestShippedSuitesRun makes a small variant of every example suite on embedded servers.
func TestShippedSuitesRun(t *testing.T) {
	t.Parallel()
	slow(t, "runs every shipped suite")
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		suite string
		flags []string
		runs  int
	}{
		{"prompts-by-length", []string{"--num-prompts", "2", "--random-input-len", "8", "--random-output-len", "3"}, 2},
		{"qps-servers", []string{"--num-prompts", "2", "--request-rate", "50,100"}, 10},
		{"doubling-ladder", []string{"--num-prompts", "1,2", "--random-input-len", "8", "--random-output-len", "3"}, 2},
		{"four-workloads", []string{"--num-prompts", "2", "--dataset-name", "random", "--random-input-len", "8", "--random-output-len", "3", "--random-range-ratio", "0", "--dataset-path", ""}, 6},
		{"closed-loop", []string{"--num-prompts", "2", "--custom-output-len", "3"}, 4},
	}
	for _, c := range cases {
		t.Run(c.suite, func(t *testing.T) {
			t.Parallel()
			args := append([]string{
				"sweep", filepath.Join("examples", "suites", c.suite+".yaml"), "--sim", "--sim-ttft", "1ms", "--sim-itl", "1ms", "--cooldown", "0", "--no-store", "--no-observe",
				"--output-dir", filepath.Join(t.TempDir(), "s"),
			}, c.flags...)
			cmd := prepare(t, nil, args...)
			cmd.cmd.Dir = root
			e := cmd.want(cli.ExitDone)
			has(t, "stderr", e.stderr, "all "+strconv.Itoa(c.runs)+" measurements are in")
		})
	}
}
