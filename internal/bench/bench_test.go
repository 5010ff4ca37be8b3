package bench

// The tests here run the whole pipeline inside the test process, under the race detector and a check
// for goroutines left behind. internal/test/e2e runs the same pipeline as a process of its own.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"spate/internal/call"
	"spate/internal/call/recorder"
	"spate/internal/host/probe"
	"spate/internal/result"
	"spate/internal/settings/flags"
	"spate/internal/sim/serve"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start starts a server that is stopped at the end of the test.
func start(t *testing.T, cfg serve.Config) *serve.Server {
	t.Helper()
	srv, err := serve.Start(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Stop(); err != nil {
			t.Error(err)
		}
	})
	return srv
}

// job is a run with these flags, in a folder of its own.
func job(t *testing.T, args ...string) Job {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	args = append([]string{"--output-dir", dir, "--disable-tqdm"}, args...)
	r, err := flags.Parse(args, flags.Options{
		Env: func(string) (string, bool) { return "", false }, IDPrefix: "t-",
		ReadFile: func(string) ([]byte, error) { return nil, io.EOF },
	})
	if err != nil {
		t.Fatal(err)
	}
	return Job{
		Config: r.Bench, Command: append([]string{"spate", "bench"}, args...), Version: "test",
		Getenv: func(string) string { return "" }, Home: t.TempDir(), Stdout: io.Discard, Stderr: io.Discard,
	}
}

// run runs a job to its end and checks that nothing got lost on the way.
func run(t *testing.T, ctx context.Context, j Job) *Outcome { //nolint:revive // the test comes first here
	t.Helper()
	out, err := Run(ctx, j)
	if err != nil {
		t.Fatal(err)
	}
	if !out.Run.Tally.Balanced() {
		t.Errorf("%+v: due requests without a fate", out.Run.Tally)
	}
	if i := slices.IndexFunc(out.Records(), func(r call.Record) bool { return r.Text != "" }); i >= 0 && !j.Config.Output.SaveDetailed {
		t.Errorf("record %d keeps an answer nobody asked for", i)
	}
	disk, damage, err := recorder.Read(filepath.Join(j.Config.Output.OutputDir, result.RecordsFile))
	if err != nil || damage.Any() || len(disk) != len(out.Records()) {
		t.Errorf("%d records on disk, %d in memory (%v, %v)", len(disk), len(out.Records()), err, damage)
	}
	return out
}

