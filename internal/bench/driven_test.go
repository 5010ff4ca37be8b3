package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spate/internal/call"
	"spate/internal/judge/metrics"
	"spate/internal/judge/verdict"
	"spate/internal/load/deal"
	"spate/internal/result"
	"spate/internal/send/driver"
)

// onlySink gives records on while it is open: a worker that dies tells no more.
type onlySink struct {
	to   func(*call.Record) error
	shut atomic.Bool
}

func (s *onlySink) Record(r *call.Record) error {
	if s.shut.Load() {
		return nil
	}
	return s.to(r)
}

func (s *onlySink) Close() error { return nil }

// notedAfter is how long nobody notices that a worker is gone.
const notedAfter = 50 * time.Millisecond

// hub is a coordinator's side in one process: it runs workers and passes their records on.
type hub struct {
	t      *testing.T
	base   string
	args   []string
	of     int
	dies   int                                    // the worker that is gone, -1 for none
	when   func(seen int, live *driver.Live) bool // it is: by its records and counters
	killed time.Duration
	lost   []call.Record
}

func (h *hub) drive(ctx context.Context, in DriveInput) (Driven, error) {
	line := &startTogether{clock: in.Clock, open: make(chan struct{}), left: h.of}
	d := Driven{Workers: make([]result.Worker, h.of)}
	var wg sync.WaitGroup
	for k := range h.of {
		part := deal.Part{Index: k, Of: h.of}
		d.Workers[k] = result.Worker{Name: fmt.Sprint("w", k), Part: part, State: result.WorkerIdle}
		if in.Idle(part) {
			line.arrive()
			continue
		}
		wg.Go(func() { d.Workers[k] = h.worker(ctx, &in, line, part) })
	}
	<-line.open
	in.Began(line.at)
	wg.Wait()
	d.Start, d.End = line.at, in.Clock.Now()
	return d, nil
}

// worker runs one part to its end, or until it dies.
func (h *hub) worker(ctx context.Context, in *DriveInput, line *startTogether, part deal.Part) result.Worker {
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	j := partJob(h.t, h.base, h.args)
	name := fmt.Sprint("w", part.Index)
	live, seen := &driver.Live{}, &atomic.Int64{}
	type key struct {
		phase call.Phase
		id    int
	}
	var mu sync.Mutex
	have := map[key]bool{}
	sink := &onlySink{}
	sink.to = func(r *call.Record) error {
		mu.Lock()
		defer mu.Unlock()
		have[key{r.Phase, r.ID}] = true
		seen.Add(1)
		return in.Sink.Record(r)
	}
	j.Workers = Workers{Part: part, Worker: name, Clock: in.Clock, Begin: line.begin, Bodies: in.Bodies}
	j.Live, j.Sink = live, sink
	gone := make(chan struct{})
	if part.Index == h.dies {
		go func() {
			await(func() bool { return h.when(int(seen.Load()), live) })
			sink.shut.Store(true)
			h.killed = in.Clock.Now() + notedAfter
			kill()
			close(gone)
		}()
	}
	out, err := Run(ctx, j)
	if part.Index != h.dies {
		if err != nil {
			h.t.Errorf("worker %s: %v", name, err)
			return result.Worker{Name: name, Part: part, State: result.WorkerLost}
		}
		defer func() { _ = out.Close() }()
		return out.Worker()
	}
	<-gone
	mu.Lock()
	defer mu.Unlock()
	h.lost, err = in.Lost(context.WithoutCancel(ctx), Gone{
		Part: part, Name: name, Start: line.at, At: h.killed, Sent: int(live.Due.Load()),
		Have: func(p call.Phase, id int) bool { return have[key{p, id}] },
	})
	if err != nil {
		h.t.Error(err)
	}
	for i := range h.lost {
		if err := in.Sink.Record(&h.lost[i]); err != nil {
			h.t.Error(err)
		}
	}
	return result.Worker{Name: name, Part: part, State: result.WorkerLost}
}

// coordinate runs a load that workers send.
func coordinate(t *testing.T, h *hub) *Outcome {
	t.Helper()
	j := partJob(t, h.base, h.args)
	j.Drive = h.drive
	out, err := Run(context.Background(), j)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Close() })
	if !out.Run.Tally.Balanced() {
		t.Errorf("%+v: due requests without a fate", out.Run.Tally)
	}
	return out
}

