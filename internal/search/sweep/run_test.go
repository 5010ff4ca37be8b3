package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"spate/internal/call"
	"spate/internal/host/launch"
	"spate/internal/judge/metrics"
	"spate/internal/judge/verdict"
	"spate/internal/result"
	"spate/internal/result/harvest"
	"spate/internal/rng"
	"spate/internal/trial"
)

// made is an executor whose runs a test makes.
type made func(p *trial.Point) (*trial.Result, error)

func (m made) Try(_ context.Context, p *trial.Point) (*trial.Result, error) { return m(p) }
func (m made) Close(context.Context) error                                  { return nil }

// leave writes a run folder as far as it is told.
func leave(t testing.TB, p *trial.Point, state result.State, finish bool) *trial.Result {
	t.Helper()
	run := &result.Run{Started: time.Unix(1, 0), Tool: "spate test", Labels: map[string]string{}, Plan: result.NewPlan(metrics.Run{}, "")}
	f, err := result.Create(run, result.Options{Dir: p.Config.Output.OutputDir})
	if err != nil {
		t.Fatal(err)
	}
	rec := call.Record{Phase: call.Measure, Outcome: call.OK, Sent: time.Second, End: 2 * time.Second}
	if err := f.Log.Record(&rec); err != nil {
		t.Fatal(err)
	}
	if !finish {
		if err := f.Log.Close(); err != nil {
			t.Fatal(err)
		}
		return &trial.Result{Run: run}
	}
	run.Summary.Completed, run.State = 1, state
	if err := f.Finish(run); err != nil {
		t.Fatal(err)
	}
	return &trial.Result{Run: run}
}

// killed is thrown where a process would die.
var errKilled = errors.New("killed")

// sit makes one sitting, which may end in a kill.
func sit(t testing.TB, dir string, p *Plan, o Options) (out *Outcome, dead bool) {
	t.Helper()
	f, err := Open(dir, p)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if r := recover(); r != nil {
			if r != errKilled { //nolint:errorlint // the very value that was thrown
				panic(r)
			}
			dead = true
		}
	}()
	o.Resolve = resolve
	out, err = Run(context.Background(), f, o)
	if err != nil {
		t.Fatal(err)
	}
	return out, false
}

// TestEveryPointIsMeasuredExactlyAsOftenAsAskedFor is the law of resuming: whatever ends a sitting, in
// the end every point has as many results as it should, and none was made again once it was there.
func TestEveryPointIsMeasuredExactlyAsOftenAsAskedFor(t *testing.T) {
	for seed := range uint64(6) {
		draw := rng.New(seed, "interruptions")
		dir := t.TempDir()
		repeat := 1 + draw.IntN(3)
		suite := fmt.Sprintf("repeat: %d\norder: random\nseed: %d\ngrid: {isl: [1, 2, 3]}", repeat, seed)
		plan := planned(t, suite)
		completed := map[string]int{}
		sittings := 0
		for done := false; !done; sittings++ {
			if sittings > 200 {
				t.Fatalf("seed %d: no end after %d sittings", seed, sittings)
			}
			stop := make(chan struct{})
			stopped := false
			o := Options{Stop: stop, Executor: made(func(p *trial.Point) (*trial.Result, error) {
				switch draw.IntN(8) {
				case 0: // killed before anything was written
					panic(errKilled)
				case 1: // in the middle
					leave(t, p, result.Running, false)
					panic(errKilled)
				case 2: // after the result, before the journal knows
					completed[p.Config.Output.OutputDir]++
					leave(t, p, result.Complete, true)
					panic(errKilled)
				case 3: // stopped by the user
					if !stopped {
						stopped = true
						close(stop)
					}
					return leave(t, p, result.Interrupted, true), nil
				case 4:
					return nil, errors.New("the server is gone")
				}
				completed[p.Config.Output.OutputDir]++
				return leave(t, p, result.Complete, true), nil
			})}
			out, dead := sit(t, dir, plan, o)
			if dead && draw.IntN(2) == 0 {
				tear(t, filepath.Join(dir, trial.JournalFile))
			}
			done = !dead && len(out.Entries) == 3*repeat
			if !dead && out.Stopped != stopped {
				t.Fatalf("seed %d: stopped is %v", seed, out.Stopped)
			}
		}
		if len(completed) != 3*repeat {
			t.Errorf("seed %d: %d runs, want %d", seed, len(completed), 3*repeat)
		}
		for key, n := range completed {
			if n != 1 {
				t.Errorf("seed %d: %s was completed %d times", seed, key, n)
			}
		}
		set, err := harvest.Find([]string{dir}, nil)
		if err != nil || len(measured(set)) != 3*repeat {
			t.Errorf("seed %d: reading the folder finds %d results, %v", seed, len(measured(set)), err)
		}
	}
}

