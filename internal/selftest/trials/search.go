package trials

import (
	"math"
	"sync"
	"time"

	"spate/internal/judge/stats"
	"spate/internal/search/capacity"
)

// How long the first probe of a load sends, and the tolerance: the defaults of spate capacity.
const (
	probeTime = 30 * time.Second
	tolerance = 0.05
)

// Options of the trials.
type Options struct {
	Searches int
	Seed     uint64
	Parallel int
}

// Outcome counts the results of the searches of one scenario.
type Outcome struct {
	Scenario
	Truth     Truth   `json:"truth"`
	Searches  int     `json:"searches"`
	Right     int     `json:"right"`        // both ends on their side of the truth
	Near      int     `json:"right_within"` // or beyond it by no more than the search's tolerance
	LowWrong  int     `json:"met_above"`    // the highest load met lies above the truth
	HighWrong int     `json:"missed_below"` // the lowest load missed lies below it
	Probes    float64 `json:"median_probes"`
	Seconds   float64 `json:"median_s"` // of virtual time, with a pause of 1 s after each probe
	Gap       float64 `json:"median_gap"`
}

// one is a search and its cost.
type one struct {
	answer  capacity.Answer
	seconds float64
}

// Run makes the searches of one scenario.
func Run(sc Scenario, o Options) (Outcome, error) {
	s, err := sc.open()
	if err != nil {
		return Outcome{}, err
	}
	truth, err := s.truth()
	if err != nil {
		return Outcome{}, err
	}
	return s.searches(truth, o)
}

// searches makes the searches and counts what they came to.
func (s *server) searches(truth Truth, o Options) (Outcome, error) {
	out := Outcome{Scenario: s.Scenario, Searches: o.Searches, Truth: truth}
	results := make([]one, o.Searches)
	errs := make([]error, o.Searches)
	next := make(chan int)
	var wg sync.WaitGroup
	for range max(1, o.Parallel) {
		wg.Go(func() {
			for i := range next {
				results[i], errs[i] = s.search(o.Seed + uint64(i)*1000)
			}
		})
	}
	for i := range results {
		next <- i
	}
	close(next)
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return out, err
		}
	}
	out.count(results)
	return out, nil
}

// search is one whole search.
func (s *server) search(seed uint64) (one, error) {
	opt := capacity.Options{By: s.By, Objectives: s.objectives, Tolerance: tolerance}
	opt.Defaults()
	search := capacity.New(opt)
	var out one
	for {
		p, more := search.Next()
		if !more {
			out.answer = search.Answer()
			return out, nil
		}
		obs, c, err := s.probe(p, capacity.Requests(p.Load, probeTime*time.Duration(p.Times), s.By), seed+uint64(p.Number))
		if err != nil {
			return out, err
		}
		out.seconds += c.time.Seconds() + 1
		search.Observe(obs)
	}
}

// count holds the answers against the truth.
func (o *Outcome) count(results []one) {
	var probes, seconds, gaps []float64
	for _, r := range results {
		low, high := float64(r.answer.Capacity), float64(r.answer.Above)
		above, below := low > o.Truth.High, high < o.Truth.Low
		if above {
			o.LowWrong++
		}
		if below {
			o.HighWrong++
		}
		if !above && !below {
			o.Right++
		}
		if within := 1 + tolerance; low <= o.Truth.High*within && high >= o.Truth.Low/within {
			o.Near++
		}
		probes, seconds = append(probes, float64(r.answer.Probes)), append(seconds, r.seconds)
		if low > 0 && !math.IsInf(high, 1) {
			gaps = append(gaps, high/low)
		}
	}
	o.Probes, o.Seconds, o.Gap = stats.Median(probes), stats.Median(seconds), stats.Median(gaps)
}