// TestCoordinator: a run whose load three workers send is the run that one process makes: as many requests, each
// worker's among them, figures of all records together, a verdict on each worker.
func TestCoordinator(t *testing.T) {
	defer driver.Tune()()
	srv := newNoting(t)
	for name, args := range map[string]string{
		"a rate":        "--isl 8 --osl 2 --num-prompts 30 --request-rate 1000 --num-warmups 4",
		"a closed loop": "--isl 8 --osl 2 --num-prompts 30 --max-concurrency 5 --warmup-duration 20ms",
		"a burst":       "--isl 8 --osl 2 --num-prompts 30 --num-warmups 3 --probe-request-rate 100",
		"tenants":       "--config " + partFiles(t)("mix.yaml"),
	} {
		t.Run(name, func(t *testing.T) {
			h := &hub{t: t, base: srv.URL, args: strings.Fields(args), of: 3, dies: -1}
			out := coordinate(t, h)
			r, want := out.Run, 30
			if name == "tenants" {
				want = 30 + 17 + 9
			}
			if r.State != result.Complete || r.Tally.OK != want || r.Tally.Due != want {
				t.Fatalf("%s: %+v, want %d", r.State, r.Tally, want)
			}
			var sum call.Tally
			for _, w := range r.Workers {
				if w.State != result.WorkerFinished || w.Self == nil || w.Start != r.Workers[0].Start {
					t.Errorf("worker %s: %+v", w.Name, w)
				}
				sum = add(sum, w.Tally)
			}
			if sum != r.Tally {
				t.Errorf("the workers have %+v, the run %+v", sum, r.Tally)
			}
			again := metrics.Summarize(out.Records(), r.Plan.Metrics())
			if len(r.Tenants) == 0 {
				if d := cmp.Diff(asJSON(t, again), asJSON(t, r.Summary)); d != "" {
					t.Errorf("figures are not those of the records:\n%s", d)
				}
			}
			for _, tn := range r.Tenants {
				if tn.Tally.OK == 0 || tn.Plan.Start == 0 {
					t.Errorf("tenant %s: %+v from %v", tn.Name, tn.Tally, tn.Plan.Start)
				}
			}
			for _, f := range r.Verdict.Findings {
				if (f.Name == "workers" || f.Name == "worker_clocks") && !f.Measured {
					t.Errorf("%s was not judged", f.Name)
				}
			}
			if f := r.Verdict.Findings[slices.IndexFunc(r.Verdict.Findings, func(f verdict.Finding) bool { return f.Name == "workers" })]; f.Level != verdict.OK {
				t.Errorf("%+v", f)
			}
		})
	}
}

// TestWorkerLost kills one of three workers in mid-run. What it gave no record of, though it was due, is in the books of
// the run, once: due = ok + lost.
func TestWorkerLost(t *testing.T) {
	defer driver.Tune()()
	srv := newNoting(t)
	srv.takes = 20 * time.Millisecond // so that it is gone with some in flight
	some := func(n int) func(int, *driver.Live) bool {
		return func(seen int, _ *driver.Live) bool { return seen >= n }
	}
	for name, c := range map[string]struct {
		args string
		when func(int, *driver.Live) bool
	}{
		"a rate":                {"--isl 8 --osl 2 --num-prompts 60 --request-rate 300", some(5)},
		"a rate with a warm-up": {"--isl 8 --osl 2 --num-prompts 60 --request-rate 300 --num-warmups 9", some(5)},
		"a closed loop":         {"--isl 8 --osl 2 --num-prompts 60 --max-concurrency 6", some(5)},
		"a timed warm-up":       {"--isl 8 --osl 2 --num-prompts 60 --max-concurrency 6 --warmup-duration 10ms", some(9)},
		"conversations":         {"--dataset-name multi-turn --backend openai-chat --isl 8 --osl 2 --num-prompts 30 --request-rate 200", some(9)},
		"tenants":               {"--config " + partFiles(t)("mix.yaml"), some(3)},
	} {
		t.Run(name, func(t *testing.T) {
			h := &hub{t: t, base: srv.URL, args: strings.Fields(c.args), of: 3, dies: 1, when: c.when}
			out := coordinate(t, h)
			r, recs := out.Run, out.Records()
			type key struct {
				phase call.Phase
				id    int
			}
			seen := map[key]bool{}
			names := map[string]bool{}
			due, lost := 0, 0
			for i := range recs {
				rec := &recs[i]
				if seen[key{rec.Phase, rec.ID}] || names[rec.Name] {
					t.Errorf("two records of %s %d (%s)", rec.Phase, rec.ID, rec.Name)
				}
				seen[key{rec.Phase, rec.ID}], names[rec.Name] = true, true
				if rec.Fault == call.FaultLost {
					if rec.Worker != "w1" || rec.Outcome != call.Dropped && rec.Outcome != call.Canceled {
						t.Errorf("lost: %+v", rec)
					}
				} else if rec.Outcome != call.OK {
					t.Errorf("request %s: %s %s", rec.Name, rec.Outcome, rec.Err)
				}
				if rec.Phase == call.Measure {
					due++
					if rec.Fault == call.FaultLost {
						lost++
					}
				}
			}
			if lost == 0 {
				t.Error("nothing was lost")
			}
			if r.Tally.Due != due || r.Tally.OK+lost != due || r.Summary.Failures.Gone != lost {
				t.Errorf("due %d = ok %d + lost %d: %+v, %d in the summary", due, r.Tally.OK, lost, r.Tally, r.Summary.Failures.Gone)
			}
			w := r.Workers[1]
			if w.State != result.WorkerLost || w.Lost != lost {
				t.Errorf("worker %s, %s: %d lost, want %d", w.Name, w.State, w.Lost, lost)
			}
			at := slices.IndexFunc(r.Verdict.Findings, func(f verdict.Finding) bool { return f.Name == "workers" })
			if f := r.Verdict.Findings[at]; f.Level == verdict.OK {
				t.Errorf("%d lost: %+v", lost, f)
			}
		})
	}
}