func measured(set *result.Set) []result.Entry {
	var out []result.Entry
	for i := range set.Entries {
		if set.Entries[i].Run != nil {
			out = append(out, set.Entries[i])
		}
	}
	return out
}

// tear leaves half a line at the end of a journal.
func tear(t testing.TB, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"at":"2026-`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestSweepGivesUpOnAServerThatIsGone(t *testing.T) {
	tries := 0
	p := planned(t, "grid: {isl: [1, 2, 3, 4, 5]}")
	out, _ := sit(t, t.TempDir(), p, Options{Executor: made(func(*trial.Point) (*trial.Result, error) {
		tries++
		return nil, errors.New("nothing answers")
	})})
	if tries != maxInARow || !out.GaveUp || len(out.Failed) != maxInARow {
		t.Errorf("%d tries, gave up %v, %d failed", tries, out.GaveUp, len(out.Failed))
	}
}

// starting is an executor that tells when it would start and end servers, and fails to start one.
type starting struct {
	t       *testing.T
	events  []string
	running string
	broken  string
}

func (s *starting) Try(_ context.Context, p *trial.Point) (*trial.Result, error) {
	key := ""
	if p.Server != nil {
		key = p.Server.Key
	}
	if key != s.running && key != "" {
		s.events = append(s.events, "start "+p.Server.Spec.Command[0])
		if key == s.broken {
			return nil, &trial.StartError{Err: &launch.Failure{Kind: launch.NotFound, Line: "out of memory"}}
		}
		s.running = key
	}
	s.events = append(s.events, filepath.Base(p.Config.Output.OutputDir))
	return leave(s.t, p, result.Complete, true), nil
}

func (s *starting) Close(context.Context) error {
	if s.running != "" {
		s.events = append(s.events, "stop")
	}
	s.running = ""
	return nil
}

func TestServersAreStartedOncePerGroup(t *testing.T) {
	dir := t.TempDir()
	const suite = "repeat: 2\ngrid: {isl: [1]}\nservers: [{name: a, launch: a}, {name: b, launch: b}, {name: c}]"
	x := &starting{t: t, broken: "b"}
	out, _ := sit(t, dir, planned(t, suite), Options{Executor: x})
	want := "start a,abc123-001-a-isl=1-r1,abc123-001-a-isl=1-r2,stop,start b,abc123-003-c-isl=1-r1,abc123-003-c-isl=1-r2"
	if got := strings.Join(x.events, ","); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if len(out.Failed) != 2 || out.GaveUp || !strings.Contains(out.Failed[0].Err.Error(), "server b: start b: out of memory") {
		t.Errorf("failed: %+v", out.Failed)
	}
	x = &starting{t: t}
	out, _ = sit(t, dir, planned(t, suite), Options{Executor: x})
	if got, want := strings.Join(x.events, ","), "start b,abc123-002-b-isl=1-r1,abc123-002-b-isl=1-r2,stop"; got != want || len(out.Entries) != 6 {
		t.Errorf("the second sitting: %s, %d results; want %s", got, len(out.Entries), want)
	}
}

