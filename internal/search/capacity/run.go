package capacity

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"spate/internal/result"
	"spate/internal/safe/secret"
	"spate/internal/settings/config"
	"spate/internal/trial"
)

// Prober makes the probes of a search, those of earlier sittings excepted, and keeps them in a folder.
type Prober struct {
	Search   *Search
	Work     *trial.Work
	Executor trial.Executor
	ID       string                                     // of the search, for the names of its runs
	Args     []string                                   // of bench, for every probe
	Resolve  func(args []string) (*config.Bench, error) // reads them
	Cache    trial.Cache                                // how the prefix cache is treated between probes
	Length   time.Duration                              // of the first probe of a load
	Pause    time.Duration                              // between probes
	Stop     <-chan struct{}                            // closed to end after what is running
	Took     func(obs *Observation, earlier bool)       // told of every probe
}

// Run makes probes until the search is over, or it is stopped; stopped is true then.
func (r *Prober) Run(ctx context.Context) (stopped bool, err error) {
	earlier := r.earlier()
	for made := 0; ; {
		probe, more := r.Search.Next()
		if !more {
			return false, nil
		}
		key := r.key(probe)
		if obs, ok := earlier[key]; ok {
			r.take(&obs, true)
			continue
		}
		if made > 0 {
			trial.Pause(ctx, r.Stop, r.Pause)
		}
		if trial.Stopped(ctx, r.Stop) {
			return true, nil
		}
		made++
		obs, err := r.probe(ctx, key, probe)
		if trial.Stopped(ctx, r.Stop) {
			return true, nil
		}
		if err != nil {
			return false, fmt.Errorf("probe at %g %s: %w", probe.Load, r.Search.opt.By.Unit(), err)
		}
		r.take(obs, false)
	}
}

func (r *Prober) take(obs *Observation, earlier bool) {
	r.Search.Observe(*obs)
	r.Took(obs, earlier)
}

// earlier are the probes of earlier sittings whose results are still there.
func (r *Prober) earlier() map[string]Observation {
	out := map[string]Observation{}
	for _, e := range r.Work.Journal {
		var obs Observation
		if e.Event == "done" && json.Unmarshal(e.Data, &obs) == nil && len(obs.Readings) == len(r.Search.opt.Objectives) && r.Work.Result(e.Key) != nil {
			out[e.Key] = obs
		}
	}
	return out
}

// key names a probe's run folder.
func (r *Prober) key(p Probe) string {
	return fmt.Sprintf("%s-%s=%s-r%d", r.ID, r.Search.opt.By, strconv.FormatFloat(p.Load, 'f', -1, 64), p.Repeat)
}

// probe makes one probe and writes down what it showed.
func (r *Prober) probe(ctx context.Context, key string, p Probe) (*Observation, error) {
	pt, err := r.point(p)
	if err != nil {
		return nil, err
	}
	if err := r.Work.Place(key, pt.Config, r.Cache); err != nil {
		return nil, err
	}
	if err := r.Work.Note(trial.Entry{Event: "start", Key: key}); err != nil {
		return nil, err
	}
	o := &r.Search.opt
	watch := NewWatch(o.Objectives, o.By, pt.Config.Load.NumPrompts)
	pt.Watch = watch
	res, err := r.Executor.Try(ctx, pt)
	if res == nil || res.Run.State == result.Aborted {
		return nil, err
	}
	obs := r.observation(p, res.Run, watch)
	obs.Planned = pt.Config.Load.NumPrompts
	return obs, r.Work.NoteData("done", key, obs)
}

// point is the run of one probe: the load, how many requests, and a seed of its own, since probes with the same
// arrivals would agree more than they should, those of loads beside each other too.
func (r *Prober) point(p Probe) (*trial.Point, error) {
	o := &r.Search.opt
	load := strconv.FormatFloat(p.Load, 'f', -1, 64)
	extra := []string{"--request-rate=" + load}
	if o.By == Concurrency {
		extra = []string{"--max-concurrency=" + load}
	}
	plain, err := r.Resolve(r.Args)
	if err != nil {
		return nil, err
	}
	if !plain.Has("num-prompts") && plain.Load.Duration == 0 {
		extra = append(extra, "--num-prompts="+strconv.Itoa(Requests(p.Load, r.Length*time.Duration(p.Times), o.By)))
	}
	extra = append(extra, "--seed="+strconv.FormatInt(plain.Load.Seed+int64(p.Number)-1, 10))
	args := slices.Concat(r.Args, extra)
	cfg, err := r.Resolve(args)
	if err != nil {
		return nil, err
	}
	cfg.Check.SLO = o.Objectives
	cfg.Output.Metadata = append(cfg.Output.Metadata,
		config.KeyValue{Key: "capacity", Value: r.ID}, config.KeyValue{Key: "probe", Value: strconv.Itoa(p.Repeat)})
	return &trial.Point{Config: cfg, Command: append([]string{"spate", "bench"}, secret.Args(args)...), Reset: r.Cache == trial.Reset}, nil
}

// observation is what a probe's run says.
func (r *Prober) observation(p Probe, run *result.Run, watch *Watch) *Observation {
	s := &run.Summary
	obs := &Observation{
		Load: p.Load, Repeat: p.Repeat, Requests: s.Completed + s.Failed, Readings: Read(r.Search.opt.Objectives, s), Growth: watch.Growth(), Busy: watch.Busy(),
		Served: s.RequestThroughput, Life: s.E2EL.Mean / 1e3, Grade: string(run.Verdict.Grade), Run: run.Dir,
	}
	obs.Check, obs.Invalid = Unusable(&run.Verdict)
	if run.State == result.Interrupted {
		obs.Aborted, obs.Saturated = watch.Hopeless()
		if obs.Invalid == "" {
			obs.Grade = "" // it was cut short on purpose
		}
	}
	return obs
}
