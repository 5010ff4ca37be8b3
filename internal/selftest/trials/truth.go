package trials

import (
	"math"

	"spate/internal/judge/metrics"
	"spate/internal/search/capacity"
)

// Truth is where long runs find the capacity: the objectives are kept at Low and missed at High.
type Truth struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// How the truth is found: runs this long, and ends this close.
const (
	longRun   = 20_000
	longClose = 1.01
)

// truth finds the capacity by long runs, each judged by its plain figures.
func (s *server) truth() (Truth, error) {
	t := Truth{Low: 0, High: math.Inf(1)}
	whole := s.By == capacity.Concurrency
	for load := 1.0; ; {
		met, err := s.holds(load)
		if err != nil {
			return t, err
		}
		if met {
			t.Low = load
		} else {
			t.High = load
		}
		switch {
		case math.IsInf(t.High, 1):
			load *= 2
		case t.Low == 0:
			load /= 2
		case whole && t.High-t.Low <= 1, !whole && t.High/t.Low <= longClose:
			return t, nil
		default:
			load = math.Sqrt(t.Low * t.High)
			if whole {
				load = max(t.Low+1, min(t.High-1, math.Round(load)))
			}
		}
	}
}

// holds reports whether a long run at a load keeps the objectives, and keeps up.
func (s *server) holds(load float64) (bool, error) {
	recs, run, err := s.simulate(load, longRun, 1<<31)
	if err != nil {
		return false, err
	}
	run.Intervals = []string{}
	sum := metrics.Summarize(recs, run)
	for _, o := range s.objectives {
		if !o.Met(o.Of(&sum)) {
			return false, nil
		}
	}
	if s.By == capacity.Concurrency {
		return true, nil
	}
	// A queue that grows for the whole of a long run ends it later by the share that was too much.
	lastDue, lastEnd := recs[0].Due, recs[0].End
	for i := range recs {
		lastDue, lastEnd = max(lastDue, recs[i].Due), max(lastEnd, recs[i].End)
	}
	return float64(lastEnd-lastDue) < 0.02*float64(lastDue), nil
}
