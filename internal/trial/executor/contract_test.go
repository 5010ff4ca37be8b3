//go:build linux

package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"spate/internal/bench"
	"spate/internal/call"
	"spate/internal/call/recorder"
	"spate/internal/forecast/predict"
	"spate/internal/forecast/profile"
	"spate/internal/host/launch"
	"spate/internal/result"
	"spate/internal/settings/config"
	"spate/internal/settings/flags"
	"spate/internal/sim/serve"
	"spate/internal/trial"
	"spate/internal/view/report"
)

// The test program is also the server that is started, and its guard.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == "guard":
		os.Exit(launch.Guard(os.Args[2:]))
	case len(os.Args) > 3 && os.Args[1] == "act":
		os.Exit(act(os.Args[2], os.Args[3]))
	}
	os.Exit(m.Run())
}

// act is a server on a port: a good one, one that dies after a few requests, or one that does not start.
func act(manner, port string) int {
	if manner == "refuses" {
		fmt.Println("error: unrecognized arguments: --nonsense")
		return 2
	}
	cfg := serving()
	cfg.Addr = "127.0.0.1:" + port
	if manner == "dies" {
		cfg.Timetable.TTFT = time.Minute
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	srv, err := serve.Start(ctx, cfg)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	if manner == "dies" {
		for srv.Stats().Requests == 0 {
			time.Sleep(time.Millisecond)
		}
		fmt.Println("CUDA error: device-side assert triggered")
		return 3
	}
	<-ctx.Done()
	_ = srv.Stop() // the process ends with it
	return 0
}

// serving is a server that takes its time by a timetable.
func serving() serve.Config {
	return serve.Config{Timetable: serve.TimetableConfig{TTFT: 5 * time.Millisecond, ITL: time.Millisecond, OutputLen: 4, ChunkTokens: 1}, Models: []string{"m"}}
}

// subject is an executor under test.
type subject struct {
	name    string
	virtual bool                                                               // it takes no time, so that nothing can end it
	make    func(t *testing.T, stop <-chan struct{}) trial.Executor            //
	point   func(t *testing.T, args ...string) *trial.Point                    // a run of 12 requests unless the arguments say otherwise
	failed  func(t *testing.T, e trial.Executor) (p *trial.Point, want string) // a run whose server fails, and its name
}

func measured(stop <-chan struct{}) *Measured {
	return &Measured{
		Version: "test", Getenv: func(string) string { return "" }, ReadFile: os.ReadFile, Stderr: io.Discard, Stop: stop, Note: func(string, ...any) {},
		Show: func(w io.Writer, _ *config.Bench, out *bench.Outcome) error {
			return report.Block(w, report.BlockOf(out.Run))
		},
	}
}

// settings reads arguments of bench for a small run.
func settings(t *testing.T, args ...string) *trial.Point {
	t.Helper()
	base := []string{"--num-prompts", "12", "--random-input-len", "16", "--random-output-len", "4", "--max-concurrency", "2", "--metadata", "colour=red", "--no-observe"}
	r, err := flags.Parse(append(base, args...), flags.Options{ReadFile: os.ReadFile, IDPrefix: "test-"})
	if err != nil {
		t.Fatal(err)
	}
	r.Bench.Output.OutputDir = filepath.Join(t.TempDir(), "run")
	return &trial.Point{Config: r.Bench, Command: []string{"spate", "bench", "--as-typed"}}
}

// started is a server of this program for a point.
func started(t *testing.T, manner string) *trial.Server {
	t.Helper()
	return &trial.Server{Key: manner, Spec: launch.Spec{
		Command: []string{os.Args[0], "act", manner, "{port}"}, Log: filepath.Join(t.TempDir(), "server.log"), Ready: time.Minute, Grace: time.Second,
		GPU: launch.GPUs{Skip: "the tests' servers use none"},
	}}
}

func subjects(t *testing.T) []subject {
	t.Helper()
	srv, err := serve.Start(t.Context(), serving())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Stop() })
	shipped, err := profile.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	onServer := func(t *testing.T, args ...string) *trial.Point {
		return settings(t, append(args, "--base-url", srv.URL())...)
	}
	launched := func(t *testing.T, args ...string) *trial.Point {
		p := settings(t, args...)
		p.Server = started(t, "good")
		return p
	}
	return []subject{
		{
			name: "measured", make: func(_ *testing.T, stop <-chan struct{}) trial.Executor { return measured(stop) }, point: onServer,
			failed: func(t *testing.T, _ trial.Executor) (*trial.Point, string) {
				return settings(t, "--base-url", "http://127.0.0.1:1"), "http://127.0.0.1:1"
			},
		},
		{
			name: "embedded", make: func(_ *testing.T, stop <-chan struct{}) trial.Executor { return measured(stop) },
			point: func(t *testing.T, args ...string) *trial.Point {
				return settings(t, append(args, "--sim", "--sim-ttft", "5ms", "--sim-itl", "1ms")...)
			},
			failed: func(t *testing.T, _ trial.Executor) (*trial.Point, string) {
				return settings(t, "--sim", "no-such-engine"), "no-such-engine"
			},
		},
		{
			name: "launched", make: func(t *testing.T, stop <-chan struct{}) trial.Executor { return starter(t, stop) }, point: launched,
			failed: func(t *testing.T, _ trial.Executor) (*trial.Point, string) {
				p := settings(t)
				p.Server = started(t, "refuses")
				return p, "act refuses"
			},
		},
		{
			name: "predicted", virtual: true, point: settings,
			make: func(*testing.T, <-chan struct{}) trial.Executor {
				return &Predicted{Profile: shipped[0], Tool: "spate test", Local: predict.Local{Getenv: func(string) string { return "" }}}
			},
			failed: func(t *testing.T, e trial.Executor) (*trial.Point, string) {
				none := *shipped[0]
				none.Sim.MaxSeqs = -1
				e.(*Predicted).Profile = &none
				return settings(t), none.Name
			},
		},
	}
}

