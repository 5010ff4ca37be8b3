package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spate/internal/call"
	"spate/internal/cli"
	"spate/internal/settings/config"
	"spate/internal/sim/serve"
)

// edge is a request's beginning or end as the server saw it.
type edge struct {
	at   int64
	step int
}

// inFlight sweeps over what the server saw: the most requests at a time.
func inFlight(truths []*serve.Truth) (most int) {
	var edges []edge
	for _, t := range truths {
		edges = append(edges, edge{t.Arrived, 1}, edge{t.Events[len(t.Events)-1].At, -1})
	}
	slices.SortFunc(edges, func(a, b edge) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return a.step - b.step
	})
	n := 0
	for _, e := range edges {
		n += e.step
		most = max(most, n)
	}
	return most
}

// TestConcurrencyCap holds the cap from the server's side and from the records: never more, and as
// many at once while work waits.
func TestConcurrencyCap(t *testing.T) {
	t.Parallel()
	const limit, n = 7, 60
	for name, flags := range map[string][]string{
		"closed loop": nil,
		"with a rate": {"--request-rate", "2000"},
		"std client":  {"--http-client", "std"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := sim(t, serve.Config{Truth: true, Timetable: serve.TimetableConfig{TTFT: 100 * time.Millisecond, ITL: time.Millisecond, TTFTSpread: 30 * time.Millisecond}})
			e := benchCmd(t, append([]string{
				"--base-url", srv.URL(), "--num-prompts", strconv.Itoa(n), "--max-concurrency", strconv.Itoa(limit),
				"--random-input-len", "12", "--random-output-len", "5",
			}, flags...)...).want(cli.ExitDone)
			run := e.balanced()
			most := inFlight(srv.Truth().All())
			if most != limit || run.Summary.Concurrency.Peak != limit || run.Summary.Concurrency.Cap != limit {
				t.Errorf("server saw %d at once, client %d, cap %d", most, run.Summary.Concurrency.Peak, limit)
			}
			slotLaws(t, e.measured(), limit)
			labels, figures := blockOf(t, e.out)
			if figures["Maximum request concurrency:"] != "7" || slices.Contains(labels, "Request rate configured (RPS):") != (name == "with a rate") {
				t.Errorf("block %v", labels)
			}
			if name == "with a rate" && run.Summary.Clocks.Queue.Max <= 0 {
				t.Error("nobody waited for a slot at a rate far above the cap")
			}
		})
	}
}

// slotLaws replays the records: a slot is taken from Started to End. All are taken at some time, never
// more, and a request begins when there is a slot for it.
func slotLaws(t *testing.T, recs []call.Record, limit int) {
	t.Helper()
	type mark struct {
		at   time.Duration
		step int
	}
	var marks []mark
	for i := range recs {
		marks = append(marks, mark{recs[i].Started, 1}, mark{recs[i].End, -1})
	}
	slices.SortFunc(marks, func(a, b mark) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return a.step - b.step
	})
	n, most := 0, 0
	for _, m := range marks {
		n += m.step
		most = max(most, n)
	}
	if most != limit {
		t.Errorf("at most %d slots were taken, want %d", most, limit)
	}
	// With k slots, request i+k starts when one of those before it ends: the k-th latest end so far.
	byStart := slices.Clone(recs)
	slices.SortFunc(byStart, func(a, b call.Record) int { return int(a.Started - b.Started) })
	for i := limit; i < len(byStart); i++ {
		var ends []time.Duration
		for _, r := range byStart[:i] {
			ends = append(ends, r.End)
		}
		slices.Sort(ends)
		free := max(ends[i-limit], byStart[i].Dispatched)
		if wait := byStart[i].Started - free; wait < 0 {
			t.Errorf("request %d began %v before a slot was free", byStart[i].ID, -wait)
		}
	}
}

