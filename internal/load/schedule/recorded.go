package schedule

import (
	"errors"
	"fmt"
	"time"
)

var recorded = Pattern{
	Name: "trace", About: "the times at which a dataset's requests were sent",
	asked: func(r *Run) bool { return r.Times != nil },
	check: func(r *Run, c Problems) {
		const why = "the trace says when requests go"
		c.Clash(r.Times != nil && r.RampUp != "", "self-timed", "ramp-up-strategy", why)
		c.Clash(r.Times != nil && len(r.Stages) > 0, "self-timed", "stages", why)
		c.Clash(r.Times != nil && r.Pacing == PacingSlept, "pacing", "self-timed", why)
	},
	plan: func(r *Run) (Plan, string, error) {
		times, err := r.Times()
		if err != nil {
			return Plan{}, "", fmt.Errorf("follow the trace: %w", err)
		}
		p, err := Trace(times)
		if err != nil {
			return p, "", err
		}
		text := fmt.Sprintf("%d requests at the times of the trace, over %v", len(times), times[len(times)-1].Round(time.Millisecond))
		if r.MaxConcurrency != nil {
			text += fmt.Sprintf(", %d at a time", *r.MaxConcurrency)
		}
		return p, text, nil
	},
	rate: func(_ *Run, p *Plan) float64 { return max(p.Summary().MeanRate, 0.1) },
}

// Trace has requests due at the given times. One that is earlier than its predecessor is due with it, since
// requests leave in order.
func Trace(times []time.Duration) (Plan, error) {
	if len(times) == 0 {
		return Plan{}, errors.New("the trace has no times")
	}
	return Plan{N: len(times), Due: func(yield func(time.Duration) bool) {
		var latest time.Duration
		for _, t := range times {
			latest = max(latest, t)
			if !yield(latest) {
				return
			}
		}
	}}, nil
}
