package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"spate/internal/bench"
	"spate/internal/call"
	"spate/internal/judge/verdict"
	"spate/internal/result"
	"spate/internal/result/runs"
	"spate/internal/safe/secret"
	"spate/internal/search/capacity"
	"spate/internal/search/sweep"
	"spate/internal/send/driver"
	"spate/internal/settings/config"
)

// hunt is a search under way.
type hunt struct {
	o      *capacityOptions
	m      *measuring
	work   *sweep.Work
	plan   *searchPlan
	args   []string // of bench
	search *capacity.Search
	said   bool // the head of the table was printed
}

// run makes probes until the search is over.
func (h *hunt) run(ctx context.Context) error {
	ctx, stop, interrupted, done := interrupts(ctx, h.m.p)
	defer done()
	h.m.stop = stop
	earlier := h.earlier()
	say(h.m.p.Stderr, "search in %s\n", h.work.Dir)
	for made := 0; ; {
		probe, more := h.search.Next()
		if !more {
			h.keep(ctx)
			return h.conclude()
		}
		key := h.key(probe)
		if obs, ok := earlier[key]; ok {
			h.take(obs, "(earlier)")
			continue
		}
		if made > 0 {
			pauseFor(ctx, stop, h.o.pause)
		}
		if interrupted() || ctx.Err() != nil {
			return h.interrupted()
		}
		made++
		obs, err := h.probe(ctx, key, probe)
		if interrupted() || ctx.Err() != nil {
			return h.interrupted()
		}
		if err != nil {
			say(h.m.p.Stderr, "go on with: spate capacity --resume %s\n", h.work.Dir)
			return fmt.Errorf("probe at %g %s: %w", probe.Load, h.o.search.By.Unit(), err)
		}
		h.take(*obs, "")
	}
}

func pauseFor(ctx context.Context, stop <-chan struct{}, d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-stop:
	case <-time.After(d):
	}
}

func (h *hunt) interrupted() error {
	say(h.m.p.Stderr, "%d probes are kept; go on with: spate capacity --resume %s\n", h.search.Probes(), h.work.Dir)
	return exit{ExitInterrupted}
}

// earlier are the probes of earlier sittings whose results are still there.
func (h *hunt) earlier() map[string]capacity.Observation {
	out := map[string]capacity.Observation{}
	for _, e := range h.work.Journal {
		var obs capacity.Observation
		if e.Event == "done" && json.Unmarshal(e.Data, &obs) == nil && len(obs.Readings) == len(h.o.search.Objectives) && h.work.Result(e.Key) != nil {
			out[e.Key] = obs
		}
	}
	return out
}

// key names a probe's run folder.
func (h *hunt) key(p capacity.Probe) string {
	return fmt.Sprintf("%s-%s=%s-r%d", h.plan.ID, h.o.by, strconv.FormatFloat(p.Load, 'f', -1, 64), p.Repeat)
}

// probe makes one probe and writes down what it showed.
func (h *hunt) probe(ctx context.Context, key string, p capacity.Probe) (*capacity.Observation, error) {
	dir, before, err := h.work.Claim(key)
	if err != nil {
		return nil, err
	}
	if err := h.work.Note(sweep.Entry{Event: "start", Key: key}); err != nil {
		return nil, err
	}
	cfg, command, err := h.settings(p)
	if err != nil {
		return nil, err
	}
	cfg.Output.OutputDir = dir
	sweep.Salted(cfg, h.o.cache, fmt.Sprintf("%s.%d", key, before))
	watch := capacity.NewWatch(h.o.search.Objectives, h.o.search.By, cfg.Load.NumPrompts)
	run, err := h.measure(ctx, cfg, command, watch)
	if run == nil || run.State == result.Aborted {
		return nil, err
	}
	obs := h.observation(p, run, watch)
	obs.Planned = cfg.Load.NumPrompts
	data, err := json.Marshal(obs)
	if err != nil {
		return nil, fmt.Errorf("encode what the probe showed: %w", err)
	}
	return obs, h.work.Note(sweep.Entry{Event: "done", Key: key, Data: data})
}