// TestDurationAndGrace cuts requests off that outlive the grace period; they count as canceled.
func TestDurationAndGrace(t *testing.T) {
	t.Parallel()
	slow(t, "waits for durations to pass")
	slow := serve.TimetableConfig{TTFT: 20 * time.Millisecond, ITL: 60 * time.Second}
	cases := []struct {
		name      string
		timetable serve.TimetableConfig
		flags     []string
		check     func(*testing.T, ended, call.Tally)
	}{
		{
			"cut off", slow,
			[]string{"--duration", "2s", "--grace-period", "500ms", "--max-concurrency", "5"},
			func(t *testing.T, e ended, tally call.Tally) {
				if tally.Due != 5 || tally.Canceled != 5 || tally.OK != 0 {
					t.Errorf("tally %+v", tally)
				}
				for _, r := range e.measured() {
					if r.Fault != call.FaultCutoff || r.Outcome != call.Canceled || len(r.Chunks) != 1 {
						t.Errorf("request %d: %s, %s, %d chunks", r.ID, r.Outcome, r.Fault, len(r.Chunks))
					}
					if d := r.End - r.Due; d < 2500*time.Millisecond {
						t.Errorf("request %d was cut off after %v", r.ID, d)
					}
				}
				has(t, "findings", e.out, "cutoff", "5 canceled")
			},
		},
		{
			"cut off while queued", slow,
			[]string{"--duration", "2s", "--grace-period", "100ms", "--max-concurrency", "2", "--request-rate", "20", "--burstiness", "inf"},
			func(t *testing.T, e ended, tally call.Tally) {
				// A machine that stalls as the time runs out lets fewer go, and as many are due.
				if tally.Canceled != 2 || tally.Dropped != tally.Due-2 || tally.Due < 39 || tally.Due > 40 {
					t.Errorf("tally %+v", tally)
				}
				for _, r := range e.measured() {
					if r.Outcome == call.Dropped && r.Sent != call.Unset {
						t.Errorf("request %d was dropped and sent", r.ID)
					}
				}
			},
		},
		{
			"all in time",
			serve.TimetableConfig{TTFT: 20 * time.Millisecond, ITL: time.Millisecond},
			[]string{"--duration", "2s", "--max-concurrency", "3"},
			func(t *testing.T, e ended, tally call.Tally) {
				if tally.OK != tally.Due || tally.OK < 6 {
					t.Errorf("tally %+v", tally)
				}
				for _, r := range e.measured() {
					if r.Dispatched >= recs0(e)+2*time.Second {
						t.Errorf("request %d was let go %v into a run of 2 s", r.ID, r.Dispatched-recs0(e))
					}
				}
			},
		},
		{
			"count first",
			serve.TimetableConfig{TTFT: time.Millisecond},
			[]string{"--duration", "30s", "--num-prompts", "9", "--max-concurrency", "3"},
			func(t *testing.T, _ ended, tally call.Tally) {
				if tally.Due != 9 || tally.OK != 9 {
					t.Errorf("tally %+v", tally)
				}
			},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			srv := sim(t, serve.Config{Timetable: c.timetable})
			e := benchCmd(t, append([]string{"--base-url", srv.URL(), "--random-input-len", "12", "--random-output-len", "4"}, c.flags...)...).run()
			run := e.balanced()
			blockOf(t, e.out)
			if want := map[bool]int{true: cli.ExitDone, false: cli.ExitFailed}[run.Tally.OK > 0]; e.code != want {
				t.Errorf("exit code %d, want %d\n%s", e.code, want, e.stderr)
			}
			c.check(t, e, run.Tally)
		})
	}
}

// recs0 is when the first request of a run was due.
func recs0(e ended) time.Duration {
	first := e.measured()[0].Due
	for _, r := range e.measured() {
		first = min(first, r.Due)
	}
	return first
}

// dueTimes are when measured requests were due, from the first on, in order.
func dueTimes(recs []call.Record) []time.Duration {
	var out []time.Duration
	for i := range recs {
		out = append(out, recs[i].Due)
	}
	slices.Sort(out)
	return out
}

