// Package capacity finds the highest load at which a server keeps its objectives. Search is the whole
// of it as a state machine: it says which load to try next, is told what a probe showed (observe.go
// reads that from a run's summary), and ends with an Answer. level.go decides what repeated probes of one load
// say, watch.go notices early that a probe is lost. None of them has a clock or I/O, so that a search can be gone
// through again from a journal of its probes. Prober (run.go) makes the probes, on a server or in virtual time.
//
// Read this file, then search.go.
package capacity

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"spate/internal/figure"
	"spate/internal/nearest"
	"spate/internal/settings/config"
)

// By is what a search varies.
type By string

// Loads.
const (
	Rate        By = "rate"        // requests per second
	Concurrency By = "concurrency" // requests in flight
)

// Unit is the load's unit for people.
func (b By) Unit() string {
	if b == Concurrency {
		return "requests in flight"
	}
	return "requests/s"
}

// DefaultErrors is the objective on failures that holds when none is given: without it, a server that
// refuses half its requests could look fast.
const DefaultErrors = "error_rate<1%"

// ParseSLO reads objectives on latencies and failures, adding DefaultErrors if there is none on
// failures. Throughputs cannot be objectives: how much is served follows from the load, which is what
// is sought.
func ParseSLO(text string) ([]figure.Objective, error) {
	var parts []string
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if rest, ok := strings.CutPrefix(strings.ToLower(part), "errors"); ok && strings.HasPrefix(strings.TrimSpace(rest), "<") {
			part = "error_rate" + rest
		}
		parts = append(parts, part)
	}
	list, err := figure.ParseObjectives(strings.Join(parts, ","))
	if err != nil {
		return nil, err
	}
	failures := false
	for _, o := range list {
		if err := usable(o); err != nil {
			return nil, err
		}
		failures = failures || o.Metric == "error_rate"
	}
	if !failures {
		o, err := figure.ParseObjective(DefaultErrors)
		if err != nil {
			return nil, err
		}
		list = append(list, o)
	}
	return list, nil
}

// usable says why an objective cannot be searched by: more load has to make it harder.
func usable(o figure.Objective) error {
	upper := strings.HasPrefix(o.Op, "<")
	switch {
	case o.Metric == "goodput_ratio":
		if upper {
			return fmt.Errorf("objective %q: a share of good requests is bounded from below, as in goodput_ratio>95%%", o.Text)
		}
	case o.Ref().HasStats() && o.Ref().Better == figure.Higher:
		return fmt.Errorf("objective %q: speeds cannot be objectives of a search; give an upper bound of a latency, such as p99_tpot<50ms", o.Text)
	case o.Ref().Better == figure.Higher:
		return fmt.Errorf("objective %q: throughput follows from the load, which the search looks for; give bounds for latencies and errors", o.Text)
	case o.Unit != string(figure.Milliseconds) && o.Metric != "error_rate":
		return fmt.Errorf("objective %q: bound latencies, error_rate or goodput_ratio", o.Text)
	case !upper:
		return fmt.Errorf("objective %q: latencies and errors are bounded from above, with <", o.Text)
	}
	if o.Unit == "ms" && !(o.Bound > 0) || math.IsInf(o.Bound, 1) {
		return fmt.Errorf("objective %q: the bound has to be above 0 and finite", o.Text)
	}
	return nil
}

// Probe is one measurement to make.
type Probe struct {
	Load   float64
	Repeat int // of this load, from 1
	Times  int // as long as the shortest
	Number int // in the search, from 1: what it draws at random should be its own
}

// Observation is what a probe showed.
type Observation struct {
	Load      float64   `json:"load"`
	Repeat    int       `json:"repeat"`
	Planned   int       `json:"planned"`  // requests it was to make; 0: bounded by time
	Requests  int       `json:"requests"` // that came to an end
	Readings  []Reading `json:"readings"` // one per objective
	Growth    Growth    `json:"queue_growth"`
	Busy      Service   `json:"never_idle,omitzero"` // in the second half, where it was not idle
	Saturated bool      `json:"saturated,omitempty"` // ended early because the queue grew
	Aborted   string    `json:"aborted,omitempty"`   // why it was ended early
	Served    float64   `json:"served_per_s"`
	Life      float64   `json:"mean_e2el_s,omitempty"` // how long a request took
	Grade     string    `json:"verdict,omitempty"`     // on the run itself
	Invalid   string    `json:"invalid,omitempty"`     // why it says nothing about the server, so that it is left out
	Check     string    `json:"check,omitempty"`       // the check behind Invalid
	Run       string    `json:"run,omitempty"`         // its folder
}

// Reading is the figure of one objective. Shares carry what they were counted from.
type Reading struct {
	Value config.Float `json:"value"`
	Low   config.Float `json:"low"` // interval of 95 %, from this probe alone
	High  config.Float `json:"high"`
	Count int          `json:"count,omitempty"`
	Of    int          `json:"of,omitempty"`
}

// Options of a search.
type Options struct {
	By         By
	Objectives []figure.Objective
	Start      float64 // first load tried
	Min, Max   float64 // loads never left
	Tolerance  float64 // how far apart the two ends of an answer may be, as a share
	Repeats    int     // probes behind each end of the answer, at least
	Most       int     // probes of one load, at most
	Probes     int     // in all, at most
}

// Defaults fills what is not set.
func (o *Options) Defaults() {
	set := func(v *float64, d float64) {
		if *v == 0 {
			*v = d
		}
	}
	set(&o.Start, 1)
	set(&o.Max, 1e6)
	set(&o.Tolerance, 0.05)
	if o.Min == 0 {
		o.Min = min(o.Start, 1)
		if o.By == Rate {
			o.Min = o.Start / 64
		}
	}
	if o.Repeats == 0 {
		o.Repeats = 3
	}
	if o.Most == 0 {
		o.Most = o.Repeats + 2
	}
	if o.Probes == 0 {
		o.Probes = 60
	}
}

// Validate says what is wrong with the options.
func (o *Options) Validate() error {
	whole := func(v float64) bool { return o.By != Concurrency || v == math.Trunc(v) }
	switch {
	case len(o.Objectives) == 0:
		return errors.New("no objectives: give --slo, such as --slo 'p99_ttft<500ms,p99_tpot<50ms'")
	case o.By != Rate && o.By != Concurrency:
		return fmt.Errorf("--by %q is not one of rate, concurrency%s", o.By, nearest.Hint(string(o.By), []string{"rate", "concurrency"}))
	case !(o.Min > 0) || !(o.Max >= o.Min) || math.IsInf(o.Max, 1) || !(o.Start >= o.Min && o.Start <= o.Max):
		return fmt.Errorf("the search goes from --min %g by --start %g to --max %g: they have to be above 0 and in that order", o.Min, o.Start, o.Max)
	case !whole(o.Min) || !whole(o.Max) || !whole(o.Start):
		return errors.New("--min, --start and --max are numbers of requests in flight and must be whole")
	case !(o.Tolerance > 0 && o.Tolerance < 1):
		return fmt.Errorf("--tolerance %g: give a share between 0 and 1, such as 0.05", o.Tolerance)
	case o.Repeats < 1 || o.Most < o.Repeats || o.Probes < 1:
		return fmt.Errorf("--repeat %d, --max-repeat %d and --max-probes %d: at least 1, and the first at most the second", o.Repeats, o.Most, o.Probes)
	}
	return nil
}
