package schedule

import (
	"fmt"
	"time"

	"spate/internal/pytext"
)

// Settings are what users say of when requests leave. The rules of each pattern stand in the file that makes its times.
type Settings struct {
	RequestRate    pytext.Number `json:"request_rate"`
	Burstiness     pytext.Number `json:"burstiness"`       // gamma shape; +Inf is constant gaps
	Pacing         Pacing        `json:"pacing,omitempty"` // what a gap is counted from
	MaxConcurrency *int          `json:"max_concurrency"`
	RampUp         RampShape     `json:"ramp_up_strategy,omitempty"`
	RampStart      *int          `json:"ramp_up_start_rps,omitempty"`
	RampEnd        *int          `json:"ramp_up_end_rps,omitempty"`
	Stages         Stages        `json:"stages,omitempty"`
	Duration       time.Duration `json:"duration_ns"` // 0: no time bound
}

// Run is a run whose arrivals are planned.
type Run struct {
	*Settings
	N     int // requests; 0: as many as the time allows
	Seed  uint32
	Times func() ([]time.Duration, error) // the dataset's own, where requests go at these
}

// Pattern is all that is known of a way to say when requests leave.
type Pattern struct {
	Name  string
	About string

	asked func(*Run) bool                  // the settings ask for it
	check func(*Run, Problems)             // nil: it has no rules of its own
	plan  func(*Run) (Plan, string, error) // with a line for people
	rate  func(*Run, *Plan) float64        // of a warm-up ahead of it; nil: it has no due times, or all are one
	lasts func(*Run) (time.Duration, bool) // how long sending takes; nil: that depends on the server
}

// patterns are tried in this order: the first that is asked for plans the run.
var patterns = []Pattern{recorded, ramped, staged, closed, burst, slept, paced}

// Patterns is the table of arrival patterns.
func Patterns() []Pattern { return append([]Pattern(nil), patterns...) }

// Problems collects what is wrong with settings.
type Problems interface {
	Want(ok bool, flag, format string, args ...any)
	Clash(both bool, a, b, why string)
	Needs(missing bool, flag, other, why string)
}

// Check names what is wrong with settings of any pattern.
func (r *Run) Check(c Problems) {
	for i := range patterns {
		if patterns[i].check != nil {
			patterns[i].check(r, c)
		}
	}
}

func (r *Run) pattern() *Pattern {
	for i := range patterns {
		if patterns[i].asked(r) {
			return &patterns[i]
		}
	}
	return &patterns[len(patterns)-1]
}

// AtOnce reports settings that send everything at once, whatever times a dataset has: there is no load before it.
func (s *Settings) AtOnce() bool { return (&Run{Settings: s}).pattern().Name == burst.Name }

// Lasts is how long sending takes; false where that depends on the server.
func (r *Run) Lasts() (time.Duration, bool) {
	if r.Duration > 0 {
		return r.Duration, true
	}
	if p := r.pattern(); p.lasts != nil {
		return p.lasts(r)
	}
	return 0, false
}

// Arrivals are when requests are due.
type Arrivals struct {
	Plan Plan
	Text string  // one line for people
	Rate float64 // of a warm-up ahead of them, where they have due times
}

// Arrivals plans the run.
func (r *Run) Arrivals() (*Arrivals, error) {
	p, a := r.pattern(), &Arrivals{}
	var err error
	if a.Plan, a.Text, err = p.plan(r); err != nil {
		return nil, err
	}
	if p.rate != nil {
		a.Rate = p.rate(r, &a.Plan)
	}
	if r.MaxConcurrency != nil {
		a.Plan = a.Plan.Capped(*r.MaxConcurrency)
	}
	if r.Duration > 0 {
		a.Plan = a.Plan.For(r.Duration)
		a.Text += fmt.Sprintf(", for %v", r.Duration)
	}
	return a, nil
}