// TestSchedules runs every law of arrival and checks due times, which no machine's speed can change.
func TestSchedules(t *testing.T) {
	t.Parallel()
	slow(t, "waits for schedules to pass")
	cases := []struct {
		name  string
		flags []string
		check func(*testing.T, []time.Duration, ended)
	}{
		{"stages", []string{"--stages", "2s@10,1s@50"}, func(t *testing.T, due []time.Duration, _ ended) {
			if len(due) < 45 || len(due) > 95 { // Poisson: five standard deviations are 42
				t.Errorf("%d requests in stages that make 70", len(due))
			}
		}},
		{"linear ramp", []string{"--num-prompts", "60", "--ramp-up-strategy", "linear", "--ramp-up-start-rps", "20", "--ramp-up-end-rps", "200", "--burstiness", "inf", "--save-result", "--result-filename", "r.json"}, rising},
		{"exponential ramp", []string{"--num-prompts", "60", "--ramp-up-strategy", "exponential", "--ramp-up-start-rps", "20", "--ramp-up-end-rps", "200", "--burstiness", "inf"}, rising},
		{"constant", []string{"--num-prompts", "30", "--request-rate", "60", "--burstiness", "inf"}, func(t *testing.T, due []time.Duration, _ ended) {
			for i := 1; i < len(due); i++ {
				if d := due[i] - due[i-1] - time.Second/60; d < -time.Microsecond || d > time.Microsecond {
					t.Errorf("gap %d is off by %v", i, d)
				}
			}
		}},
		{"poisson", []string{"--num-prompts", "40", "--request-rate", "80"}, func(t *testing.T, due []time.Duration, e ended) {
			start := e.result().Plan.Start // vLLM's schedule ends exactly at n/rate
			if d := due[len(due)-1] - start - 500*time.Millisecond; d < -time.Microsecond || d > time.Microsecond {
				t.Errorf("the last request is due %v, off 500 ms by %v", due[len(due)-1]-start, d)
			}
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := benchCmd(t, append([]string{"--base-url", quick(t).URL(), "--random-input-len", "12", "--random-output-len", "3"}, c.flags...)...).want(cli.ExitDone)
			e.balanced()
			for _, r := range e.measured() {
				if r.Dispatched < r.Due || r.Outcome != call.Dropped && r.Sent < r.Due {
					t.Errorf("request %d left %v ahead of its time", r.ID, r.Due-r.Dispatched)
				}
			}
			c.check(t, dueTimes(e.measured()), e)
		})
	}
}

func rising(t *testing.T, due []time.Duration, e ended) {
	if len(due) != 60 {
		t.Fatalf("%d requests", len(due))
	}
	for i := 2; i < len(due); i++ {
		if before, now := due[i-1]-due[i-2], due[i]-due[i-1]; now > before+time.Microsecond {
			t.Errorf("gap %d is %v after one of %v: a ramp only rises", i, now, before)
		}
	}
	has(t, "lines ahead", e.out, "Traffic ramp-up strategy: ", "Will increase RPS from 20 to 200 RPS over the duration of the benchmark.")
}

