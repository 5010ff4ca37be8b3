package attack

// Faults from one seed. A history is a list of faults that strike one run: of the network (the server resets, cuts or
// garbles answers), the disk (files may not grow beyond a size), descriptors (no more may be opened), the clock (the
// process is stopped for a while, which it sees as a gap in its own time) and signals (SIGINT, SIGTERM, kill -9). The
// faults of a history are drawn from the seed and its number, and strike at a request, not at a time: the server tells
// how many it has seen. What lies between two requests is the scheduler's, so that a history repeats as far as the
// machine lets it; everything that is chosen repeats exactly.
//
// The same laws hold after each history. When one is broken, the history is run again with parts of the list left out,
// first halves, then single faults, for as long as a law stays broken: what is printed is the shortest list and the seed.

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"spate/internal/call"
	"spate/internal/call/recorder"
	"spate/internal/judge/verdict"
	"spate/internal/result"
	"spate/internal/sim/serve"
)

// Every history runs this many requests, so many at a time.
const (
	requests = 240
	slots    = 8
)

// fault is one event of a history.
type fault struct {
	kind string
	at   int    // request it strikes at
	size int    // of files, in blocks of 512 bytes; of descriptors; of a stop, in milliseconds
	rule string // what the server does, as --fault has it
}

func (f fault) String() string {
	switch f.kind {
	case "disk":
		return fmt.Sprintf("files end at %d blocks", f.size)
	case "descriptors":
		return fmt.Sprintf("%d descriptors", f.size)
	case "network":
		return "the server: " + f.rule
	case "stop":
		return fmt.Sprintf("stopped for %d ms at request %d", f.size, f.at)
	}
	return fmt.Sprintf("%s at request %d", f.kind, f.at)
}

var kinds = []string{"network", "network", "disk", "descriptors", "stop", "SIGTERM", "SIGINT", "SIGKILL", "SIGKILL"}

var rules = []string{
	"reset", "cut,at=2", "cut,at=2,bytes=9", "cut,at=2,reset=true", "garbage,at=2", "garbage,where=headers", "garbage,at=2,where=http", "status,code=500",
	"status,code=503,retry_after=1", "error,at=2,text=out of memory", "utf8,at=2", "empty", "no_done", "flood", "split,bytes=1", "stall,at=2", "drip,bytes=40",
}

// history draws one to five faults.
func history(r *rand.Rand) []fault {
	list := make([]fault, 1+r.IntN(5))
	for i := range list {
		f := fault{kind: kinds[r.IntN(len(kinds))], at: r.IntN(requests)}
		switch f.kind {
		case "network":
			f.rule = fmt.Sprintf("%s,index=%d-%d", rules[r.IntN(len(rules))], f.at, f.at+r.IntN(12))
		case "disk":
			f.size = 8 << r.IntN(7)
		case "descriptors":
			f.size = 8 + r.IntN(32)
		case "stop":
			f.size = 20 + r.IntN(400)
		}
		list[i] = f
	}
	slices.SortStableFunc(list, func(a, b fault) int { return a.at - b.at })
	return list
}

// shortest leaves out of a list what is not needed for it to fail (delta debugging): halves first, then smaller parts.
func shortest(list []fault, fails func([]fault) bool) []fault {
	for size := (len(list) + 1) / 2; size >= 1; {
		shrunk := false
		for i := 0; i < len(list) && len(list) > 1; {
			rest := slices.Concat(list[:i], list[min(len(list), i+size):])
			if len(rest) > 0 && fails(rest) {
				list, shrunk = rest, true
			} else {
				i += size
			}
		}
		if !shrunk || size > len(list) {
			size /= 2
		}
	}
	return list
}

