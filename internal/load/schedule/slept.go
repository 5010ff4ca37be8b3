package schedule

import (
	"errors"
	"math"
	"time"
)

// Pacing says what the time between two requests is counted from.
type Pacing string

// Pacings.
const (
	PacingScheduled Pacing = "scheduled" // every time is fixed in advance: being late once delays nothing else
	PacingSlept     Pacing = "slept"     // each gap begins when the request before it was let go: being late adds up
)

var slept = Pattern{
	Name: "slept", About: "a rate as older clients keep it: each gap is slept after the request before, so that lateness adds up",
	asked: func(r *Run) bool { return r.Pacing == PacingSlept },
	check: func(r *Run, c Problems) {
		if r.Pacing != PacingSlept {
			return
		}
		c.Clash(len(r.Stages) > 0, "pacing", "stages", "stages are held for set times, which sleeping from one send to the next would miss")
		c.Clash(r.RampUp != "", "pacing", "ramp-up-strategy", "no client that sleeps from one send to the next has a ramp; leave out --pacing slept")
	},
	plan: func(r *Run) (Plan, string, error) {
		n := r.N
		if n == 0 {
			n = math.MaxInt
		}
		p, err := Slept(n, float64(r.RequestRate), float64(r.Burstiness), r.Seed)
		p.N = r.N
		return p, r.atRate() + ", each gap slept after the request before", err
	},
	rate:  (*Run).asGiven,
	lasts: (*Run).byRate,
}

// Slept is the schedule of clients that sleep one gap after each send, such as vLLM's before 0.10, SGLang's and
// LMDeploy's: the first request at 0, nothing stretched. Their event loops woke about a millisecond late each time,
// which added up. These times are without it; who follows them adds its own lateness, see Plan.Slept.
func Slept(n int, rate, burstiness float64, seed uint32) (Plan, error) {
	if err := errors.Join(checkCount(n), checkRate(rate), checkBurstiness(burstiness)); err != nil {
		return Plan{}, err
	}
	return Plan{N: n, Slept: true, Due: func(yield func(time.Duration) bool) {
		if !yield(0) || n == 1 {
			return
		}
		for t := range summed(n-1, burstiness, seed, steady(rate)) {
			if !yield(duration(t)) {
				return
			}
		}
	}}, nil
}