// TestWarmup checks that warm-ups are sent, are not counted, and hand over without draining.
func TestWarmup(t *testing.T) {
	t.Parallel()
	slow(t, "waits for warm-ups to pass")
	cases := []struct {
		name    string
		flags   []string
		warmups int // exactly, or at least for a negative number
		overlap bool
	}{
		{"count, burst", []string{"--num-warmups", "3"}, 3, false},
		{"count, closed loop", []string{"--warmup", "6", "--max-concurrency", "3"}, 6, true},
		{"count, rate", []string{"--num-warmups", "10", "--request-rate", "100"}, 10, true},
		{"time, closed loop", []string{"--warmup-duration", "1s", "--max-concurrency", "3"}, -4, true},
		{"time, rate", []string{"--warmup-duration", "300ms", "--request-rate", "100"}, -25, true},
		{"time, closed loop for a time", []string{"--warmup-duration", "1s", "--duration", "1s", "--max-concurrency", "3"}, -4, true},
	}
	// The third request, a warm-up in all cases, takes so long that others are measured beside it.
	slow := 5 * time.Second
	script := &serve.Script{Rules: []serve.Rule{{Probability: 1, Index: serve.Ranges{{2, 2}}, Timing: &serve.Timing{TTFT: &slow}}}}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			srv := sim(t, serve.Config{Script: script, Timetable: serve.TimetableConfig{TTFT: 40 * time.Millisecond, ITL: 2 * time.Millisecond, TTFTSpread: 30 * time.Millisecond}})
			args := append([]string{"--base-url", srv.URL(), "--random-input-len", "12", "--random-output-len", "4"}, c.flags...)
			timed := slices.Contains(c.flags, "--duration")
			if !timed {
				args = append(args, "--num-prompts", "20")
			}
			e := benchCmd(t, args...).want(cli.ExitDone)
			run := e.balanced()
			warm := slices.DeleteFunc(e.records(), func(r call.Record) bool { return r.Phase != call.Warmup })
			if len(warm) != c.warmups && (c.warmups > 0 || len(warm) < -c.warmups) || run.Summary.Warmup.Requests != len(warm) {
				t.Errorf("%d warm-ups on disk, %d told, want %d", len(warm), run.Summary.Warmup.Requests, c.warmups)
			}
			if !timed && run.Tally.Due != 20 {
				t.Errorf("tally %+v", run.Tally)
			}
			if got := srv.Stats().Requests; got != int64(run.Tally.Due+len(warm)) {
				t.Errorf("the server saw %d requests, %d measured and %d warm-ups are told", got, run.Tally.Due, len(warm))
			}
			if len(warm) == 0 {
				t.Fatal("no warm-up was sent")
			}
			last, begun := time.Duration(0), warm[0].Due
			for _, r := range warm {
				last, begun = max(last, r.End), min(begun, r.Due)
			}
			first, let := recs0(e), time.Duration(0)
			for _, r := range e.measured() {
				first = min(first, r.Sent)
				let = max(let, r.Dispatched)
			}
			if overlap := first < last; overlap != c.overlap {
				t.Errorf("first measured request at %v, last warm-up ended at %v", first, last)
			}
			if start := run.Plan.Start; timed && (start < begun+time.Second || let >= start+time.Second) {
				t.Errorf("a second of warm-up and one of measurement were asked for: measured from %v to %v after the warm-up began", start-begun, let-begun)
			}
		})
	}
}

// TestProbes sends one-token requests beside the load, outside the cap and outside the metrics.
func TestProbes(t *testing.T) {
	t.Parallel()
	srv := sim(t, serve.Config{Timetable: serve.TimetableConfig{TTFT: 30 * time.Millisecond, ITL: 5 * time.Millisecond}})
	e := benchCmd(t, "--base-url", srv.URL(), "--num-prompts", "12", "--max-concurrency", "2", "--random-input-len", "12", "--random-output-len", "5",
		"--probe-request-rate", "50", "--save-result", "--result-filename", "r.json").want(cli.ExitDone)
	run := e.balanced()
	probes := slices.DeleteFunc(e.records(), func(r call.Record) bool { return r.Phase != call.Probe })
	if run.Tally.Due != 12 || len(probes) == 0 || run.Summary.Probe.Completed != len(probes) {
		t.Errorf("tally %+v, %d probes on disk, %+v told", run.Tally, len(probes), run.Summary.Probe)
	}
	for _, r := range probes {
		if r.AskedOut != 1 || r.Out.N != 1 {
			t.Errorf("probe %d asked for %d tokens and got %d", r.ID, r.AskedOut, r.Out.N)
		}
	}
	labels, figures := blockOf(t, e.out)
	if !slices.Contains(labels, "Probe Requests") || figures["Probe requests completed:"] != strconv.Itoa(len(probes)) {
		t.Errorf("block %v", figures)
	}
}