func TestOneSweepAFolder(t *testing.T) {
	dir := t.TempDir()
	f, err := Open(dir, planned(t, "grid: {isl: [1, 2]}"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, planned(t, "grid: {isl: [1, 2]}")); err == nil || !strings.Contains(err.Error(), "another spate process is using") {
		t.Errorf("a second one at once: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	var changed *trial.ChangedError
	if _, err := Open(dir, planned(t, "grid: {isl: [1, 3]}")); !errors.As(err, &changed) || !strings.Contains(err.Error(), "point isl=3 is new") {
		t.Errorf("another plan: %v", err)
	}
	p, err := Load(dir)
	if err != nil || p.ID != "abc123" || len(p.Points) != 2 {
		t.Errorf("loaded %+v, %v", p, err)
	}
	if p, err := Load(t.TempDir()); p != nil || err != nil {
		t.Errorf("an empty folder: %v, %v", p, err)
	}
}

// TestReasons: whoever reads SUSPECT or INVALID in the table reads below it why, and where.
func TestReasons(t *testing.T) {
	p := planned(t, "repeat: 2\ngrid: {request-rate: [2, 10, 20]}")
	late := func(level verdict.Level, ms float64) verdict.Finding {
		return verdict.Finding{Name: "send_lag", Level: level, Figure: ms, Bound: 1, Sentence: fmt.Sprintf("p99 send lag %v ms.", ms)}
	}
	hits := verdict.Finding{Name: "prefix_cache", Level: verdict.Suspect, Figure: 0.5, Bound: 0.1, Sentence: "50 % came from the cache."}
	found := [][]verdict.Finding{nil, {hits}, {late(verdict.Invalid, 30), hits}, {late(verdict.Invalid, 90)}, {late(verdict.Invalid, 60), hits}, {late(verdict.Suspect, 2)}}
	var entries []result.Entry
	for i := range found {
		run := &result.Run{ID: p.Key(Step{&p.Points[i/2], 1 + i%2})}
		run.Verdict.Findings = found[i]
		entries = append(entries, result.Entry{ID: run.ID, Run: run})
	}
	want := []string{
		"INVALID at request-rate=10, request-rate=20, 3 runs (send_lag): the worst: p99 send lag 90 ms.",
		"SUSPECT at every point, 3 runs (prefix_cache): the worst: 50 % came from the cache.",
		"SUSPECT at request-rate=20, 1 run (send_lag): p99 send lag 2 ms.",
	}
	if got := Reasons(p, entries); !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	if got := Reasons(p, entries[:1]); len(got) != 0 {
		t.Errorf("a valid run has reasons: %q", got)
	}
}

func TestOverviewAndTable(t *testing.T) {
	p := planned(t, "repeat: 2\ngrid: {request-rate: [2, 10]}\nservers: [{name: a}]")
	var b strings.Builder
	view := NewOverview(&b, p)
	var entries []result.Entry
	for i := range p.Points {
		for r := 1; r <= 2; r++ {
			st := Step{&p.Points[i], r}
			run := &result.Run{ID: p.Key(st)}
			run.Summary.Completed, run.Summary.RequestThroughput = 10*(i+1), float64(r)
			if i == 0 && r == 1 {
				run.Verdict.Grade = verdict.InvalidRun
			}
			entries = append(entries, result.Entry{ID: run.ID, Run: run})
			if err := view.Row(Row{Step: st, N: 2*i + r, Of: 4, Run: run, Earlier: r == 1, Left: time.Minute}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := view.Row(Row{Step: Step{&p.Points[0], 1}, N: 1, Of: 4, Err: errors.New("no server\nat all")}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	if !strings.HasPrefix(lines[0], "run  server  request-rate  repeat        ok    failed") || !strings.HasSuffix(lines[1], "(earlier)") ||
		!strings.Contains(lines[4], "4/4       a            10       2        20") || !strings.HasSuffix(lines[5], "no result: no server") {
		t.Errorf("overview:\n%s", b.String())
	}
	b.Reset()
	if err := Table(&b, p, entries[:3]); err != nil {
		t.Fatal(err)
	}
	lines = strings.Split(b.String(), "\n")
	if !strings.HasPrefix(lines[0], "| server | request-rate | runs | verdict | ok |") || !strings.HasPrefix(lines[3], "| a | 10 | 1 | - | 20 |") ||
		!strings.HasPrefix(lines[2], "| a | 2 | 2 | 1 INVALID, 1 not judged | 10 | 0 | 0.00 | 2.00 |") { // the median of the one that is not INVALID
		t.Errorf("table:\n%s", b.String())
	}
	if n := strings.Count(lines[0], "|"); n != strings.Count(lines[1], "|") || n != strings.Count(lines[2], "|") {
		t.Errorf("columns differ:\n%s", b.String())
	}
}