// settings are those of one probe: the load, how many requests, and a seed of its own, since probes with the same
// arrivals would agree more than they should, those of loads beside each other too.
func (h *hunt) settings(p capacity.Probe) (*config.Bench, []string, error) {
	load := strconv.FormatFloat(p.Load, 'f', -1, 64)
	extra := []string{"--request-rate=" + load}
	if h.o.search.By == capacity.Concurrency {
		extra = []string{"--max-concurrency=" + load}
	}
	plain, err := h.m.p.resolve(h.args)
	if err != nil {
		return nil, nil, err
	}
	if !plain.Has("num-prompts") && plain.Load.Duration == 0 {
		extra = append(extra, "--num-prompts="+strconv.Itoa(capacity.Requests(p.Load, h.o.time*time.Duration(p.Times), h.o.search.By)))
	}
	extra = append(extra, "--seed="+strconv.FormatInt(plain.Load.Seed+int64(p.Number)-1, 10))
	args := append(append([]string{}, h.args...), extra...)
	cfg, err := h.m.p.resolve(args)
	if err != nil {
		return nil, nil, err
	}
	cfg.Check.SLO = h.o.search.Objectives
	cfg.Output.Metadata = append(cfg.Output.Metadata,
		config.KeyValue{Key: "capacity", Value: h.plan.ID}, config.KeyValue{Key: "probe", Value: strconv.Itoa(p.Repeat)})
	return cfg, append([]string{"spate", "bench"}, secret.Args(args)...), nil
}