func starter(t *testing.T, stop <-chan struct{}) *Launched {
	l := &Launched{Measured: measured(stop), Guard: []string{os.Args[0], "guard"}}
	t.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return l
}

// eye is a watch that counts, and gives up after so many requests.
type eye struct {
	after int64 // 0: never
	seen  atomic.Int64
	first sync.Once
	then  func() // at the first request
}

func (e *eye) Record(*call.Record) error {
	e.seen.Add(1)
	if e.then != nil {
		e.first.Do(e.then)
	}
	return nil
}

func (e *eye) Sample(time.Duration, int, int) {}

func (e *eye) Hopeless() (string, bool) {
	if n := e.after; n > 0 && e.seen.Load() >= n {
		return "it has seen enough", false
	}
	return "", false
}

// kept is the run as its folder has it, with its records.
func kept(t *testing.T, p *trial.Point) (*result.Run, []call.Record) {
	t.Helper()
	run, err := result.Open(p.Config.Output.OutputDir)
	if err != nil {
		t.Fatal(err)
	}
	recs, damage, err := recorder.Read(filepath.Join(run.Dir, result.RecordsFile))
	if err != nil || damage.Any() {
		t.Fatalf("%v, %v", damage, err)
	}
	return run, recs
}

// TestExecutors is the contract of trial.Executor, for every one of them.
func TestExecutors(t *testing.T) {
	var names []string
	for _, s := range subjects(t) {
		t.Run(s.name, func(t *testing.T) {
			t.Run("a point gives a run folder with records", func(t *testing.T) {
				names = s.givesARun(t, names)
			})
			t.Run("an interrupted point keeps what finished", s.keepsWhatFinished)
			t.Run("a watch ends a run early", s.endsEarly)
			t.Run("a failed server is an error that names it", s.namesFailure)
		})
	}
}

