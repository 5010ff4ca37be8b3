// Package tune finds the server flags that meet a user's objective with few starts. A File says what may be
// set, what is sent and what counts (file.go reads it, spaces.go has the ready spaces of engines, check.go the
// rules that forbid a start); a Tuner decides from what happened so far what to do next (next.go): the knee of
// the default, trials, finals against the default, a workload held out. Live makes the steps on real servers
// (live.go), Virtual in virtual time (virtual.go); Run keeps their Observations in a journal, so that a search goes on
// after any interruption where it was. outcome.go says what came of it; report.go and files.go write it down.
//
// suggest proposes settings, trial makes the runs and keeps the folder. Read this file first, then next.go.
package tune

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"spate/internal/figure"
	"spate/internal/host/launch"
	"spate/internal/judge/verdict"
	"spate/internal/search/suggest"
)

// Phase is what a step is for.
type Phase string

// The phases, in their order.
const (
	Knee    Phase = "knee"    // how much load the default carries
	Trial   Phase = "trial"   // a setting is tried; the first is the default
	Drift   Phase = "drift"   // the default again, to see whether the machine has changed
	Final   Phase = "final"   // the best settings and the default in turns
	Holdout Phase = "holdout" // the winner and the default on a workload no trial has seen
)

// Step is something to measure: settings of a server, under a load.
type Step struct {
	N        int              `json:"n"` // position in the history
	Phase    Phase            `json:"phase"`
	Trial    int              `json:"trial"` // of whose settings; 0 is the default
	Settings suggest.Settings `json:"settings"`
	Share    float64          `json:"share"`              // of the full length of a run
	Rate     float64          `json:"rate,omitempty"`     // requests per second; 0: as the workload has it
	Round    int              `json:"round,omitempty"`    // of finals and holdout, from 1
	Attempt  int              `json:"attempt,omitempty"`  // from 1 on after a transient failure
	Deadline float64          `json:"deadline,omitempty"` // seconds after which a run is certainly worse than the best
}

// Key names a step's run folder.
func (s *Step) Key() string { return fmt.Sprintf("%03d-%s-t%d", s.N, s.Phase, s.Trial) }

// Measured is what a run of one workload showed: figures under vLLM's names.
type Measured struct {
	Workload string             `json:"workload"`
	Figures  map[string]float64 `json:"figures"`
	Run      string             `json:"run,omitempty"`     // its folder
	Grade    string             `json:"verdict,omitempty"` // on the run itself; empty for one in virtual time or ended on purpose
	Why      string             `json:"verdict_why,omitempty"`
}

// Observation is a step that was made.
type Observation struct {
	Step
	Runs      []Measured      `json:"runs,omitempty"`
	Score     float64         `json:"score"`               // larger is better
	Value     float64         `json:"value"`               // of the objective, as people read it
	Violation float64         `json:"violation,omitempty"` // how far constraints were missed, relative
	Missed    []string        `json:"missed,omitempty"`
	Failure   *launch.Failure `json:"failure,omitempty"`
	Early     string          `json:"ended_early,omitempty"` // why
	Facts     *launch.Facts   `json:"server,omitempty"`
	MemoryGiB float64         `json:"gpu_memory_gib,omitempty"`
	PowerW    float64         `json:"gpu_power_w,omitempty"` // of all GPUs together, on average
	Command   string          `json:"command,omitempty"`
	TookS     float64         `json:"took_s"`
	StartS    float64         `json:"start_s,omitempty"` // of it, until the server answered
	Started   bool            `json:"started,omitempty"` // a server was started for it; false: one that ran was used
}

// Invalid is a run of the step whose own verdict forbids the use of its figures; nil: none.
func (o *Observation) Invalid() *Measured {
	for i := range o.Runs {
		if o.Runs[i].Grade == string(verdict.InvalidRun) {
			return &o.Runs[i]
		}
	}
	return nil
}