// TestRetries makes every attempt a record.
func TestRetries(t *testing.T) {
	t.Parallel()
	rule, err := serve.ParseFault("status,code=500,index=0-6")
	if err != nil {
		t.Fatal(err)
	}
	srv := sim(t, serve.Config{Script: &serve.Script{Rules: []serve.Rule{rule}}, Timetable: serve.TimetableConfig{TTFT: 5 * time.Millisecond}})
	e := benchCmd(t, "--base-url", srv.URL(), "--num-prompts", "5", "--max-concurrency", "1", "--retries", "2", "--random-input-len", "12", "--random-output-len", "3").want(cli.ExitDone)
	run := e.balanced()
	// One at a time: requests 0 and 1 use up their three attempts, 2 fails once and recovers.
	want := call.Tally{Due: 5, OK: 3, Failed: 2, Attempts: 10}
	if run.Tally != want || run.Summary.Failures.Retries != 5 || run.Summary.Failures.Recovered != 1 || srv.Stats().Requests != 10 {
		t.Errorf("tally %+v, want %+v; %+v", run.Tally, want, run.Summary.Failures)
	}
	var got []string
	for _, r := range e.measured() {
		got = append(got, fmt.Sprintf("%d.%d %s %v", r.ID, r.Attempt, r.Outcome, r.Retried))
	}
	if d := cmp.Diff([]string{
		"0.0 failed true", "0.1 failed true", "0.2 failed false", "1.0 failed true", "1.1 failed true", "1.2 failed false",
		"2.0 failed true", "2.1 ok false", "3.0 ok false", "4.0 ok false",
	}, got); d != "" {
		t.Errorf("attempts (-want +got):\n%s", d)
	}
	has(t, "findings", e.out, "retries", "5; 1 requests recovered")
}

// TestSeveralTargets spreads requests over three servers in turn.
func TestSeveralTargets(t *testing.T) {
	t.Parallel()
	var urls []string
	var servers []*serve.Server
	for range 3 {
		srv := quick(t)
		urls, servers = append(urls, srv.URL()), append(servers, srv)
	}
	e := benchCmd(t, append(append([]string{"--base-url"}, urls...), "--num-prompts", "30", "--random-input-len", "12", "--random-output-len", "3")...).want(cli.ExitDone)
	run := e.balanced()
	per := map[int]int{}
	for _, r := range e.measured() {
		per[r.Target]++
	}
	for i, srv := range servers {
		if got := srv.Stats().Requests; got != 10 || per[i] != 10 {
			t.Errorf("server %d got %d requests, records say %d, want 10", i, got, per[i])
		}
	}
	if d := cmp.Diff(urls, run.Server.URLs); d != "" {
		t.Errorf("targets kept (-want +got):\n%s", d)
	}
}

// TestDryRun prints the plan and sends nothing.
func TestDryRun(t *testing.T) {
	t.Parallel()
	srv := quick(t)
	c := prepare(t, nil, "bench", "--dry-run", "--base-url", srv.URL(), "--num-prompts", "50", "--request-rate", "10", "--random-input-len", "100", "--random-output-len", "7")
	e := c.want(cli.ExitDone)
	has(t, "plan", e.out, "nothing was sent", "50 requests at 10 per second", "350 in all", "5s")
	if n := srv.Stats().Requests; n != 0 {
		t.Errorf("%d requests were sent", n)
	}
	alone := prepare(t, nil, "bench", "--dry-run", "--model", "m", "--base-url", "http://"+deafPort(t), "--max-concurrency", "4", "--num-prompts", "9").want(cli.ExitDone)
	has(t, "plan without a server", alone.out, "9", "4 at a time")
}

// TestDemo runs what make demo runs, shortened.
func TestDemo(t *testing.T) {
	t.Parallel()
	slow(t, "runs the demo for a dozen seconds")
	c := prepare(t, nil, "demo", "--num-prompts", "20", "--request-rate", "100", "--output-dir", "d")
	e := c.want(cli.ExitDone)
	labels, figures := blockOf(t, e.out)
	if d := cmp.Diff(headLabels("Request rate configured (RPS):", "Request goodput (req/s):", "E2EL", "P99"), labels); d != "" || figures["Successful requests:"] != "20" {
		t.Errorf("demo (-want +got):\n%s", d)
	}
	has(t, "stderr", e.stderr, "embedded server")
}

// TestConfigKept reads the settings back from the result.
func TestConfigKept(t *testing.T) {
	t.Parallel()
	e := benchCmd(t, append([]string{"--base-url", quick(t).URL(), "--seed", "9"}, small...)...).want(cli.ExitDone)
	var kept config.Bench
	if err := json.Unmarshal(e.result().Config, &kept); err != nil {
		t.Fatal(err)
	}
	if kept.Load.Seed != 9 || kept.Load.NumPrompts != 6 || !strings.HasPrefix(kept.Load.RequestIDPrefix, "bench-") {
		t.Errorf("settings kept: %+v", kept.Load)
	}
}