// await waits for a condition, however slow the machine is; false when it never came about.
func await(holds func() bool) bool {
	for end := time.Now().Add(3 * time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// gathering is a timetable that answers nobody before n requests have come, or four minutes have passed.
type gathering struct {
	*serve.Timetable
	n     int
	until int64
	held  []func(now int64)
}

func (g *gathering) Submit(now int64, r *serve.Request, out serve.Stream) {
	if len(g.held) == 0 {
		g.until = now + int64(4*time.Minute)
	}
	g.held = append(g.held, func(now int64) {
		r.Arrived = now
		g.Timetable.Submit(now, r, out)
	})
	if len(g.held) == g.n {
		g.until = now
	}
}

func (g *gathering) Next() int64 {
	if len(g.held) > 0 {
		return min(g.until, g.Timetable.Next())
	}
	return g.Timetable.Next()
}

func (g *gathering) Advance(now int64) {
	if len(g.held) > 0 && now >= g.until {
		for _, submit := range g.held {
			submit(now)
		}
		g.held = nil
	}
	g.Timetable.Advance(now)
}

// TestManyStreams holds five thousand streams open at once and loses not a token of one.
func TestManyStreams(t *testing.T) {
	const n, tokens = 5000, 8
	if got, err := probe.RaiseNoFile(2*n + 200); err != nil || got < 2*n+200 {
		t.Fatalf("the system allows %d open files (%v)", got, err)
	}
	timetable := serve.NewTimetable(serve.TimetableConfig{TTFT: 100 * time.Millisecond, ITL: 100 * time.Millisecond, TTFTSpread: 100 * time.Millisecond})
	srv := start(t, serve.Config{Engine: &gathering{Timetable: timetable, n: n}})
	out := run(t, t.Context(), job(t, "--base-url", srv.URL(), "--model", "spate-sim", "--skip-tokenizer-init",
		"--num-prompts", strconv.Itoa(n), "--random-input-len", "8", "--random-output-len", strconv.Itoa(tokens)))
	if want := (call.Tally{Due: n, OK: n, Attempts: n}); out.Run.Tally != want {
		t.Fatalf("tally %+v, want %+v: %v", out.Run.Tally, want, out.Run.Errors)
	}
	chunks, open := 0, map[int]bool{}
	recs := out.Records()
	for i := range recs {
		r := &recs[i]
		chunks += len(r.Chunks)
		open[r.ID] = true
		if r.Out.N != tokens || len(r.Chunks) != tokens {
			t.Fatalf("request %d: %d tokens in %d chunks", r.ID, r.Out.N, len(r.Chunks))
		}
	}
	if len(open) != n || srv.Stats().Tokens != n*tokens || chunks != n*tokens {
		t.Errorf("%d requests, %d tokens written, %d chunks seen", len(open), srv.Stats().Tokens, chunks)
	}
	if peak := out.Run.Summary.Concurrency.Peak; peak != n {
		t.Errorf("only %d of %d streams were open at once", peak, n)
	}
}

// TestEverythingGoesWrong mixes all faults in one run, with retries, a cap and a rate, and checks that
// each request still has one fate and each attempt one record.
func TestEverythingGoesWrong(t *testing.T) {
	script := &serve.Script{}
	for _, f := range strings.Fields(`reset status,code=429 status,code=500 status,code=503,retry_after=0 stall,at=headers stall,at=2
		cut,at=1 cut,at=3,reset=true error,at=2 garbage,at=1 garbage,at=2,where=http garbage,where=headers utf8,at=2 empty
		no_finish no_done ping crlf split,bytes=3 batch drip,bytes=64,for=1ms flood`) {
		rule, err := serve.ParseFault(f + ",p=0.06")
		if err != nil {
			t.Fatal(err)
		}
		script.Rules = append(script.Rules, rule)
	}
	for client, backend := range map[string]string{"raw": "openai-chat", "std": "openai"} {
		t.Run(client, func(t *testing.T) {
			srv := start(t, serve.Config{Script: script, Timetable: serve.TimetableConfig{TTFT: 2 * time.Millisecond, ITL: time.Millisecond, Seed: 3}})
			out := run(t, t.Context(), job(t, "--base-url", srv.URL(), "--backend", backend, "--http-client", client, "--model", "spate-sim", "--skip-tokenizer-init",
				"--num-prompts", "300", "--request-rate", "600", "--max-concurrency", "40", "--retries", "1", "--request-timeout", "200ms",
				"--probe-request-rate", "20", "--num-warmups", "5", "--random-input-len", "8", "--random-output-len", "6"))
			tally := out.Run.Tally
			if tally.Due != 300 || tally.Failed == 0 || tally.OK == 0 || tally.Dropped+tally.Canceled != 0 || tally.Attempts <= 300 {
				t.Errorf("tally %+v", tally)
			}
			kinds := 0
			for _, k := range out.Run.Summary.Failures.Kinds {
				kinds += k.Count
			}
			if kinds != tally.Failed {
				t.Errorf("%d failures by kind, %d in all", kinds, tally.Failed)
			}
			recs := out.Records()
			for i := range recs {
				if r := &recs[i]; r.Outcome == call.Failed && (r.Fault == call.NoFault || r.Err == "") {
					t.Errorf("request %d failed without a reason", r.ID)
				}
			}
		})
	}
}

// TestStoppingLeavesNothingRunning stops runs of every shape in the middle, gently and at once.
func TestStoppingLeavesNothingRunning(t *testing.T) {
	srv := start(t, serve.Config{Timetable: serve.TimetableConfig{TTFT: 20 * time.Millisecond, ITL: 10 * time.Millisecond}})
	for name, load := range map[string][]string{
		"burst": nil, "closed loop": {"--max-concurrency", "8"}, "rate": {"--request-rate", "40"},
		"rate with a cap": {"--request-rate", "400", "--max-concurrency", "4"},
		"probes":          {"--request-rate", "40", "--probe-request-rate", "50"},
		"warm-up":         {"--warmup-duration", "5s", "--max-concurrency", "4"},
		"std":             {"--http-client", "std", "--max-concurrency", "8"},
	} {
		for _, hard := range []bool{false, true} {
			t.Run(name+"/"+map[bool]string{false: "drain", true: "cancel"}[hard], func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				stop := make(chan struct{})
				j := job(t, append([]string{
					"--base-url", srv.URL(), "--model", "spate-sim", "--skip-tokenizer-init", "--num-prompts", "400",
					"--random-input-len", "8", "--random-output-len", "8",
				}, load...)...)
				j.Stop = stop
				var wg sync.WaitGroup
				before := srv.Stats().Requests
				wg.Go(func() {
					if !await(func() bool { return srv.Stats().Requests >= before+6 }) {
						t.Error("no request came")
					}
					close(stop)
					if hard {
						cancel(call.ErrInterrupted)
					}
				})
				out := run(t, ctx, j)
				wg.Wait()
				if out.Run.State != result.Interrupted && name != "burst" {
					t.Errorf("state %s", out.Run.State)
				}
				if canceled := out.Run.Tally.Canceled > 0; canceled && !hard {
					t.Errorf("a gentle stop gave requests up: %+v", out.Run.Tally)
				}
			})
		}
	}
}

// TestRecoveredAsFinished takes the result of finished runs away: what is computed from the rest, as
// after a kill, has the same figures.
func TestRecoveredAsFinished(t *testing.T) {
	srv := start(t, serve.Config{Timetable: serve.TimetableConfig{TTFT: 5 * time.Millisecond, ITL: time.Millisecond, TTFTSpread: 5 * time.Millisecond}})
	for name, load := range map[string][]string{
		"burst":                    {"--num-prompts", "12"},
		"burst after a warm-up":    {"--num-prompts", "12", "--num-warmups", "3"},
		"rate":                     {"--num-prompts", "20", "--request-rate", "100"},
		"rate with a warm-up":      {"--num-prompts", "20", "--request-rate", "100", "--num-warmups", "10"},
		"rate with a timed one":    {"--num-prompts", "20", "--request-rate", "100", "--warmup-duration", "100ms"},
		"closed loop":              {"--num-prompts", "20", "--max-concurrency", "3"},
		"closed loop, warmed up":   {"--num-prompts", "20", "--max-concurrency", "3", "--num-warmups", "7"},
		"cap and time, some queue": {"--duration", "300ms", "--request-rate", "600", "--max-concurrency", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			j := job(t, append([]string{"--base-url", srv.URL(), "--model", "spate-sim", "--skip-tokenizer-init", "--random-input-len", "8", "--random-output-len", "4", "--goodput", "ttft:6"}, load...)...)
			finished := run(t, t.Context(), j).Run
			if err := os.Remove(filepath.Join(j.Config.Output.OutputDir, result.ResultFile)); err != nil {
				t.Fatal(err)
			}
			again, err := result.Open(j.Config.Output.OutputDir)
			if err != nil {
				t.Fatal(err)
			}
			if again.State != result.Recovered || again.Plan.Start != finished.Plan.Start || again.Plan.End != finished.Plan.End {
				t.Errorf("%s: from %v to %v, want %v to %v", again.State, again.Plan.Start, again.Plan.End, finished.Plan.Start, finished.Plan.End)
			}
			if d := cmp.Diff(asJSON(t, finished.Summary), asJSON(t, again.Summary)); d != "" {
				t.Errorf("figures (-finished +recovered):\n%s", d)
			}
		})
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestRuntimeIsRestored checks that a run leaves the process as it found it.
func TestRuntimeIsRestored(t *testing.T) {
	srv := start(t, serve.Config{})
	procs := runtime.GOMAXPROCS(0)
	run(t, t.Context(), job(t, "--base-url", srv.URL(), "--num-prompts", "2", "--random-input-len", "8", "--random-output-len", "2"))
	if now := runtime.GOMAXPROCS(0); now != procs {
		t.Errorf("GOMAXPROCS is %d, was %d", now, procs)
	}
}

// TestObjectivesOnAnyPercentile checks that a condition may stand on a figure the block does not print.
func TestObjectivesOnAnyPercentile(t *testing.T) {
	srv := start(t, serve.Config{Timetable: serve.TimetableConfig{TTFT: 5 * time.Millisecond, ITL: time.Millisecond}})
	j := job(t, "--base-url", srv.URL(), "--num-prompts", "20", "--max-concurrency", "4", "--random-input-len", "8",
		"--random-output-len", "4", "--goodput", "ttft:60000", "--slo",
		"p99.9_ttft<60s,p37_e2el<60s,goodput_ratio>=100%,p12_ttft<1us")
	out := run(t, t.Context(), j)
	if len(out.Unmet) != 1 || !strings.Contains(out.Unmet[0], "p12_ttft<1us is not met") {
		t.Errorf("not met: %q", out.Unmet)
	}
}

// TestReadinessEnds checks that a server which takes requests and never answers them does not hold a
// run up for longer than the user allows.
func TestReadinessEnds(t *testing.T) {
	srv := start(t, serve.Config{Timetable: serve.TimetableConfig{TTFT: time.Hour}})
	j := job(t, "--base-url", srv.URL(), "--num-prompts", "1", "--ready-check-timeout-sec", "1")
	if _, err := Run(t.Context(), j); err == nil || !strings.Contains(err.Error(), "not ready within 1s: a first request was not answered") {
		t.Errorf("out of time: %v", err)
	}
	j = job(t, "--base-url", srv.URL(), "--num-prompts", "1", "--ready-check-timeout-sec", "600")
	stop := make(chan struct{})
	j.Stop = stop
	time.AfterFunc(100*time.Millisecond, func() { close(stop) })
	if _, err := Run(t.Context(), j); !errors.Is(err, call.ErrInterrupted) {
		t.Errorf("stopped: %v", err)
	}
}

// TestWarmUpOfACappedTrace sends warm-up requests ahead of a trace, at the mean rate of its times: 4 requests over 0.3 s.
func TestWarmUpOfACappedTrace(t *testing.T) {
	srv := start(t, serve.Config{Timetable: serve.TimetableConfig{TTFT: time.Millisecond}, Models: []string{"m"}})
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	var rows string
	for _, at := range []int{0, 100, 200, 300} {
		rows += fmt.Sprintf("{\"timestamp\":%d,\"input_length\":4,\"output_length\":2,\"hash_ids\":[%d]}\n", at, at)
	}
	if err := os.WriteFile(path, []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	out := run(t, t.Context(), job(t, "--base-url", srv.URL(), "--model", "m", "--dataset-name", "mooncake", "--dataset-path", path, "--max-concurrency", "2", "--num-warmups", "2"))
	if out.Run.Summary.Warmup.Requests != 2 || out.Run.Tally.OK != 4 {
		t.Errorf("%d warm-ups, %+v", out.Run.Summary.Warmup.Requests, out.Run.Tally)
	}
	for _, r := range out.Records() {
		if d := r.Due - out.Run.Plan.Start; r.Phase == call.Warmup && d != time.Duration(r.ID-2)*75*time.Millisecond {
			t.Errorf("warm-up %d is due %v from the start", r.ID, d)
		}
	}
}

// TestWarmUpGoesToTheAdapters checks that a warm-up is of the same kind as what is measured.
func TestWarmUpGoesToTheAdapters(t *testing.T) {
	srv := start(t, serve.Config{Timetable: serve.TimetableConfig{TTFT: time.Millisecond}, Models: []string{"base", "a", "b"}})
	out := run(t, t.Context(), job(t, "--base-url", srv.URL(), "--model", "base", "--lora-modules", "a", "b", "--num-prompts", "6",
		"--warmup-duration", "1s", "--max-concurrency", "2", "--random-input-len", "4", "--random-output-len", "2"))
	warm := 0
	for _, r := range out.Records() {
		if r.Phase == call.Warmup {
			warm++
		}
		if r.Model != "a" && r.Model != "b" {
			t.Errorf("a %s request went to %q", r.Phase, r.Model)
		}
	}
	if warm == 0 {
		t.Error("no request warmed up")
	}
}

// TestEveryServerIsReset checks that what is asked of the server is asked of each of several.
func TestEveryServerIsReset(t *testing.T) {
	cfg := serve.Config{Timetable: serve.TimetableConfig{TTFT: time.Millisecond, PrefixCache: true}, PromptTokensDetails: true}
	a, b := start(t, cfg), start(t, cfg)
	args := []string{
		"--base-url", a.URL(), b.URL(), "--num-prompts", "4", "--max-concurrency", "1", "--random-input-len", "64",
		"--random-output-len", "2", "--reset-prefix-cache",
	}
	for i := range 2 {
		if c := run(t, t.Context(), job(t, args...)).Run.Summary.Cache; c.Reported != 4 || c.Cached != 0 {
			t.Errorf("run %d: %d tokens from caches that were emptied before it, in %d answers", i, c.Cached, c.Reported)
		}
	}
	if c := run(t, t.Context(), job(t, args[:len(args)-1]...)).Run.Summary.Cache; c.Hits != 4 {
		t.Errorf("%d of 4 prompts found in caches that were left alone", c.Hits)
	}
}

// TestCountersAreOfTheMeasuredPart lets a warm-up, which repeats the first prompt, fill the server's counters: none of it
// is in what the server says of the run, and its requests are not taken for those of others.
func TestCountersAreOfTheMeasuredPart(t *testing.T) {
	for name, load := range map[string][]string{
		"closed": {"--max-concurrency", "1"},
		"open":   {"--request-rate", "100"},
	} {
		t.Run(name, func(t *testing.T) {
			srv := start(t, serve.Config{Timetable: serve.TimetableConfig{TTFT: 20 * time.Millisecond, PrefixCache: true}, PromptTokensDetails: true})
			out := run(t, t.Context(), job(t, append([]string{
				"--base-url", srv.URL(), "--num-prompts", "10", "--num-warmups", "30", "--random-input-len", "64", "--random-output-len", "2",
			}, load...)...))
			var got probe.Change
			if err := json.Unmarshal(out.Run.Server.Change, &got); err != nil {
				t.Fatal(err)
			}
			// Of what is looked up after the warm-up, only the first prompt is known; a warm-up that is still under way
			// may be looked up then, too.
			late := 0
			for _, r := range out.Records() {
				if r.Phase == call.Warmup && r.End > out.Run.Plan.Start {
					late++
				}
			}
			if got.PrefixQueries == nil || *got.PrefixQueries > float64(out.Run.Summary.TotalInput+64*late) || *got.PrefixHits > float64(64*(1+late)) {
				t.Errorf("%v prompt tokens looked up and %v found, where %d were sent after the warm-up", *got.PrefixQueries, *got.PrefixHits, out.Run.Summary.TotalInput)
			}
			var env struct {
				Lag struct {
					N   int           `json:"n"`
					P99 time.Duration `json:"p99_ns"`
					Low time.Duration `json:"p99_at_least_ns"`
				} `json:"stamping_threads_lag"`
			}
			if err := json.Unmarshal(out.Run.Environment, &env); err != nil {
				t.Fatal(err)
			}
			if l := env.Lag; l.N > 0 && (l.Low <= 0 || l.Low > l.P99) { // samples are a microsecond at least
				t.Errorf("of %d samples the p99 is %v and above %v", l.N, l.P99, l.Low)
			}
			if got.RunningBefore == nil || *got.RunningBefore != 0 {
				t.Errorf("%v requests of others ran before", *got.RunningBefore)
			}
		})
	}
}

// TestCountersOfEveryServer checks that what servers say of a run is added up.
func TestCountersOfEveryServer(t *testing.T) {
	cfg := serve.Config{Timetable: serve.TimetableConfig{TTFT: time.Millisecond}}
	a, b := start(t, cfg), start(t, cfg)
	out := run(t, t.Context(), job(t, "--base-url", a.URL(), b.URL(), a.URL(), "--num-prompts", "9", "--random-input-len", "8", "--random-output-len", "5"))
	var got probe.Change
	if err := json.Unmarshal(out.Run.Server.Change, &got); err != nil {
		t.Fatal(err)
	}
	in := 0
	for _, r := range out.Records() {
		in += r.In.N
	}
	if got.OutputTokens == nil || *got.OutputTokens != 9*5 || *got.Requests != 9 || *got.PromptTokens != float64(in) {
		t.Errorf("servers count %s, want 9 requests of %d tokens in all and 5 out", out.Run.Server.Change, in)
	}
}

// TestAllRowsForATime checks that the word for all rows of a dataset does not mean none of them.
func TestAllRowsForATime(t *testing.T) {
	srv := start(t, serve.Config{Timetable: serve.TimetableConfig{TTFT: time.Millisecond}})
	data := filepath.Join(t.TempDir(), "rows.jsonl")
	if err := os.WriteFile(data, []byte("{\"prompt\":\"one\"}\n{\"prompt\":\"two\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"-1", "0"} {
		j := job(t, "--base-url", srv.URL(), "--dataset-name", "custom", "--dataset-path", data,
			"--num-prompts", n, "--duration", "60s", "--max-concurrency", "2", "--custom-output-len", "2")
		stop := make(chan struct{})
		j.Stop = stop
		before := srv.Stats().Requests
		var wg sync.WaitGroup
		wg.Go(func() {
			if !await(func() bool { return srv.Stats().Requests >= before+8 }) {
				t.Error("the rows are not sent again and again")
			}
			close(stop)
		})
		out := run(t, t.Context(), j)
		wg.Wait()
		if out.Run.Summary.Completed < 8 {
			t.Errorf("--num-prompts %s: %d requests, want the rows again and again", n, out.Run.Summary.Completed)
		}
	}
}

// TestFailuresBeforeTheRun checks that what cannot start leaves nothing behind.
func TestFailuresBeforeTheRun(t *testing.T) {
	srv := start(t, serve.Config{})
	for name, flags := range map[string][]string{
		"missing dataset":   {"--dataset-name", "custom", "--dataset-path", "/nowhere/x.jsonl"},
		"missing tokenizer": {"--tokenizer", "org/nowhere"},
		"missing authority": {"--ca-cert", "/nowhere/ca.pem"},
	} {
		t.Run(name, func(t *testing.T) {
			j := job(t, append([]string{"--base-url", srv.URL()}, flags...)...)
			if out, err := Run(t.Context(), j); err == nil || out != nil {
				t.Errorf("got %v, %v; want an error", out, err)
			}
			if err := DryRun(t.Context(), job(t, "--base-url", srv.URL(), "--num-prompts", "3")); err != nil {
				t.Error(err)
			}
		})
	}
}