// Counts reports whether anything may be decided from the step: its server did not fail, and no run of it is INVALID.
func (o *Observation) Counts() bool { return o.Failure == nil && o.Invalid() == nil }

// Trouble is why nothing may be decided from the step; empty where something may.
func (o *Observation) Trouble() string {
	if o.Failure != nil {
		return o.Failure.Line
	}
	if m := o.Invalid(); m != nil {
		return m.Grade + ": " + m.Why
	}
	return ""
}

// Transient reports whether what went wrong says nothing of the settings.
func (o *Observation) Transient() bool {
	if o.Failure == nil {
		return o.Invalid() != nil
	}
	return o.Failure.Kind.Transient() && !o.Failure.UnderLoad
}

// Default reports whether the step ran the default.
func (o *Observation) Default() bool { return o.Trial == 0 }

// Runner makes a step. A server that fails is an observation; an error means that nothing can go on.
type Runner interface {
	Try(ctx context.Context, step Step) (Observation, error)
}

// Score is the value of the objective, and whether the constraints are met, for one or more workloads.
func (f *File) Score(o *Observation) {
	logs, weights := 0.0, 0.0
	negative := false
	o.Missed, o.Violation = nil, 0
	for i := range o.Runs {
		m := &o.Runs[i]
		value, smaller := f.Objective.value(m.Figures, f.GPUs(o.Settings), f.Price)
		negative = smaller
		w := 1.0
		for k := range f.Workloads {
			if f.Workloads[k].Name == m.Workload && f.Workloads[k].Weight > 0 {
				w = f.Workloads[k].Weight
			}
		}
		logs, weights = logs+w*math.Log(value), weights+w
		f.judge(o, m)
	}
	o.Value = math.Exp(logs / weights)
	switch {
	case len(o.Runs) == 0 || math.IsNaN(o.Value) || math.IsInf(o.Value, 0):
		o.Value, o.Score, o.Violation = 0, 0, o.Violation+1
		if len(o.Missed) == 0 {
			o.Missed = []string{"the run does not show " + f.Objective.Metric}
		}
	case negative:
		o.Score = -o.Value
	default:
		o.Score = o.Value
	}
}

// judge adds the constraints a run missed.
func (f *File) judge(o *Observation, m *Measured) {
	for _, c := range f.limits {
		v, ok := m.Figures[c.Key()]
		if !ok {
			v = math.NaN()
		}
		if c.Met(v) {
			continue
		}
		by := 1.0
		if !math.IsNaN(v) && c.Bound > 0 {
			by = min(math.Abs(v-c.Bound)/c.Bound, 100)
		}
		o.Violation += by
		o.Missed = append(o.Missed, fmt.Sprintf("%s: %.4g", c.Text, v))
	}
	if f.MemoryGiB > 0 && o.MemoryGiB > f.MemoryGiB {
		o.Violation += o.MemoryGiB/f.MemoryGiB - 1
		o.Missed = append(o.Missed, fmt.Sprintf("gpu_memory<%gGiB: %.1f", f.MemoryGiB, o.MemoryGiB))
	}
}

// Objectives are the constraints on figures.
func (f *File) Objectives() []figure.Objective { return f.limits }

// trial is an observation as strategies see it.
func (o *Observation) trial() suggest.Trial {
	t := suggest.Trial{Settings: o.Settings, Share: o.Share, Score: o.Score, Violation: o.Violation}
	if !o.Counts() {
		t.Failed, t.Transient = true, o.Transient()
	}
	if o.Failure != nil {
		t.Memory = o.Failure.Kind == launch.Memory || o.Failure.Kind == launch.KVSmall
	}
	return t
}

// errNothing is what a search without a single result ends with.
var errNothing = errors.New("nothing could be measured")

// pick are the observations of some phases.
func pick(history []Observation, phases ...Phase) []Observation {
	return slices.DeleteFunc(slices.Clone(history), func(o Observation) bool { return !slices.Contains(phases, o.Phase) })
}