// TestShortest shrinks lists whose failure needs one, two or three of their faults.
func TestShortest(t *testing.T) {
	t.Parallel()
	var list []fault
	for i := range 9 {
		list = append(list, fault{kind: "stop", at: i})
	}
	for _, need := range [][]int{{0}, {8}, {3, 4}, {0, 8}, {1, 5, 7}} {
		got := shortest(list, func(part []fault) bool {
			for _, at := range need {
				if !slices.ContainsFunc(part, func(f fault) bool { return f.at == at }) {
					return false
				}
			}
			return true
		})
		var ats []int
		for _, f := range got {
			ats = append(ats, f.at)
		}
		if !slices.Equal(ats, need) {
			t.Errorf("shrunk to %v, want %v", ats, need)
		}
	}
}

// TestHistories runs histories of faults, and shrinks those that break a law.
func TestHistories(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("short: attacks the real program; make attack is the long form")
	}
	program(t)
	n := size(10, 200)
	var ends tally
	atOnce(n, func(i int) {
		list := history(draws(t, 2_000_000+i))
		err := play(t, list, &ends)
		if err == nil {
			return
		}
		least := shortest(list, func(part []fault) bool { return play(t, part, &ends) != nil })
		t.Errorf("history %d (seed %d): %v\nall of it: %v\nthe shortest that fails: %v", i, seed(t), err, list, least)
	})
	t.Logf("histories: %d; %d processes killed, %d ended with a result, %d could not begin", n, ends.killed.Load(), ends.finished.Load(), ends.refused.Load())
}

// tally counts how processes ended.
type tally struct{ killed, finished, refused atomic.Int64 }

func (e *tally) add(killed bool, folder string) {
	switch _, err := os.Stat(filepath.Join(folder, result.ResultFile)); {
	case killed:
		e.killed.Add(1)
	case err == nil:
		e.finished.Add(1)
	default:
		e.refused.Add(1)
	}
}

// play runs one history and holds the laws.
func play(t *testing.T, list []fault, ends *tally) error {
	t.Helper()
	cfg := serve.Config{Script: &serve.Script{}, Timetable: serve.TimetableConfig{TTFT: 2 * time.Millisecond, ITL: time.Millisecond}}
	limits := ""
	for _, f := range list {
		switch f.kind {
		case "network":
			rule, err := serve.ParseFault(f.rule)
			if err != nil {
				return err
			}
			cfg.Script.Rules = append(cfg.Script.Rules, rule)
		case "disk":
			limits += fmt.Sprintf("ulimit -f %d; ", f.size)
		case "descriptors":
			limits += fmt.Sprintf("ulimit -n %d; ", f.size)
		}
	}
	srv, err := serve.Start(context.Background(), cfg)
	if err != nil {
		return err
	}
	defer func() { _ = srv.Stop() }()
	dir, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	folder := filepath.Join(dir, "run")
	p, err := launch(t, dir, limits, "bench", "--base-url", srv.URL(), "--output-dir", folder, "--num-prompts", fmt.Sprint(requests),
		"--max-concurrency", fmt.Sprint(slots), "--random-input-len", "8", "--random-output-len", "6", "--model", "spate-sim", "--skip-tokenizer-init",
		"--ready-check-timeout-sec", "0", "--abort-on-error", "off", "--request-timeout", "2s", "--grace-period", "2s")
	if err != nil {
		return err
	}
	over := make(chan struct{})
	struck := make(chan error, 1)
	safe := 0
	go func() {
		var err error
		safe, err = strike(p, srv, list, folder, over)
		struck <- err
	}()
	code, err := p.wait()
	close(over)
	if err := errors.Join(err, <-struck); err != nil {
		return err
	}
	ends.add(code < 0, folder)
	return aftermath(t, dir, folder, list, code < 0, safe, srv)
}