// measure makes the probe's run: predicted, or measured under watch.
func (h *hunt) measure(ctx context.Context, cfg *config.Bench, command []string, watch *capacity.Watch) (*result.Run, error) {
	if h.m.profile != nil {
		run, recs, err := h.m.predicted(cfg, command)
		for i := range recs {
			_ = watch.Record(&recs[i]) // never fails
		}
		return run, err
	}
	if h.o.cache == string(sweep.Reset) && !cfg.Sim.Enabled {
		if err := bench.ResetCache(ctx, cfg, h.m.p.getenv); err != nil {
			return nil, errors.New(cfg.Scrub(err.Error()))
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	live, end := &driver.Live{}, make(chan struct{})
	over := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { h.look(live, watch, end, over, cancel) })
	m := *h.m
	m.hooks = func(job *bench.Job) { job.Live, job.Sink, job.Stop = live, watch, end }
	run, err := m.bench(ctx, cfg, command)
	close(over)
	wg.Wait()
	return run, err
}

// look follows a probe, and ends it when the user says so or when there is no use in going on: end
// ends sending, cancel gives up what is in flight.
func (h *hunt) look(live *driver.Live, watch *capacity.Watch, end chan<- struct{}, over <-chan struct{}, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(capacity.LookEvery)
	defer tick.Stop()
	var began time.Time
	for {
		select {
		case <-over:
			return
		case <-h.m.stop:
			close(end)
			return
		case now := <-tick.C:
			due := live.Due.Load()
			if due == 0 {
				continue
			}
			if began.IsZero() {
				began = now
			}
			watch.Sample(now.Sub(began), int(due), int(live.Done.Load()))
		}
		if reason, _ := watch.Hopeless(); reason != "" {
			break
		}
	}
	close(end)
	select {
	case <-over:
	case <-time.After(capacity.LastGrace):
		cancel(call.ErrInterrupted)
	}
}

// observation is what a probe's run says.
func (h *hunt) observation(p capacity.Probe, run *result.Run, watch *capacity.Watch) *capacity.Observation {
	s := &run.Summary
	obs := &capacity.Observation{
		Load: p.Load, Repeat: p.Repeat, Requests: s.Completed + s.Failed, Readings: capacity.Read(h.o.search.Objectives, s), Growth: watch.Growth(), Busy: watch.Busy(),
		Served: s.RequestThroughput, Life: s.E2EL.Mean / 1e3, Grade: string(run.Verdict.Grade), Run: run.Dir,
	}
	obs.Check, obs.Invalid = capacity.Unusable(&run.Verdict)
	if run.State == result.Interrupted {
		obs.Aborted, obs.Saturated = watch.Hopeless()
		if obs.Invalid == "" {
			obs.Grade = "" // it was cut short on purpose
		}
	}
	return obs
}

// take tells the search of a probe, and the user.
func (h *hunt) take(obs capacity.Observation, remark string) {
	h.search.Observe(obs)
	w := h.m.p.Stdout
	if h.o.json {
		w = h.m.p.Stderr
	}
	if !h.said {
		h.said = true
		h.head(w)
	}
	say(w, "%5d  %-9s  %11s  %5d  %8d  %8.2f", h.search.Probes(), probeGrade(h.m.profile != nil, obs.Grade), strconv.FormatFloat(obs.Load, 'g', 6, 64), obs.Repeat, obs.Requests, obs.Served)
	for i, o := range h.o.search.Objectives {
		say(w, "  %*s", max(10, len(o.Key())), figureText(o, obs.Readings[i]))
	}
	switch {
	case obs.Invalid != "":
		remark = strings.TrimSpace("INVALID, left out: " + obs.Invalid + " " + remark)
	case obs.Aborted != "":
		remark = strings.TrimSpace("ended early: " + obs.Aborted + " " + remark)
	case obs.Grade == string(verdict.InvalidRun):
		remark = strings.TrimSpace("counts: INVALID only for requests the server failed " + remark)
	}
	say(w, "  %-7s  %s\n", h.search.State(obs.Load), remark)
}

func (h *hunt) head(w io.Writer) {
	say(w, "%5s  %-9s  %11s  %5s  %8s  %8s", "probe", "verdict", h.o.by, "try", "requests", "served/s")
	for _, o := range h.o.search.Objectives {
		say(w, "  %*s", max(10, len(o.Key())), o.Key())
	}
	say(w, "  %-7s\n", "so far")
}

// probeGrade is a probe's verdict in its row; one that was cut short on purpose has none.
func probeGrade(predicted bool, grade string) string {
	if predicted {
		return runs.PredictedLabel
	}
	return dash(grade)
}

func figureText(o config.Objective, r capacity.Reading) string {
	v := float64(r.Value)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "none"
	case o.Unit == "ratio":
		return strconv.FormatFloat(100*v, 'f', 2, 64) + " %"
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// conclude prints the answer.
func (h *hunt) conclude() error {
	a := h.search.Answer()
	p := h.m.p
	if last := h.o.search.Objectives[len(h.o.search.Objectives)-1]; last.Text == capacity.DefaultErrors && !strings.Contains(strings.ToLower(h.o.slo), "error") {
		a.Notes = append(a.Notes, capacity.DefaultErrors+" is an objective, too, since --slo has none on errors; errors<0.1% in --slo would be another")
	}
	if h.m.profile != nil {
		a.Notes = append(a.Notes, "predicted by the simulator with profile "+h.m.profile.Name+uncalibrated(h.m.profile)+"; no server was measured")
	} else if n, of := capacity.Enough(h.o.search.Objectives); n > 0 && smallest(&a) < n {
		a.Notes = append(a.Notes, fmt.Sprintf("%s is bounded by %d requests or more, and some probes had %d: --num-prompts or --probe-time makes them longer", of, n, smallest(&a)))
	}
	if h.o.json {
		if err := writeIndented(p, &a); err != nil {
			return err
		}
	} else {
		h.print(&a)
	}
	switch low := float64(a.Load); {
	case low == 0:
		return exit{ExitUnmet}
	case low < h.o.atLeast:
		say(p.Stderr, "spate capacity: --at-least %g %s is not shown: %s\n", h.o.atLeast, h.o.search.By.Unit(), a.Sentence)
		return exit{ExitUnmet}
	}
	return nil
}

// keep puts the probes into the store.
func (h *hunt) keep(ctx context.Context) {
	var entries []runs.Entry
	for _, l := range h.search.Answer().Levels {
		for _, o := range slices.Concat(l.Probes, l.Left) {
			if run, err := result.Open(o.Run); err == nil {
				entries = append(entries, runs.FromRun(run))
			}
		}
	}
	h.m.keep(ctx, h.o.noStore, h.args, entries)
}

// smallest is how many requests the shortest probe had that came to its end.
func smallest(a *capacity.Answer) int {
	n := math.MaxInt
	for _, l := range a.Levels {
		for i := range l.Probes {
			if l.Probes[i].Aborted == "" {
				n = min(n, l.Probes[i].Requests)
			}
		}
	}
	return n
}

func (h *hunt) print(a *capacity.Answer) {
	w := h.m.p.Stdout
	say(w, "\n%s\n", a.Sentence)
	for _, why := range a.Why {
		say(w, "  %s\n", why)
	}
	say(w, "  each decided by 99 %% intervals, over %d probes in all; objectives: %s\n", a.Probes, strings.Join(a.Objectives, ", "))
	for _, n := range a.Notes {
		say(w, "note: %s\n", n)
	}
	say(h.m.p.Stderr, "every probe is in %s\n", h.work.Dir)
}
