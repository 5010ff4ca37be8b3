package trials

import (
	"fmt"
	"slices"
	"time"

	"spate/internal/call"
	"spate/internal/forecast/predict"
	"spate/internal/judge/metrics"
	"spate/internal/search/capacity"
	"spate/internal/trial"
)

// cost is what a probe took, in virtual time.
type cost struct {
	time  time.Duration
	ended string // why it was ended early
	full  bool
}

// simulate sends requests at a load and returns what came back.
func (s *server) simulate(load float64, requests int, seed uint64) ([]call.Record, metrics.Run, error) {
	cfg, err := s.settings(load, requests, seed)
	if err != nil {
		return nil, metrics.Run{}, err
	}
	l, err := predict.NewLoad(cfg, predict.Prompts{})
	if err != nil {
		return nil, metrics.Run{}, fmt.Errorf("%s: %w", s.Name, err)
	}
	own, err := l.Run(s.profile, seed, false)
	if err != nil {
		return nil, metrics.Run{}, fmt.Errorf("%s: %w", s.Name, err)
	}
	run := l.Plan(nil)
	run.NoSteady, run.Intervals = true, []string{}
	for _, o := range s.objectives {
		run.Intervals = append(run.Intervals, o.Metric)
		if o.IsPct {
			run.Percentiles = append(run.Percentiles, o.Pct)
		}
	}
	return own.Result.Records(), run, nil
}

// probe makes one probe as spate capacity does over a socket.
func (s *server) probe(p capacity.Probe, requests int, seed uint64) (capacity.Observation, cost, error) {
	recs, run, err := s.simulate(p.Load, requests, seed)
	if err != nil {
		return capacity.Observation{}, cost{}, err
	}
	watch := capacity.NewWatch(s.objectives, s.By, requests)
	recs, c := follow(watch, recs)
	run.Due = len(recs)
	sum := metrics.Summarize(recs, run)
	obs := capacity.Observation{
		Load: p.Load, Repeat: p.Repeat, Planned: requests, Requests: sum.Completed + sum.Failed, Readings: capacity.Read(s.objectives, &sum), Served: sum.RequestThroughput,
		Growth: watch.Growth(), Busy: watch.Busy(),
	}
	obs.Aborted, obs.Saturated = c.ended, c.full
	return obs, c, nil
}

// follow tells a watch of a probe as it goes, and cuts the probe off where the watch says so.
func follow(w *capacity.Watch, recs []call.Record) ([]call.Record, cost) {
	due := make([]time.Duration, len(recs))
	ends := make([]*call.Record, len(recs))
	for i := range recs {
		due[i], ends[i] = recs[i].Due, &recs[i]
	}
	slices.Sort(due)
	slices.SortFunc(ends, func(a, b *call.Record) int { return int(a.End - b.End) })
	came, done := 0, 0
	last := ends[len(ends)-1].End
	for at := time.Duration(0); done < len(ends); at += trial.LookEvery {
		for ; done < len(ends) && ends[done].End <= at; done++ {
			_ = w.Record(ends[done]) // never fails
		}
		for ; came < len(due) && due[came] <= at; came++ {
		}
		w.Sample(at, came, done)
		if reason, full := w.Hopeless(); reason != "" {
			return cut(recs, at), cost{time: min(last, at+trial.LastGrace), ended: reason, full: full}
		}
	}
	return recs, cost{time: last}
}

// cut is what is left of a probe that was ended: nothing more is sent, and what takes long is given up.
func cut(recs []call.Record, at time.Duration) []call.Record {
	out := make([]call.Record, 0, len(recs))
	for _, r := range recs {
		if r.Due > at {
			continue
		}
		if limit := at + trial.LastGrace; r.End > limit {
			r.Outcome, r.Fault, r.End = call.Canceled, call.FaultStopped, limit
		}
		out = append(out, r)
	}
	return out
}