// strike lets the faults of signals and of the clock happen, each when the server has seen its request. It returns how many
// records a kill -9 must have left. Before one it waits for the records of all requests that must have ended by then: a log
// that is behind while the run goes on is an error.
func strike(p *process, srv *serve.Server, list []fault, folder string, over <-chan struct{}) (safe int, err error) {
	until := func(holds func() bool) bool {
		for !holds() {
			select {
			case <-over:
				return false
			case <-time.After(time.Millisecond):
			}
		}
		return true
	}
	full := slices.ContainsFunc(list, func(f fault) bool { return f.kind == "disk" })
	for _, f := range list {
		signal, ok := map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM, "SIGINT": syscall.SIGINT, "SIGKILL": syscall.SIGKILL, "stop": syscall.SIGSTOP}[f.kind]
		if !ok {
			continue
		}
		if !until(func() bool { return srv.Stats().Requests >= int64(f.at) }) {
			return safe, nil
		}
		if signal == syscall.SIGKILL && !full {
			if !until(func() bool { safe = lines(folder); return safe >= f.at-slots }) && srv.Stats().Requests > int64(f.at)+requests/2 {
				return safe, fmt.Errorf("%d records on disk after %d requests", safe, srv.Stats().Requests)
			}
		}
		_ = p.cmd.Process.Signal(signal) // it may be gone: then there is nothing to strike
		if signal == syscall.SIGSTOP {
			time.Sleep(time.Duration(f.size) * time.Millisecond)
			_ = p.cmd.Process.Signal(syscall.SIGCONT)
		}
	}
	return safe, nil
}

// lines is how many records the log of a run has.
func lines(folder string) int {
	data, err := os.ReadFile(filepath.Join(folder, result.RecordsFile))
	if err != nil {
		return 0
	}
	return strings.Count(string(data), "\n")
}

// aftermath holds the laws of what a run left behind.
func aftermath(t *testing.T, dir, folder string, list []fault, killed bool, safe int, srv *serve.Server) error {
	t.Helper()
	has := func(kind string) bool { return slices.ContainsFunc(list, func(f fault) bool { return f.kind == kind }) }
	n := lines(folder)
	if n < safe {
		return fmt.Errorf("%d records were on disk before the kill, %d are there now", safe, n)
	}
	_, err := os.Stat(filepath.Join(folder, result.ResultFile))
	finished := err == nil
	switch {
	case finished && !has("disk"):
		if err := accounts(folder, int(srv.Stats().Requests)); err != nil {
			return err
		}
	case finished:
		if err := lossTold(folder); err != nil {
			return err
		}
	case !killed && !has("disk") && !has("descriptors") && srv.Stats().Requests > 0:
		return errors.New("the run ended by itself and wrote no result")
	}
	if n == 0 {
		return nil // it was ended before it began
	}
	if _, damage, err := recorder.Read(filepath.Join(folder, result.RecordsFile)); err != nil || damage.Bad > 0 {
		return fmt.Errorf("read records: %w, %v", err, damage)
	}
	return renders(t, dir, folder)
}

// lossTold holds that a run whose disk was full says how many records are missing.
func lossTold(folder string) error {
	run, err := result.Open(folder)
	if err != nil {
		return err
	}
	if !run.Tally.Balanced() {
		return fmt.Errorf("%+v: due requests without a fate", run.Tally)
	}
	recs, _, err := recorder.Read(filepath.Join(folder, result.RecordsFile))
	if err != nil {
		return err
	}
	measured := len(slices.DeleteFunc(recs, func(r call.Record) bool { return r.Phase != call.Measure }))
	if told := int(run.Records.Missing); measured+told < run.Tally.Attempts {
		return fmt.Errorf("%d attempts, %d of them on disk, and only %d are said to be missing", run.Tally.Attempts, measured, told)
	}
	for _, f := range run.Verdict.Findings {
		n := run.Records.Missing
		if f.Name == "record_log" && ((f.Level == verdict.OK) != (n == 0) || n > 0 && !strings.HasPrefix(f.Sentence, fmt.Sprintf("%d records ", n))) {
			return fmt.Errorf("%d records are missing, and the verdict says: %s", n, f.Sentence)
		}
	}
	return nil
}