func (s *subject) givesARun(t *testing.T, names []string) []string {
	watch := &eye{}
	p := s.point(t)
	p.Watch = watch
	res, err := s.make(t, nil).Try(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	run, recs := kept(t, p)
	if len(recs) != 12 || run.State != result.Complete || run.Summary.Completed != 12 || watch.seen.Load() != 12 {
		t.Errorf("%d records, state %s, %d completed, %d seen by the watch", len(recs), run.State, run.Summary.Completed, watch.seen.Load())
	}
	if res.Run.Dir != run.Dir || res.Run.Summary.Completed != 12 || res.Early != "" {
		t.Errorf("the result: %s, %d completed, early %q", res.Run.Dir, res.Run.Summary.Completed, res.Early)
	}
	if run.Labels["colour"] != "red" || !slices.Equal(run.Command, p.Command) {
		t.Errorf("labels %v, command %q", run.Labels, run.Command)
	}
	var got []string
	e := result.FromRun(run)
	for _, f := range e.Metrics {
		got = append(got, f.Name)
	}
	slices.Sort(got)
	if len(got) < 10 || names != nil && !slices.Equal(got, names) {
		t.Errorf("figures %v\nwant    %v", got, names)
	}
	return got
}

func (s *subject) keepsWhatFinished(t *testing.T) {
	stop := make(chan struct{})
	p := s.point(t, "--num-prompts", "5000")
	watch := &eye{then: func() { close(stop) }}
	p.Watch = watch
	if _, err := s.make(t, stop).Try(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	run, recs := kept(t, p)
	want := result.Interrupted
	if s.virtual { // there is no time in which it could be interrupted
		want = result.Complete
	}
	if run.State != want || run.Summary.Completed == 0 || (len(recs) == 5000) != s.virtual || int64(len(recs)) != watch.seen.Load() {
		t.Errorf("state %s, %d completed, %d records, %d seen", run.State, run.Summary.Completed, len(recs), watch.seen.Load())
	}
}

func (s *subject) endsEarly(t *testing.T) {
	p := s.point(t, "--num-prompts", "5000")
	p.Watch = &eye{after: 3}
	res, err := s.make(t, nil).Try(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	run, recs := kept(t, p)
	if s.virtual { // nothing is saved by ending it
		if res.Early != "" || len(recs) != 5000 {
			t.Errorf("early %q, %d records", res.Early, len(recs))
		}
		return
	}
	if res.Early != "it has seen enough" || run.State != result.Interrupted || len(recs) < 3 || len(recs) >= 5000 {
		t.Errorf("early %q, state %s, %d records", res.Early, run.State, len(recs))
	}
}

func (s *subject) namesFailure(t *testing.T) {
	e := s.make(t, nil)
	p, want := s.failed(t, e)
	res, err := e.Try(t.Context(), p)
	if err == nil || !strings.Contains(err.Error(), want) || res != nil {
		t.Errorf("got %v, %v; want ...%s...", res, err, want)
	}
	if _, ok := errors.AsType[*trial.StartError](err); ok != (p.Server != nil) {
		t.Errorf("%v (%T)", err, err)
	}
}

// TestLaunchedSharesServers: points with the same key share a start, unless one wants its own or the server died.
func TestLaunchedSharesServers(t *testing.T) {
	l := starter(t, nil)
	try := func(s *trial.Server) (*trial.Result, error) {
		p := settings(t, "--num-prompts", "2")
		p.Server, p.Watch = s, &eye{}
		return l.Try(t.Context(), p)
	}
	var urls []string
	for _, c := range []struct {
		fresh, want bool
	}{{false, true}, {false, false}, {true, true}, {false, false}} {
		s := started(t, "good")
		s.Fresh = c.fresh
		res, err := try(s)
		if err != nil {
			t.Fatal(err)
		}
		if res.Started != c.want || res.Run.Summary.Completed != 2 {
			t.Errorf("fresh %v: started %v, %d completed", c.fresh, res.Started, res.Run.Summary.Completed)
		}
		urls = append(urls, res.Server.URL)
	}
	if urls[0] != urls[1] || urls[1] == urls[2] || urls[2] != urls[3] {
		t.Errorf("servers at %v", urls)
	}
	_, err := try(started(t, "dies"))
	f, ok := errors.AsType[*launch.Failure](err)
	if !ok || !f.UnderLoad || f.Kind != launch.CUDA || !strings.Contains(err.Error(), "act dies") {
		t.Errorf("a server that died: %v", err)
	}
	if res, err := try(started(t, "good")); err != nil || !res.Started {
		t.Errorf("after that: %+v, %v", res, err)
	}
}

// TestADeadServerIsTheReason: also where nobody looks at the run while it goes.
func TestADeadServerIsTheReason(t *testing.T) {
	p := settings(t, "--num-prompts", "4")
	p.Server = started(t, "dies")
	res, err := starter(t, nil).Try(t.Context(), p)
	if err == nil || !strings.HasPrefix(err.Error(), "the server died (cuda): CUDA error: device-side assert triggered; the command was ") {
		t.Errorf("got %v", err)
	}
	if _, recs := kept(t, p); len(recs) != 4 || res == nil {
		t.Errorf("%v, %d records", res, len(recs))
	}
}

// TestManyRunsKeepWhatTheyPrint: nothing of a run of many goes to standard output.
func TestManyRunsKeepWhatTheyPrint(t *testing.T) {
	p := settings(t, "--sim", "--sim-ttft", "1ms", "--sim-itl", "1ms")
	if _, err := measured(nil).Try(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(p.Config.Output.OutputDir, OutputFile))
	if err != nil || !bytes.Contains(text, []byte("Serving Benchmark Result")) {
		t.Errorf("%s holds %q, %v", OutputFile, text, err)
	}
}
